// Removes the data of a deleted tenant's objects, by the names that its objects hold. Each step may
// be repeated. An object whose name is unknown here is unreachable behind the tenant's tombstone;
// such a run removes itself when its alarm fires.

import { runObjectName } from '../../shared/ids.ts'
import type { Env } from '../bindings.ts'
import {
  agentQuestions,
  channelObject,
  logObject,
  poolObject,
  runsObject,
  sessionObject,
  skillObject,
  trialObject,
} from '../bindings.ts'
import type { ObjectNames } from './tenancy-store.ts'

/** How long one round may take; the caller then starts another. */
const ROUND_MS = 10_000
const AT_ONCE = 20

/** Returns whether everything is removed. */
export async function eraseOthers(
  env: Env,
  tenant: string,
  { runs, agents, skills, pools, workers }: ObjectNames,
): Promise<boolean> {
  const ends = Date.now() + ROUND_MS
  const log = logObject(env, tenant)
  await eraseRuns(env, tenant, runs)
  for (let some = await log.runsBut([]); some.length > 0; some = await log.runsBut(some)) {
    await eraseRuns(env, tenant, some)
    if (Date.now() > ends) {
      await log.runsBut(some)
      return false
    }
  }
  await inTurns(agents, (agent) => agentQuestions(env, { tenant, agent }).erase())
  await inTurns(skills, (skill) => skillObject(env, tenant, skill).erase())
  await trialObject(env, tenant).erase()
  await inTurns(pools, (pool) =>
    poolObject(env, tenant, pool)
      .erase(workers)
      .catch(() => undefined),
  ) // doorbells of removed calls are harmless
  await channelObject(env, tenant).erase()
  await log.erase()
  return true
}

/**
 * Erases the sessions first, because only runs and the log know their names. The log knows every sealed
 * run, and each object knows its stored runs.
 */
async function eraseRuns(env: Env, tenant: string, runs: readonly string[]): Promise<void> {
  const eraseSessions = (owners: ReadonlyArray<{ agent: string; session: string }>) =>
    inTurns(owners, (owner) => sessionObject(env, { tenant, ...owner }).erase())
  await eraseSessions(await logObject(env, tenant).ownersOf(runs))
  const byObject = new Map(runs.map((run) => [runObjectName(tenant, run), run]))
  await inTurns([...byObject.values()], async (run) => {
    const object = runsObject(env, tenant, run)
    await eraseSessions(await object.owners())
    await object.erase()
  })
}

async function inTurns<T>(names: readonly T[], erase: (name: T) => Promise<unknown>): Promise<void> {
  for (let i = 0; i < names.length; i += AT_ONCE) await Promise.all(names.slice(i, i + AT_ONCE).map(erase))
}
