// Measures a decision inside the edge by the processor time of workerd, read from outside, because
// workerd’s own clock stands still while code runs. A request makes the decision many times, so
// that its own cost hardly counts, with different arguments, so that caches don’t answer, unless
// they are the subject. So a p50 is the median of means over 100 decisions each, and hides a single
// slow one. The engine alone, with the same requests, is the floor.

import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { bundle } from '../../infra/edge-build.ts'
import { freePort } from '../../infra/state.ts'
import { COMPATIBILITY_DATE, modules } from '../../infra/workerd.ts'
import { bytesOf, Connection } from './connection.ts'
import { cpuNanos } from './machine.ts'
import { median } from './slice.ts'
import { withWorkerd } from './workerd.ts'

/**
 * Decisions in one request, and their expected result. A slow subject is measured only every few
 * rounds.
 */
const SUBJECTS = {
  engine: { times: 100, comes: 'allow', every: 1 },
  of_10: { times: 100, comes: 'allow', every: 1 },
  of_1000: { times: 100, comes: 'allow', every: 1 },
  of_98_agents: { times: 100, comes: 'allow', every: 1 },
  denied_of_10: { times: 100, comes: 'deny', every: 1 },
  asked_before: { times: 500, comes: 'allow', every: 1 },
  checked_1000: { times: 1, comes: 'holds', every: 10 },
  set_of_1000: { times: 1, comes: 'made', every: 10 },
} as const
export type DecisionName = keyof typeof SUBJECTS
/** Microseconds of processor time for one decision, the median over requests. */
export type Decisions = Readonly<Record<DecisionName, number>>

const BUILD = (main: string): string => `name = "inside-edge"
main = ${JSON.stringify(main)}
compatibility_date = "${COMPATIBILITY_DATE}"
keep_names = false

[[rules]]
type = "Text"
globs = ["**/*.cedar", "**/*.cedarschema", "**/*.sql"]
fallthrough = true

[[rules]]
type = "CompiledWasm"
globs = ["**/*.wasm"]
fallthrough = true
`
const SERVE = (folder: string, port: number): string => `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [(name = "edge", worker = (modules = [${modules(join(folder, 'bundle')).join(', ')}], compatibilityDate = "${COMPATIBILITY_DATE}"))],
  sockets = [(name = "http", address = "127.0.0.1:${port}", http = (), service = "edge")],
);
`

export async function timeDecisions(rounds: number): Promise<Decisions> {
  const folder = mkdtempSync(join(tmpdir(), 'countersign-decisions-'))
  const port = await freePort()
  writeFileSync(join(folder, 'build.toml'), BUILD(join(import.meta.dirname, 'inside-edge/main.ts')))
  const built = bundle(['--config', join(folder, 'build.toml')], join(folder, 'bundle'))
  if (!built.ok) throw new Error(built.error)
  writeFileSync(join(folder, 'serve.capnp'), SERVE(folder, port))
  return withWorkerd(folder, `http://127.0.0.1:${port}/?times=0`, async (pid) =>
    timed(await Connection.open(port), pid, port, rounds),
  )
}

/** Each subject has one request in each round, so that other load affects all alike. */
async function timed(connection: Connection, edge: number, port: number, rounds: number): Promise<Decisions> {
  const micros = async (name: DecisionName): Promise<number> => {
    const { times, comes } = SUBJECTS[name]
    const request = bytesOf({ method: 'GET', path: `/${name}?times=${times}`, headers: {}, body: '' }, port)
    const before = cpuNanos(edge)
    const { status, body } = await connection.exchange(request)
    const after = cpuNanos(edge)
    if (status !== 200 || body !== `${comes} after ${times}`)
      throw new Error(`\`${name}\` did not come to \`${comes}\`: ${status} ${body}`)
    return (after - before) / times / 1_000
  }
  const names = Object.keys(SUBJECTS) as DecisionName[] // Object.keys loses the type
  const found = new Map(names.map((name) => [name, [] as number[]]))
  for (let round = -WARM; round < rounds; round++) {
    for (const name of names.filter((each) => round % SUBJECTS[each].every === 0)) {
      const took = await micros(name)
      if (round >= 0) found.get(name)?.push(took)
    }
  }
  connection.close()
  const one = (name: DecisionName): number => median(found.get(name) ?? [])
  return {
    engine: one('engine'),
    of_10: one('of_10'),
    of_1000: one('of_1000'),
    of_98_agents: one('of_98_agents'),
    denied_of_10: one('denied_of_10'),
    asked_before: one('asked_before'),
    checked_1000: one('checked_1000'),
    set_of_1000: one('set_of_1000'),
  }
}

/** Rounds before the engine and the compiler have settled. */
const WARM = 10
