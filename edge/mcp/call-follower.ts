// Waits for the end of one call, and reports its progress to a client that asked for it.

import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import type { Call } from '../../shared/wire/calls.ts'
import { type Env, tenantObject } from '../bindings.ts'
import type { RunOwner } from '../call/run.ts'
import { CallWatch } from '../run/call-watch.ts'
import type { FoundCall } from '../run/find-run.ts'
import type { OutputUpdate, StreamPosition } from '../run/output-subscribers.ts'
import { statusLine } from './outcome.ts'
import { type Id, notification } from './rpc.ts'

const OUTPUT_PAUSE_MS = 1_000

/** Reports changes of a call's approval to one request. */
export type ApprovalWatch = {
  /** Resolves after a change since the last time, or after `ms`. */
  readonly changed: (ms: number) => Promise<void>
  readonly leave: () => void
}

export type FollowRequest = FoundCall & {
  readonly agent: RunOwner
  readonly watch: ApprovalWatch
  readonly approval: Call['approval']
  readonly token: Id | null
  /** When to give up waiting. */
  readonly until: number
}

/** Yields progress notifications; returns the call as it is at its end, or when the time is up. */
export async function* followCall(follow: FollowRequest): AsyncGenerator<string, Result<Call>, void> {
  const { run, n, agent, approval, token, until } = follow
  if (token === null) {
    await awaitApproval(follow)
    return run.read(agent, n, Math.max(0, until - Date.now()))
  }
  let position: StreamPosition = { attempt: 0, stdout: 0, stderr: 0, state: null }
  let [progress, shownAt] = [0, 0]
  for (;;) {
    if (position.state?.state === 'awaiting_approval') await awaitApproval(follow)
    const left = until - Date.now()
    const update = await run.nextOutput(agent, n, null, position, Math.max(0, left))
    if (!update.ok) return update
    const { value } = update
    position = value.position
    const line = lineOf(value, approval)
    if (line !== undefined && (value.changed || Date.now() - shownAt >= OUTPUT_PAUSE_MS)) {
      shownAt = Date.now()
      yield notification('notifications/progress', {
        progressToken: token,
        progress: ++progress,
        message: line,
      })
    }
    if (value.end !== null || left <= 0) return run.read(agent, n, 0)
  }
}

/**
 * Watches an approval without a wait inside the run, which would keep its object in memory, half a
 * megabyte each, for as long as nobody answers.
 */
export function watchApproval(env: Env, tenant: string, { id, approval }: Call): ApprovalWatch {
  if (env.ONE_PROCESS === 'yes') return new CallWatch(id)
  let known = -1
  return {
    // The first time it returns at once: what came before is read afterwards.
    async changed(ms) {
      known = await tenantObject(env, tenant).approvalChange(approval?.id ?? '', known, ms)
    },
    leave: () => undefined,
  }
}

async function awaitApproval({ run, n, agent, watch, approval, until }: FollowRequest): Promise<void> {
  if (approval?.status !== 'pending') return
  for (;;) {
    const call = await run.read(agent, n, 0)
    const left = until - Date.now()
    if (!call.ok || call.value.state !== 'awaiting_approval' || left <= 0) return
    await watch.changed(left)
  }
}

const utf8 = new TextDecoder()

function lineOf(
  { changed, position, pieces, end }: OutputUpdate,
  approval: Call['approval'],
): string | undefined {
  if (end !== null) return undefined
  const state = position.state?.state
  if (changed && state !== undefined) return statusLine({ state, approval })
  const bytes = pieces.at(-1)?.bytes
  const line = bytes === undefined ? undefined : lastLine(utf8.decode(bytes))
  return line === '' ? undefined : line
}

/** The last line that is not blank; progress bars write over theirs with a carriage return. */
const lastLine = (text: string): string =>
  text
    .trimEnd()
    .split(/[\r\n]/)
    .at(-1)
    ?.trim()
    .slice(0, LIMITS.mcp_progress_chars)
    .toWellFormed() ?? ''
