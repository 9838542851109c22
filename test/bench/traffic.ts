// Measures the way to listed hosts: one curl from the host itself and one from a sandbox through
// its call’s proxy, alternating, against a server on loopback. Bulk is one CONNECT; connections
// have a CONNECT each, fifty at a time.

import { execFile } from 'node:child_process'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { promisify } from 'node:util'
import { DEFAULT_LIMITS } from '../../shared/limits.ts'
import type { Plan } from '../../shared/plan/plan.ts'
import { Peer } from './peer.ts'
import { median } from './slice.ts'

export type ClientOutput = { readonly out: string; readonly took_ms: number }
type Both<T> = { readonly direct: T; readonly proxied: T }
/**
 * Bytes a second of one connection; milliseconds for many connections, and how many were answered.
 */
export type Traffic = { readonly bulk: Both<number>; readonly many: Both<number>; readonly answered: number }

export const CONNECTIONS = 1_000
const BULK = 1024 * 1024 * 1024
const BLOCK = Buffer.alloc(1024 * 1024)
const CURL = ['curl', '--silent', '--show-error', '--output', '/dev/null', '--proxytunnel']
const LIMITS = {
  ...DEFAULT_LIMITS,
  timeout_ms: 120_000,
  cpu_ms: 120_000,
  net_bytes: 2 * BULK,
  net_connections: 2 * CONNECTIONS,
}

/** `start` returns the argv of the process whose sandbox may reach the given host. */
export async function timeTraffic(
  rounds: number,
  start: (host: string) => readonly string[],
): Promise<Traffic> {
  const server = createServer((request, answer) =>
    request.url === '/bulk' ? pour(answer) : void answer.end('ok'),
  )
  await new Promise<void>((settle) => server.listen(0, '127.0.0.1', settle))
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}` // the address of a TCP server
  const peer = new Peer<Plan, ClientOutput>('traffic', start(host), {
    PATH: '/usr/bin:/bin',
    LANG: 'C.UTF-8',
  })
  const proxied = (argv: readonly string[]): Promise<ClientOutput> => peer.ask(planOf(argv, host))
  const bulk = [...CURL, '--write-out', '%{speed_download}', `http://${host}/bulk`]
  const many = [
    ...[
      ...CURL,
      '--parallel',
      '--parallel-max',
      '50',
      '--header',
      'connection: close',
      '--write-out',
      '%{http_code}\\n',
    ],
    `http://${host}/[1-${CONNECTIONS}]`,
  ]
  const seen = {
    bulk: [[], []] as [number[], number[]],
    many: [[], []] as [number[], number[]],
    answered: CONNECTIONS,
  }
  try {
    for (let round = 0; round < rounds; round++) {
      for (const [way, run] of [direct, proxied].entries()) {
        seen.bulk[way]?.push(Number((await run(bulk)).out))
        const { out, took_ms } = await run(many)
        seen.many[way]?.push(took_ms)
        seen.answered = Math.min(seen.answered, out.split('\n').filter((code) => code === '200').length)
      }
    }
  } finally {
    await peer.end()
    server.closeAllConnections()
    server.close()
  }
  const both = ([here, there]: readonly [number[], number[]]): Both<number> => ({
    direct: median(here),
    proxied: median(there),
  })
  return { bulk: both(seen.bulk), many: both(seen.many), answered: seen.answered }
}

async function direct([program = '', ...args]: readonly string[]): Promise<ClientOutput> {
  const started = performance.now()
  const { stdout } = await promisify(execFile)(program, args, { env: { PATH: '/usr/bin:/bin' } })
  return { out: stdout, took_ms: performance.now() - started }
}

const planOf = (argv: readonly string[], host: string): Plan => ({
  tier: 'C',
  executor: { kind: 'process', argv: [...argv], stdin: 'none', env: {}, cwd: '' },
  egress: { mode: 'strict', hosts: [host] },
  secrets: [],
  workspace: 'call',
  limits: LIMITS,
})

function pour(answer: ServerResponse): void {
  answer.setHeader('content-length', BULK)
  let left = BULK
  const go = (): void => {
    while (left > 0) {
      left -= BLOCK.length
      if (!answer.write(BLOCK)) return void answer.once('drain', go)
    }
    answer.end()
  }
  go()
}
