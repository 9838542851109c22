// Owns how a plan would run on macOS and Windows: the exact command under `sandbox-exec`, and the
// limits of a Job Object. UNPROVEN: no call has ever run in either, and no canary has tested them.
// So the worker refuses both systems at its start and for each call (`wrongPlatform` in
// host-programs.ts), and nothing in the worker imports this file. Pure. A plan whose promises the
// system can't keep is refused, never weakened (L8).

import type { ProcessPlan as Plan } from '../../../shared/plan/plan.ts'
import { err, ok, type Result } from '../../../shared/result.ts'
import { admit } from './argv.ts'
import { BASE_ENV } from './profiles.ts'
import { type Refusal, refused } from './verdict.ts'

type PlatformCommand = {
  readonly argv: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly cwd: string
}

/**
 * Denies everything that it does not allow. The workspace is a parameter: the text contains no
 * path.
 */
const SEATBELT = [
  '(version 1)',
  '(deny default)',
  '(allow process-exec process-fork)',
  '(allow signal (target same-sandbox))',
  '(allow sysctl-read)',
  '(allow file-read-metadata)',
  ...['/usr', '/bin', '/System', '/Library/Apple', '/private/var/db/dyld'].map(
    (path) => `(allow file-read* (subpath "${path}"))`,
  ),
  ...['/dev/null', '/dev/zero', '/dev/random', '/dev/urandom'].map(
    (path) => `(allow file-read* (literal "${path}"))`,
  ),
  '(allow file-write-data (literal "/dev/null"))',
  '(allow file-read* file-write* (subpath (param "WORKSPACE")))',
  '(deny file-write-setugid)',
  '(deny network*)',
].join('\n')

/**
 * Tier C without hosts only: macOS has no network namespaces that would force a sandbox to use a
 * relay.
 */
export function onMacOS(plan: Plan, workspace: string): Result<PlatformCommand, Refusal> {
  const admitted = admit(plan)
  if (!admitted.ok) return admitted
  if (plan.tier !== 'C' || plan.egress.hosts.length > 0)
    return err(
      refused(
        'sandbox_unavailable',
        'on macOS only plans of tier C without hosts are possible; use a Linux worker',
      ),
    )
  // `env` of macOS knows no `--`, and would read these as its own options and variables (S46).
  if (/^-|=/.test(plan.executor.argv[0] ?? ''))
    return err(
      refused('invalid_input', 'on macOS the name of a program may not begin with `-` or contain `=`'),
    )
  const argv = ['/usr/bin/sandbox-exec', '-D', `WORKSPACE=${workspace}`, '-p', SEATBELT, '/usr/bin/env', '-i']
  const env = { ...BASE_ENV, HOME: workspace, TMPDIR: workspace, ...plan.executor.env }
  const set = Object.entries(env).map(([name, value]) => `${name}=${value}`)
  return ok({
    argv: [...argv, ...set, ...plan.executor.argv],
    env: {},
    cwd: posixIn(workspace, admitted.value.cwd),
  })
}

const posixIn = (workspace: string, cwd: string): string => (cwd === '' ? workspace : `${workspace}/${cwd}`)

/**
 * JOBOBJECT_EXTENDED_LIMIT_INFORMATION and JOBOBJECT_BASIC_UI_RESTRICTIONS. Times are in 100 ns.
 */
export type JobObject = PlatformCommand & {
  readonly limits: {
    readonly ActiveProcessLimit: number
    readonly JobMemoryLimit: number
    readonly PerJobUserTimeLimit: number
    readonly LimitFlags: readonly string[]
  }
  readonly uiRestrictions: readonly string[]
}

/**
 * Neither of the BREAKAWAY_OK flags is set, so a child of the job stays in the job. Closing the
 * last handle ends all its processes.
 */
const LIMIT_FLAGS = [
  'ACTIVE_PROCESS',
  'JOB_MEMORY',
  'JOB_TIME',
  'DIE_ON_UNHANDLED_EXCEPTION',
  'KILL_ON_JOB_CLOSE',
]
const UI_RESTRICTIONS = [
  'DESKTOP',
  'DISPLAYSETTINGS',
  'EXITWINDOWS',
  'GLOBALATOMS',
  'HANDLES',
  'READCLIPBOARD',
  'SYSTEMPARAMETERS',
  'WRITECLIPBOARD',
]
/** `cmd` parses its command line by its own rules, so no argv reaches it unchanged. */
const BATCH_PROGRAM = /(?:^|[\\/])(?:cmd(?:\.exe)?|[^\\/]*\.(?:bat|cmd))$/i

/** Tier B alone: a Job Object limits resources and isolates nothing. */
export function onWindows(plan: Plan, workspace: string): Result<JobObject, Refusal> {
  const admitted = admit(plan)
  if (!admitted.ok) return admitted
  if (plan.tier !== 'B')
    return err(
      refused('sandbox_unavailable', 'on Windows only plans of tier B are possible; use a Linux worker'),
    )
  const { executor, limits } = plan
  if (BATCH_PROGRAM.test(executor.argv[0] ?? ''))
    return err(
      refused(
        'invalid_input',
        '`cmd` and batch files parse arguments by their own rules; name another program',
      ),
    )
  return ok({
    argv: executor.argv,
    env: { ...executor.env, TEMP: workspace, TMP: workspace },
    cwd: posixIn(workspace, admitted.value.cwd),
    limits: {
      ActiveProcessLimit: limits.pids,
      JobMemoryLimit: limits.memory_bytes,
      PerJobUserTimeLimit: limits.cpu_ms * 10_000,
      LimitFlags: LIMIT_FLAGS,
    },
    uiRestrictions: UI_RESTRICTIONS,
  })
}
