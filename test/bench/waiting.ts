// Measures clients that wait on streams by the memory and the processor time of workerd: 1,000 that
// wait for approvals over MCP, and their floors in a Worker that only holds streams. Each subject
// has a workerd of its own, because memory that was freed before would hide what a stream takes.

import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { startStack } from '../../infra/stack.ts'
import { freePort } from '../../infra/state.ts'
import { COMPATIBILITY_DATE } from '../../infra/workerd.ts'
import { LIMITS } from '../../shared/limits.ts'
import { cpuMs } from './machine.ts'
import { callTool } from './mcp.ts'
import { doesNothing, done } from './subjects.ts'
import { withWorkerd } from './workerd.ts'

export const STREAMS = 1_000
/** A call is streamed after 200 ms. */
const OPENED_AT_ONCE = 50
/** After this time workerd has dropped the objects that nothing uses. */
const SETTLED_MS = 12_000

const FLOORS = ['plain', 'message', 'object'] as const
/** For all streams together. Floors are measured by memory alone. */
type Memory = { readonly mib: number; readonly percentOfCore: number | null }
export type Waiting = {
  readonly floors: Readonly<Record<(typeof FLOORS)[number], Memory>>
  /** Clients of 32 agents in their runs of the day, and clients with a session each. */
  readonly shared: Memory
  readonly apart: Memory
}

export async function timeWaiting(watch_ms: number): Promise<Waiting> {
  return {
    floors: {
      plain: await measureFloor('plain'),
      message: await measureFloor('message'),
      object: await measureFloor('object'),
    },
    shared: await measureClients(false, watch_ms),
    apart: await measureClients(true, watch_ms),
  }
}

type Stream = { readonly sent: ClientRequest; readonly response: IncomingMessage }

async function measure(
  pid: number | undefined,
  watch_ms: number,
  open: (n: number) => Promise<Stream>,
): Promise<Memory> {
  ;(await open(STREAMS)).sent.destroy() // what the first stream compiles is not counted
  const before = rssMib(pid)
  const streams: Stream[] = []
  for (let n = 0; n < STREAMS; n += OPENED_AT_ONCE)
    streams.push(...(await Promise.all(Array.from({ length: OPENED_AT_ONCE }, (_, lane) => open(n + lane)))))
  await sleep(SETTLED_MS)
  const [spent, from] = [cpuMs(pid), performance.now()]
  await sleep(watch_ms)
  const percentOfCore = watch_ms === 0 ? null : (100 * (cpuMs(pid) - spent)) / (performance.now() - from)
  const mib = rssMib(pid) - before
  if (streams.some(({ response }) => !response.readable)) throw new Error('a waiting stream has ended')
  for (const { sent } of streams) sent.destroy()
  return { mib, percentOfCore }
}

const rssMib = (pid: number | undefined): number =>
  Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024

function stream(url: URL, headers: Readonly<Record<string, string>>, body?: string): Promise<Stream> {
  return new Promise((settle, fail) => {
    const sent = request(url, { method: body === undefined ? 'GET' : 'POST', headers, agent: false })
    sent.on('error', fail)
    sent.on('response', (response) => {
      response.resume()
      if (response.headers['content-type'] !== 'text/event-stream')
        fail(new Error('a client was not made to wait'))
      else settle({ sent, response })
    })
    sent.end(body)
  })
}

async function measureClients(apart: boolean, watch_ms: number): Promise<Memory> {
  const state = mkdtempSync(join(tmpdir(), 'countersign-waiting-'))
  const stack = await startStack({ state, worker: 'idle' })
  if (!stack.ok) throw new Error(JSON.stringify(stack.error))
  const { url, operator, edge, stop } = stack.value
  try {
    const name = 'bench_waits'
    const input_schema = { type: 'object', properties: { n: { type: 'integer' } } }
    const tool = { ...doesNothing('C'), sensitive: true, input_schema }
    done(await operator('putTool', { params: { name }, body: tool }))
    const keys: string[] = []
    for (let n = 0; n * LIMITS.mcp_holds_agent <= STREAMS; n++)
      keys.push(
        done(await operator('putAgent', { params: { name: `bench-waits-${n}` }, body: { tools: [name] } }))
          .key ?? '',
      )
    const open = (n: number) => {
      const { path, headers, body } = callTool(keys[n % keys.length] ?? '', name, { n })
      const session: Record<string, string> = apart ? { 'countersign-session': `s${n}` } : {}
      const wait = { prefer: `wait=${LIMITS.mcp_hold_most_s}` }
      return stream(new URL(path, url), { ...headers, ...wait, ...session }, body)
    }
    return await measure(edge.pid, watch_ms, open)
  } finally {
    await stop()
    rmSync(state, { recursive: true, force: true })
  }
}

const SERVE = (port: number): string => `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [(name = "idle", worker = .idle), (name = "disk", disk = (path = "objects", writable = true))],
  sockets = [(name = "http", address = "127.0.0.1:${port}", http = (), service = "idle")],
);
const idle :Workerd.Worker = (
  compatibilityDate = "${COMPATIBILITY_DATE}",
  modules = [(name = "main.js", esModule = embed "main.js")],
  bindings = [
    (name = "WAITS", durableObjectNamespace = "Waits"),
    (name = "WRITES", durableObjectNamespace = "Writes"),
  ],
  durableObjectNamespaces = [
    (className = "Waits", uniqueKey = "waits", enableSql = true),
    (className = "Writes", uniqueKey = "writes", enableSql = true),
  ],
  durableObjectStorage = (localDisk = "disk"),
);
`

async function measureFloor(name: (typeof FLOORS)[number]): Promise<Memory> {
  const folder = mkdtempSync(join(tmpdir(), 'countersign-idle-'))
  const port = await freePort()
  mkdirSync(join(folder, 'objects'))
  writeFileSync(join(folder, 'serve.capnp'), SERVE(port))
  writeFileSync(join(folder, 'main.js'), readFileSync(join(import.meta.dirname, 'idle-streams.js')))
  const url = `http://127.0.0.1:${port}`
  return withWorkerd(folder, `${url}/ready`, (pid) =>
    measure(pid, 0, (n) => stream(new URL(`/${name}?${n}`, url), {})),
  )
}

if (import.meta.main) console.log(await timeWaiting(10_000))
