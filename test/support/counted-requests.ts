// Counts the requests that the parts of an edge send to each other: a module of ours wraps the bindings that the built edge receives,
// and forwards each request to the real object. Objects are treated as on Cloudflare, where none is in reach without a request.

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Stack } from '../../infra/stack.ts'
import { eventually } from './eventually.ts'

/** Sent after the answer, in batches or repeatedly: they belong to no one request. */
const BACKGROUND = [
  'TENANT.mirror',
  'CHANNEL.mirror',
  'LOG.append',
  'POOL.ring',
  'POOL.left',
  'TENANT.seen',
  'TENANT.admitWorker',
]

const COUNTING = `
import * as edge from './main.js'
export * from './main.js'

const requests = []
const counted = (binding, stub) => new Proxy(stub, {
  get: (target, method) => method === 'skills' || method === 'tenancy' ? target[method] : (...given) => {
    requests.push(binding + '.' + String(method))
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
const wrapped = (Base) => class extends Base {
  constructor(ctx, env) { super(ctx, counting(env)) }
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
    if (new URL(request.url).pathname === '/counted-requests') return Response.json(requests)
    const before = requests.length
    const response = await edge.default.fetch(request, counting(env), ctx)
    const counted = new Response(response.body, response)
    counted.headers.set('x-requests', requests.slice(before).join(' '))
    return counted
  },
}
`

/** Starts the edge of this stack again, behind the counting module. */
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
  (answer.headers.get('x-requests') ?? '')
    .split(' ')
    .filter((request) => !BACKGROUND.includes(request))
    .sort()

/** Resolves once a run has handled its alarm, which asks for the directory too. */
export const alarmHandled = ({ url }: Stack): Promise<true> =>
  eventually('a run has handled its alarm', async () => {
    const seen = (await (await fetch(`${url}/counted-requests`)).json()) as string[] // made by the module above
    return seen.includes('alarm of a run')
  })
