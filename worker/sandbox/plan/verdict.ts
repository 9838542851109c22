// Owns how the end of a call's processes becomes its one outcome. Pure. A failure of the sandbox
// never counts as the tool's, nor the reverse (S49).

import { constants } from 'node:os'
import { SIGNED_TEXT_CHARS, toSignableText } from '../../../shared/bytes/signable-text.ts'
import type { Outcome } from '../../../shared/plan/plan.ts'
import { enteringFailed } from '../kernel/enter-cgroup.ts'
import { initFailed } from '../kernel/init.ts'
import { launcherFailed } from '../kernel/tier-b-fence.ts'

export type Refusal = Extract<Outcome, { kind: 'refused' }>
export type NotRun = Extract<Outcome, { kind: 'refused' | 'infra' }>
/** Why the worker ended the call. `finished`: it had no more use for the program. */
export type Stop = 'timeout' | 'output_cap' | 'cpu_cap' | 'workspace_cap' | 'cancelled' | 'finished'

/** How the started program ended: bubblewrap in tier C, the tool in tier B. */
export type Ending = {
  /** The errno's name, if it could not be started. */
  readonly spawnError: string | undefined
  readonly code: number | undefined
  readonly signal: string | undefined
  readonly stop: Stop | undefined
  /** The kernel killed a process of the call because memory ran out. */
  readonly outOfMemory: boolean
  /** Processes of the call were still alive when we stopped waiting for them. */
  readonly survivors: boolean
  /** C: bubblewrap's output on `--json-status-fd`. */
  readonly status: Status | undefined
  /** The beginning of standard error. */
  readonly complaint: string
}

/**
 * child: the host's pid of bubblewrap's init. code: present only if the tool was started and ended.
 */
export type Status = { readonly child: number | undefined; readonly code: number | undefined }

/**
 * Whether it ended without our SIGKILL, which kills bubblewrap first, so that it reports no exit
 * code.
 */
export const endedItself = ({ code, signal, status }: Pick<Ending, 'code' | 'signal' | 'status'>): boolean =>
  status === undefined
    ? code !== undefined || (signal !== undefined && signal !== 'SIGKILL')
    : status.code !== undefined

export const refused = (code: Refusal['code'], detail: string): Refusal => ({
  kind: 'refused',
  code,
  detail: shortened(detail),
})
export const infra = (detail: string): NotRun => ({ kind: 'infra', detail: shortened(detail) })

const shortened = (detail: string): string =>
  detail.length > SIGNED_TEXT_CHARS.detail
    ? `${toSignableText(detail, SIGNED_TEXT_CHARS.detail - 1)}…`
    : detail

/**
 * Errors of bubblewrap on a host that forbids namespaces; `countersign-worker doctor` has the
 * fixes.
 */
const NO_NAMESPACES =
  /No permissions to create|Creating new namespace failed|setting up uid map|user namespaces|Unknown option|nsenter: (?:reassociate|cannot open)/i
const NO_FOLDER = /Can't chdir to/

export function outcomeOf(ending: Ending): Outcome {
  if (ending.spawnError !== undefined) return notStarted(ending.spawnError)
  if (ending.survivors) return infra('processes of the call outlived it')
  if (ending.stop === 'finished') return { kind: 'exit', code: 0 }
  if (ending.stop !== undefined) return { kind: ending.stop }
  if (ending.outOfMemory) return { kind: 'memory_cap' }
  return ending.status === undefined ? tierBOutcome(ending) : tierCOutcome(ending, ending.status)
}

function notStarted(errno: string): Outcome {
  if (errno === 'E2BIG')
    return refused('invalid_input', 'the arguments are longer than the kernel accepts (E2BIG)')
  if (errno === 'ENOENT' || errno === 'EACCES') {
    return refused(
      'sandbox_unavailable',
      `the sandbox’s program is missing or not executable (${errno}); run \`countersign-worker doctor\``,
    )
  }
  return infra(`the sandbox could not be started (${errno})`) // EAGAIN, ENOMEM, EMFILE: a temporary shortage
}

/**
 * Tier B. By convention 127 and 126 mean that the tool is missing or not executable; stderr names
 * it.
 */
function tierBOutcome({ code, signal, complaint }: Ending): Outcome {
  // A tool can print the same texts, so neither proves that nothing ran.
  if (enteringFailed(code, complaint)) return infra('the call did not enter its cgroup')
  if (launcherFailed(code, complaint)) return infra('the fence of tier B could not be set up')
  if (signal !== undefined) return { kind: 'signal', signal }
  return code === undefined ? infra('the process ended without a status') : { kind: 'exit', code }
}

function tierCOutcome({ code, signal, complaint }: Ending, status: Status): Outcome {
  if (status.code !== undefined) return toolEnded(status.code, complaint)
  if (signal !== undefined) return infra(`the sandbox was ended by ${signal}`)
  if (enteringFailed(code, complaint))
    return refused(
      'sandbox_unavailable',
      'bubblewrap was not started in a cgroup; run `countersign-worker doctor`',
    )
  if (NO_FOLDER.test(complaint))
    return refused('workspace_scope_denied', 'the folder that `cwd` names is not in the workspace')
  if (NO_NAMESPACES.test(complaint))
    return refused('sandbox_unavailable', `${firstLine(complaint)}; run \`countersign-worker doctor\``)
  return infra(`the sandbox failed before the tool ran (exit ${code}): ${firstLine(complaint)}`)
}

/**
 * bubblewrap reports death by signal n as 128 + n, as shells do, so we can't distinguish it from a
 * tool that exits with that number. Both count as the signal: programs that exit so mean it.
 */
function toolEnded(code: number, complaint: string): Outcome {
  // `infra`, not `refused`: a tool can fake this too, so it does not prove that nothing ran.
  if (initFailed(code, complaint)) return infra('the init process of the sandbox could not start the tool')
  const signal = code > 128 ? SIGNALS.get(code - 128) : undefined
  return signal === undefined ? { kind: 'exit', code } : { kind: 'signal', signal }
}

/** Names of signals by number. Of two names the first is the usual one. */
export const SIGNALS: ReadonlyMap<number, string> = new Map(
  Object.entries(constants.signals)
    .reverse()
    .map(([name, number]) => [number, name]),
)

const firstLine = (complaint: string): string => complaint.trim().split('\n', 1)[0]?.slice(0, 200) ?? ''

/** Parses bubblewrap's lines of JSON. A kill may have cut them off, so fields may be missing. */
export function parseStatus(text: string): Status {
  const numberAt = (key: string): number | undefined => {
    const found = new RegExp(`"${key}": ?([0-9]+)`).exec(text)?.[1]
    return found === undefined ? undefined : Number(found)
  }
  return { child: numberAt('child-pid'), code: numberAt('exit-code') }
}
