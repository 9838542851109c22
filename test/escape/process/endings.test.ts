// No process of a call outlives the call (D1). A hostile tool tries to take over process 1 of its
// sandbox, forks, leaves its session, stops its own tree, floods its output and fills its folder.
// The call then ends in each way that a call can end, in cold and warm sandboxes, with and without
// cgroups. `npm run test:endings` runs 200 such calls; this file runs a few dozen.

import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { eventually } from '../../support/eventually.ts'
import { Arena, planOf, processesWith, unique } from '../arena/arena.ts'
import { descendantsOf, spawnersBelow } from '../arena/census.ts'
import { DEEDS, SLEEP, tool } from '../arena/hostile-tool.ts'

const CALLS = Number(process.env['COUNTERSIGN_ENDINGS'] ?? '32')
/** The promise is one second; the machine may be slower while other test files run. */
const GONE_WITHIN_MS = process.env['COUNTERSIGN_ENDINGS'] === undefined ? 4_000 : 1_000
const AT_ONCE = 8

const FLOOD = `
while True: os.write(1, b'x' * 65536)`
const FILL = `
n = 0
while True:
    n += 1
    attempt(lambda: open(f'/workspace/{n}', 'wb').write(b'x' * 65536))`

const endings = {
  exit: { rest: 'os._exit(0)', kind: 'exit', busy: true },
  deadline: { rest: SLEEP, kind: 'timeout', limits: { timeout_ms: 400 } },
  output: { rest: FLOOD, kind: 'output_cap', busy: true, limits: { output_bytes: 4096 } },
  cancel: { rest: SLEEP, kind: 'cancelled', cancelOn: 'ready' },
  disk: {
    rest: FILL,
    kind: 'workspace_cap',
    busy: true,
    limits: { workspace_bytes: 4 * 1024 * 1024 },
    workspace: 'run',
  },
} as const

const names = Object.keys(DEEDS)
/**
 * A choice of attacks that changes with `n`. `busy`: nothing may stop the tool's first process,
 * which has work.
 */
const deedsOf = (n: number, busy = false): string[] =>
  names.filter((name, index) => (n + index) % 3 !== 0 && !(busy && name === 'stopper'))

async function waitUntilGone(word: string, since: number): Promise<number> {
  await eventually(`nothing of ${word} is left`, () => processesWith(word).length === 0, 15_000, 5)
  return performance.now() - since
}

const STRIKES: readonly ((victim: Arena, pid: number) => Promise<void> | void)[] = [
  (victim) => victim.kill(),
  (_victim, pid) => spawnersBelow(pid).forEach(kill),
  (_victim, pid) => descendantsOf(pid).filter(isBubblewrap).forEach(kill),
]

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It ended with the one before.
  }
}

function isBubblewrap(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/comm`, 'utf8') === 'bwrap\n'
  } catch {
    return false
  }
}

const KINDS = [
  ['cold, with cgroups', {}],
  ['cold, without cgroups', { undelegated: true as const }],
  ['warm, with cgroups', { prepared: {} }],
  ['warm, without cgroups', { prepared: {}, undelegated: true as const }],
] as const

describe.each(KINDS)('in a sandbox that is %s', (_name, options) => {
  let arena: Arena
  beforeAll(async () => {
    arena = await Arena.open(options)
  })
  afterAll(() => arena.close())

  test.each(Object.entries(endings))(
    'S50 D1 a tool that attacks its own init is gone within a second of the ending by %s',
    { timeout: 120_000 },
    async (_ending, { rest, kind, ...how }) => {
      for (let n = 0; n < Math.ceil(CALLS / 32); n++) {
        const word = unique()
        const {
          limits = {},
          cancelOn,
          workspace,
          busy,
        } = { limits: undefined, cancelOn: undefined, workspace: undefined, busy: false, ...how }
        const plan = planOf(tool(word, deedsOf(n, busy), rest), {
          limits: { pids: 48, timeout_ms: 20_000, ...limits },
          ...(workspace === undefined ? {} : { workspace }),
        })
        const folder = workspace === undefined ? undefined : arena.runFolder().there
        let ready = 0
        const order = {
          plan,
          ...(cancelOn === undefined ? {} : { cancelOn }),
          ...(folder === undefined ? {} : { runFolder: folder }),
        }
        const seen = await arena.launch(order, () => {
          ready ||= performance.now()
        })
        // The call ends soon after the tool reports that it is ready, except by deadline. The time
        // to fill a folder is unknown.
        const since =
          kind === 'timeout'
            ? ready + plan.limits.timeout_ms
            : kind === 'workspace_cap'
              ? performance.now()
              : ready
        expect(await waitUntilGone(word, since)).toBeLessThan(GONE_WITHIN_MS)
        expect([seen.outcome.kind, /^init (\w+)/.exec(seen.out)?.[1]]).toEqual([kind, 'EACCES'])
      }
    },
  )

  test('S50 D1 no process of a hostile tool outlives a SIGKILL for its worker, the spawner or bubblewrap', {
    timeout: 900_000,
  }, async () => {
    for (let round = 0; round < STRIKES.length * Math.ceil(CALLS / 96); round++) {
      const victim = await Arena.open(options)
      const { pid } = await victim.facts()
      const words = Array.from({ length: AT_ONCE }, () => unique())
      const calls = words.map((word, n) =>
        victim
          .launch({
            plan: planOf(tool(word, deedsOf(round + n), SLEEP), { limits: { pids: 48, timeout_ms: 60_000 } }),
          })
          .then(
            ({ outcome }) => outcome.kind,
            () => 'lost with the worker',
          ),
      )
      await eventually(
        'some of them run',
        () => words.filter((word) => processesWith(word).length > 1).length > (round * 3) % AT_ONCE,
      )
      await sleep(Math.random() * 20) // other calls are starting
      // If the worker lives on, calls that have not begun yet begin later, as they should.
      const begun = words.filter((word) => processesWith(word).length > 1)
      const struck = performance.now()
      await STRIKES[round % STRIKES.length]?.(victim, pid)
      for (const word of begun)
        expect(await waitUntilGone(word, struck), `round ${round}`).toBeLessThan(GONE_WITHIN_MS)
      const last = performance.now()
      await victim.kill()
      for (const word of words)
        expect(await waitUntilGone(word, last), `round ${round}`).toBeLessThan(GONE_WITHIN_MS)
      for (const kind of await Promise.all(calls))
        expect(['lost with the worker', 'infra', 'cancelled', 'exit', 'signal', 'cpu_cap']).toContain(kind)
      await victim.close()
    }
  })
})
