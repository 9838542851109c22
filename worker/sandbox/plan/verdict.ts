// Owns what an ending means: from what was seen of the processes to the one outcome of the call. Pure. The sandbox's own failure is never
// taken for the tool's, nor the tool's for the sandbox's (S49).

import { constants } from 'node:os'
import { asTold, TOLD_CHARS } from '../../../shared/bytes/signable-text.ts'
import type { Outcome } from '../../../shared/plan/plan.ts'
import { neverEntered } from '../kernel/enter-cgroup.ts'
import { initFailed } from '../kernel/init.ts'
import { neverFenced } from '../kernel/tier-b-fence.ts'

export type Refusal = Extract<Outcome, { kind: 'refused' }>
export type NotRun = Extract<Outcome, { kind: 'refused' | 'infra' }>
/** Why we ended it. */
export type Stop = 'timeout' | 'output_cap' | 'cpu_cap' | 'workspace_cap' | 'cancelled'

/** How the started program ended, whichever program it was. */
export type Ending = {
  /** It could not be started: the errno's name. */
  readonly spawnError: string | undefined
  readonly code: number | undefined
  readonly signal: string | undefined
  readonly stop: Stop | undefined
  /** The kernel ended a process of the call for want of memory, whatever the others made of it. */
  readonly outOfMemory: boolean
  /** Processes of the call were still alive when we gave up waiting for their end. */
  readonly survivors: boolean
  /** C: what bubblewrap wrote to `--json-status-fd`. */
  readonly status: Status | undefined
  /** The beginning of standard error. */
  readonly complaint: string
}

/** child: bubblewrap's init as the host numbers it. code: only when the tool was started and ended. */
export type Status = { readonly child: number | undefined; readonly code: number | undefined }

/** That no signal of ours ended it: we send SIGKILL, and bubblewrap, which it hits first, tells of no end any more. */
export const endedItself = ({ code, signal, status }: Pick<Ending, 'code' | 'signal' | 'status'>): boolean =>
  status === undefined
    ? code !== undefined || (signal !== undefined && signal !== 'SIGKILL')
    : status.code !== undefined

export const refused = (code: Refusal['code'], detail: string): Refusal => ({
  kind: 'refused',
  code,
  detail: short(detail),
})
export const infra = (detail: string): NotRun => ({ kind: 'infra', detail: short(detail) })

const short = (detail: string): string =>
  detail.length > TOLD_CHARS.detail ? `${asTold(detail, TOLD_CHARS.detail - 1)}…` : detail

/** What bubblewrap says when the host does not let it work; each has its fix in `countersign-worker doctor`. */
const NO_NAMESPACES =
  /No permissions to create|Creating new namespace failed|setting up uid map|user namespaces|Unknown option|nsenter: (?:reassociate|cannot open)/i
const NO_FOLDER = /Can't chdir to/

export function outcomeOf(ending: Ending): Outcome {
  if (ending.spawnError !== undefined) return notStarted(ending.spawnError)
  if (ending.survivors) return infra('processes of the call outlived it')
  if (ending.stop !== undefined) return { kind: ending.stop }
  if (ending.outOfMemory) return { kind: 'memory_cap' }
  return ending.status === undefined ? bare(ending) : wrapped(ending, ending.status)
}

function notStarted(errno: string): Outcome {
  if (errno === 'E2BIG')
    return refused('invalid_input', 'the arguments are longer than the kernel takes (E2BIG)')
  if (errno === 'ENOENT' || errno === 'EACCES') {
    return refused(
      'sandbox_unavailable',
      `the sandbox's program is not there or not executable (${errno}); run \`countersign-worker doctor\``,
    )
  }
  return infra(`the sandbox could not be started (${errno})`) // EAGAIN, ENOMEM, EMFILE: this host, this moment
}

/** Tier B: the kernel itself tells. 127 and 126 are the convention for a tool that is not there, or not executable; stderr names it. */
function bare({ code, signal, complaint }: Ending): Outcome {
  // A tool can say so too, so neither is "nothing ran".
  if (neverEntered(code, complaint)) return infra('the call did not enter its cgroup')
  if (neverFenced(code, complaint)) return infra('the fence of tier B could not be put up')
  if (signal !== undefined) return { kind: 'signal', signal }
  return code === undefined ? infra('the process ended without a status') : { kind: 'exit', code }
}

function wrapped({ code, signal, complaint }: Ending, status: Status): Outcome {
  if (status.code !== undefined) return toolEnded(status.code, complaint)
  if (signal !== undefined) return infra(`the sandbox was ended by ${signal}`)
  if (neverEntered(code, complaint))
    return refused(
      'sandbox_unavailable',
      'bubblewrap was not started in a cgroup; run `countersign-worker doctor`',
    )
  if (NO_FOLDER.test(complaint))
    return refused('workspace_scope_denied', 'the folder that `cwd` names is not in the workspace')
  if (NO_NAMESPACES.test(complaint))
    return refused('sandbox_unavailable', `${said(complaint)}; run \`countersign-worker doctor\``)
  return infra(`the sandbox failed before the tool ran (exit ${code}): ${said(complaint)}`)
}

/**
 * bubblewrap tells a death by signal n as 128 + n, as shells do, so a tool that exits with such a number by itself can't be told apart.
 * It is read as the signal, which is what whoever exits like that means.
 */
function toolEnded(code: number, complaint: string): Outcome {
  if (initFailed(code, complaint)) return infra('the init process of the sandbox could not start the tool') // a tool can say so too
  const signal = code > 128 ? SIGNALS.get(code - 128) : undefined
  return signal === undefined ? { kind: 'exit', code } : { kind: 'signal', signal }
}

/** Some have two names; the first is the usual one. */
export const SIGNALS: ReadonlyMap<number, string> = new Map(
  Object.entries(constants.signals)
    .reverse()
    .map(([name, number]) => [number, name]),
)

const said = (complaint: string): string => complaint.trim().split('\n', 1)[0]?.slice(0, 200) ?? ''

/** Lines of JSON. What was cut off by a kill is not there. */
export function parseStatus(text: string): Status {
  const told = (key: string): number | undefined => {
    const found = new RegExp(`"${key}": ?([0-9]+)`).exec(text)?.[1]
    return found === undefined ? undefined : Number(found)
  }
  return { child: told('child-pid'), code: told('exit-code') }
}
