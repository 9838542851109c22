// Owns what a plan would be on macOS and Windows: the exact command under `sandbox-exec`, and the limits of a Job Object. Pure, and no
// more than that: nothing has ever run in either, so a worker there refuses to start (host.ts). A promise that the system can't keep is
// refused here too, never weakened (L8).

import type { ProcessPlan as Plan } from '../../shared/plan.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import { admit } from './argv.ts'
import { BASE_ENV } from './profiles.ts'
import { type Refusal, refused } from './verdict.ts'

type Started = {
  readonly argv: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly cwd: string
}

/** Denied unless it says otherwise. The workspace comes as a parameter: a path is never a part of the text. */
const SEATBELT = [
  '(version 1)',
  '(deny default)',
  '(allow process-exec process-fork)',
  '(allow signal (target same-sandbox))',
  '(allow sysctl-read)',
  '(allow file-read-metadata)',
  ...['/usr', '/bin', '/System', '/Library/Apple', '/private/var/db/dyld'].map((path) => `(allow file-read* (subpath "${path}"))`),
  ...['/dev/null', '/dev/zero', '/dev/random', '/dev/urandom'].map((path) => `(allow file-read* (literal "${path}"))`),
  '(allow file-write-data (literal "/dev/null"))',
  '(allow file-read* file-write* (subpath (param "WORKSPACE")))',
  '(deny file-write-setugid)',
  '(deny network*)',
].join('\n')

/** Tier C without hosts: there is no relay that a sandbox of macOS would have to use. */
export function onMacOS(plan: Plan, workspace: string): Result<Started, Refusal> {
  const admitted = admit(plan)
  if (!admitted.ok) return admitted
  if (plan.tier !== 'C' || plan.egress.hosts.length > 0)
    return err(refused('sandbox_unavailable', 'on macOS only tier C without hosts is planned; plan a Linux worker'))
  // `env` there knows no `--`, and would take these for its own (S46).
  if (/^-|=/.test(plan.executor.argv[0] ?? '')) return err(refused('invalid_input', 'on macOS no program begins with `-` or holds `=`'))
  const argv = ['/usr/bin/sandbox-exec', '-D', `WORKSPACE=${workspace}`, '-p', SEATBELT, '/usr/bin/env', '-i']
  const env = { ...BASE_ENV, HOME: workspace, TMPDIR: workspace, ...plan.executor.env }
  const set = Object.entries(env).map(([name, value]) => `${name}=${value}`)
  return ok({ argv: [...argv, ...set, ...plan.executor.argv], env: {}, cwd: posixIn(workspace, admitted.value.cwd) })
}

const posixIn = (workspace: string, cwd: string): string => (cwd === '' ? workspace : `${workspace}/${cwd}`)

/** JOBOBJECT_EXTENDED_LIMIT_INFORMATION, and what no process of the job may do at the desk. Times are in 100 ns. */
export type JobObject = Started & {
  readonly limits: {
    readonly ActiveProcessLimit: number
    readonly JobMemoryLimit: number
    readonly PerJobUserTimeLimit: number
    readonly LimitFlags: readonly string[]
  }
  readonly uiRestrictions: readonly string[]
}

/** Neither BREAKAWAY_OK is there: a child of the job is in the job. The last handle that closes ends all of them. */
const LIMIT_FLAGS = ['ACTIVE_PROCESS', 'JOB_MEMORY', 'JOB_TIME', 'DIE_ON_UNHANDLED_EXCEPTION', 'KILL_ON_JOB_CLOSE']
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
/** `cmd` reads its arguments by rules of its own, so no argv reaches it as it is. */
const OWN_RULES = /(?:^|[\\/])(?:cmd(?:\.exe)?|[^\\/]*\.(?:bat|cmd))$/i

/** Tier B alone: a Job Object limits resources and isolates nothing. */
export function onWindows(plan: Plan, workspace: string): Result<JobObject, Refusal> {
  const admitted = admit(plan)
  if (!admitted.ok) return admitted
  if (plan.tier !== 'B') return err(refused('sandbox_unavailable', 'on Windows only tier B is planned; plan a Linux worker'))
  const { executor, limits } = plan
  if (OWN_RULES.test(executor.argv[0] ?? ''))
    return err(refused('invalid_input', '`cmd` and batch files read their arguments by rules of their own; name a program'))
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
