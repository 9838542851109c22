// Counts the requests that the parts of an edge send to each other, and the SQL statements of its
// objects: a module of ours wraps the bindings that the built edge receives, and forwards each
// request to the real object. Objects are treated as on Cloudflare, where they share no memory.

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Stack } from '../../infra/stack.ts'
import { eventually } from './eventually.ts'

/** Sent after the answer, in batches or repeatedly, so they belong to no single request. */
const BACKGROUND = [
  'TENANT.mirror',
  'CHANNEL.mirror',
  'LOG.appendAll',
  'POOL.ring',
  'POOL.left',
  'TENANT.seen',
  'TENANT.admitWorker',
]

/** The tenant counts calls one by one or in blocks, depending on how fast they come. */
const PER_TENANT = /"calls_counted"/

const COUNTING = `
import * as edge from './main.js'
export * from './main.js'

const requests = []
const statements = []
const counted = (binding, stub) => new Proxy(stub, {
  get: (target, method) => method === 'skills' || method === 'tenancy' ? target[method] : (...given) => {
    requests.push(binding + '.' + String(binding === 'RUN' && method === 'request' ? given[1] : method))
    return target[method](...given)
  },
})
const counting = (env) => new Proxy(env, {
  get: (target, binding) => {
    const bound = binding === 'ONE_PROCESS' ? undefined : target[binding]
    if (typeof bound?.getByName !== 'function') return bound
    return { getByName: (name) => counted(binding, bound.getByName(name)) }
  },
})
let unwrapped = true
const wrapped = (Base) => class extends Base {
  constructor(ctx, env) {
    const sql = Object.getPrototypeOf(ctx.storage.sql)
    if (unwrapped) {
      const { exec } = sql
      sql.exec = function (statement, ...values) {
        statements.push(statement)
        return exec.call(this, statement, ...values)
      }
    }
    unwrapped = false
    super(ctx, counting(env))
  }
}
class CountedRun extends wrapped(edge.RunObject) {
  async alarm() {
    await super.alarm()
    requests.push('alarm of a run')
  }
}
export const TenantObject = wrapped(edge.TenantObject)
export const RunObject = CountedRun
export const SessionObject = wrapped(edge.SessionObject)

export default {
  async fetch(request, env, ctx) {
    if (new URL(request.url).pathname === '/counted-requests') return Response.json({ requests, statements })
    const before = requests.length
    const response = await edge.default.fetch(request, counting(env), ctx)
    const counted = new Response(response.body, response)
    counted.headers.set('x-requests', requests.slice(before).join(' '))
    return counted
  },
}
`

/** Restarts the edge of this stack behind the counting module. */
export async function countRequests({ edge, state }: Stack): Promise<void> {
  await edge.stop()
  const config = join(state.edge, 'config.capnp')
  const main = '(name = "main.js", esModule = embed "bundle/main.js")'
  const text = readFileSync(config, 'utf8')
  if (!text.includes(main)) throw new Error('the configuration of the edge names no main module')
  writeFileSync(join(state.edge, 'bundle/counting.js'), COUNTING)
  writeFileSync(
    config,
    text.replace(main, `(name = "counting.js", esModule = embed "bundle/counting.js"),\n      ${main}`),
  )
  const started = await edge.start()
  if (!started.ok) throw new Error(started.error)
}

/** The requests between the parts of the edge while it made this answer. */
export const requestsFor = (answer: Response): string[] =>
  foreground((answer.headers.get('x-requests') ?? '').split(' ')).sort()

const foreground = (requests: readonly string[]): string[] =>
  requests.filter((request) => request !== '' && !BACKGROUND.includes(request))

type Counts = { readonly requests: readonly string[]; readonly statements: readonly string[] }
const countsOf = async ({ url }: Stack): Promise<Counts> =>
  (await (await fetch(`${url}/counted-requests`)).json()) as Counts // made by the module above

/**
 * The requests between the parts of the edge during `work`, and the SQL statements of its objects.
 */
export async function costOf(stack: Stack, work: () => Promise<unknown>): Promise<Counts> {
  const before = await countsOf(stack)
  await work()
  const after = await countsOf(stack)
  return {
    requests: foreground(after.requests.slice(before.requests.length)),
    statements: after.statements.slice(before.statements.length).filter((one) => !PER_TENANT.test(one)),
  }
}

/** Resolves once a run has handled its alarm, because handling it also requests the directory. */
export const alarmHandled = (stack: Stack): Promise<true> =>
  eventually('a run has handled its alarm', async () =>
    (await countsOf(stack)).requests.includes('alarm of a run'),
  )
