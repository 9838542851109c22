// Where the folder is that the calls of a run share (`workspace: run`): on the worker that claimed the first of them, and there alone.
// Pure. Whether that worker is still there is asked by the run's work; what is gone is an event of the call.

import { LIMITS } from '../../shared/limits.ts'
import { type Plan, secretsOf } from '../../shared/plan/plan.ts'
import type { CallRecord, Event } from './lifecycle.ts'

/**
 * `used`: a call may have left files in it, so an empty folder is not the same one. `metSecret`: the claim of a call in it handed over a
 * secret; absent where an earlier version kept no record of that.
 */
export type RunFolder = { readonly worker: string; readonly used: boolean; readonly metSecret?: boolean }

export const sharesFolder = (plan: Plan | null): boolean =>
  plan !== null && plan.tier !== 'A' && plan.workspace === 'run'

/** Whether a secret may lie in the folder. A folder without a record counts as holding one. */
export const hasMetSecret = (folder: RunFolder | null): boolean =>
  folder !== null && folder.metSecret !== false

/**
 * Why a plan is refused, whatever policy says: later calls can read what a tool leaves in the folder of its run, and the mask over their
 * output does not cover values that they were not given (D5). A credential stays with the proxy, so a plan may have one there.
 */
export const sharedSecret = (plan: Plan): string | undefined =>
  sharesFolder(plan) && plan.secrets.length > 0 ? SHARED_SECRET : undefined
export const SHARED_SECRET =
  'a tool that receives secrets can’t share the folder of its run, where later calls could read them: let the proxy add the value to requests (`credentials`), or give each call its own folder (`"workspace": "call"`)'

/** What time makes of a running call: nobody knows what it did. */
const UNSEEN: ReadonlySet<string> = new Set(['indeterminate', 'granted'])

/**
 * What is known of the folder once this has happened to a call that was claimed, or is now. Where no call has left anything in it, and
 * none of those `live` is in it, it is nowhere: the next one may go to another worker, this one may not do for the run.
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
  if (event.kind === 'due' && UNSEEN.has(status.state)) return { ...folder, used: true }
  if (event.kind !== 'settled') return folder
  if (!event.refused) return { ...folder, used: true }
  return live().some(isIn) ? folder : null
}

const isIn = ({ proposal, status }: CallRecord): boolean =>
  sharesFolder(proposal.plan) && status.state === 'running'

/** The one worker that may claim a call; null where any of its pool may. */
export const holderOf = (folder: RunFolder | null, plan: Plan | null): string | null =>
  sharesFolder(plan) && folder !== null ? folder.worker : null

/** Why the folder is gone, in words for whoever reads the call. `heard`: when its worker last spoke; null where it is none of the pool. */
export function folderGone(heard: number | null, now: number): string | undefined {
  const silent = now - (heard ?? 0)
  if (silent < LIMITS.folder_silence_ms) return undefined
  const why =
    heard === null ? 'works for this pool no more' : `has been silent for ${Math.floor(silent / 1000)} s`
  return `the worker that has the folder of this run ${why}; what calls left there is lost, so make a new run`
}
