// The folder that the calls of a run share (`workspace: run`). It is on the worker that claimed the
// first of them. Pure.

import { LIMITS } from '../../shared/limits.ts'
import { isEdgePlan, type Plan, secretsOf } from '../../shared/plan/plan.ts'
import type { CallRecord, Event } from './lifecycle.ts'

/**
 * `used`: a call may have left files in it, so an empty folder is not the same one. `metSecret`:
 * the claim of a call in it handed over a secret; absent where an earlier version kept no record of
 * that.
 */
export type RunFolder = { readonly worker: string; readonly used: boolean; readonly metSecret?: boolean }

export const sharesFolder = (plan: Plan | null): boolean =>
  plan !== null && !isEdgePlan(plan) && plan.workspace === 'run'

/** Whether a secret may lie in the folder. A folder without a record counts as holding one. */
export const hasMetSecret = (folder: RunFolder | null): boolean =>
  folder !== null && folder.metSecret !== false

/**
 * Why a plan is refused, whatever policy says: later calls can read what a tool leaves in the
 * folder of its run, and the mask over their output does not cover values that they were not given
 * (D5). A credential stays with the proxy, so a plan may have one there.
 */
export const sharedSecret = (plan: Plan): string | undefined =>
  sharesFolder(plan) && plan.secrets.length > 0 ? SHARED_SECRET : undefined
export const SHARED_SECRET =
  'a tool that receives secrets can’t share the folder of its run, where later calls could read them: let the proxy add the value to requests (`credentials`), or give each call its own folder (`"workspace": "call"`)'

/** The states of a call whose worker was lost, or that a restore ended: nobody knows what it wrote. */
const UNKNOWN_EFFECTS: ReadonlySet<string> = new Set(['indeterminate', 'granted'])

/**
 * The folder's state after an event of a claimed call. A folder that is unused and that no `live`
 * call is in is dropped (null), so that the next call may go to another worker.
 */
export function folderAfter(
  folder: RunFolder | null,
  { proposal, status }: CallRecord,
  event: Event,
  live: () => readonly CallRecord[],
): RunFolder | null {
  if (!sharesFolder(proposal.plan)) return folder
  if (event.kind === 'claimed' && status.state === 'running') {
    const metSecret = hasMetSecret(folder) || (proposal.plan !== null && secretsOf(proposal.plan).length > 0)
    return { ...(folder ?? { worker: event.worker, used: false }), metSecret }
  }
  if (folder === null || folder.used) return folder
  if ((event.kind === 'due' || event.kind === 'restored') && UNKNOWN_EFFECTS.has(status.state))
    return { ...folder, used: true }
  if (event.kind !== 'settled') return folder
  if (!event.refused) return { ...folder, used: true }
  return live().some(isIn) ? folder : null
}

const isIn = ({ proposal, status }: CallRecord): boolean =>
  sharesFolder(proposal.plan) && status.state === 'running'

/** The only worker that may claim a call; null if any worker of its pool may. */
export const holderOf = (folder: RunFolder | null, plan: Plan | null): string | null =>
  sharesFolder(plan) && folder !== null ? folder.worker : null

/**
 * Why the folder is lost; undefined if it is not. `seenAt`: the worker's last heartbeat; null if it
 * left the pool.
 */
export function folderGone(seenAt: number | null, now: number): string | undefined {
  const silent = now - (seenAt ?? 0)
  if (silent < LIMITS.folder_silence_ms) return undefined
  const why =
    seenAt === null
      ? 'no longer serves this pool'
      : `has sent no heartbeat for ${Math.floor(silent / 1000)} s`
  return `the worker with this run’s folder ${why}, so its files are lost; create a new run`
}
