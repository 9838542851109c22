// The planner: from a tool and its arguments to the plans that could run, least isolated first.
// Pure. Policy forbids the plans that it does not want, and so picks the sandbox.

import { failure } from '../../shared/failures.ts'
import { DEFAULT_LIMITS, DEFAULT_SKILL_LIMITS, LIMITS } from '../../shared/limits.ts'
import type { InputFile } from '../../shared/plan/call-files.ts'
import type {
  Budget,
  Credential,
  EgressMode,
  Limits,
  Plan,
  SkillExecutor,
  Tier,
  UpstreamExecutor,
} from '../../shared/plan/plan.ts'
import { HostPattern, secretsOf } from '../../shared/plan/plan.ts'
import { cwdFault } from '../../shared/plan/working-directory.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import { DEFAULT_UPSTREAM_LIMITS } from '../../shared/upstream-limits.ts'
import type { ProcessToolSpec, RegisteredToolSpec, ToolSpec } from '../../shared/wire/tools.ts'
import { SHARED_SECRET } from '../call/shared-folder.ts'
import { outputSchemaOf } from './mcp-result.ts'
import { serverPlan } from './stdio-server.ts'

type Args = Readonly<Record<string, unknown>>

/**
 * The plans for one call, least isolated first. There are none if the tool allows only tier B but
 * uses features that only tier C can enforce. `null` stands for a call that Countersign does not
 * execute.
 */
export function plansFor(
  tool: ToolSpec,
  args: Args,
  budget: Budget,
  files: readonly InputFile[] = [],
): Result<readonly (Plan | null)[]> {
  const { executor } = tool
  if (executor.kind === 'none') return ok([null])
  if (executor.kind === 'skill') return ok([skillPlan(tool, executor, budget)])
  if (files.length > 0 && tool.input_files !== true)
    return err(failure('invalid_arguments', 'this tool accepts no input files'))
  if (executor.kind === 'upstream') return ok([upstreamPlan(tool, executor, budget)])
  if (executor.kind === 'stdio') return ok([serverPlan(tool, executor, budget)])
  const argv = fill(executor.argv, args)
  if (!argv.ok) return argv
  const [program = ''] = argv.value
  if (executor.allowed_executables !== undefined && !executor.allowed_executables.includes(program)) {
    return err(failure('denied', `\`${program}\` is not among the executables that this tool allows`))
  }
  const hosts = hostsOf(tool, args)
  if (!hosts.ok) return hosts
  const cwd = executor.cwd === undefined ? '' : (args[executor.cwd.arg] ?? '')
  if (typeof cwd !== 'string')
    return err(failure('invalid_arguments', 'the working directory has to be a string'))
  const misplaced = cwdFault(cwd)
  if (misplaced !== undefined) return err(misplaced)
  const output = outputSchemaOf(tool)
  const shared = {
    executor: {
      kind: 'process' as const,
      argv: argv.value,
      stdin: executor.stdin,
      env: executor.env ?? {},
      cwd,
      ...(output === undefined ? {} : { output }),
    },
    ...(executor.profile === undefined ? {} : { profile: executor.profile }),
    secrets: tool.secrets ?? [],
    workspace: tool.workspace,
    ...(files.length === 0 ? {} : { files: [...files] }),
    ...(tool.output_files === true ? { outputs: true as const } : {}),
    limits: limitsFor({ ...tool, executor }, args, budget),
  }
  if (tool.workspace === 'run' && shared.secrets.length > 0)
    return err(failure('secret_in_run_folder', SHARED_SECRET))
  const credentials = (tool.credentials ?? []).filter(({ host }) =>
    hosts.value.some((pattern) => covers(pattern, host)),
  )
  const plans: Plan[] = []
  for (const tier of ['B', 'C'] as const) {
    if (!executor.tiers.includes(tier)) continue
    if (tier === 'B' && executor.profile !== undefined) continue // profiles exist only in tier C
    // Files that another call left in the folder could be run as the worker's user.
    if (tier === 'B' && tool.workspace === 'run') continue
    // Other processes of the worker's user could read the secrets.
    if (tier === 'B' && secretsOf(tool).length > 0) continue
    // Nothing protects the files of a call from other processes of the worker's user.
    if (tier === 'B' && (files.length > 0 || tool.output_files === true)) continue
    for (const mode of modesFor(tier, tool.egress.mode))
      plans.push({
        tier,
        ...shared,
        ...(credentials.length === 0 ? {} : { credentials }),
        egress: { mode, hosts: hosts.value },
      })
  }
  return ok(plans)
}

/** The plan of a skill's tool comes from its manifest; the agent chooses nothing in it. */
function skillPlan(
  { limits, output_schema, egress, secrets, credentials }: ToolSpec,
  executor: SkillExecutor,
  budget: Budget,
): Plan {
  const { timeout_ms, fuel, memory_bytes, output_bytes, net_bytes, net_connections } = {
    ...DEFAULT_SKILL_LIMITS,
    ...defined(limits),
  }
  return {
    tier: 'A',
    executor: { ...executor, ...(output_schema === undefined ? {} : { output: output_schema }) },
    egress: { mode: 'strict', hosts: egress.hosts },
    secrets: secrets ?? [],
    ...(credentials === undefined ? {} : { credentials }),
    limits: {
      timeout_ms: Math.min(timeout_ms, budget.execution_timeout_ms),
      fuel,
      memory_bytes,
      output_bytes,
      ...(egress.hosts.length === 0 ? {} : { net_bytes, net_connections }),
    },
  }
}

/**
 * The plan of an upstream's tool comes from what an operator accepted; the agent chooses nothing.
 */
function upstreamPlan(tool: ToolSpec, executor: UpstreamExecutor, budget: Budget): Plan {
  const { limits } = tool
  const output = outputSchemaOf(tool)
  const { timeout_ms, output_bytes } = { ...DEFAULT_UPSTREAM_LIMITS, ...defined(limits) }
  const { net_bytes = DEFAULT_UPSTREAM_LIMITS.net_bytes } = limits
  const credentials = upstreamCredentials(executor)
  return {
    tier: 'M',
    executor: { ...executor, ...(output === undefined ? {} : { output }) },
    egress: { mode: 'strict', hosts: upstreamHosts(executor) },
    secrets: [],
    ...(credentials.length === 0 ? {} : { credentials }),
    limits: {
      timeout_ms: Math.min(timeout_ms, budget.execution_timeout_ms),
      output_bytes,
      net_bytes,
      net_connections: DEFAULT_UPSTREAM_LIMITS.net_connections,
    },
  }
}

type UpstreamAddress = Pick<UpstreamExecutor, 'url' | 'auth'>

/** The hosts that a call of an upstream reaches: the server, and the endpoint of its tokens. */
export const upstreamHosts = ({ url, auth }: UpstreamAddress): string[] => [
  ...new Set([url, ...(auth?.kind === 'client_credentials' ? [auth.token_url] : [])].map(hostPortOf)),
]

/** The secret with which the edge authenticates, and the host that receives it. */
export function upstreamCredentials({ url, auth }: UpstreamAddress): Credential[] {
  if (auth === undefined) return []
  const { secret } = auth
  return auth.kind === 'client_credentials'
    ? [{ secret, host: hostPortOf(auth.token_url), header: 'authorization' }]
    : [{ secret, host: hostPortOf(url), header: auth.header, ...(auth.format && { format: auth.format }) }]
}

/** `host:port` of an address that was checked when it was stored. */
export function hostPortOf(address: string): string {
  const { hostname, port, protocol } = new URL(address)
  return `${hostname.replace(/\.$/, '')}:${port !== '' ? port : protocol === 'https:' ? '443' : '80'}`
}

/**
 * Tier C enforces `strict` or does not start. Tier B can't enforce it, so it never promises it
 * (L8).
 */
const modesFor = (tier: Tier, asked: EgressMode): readonly EgressMode[] =>
  tier === 'C' ? ['strict'] : asked === 'strict' ? [] : [asked]

const ONE = /^\{([A-Za-z_][A-Za-z0-9_]{0,63})\}$/
const SPREAD = /^\{\.\.\.([A-Za-z_][A-Za-z0-9_]{0,63})\}$/

function fill(template: readonly string[], args: Args): Result<string[]> {
  const argv: string[] = []
  for (const element of template) {
    const one = ONE.exec(element)?.[1]
    const spread = SPREAD.exec(element)?.[1]
    const values = one !== undefined ? [args[one]] : spread !== undefined ? (args[spread] ?? []) : [element]
    if (!Array.isArray(values)) return err(failure('invalid_arguments', `\`${spread}\` must be a list`))
    for (const value of values as unknown[]) {
      if (typeof value !== 'string' && typeof value !== 'number' && typeof value !== 'boolean') {
        return err(
          failure(
            'invalid_arguments',
            `\`${one ?? spread}\` can’t be an argument of a program: give a string, a number or a boolean`,
          ),
        )
      }
      argv.push(String(value))
    }
  }
  if (argv.length > LIMITS.argv_items)
    return err(failure('invalid_arguments', `more than ${LIMITS.argv_items} arguments`))
  if (argv[0] === '') return err(failure('invalid_arguments', 'name a program'))
  let total = 0
  for (const item of argv) {
    const bytes = Buffer.byteLength(item)
    total += bytes
    if (item.includes('\0'))
      return err(failure('invalid_arguments', 'an argument of a program can’t hold NUL; send it over stdin'))
    if (bytes > LIMITS.argv_item_bytes)
      return err(
        failure(
          'invalid_arguments',
          `an argument is longer than ${LIMITS.argv_item_bytes} bytes; send it over stdin`,
        ),
      )
  }
  if (total > LIMITS.argv_bytes)
    return err(
      failure('invalid_arguments', `the arguments are longer than ${LIMITS.argv_bytes} bytes together`),
    )
  return ok(argv)
}

function hostsOf({ egress }: ToolSpec, args: Args): Result<string[]> {
  const named = egress.named_by
  if (named === undefined) return ok([...egress.hosts])
  const hosts = 'url' in named ? hostOfUrl(args[named.url]) : ok(args[named.arg] ?? [])
  if (!hosts.ok) return hosts
  const list = Array.isArray(hosts.value) ? (hosts.value as unknown[]) : [hosts.value]
  const wanted: string[] = []
  for (const host of list) {
    const read = HostPattern.safeParse(typeof host === 'string' ? host.toLowerCase() : host)
    if (!read.success || read.data.startsWith('.'))
      return err(
        failure(
          'invalid_arguments',
          `${JSON.stringify(host).slice(0, 80)} is not a host: write \`name:port\``,
        ),
      )
    if (!egress.hosts.some((pattern) => covers(pattern, read.data)))
      return err(failure('egress_denied', `\`${read.data}\` is not on the tool’s list of hosts`))
    wanted.push(read.data)
  }
  return ok(wanted)
}

/** Refuses spaces and backslashes, which parsers read differently (N05). */
const PLAIN_URL = /^https?:\/\/[^\s\\/?#][^\s\\\p{Cc}]*$/iu

function hostOfUrl(value: unknown): Result<string> {
  if (typeof value !== 'string' || !PLAIN_URL.test(value) || !URL.canParse(value))
    return err(
      failure(
        'invalid_arguments',
        'write a full http or https URL: `https://host/path`, without spaces or backslashes',
      ),
    )
  const url = new URL(value)
  const port = url.port !== '' ? url.port : url.protocol === 'https:' ? '443' : '80'
  if (url.username !== '' || url.password !== '')
    return err(failure('invalid_arguments', 'the URL must not hold credentials'))
  return ok(`${url.hostname.replace(/\.$/, '')}:${port}`)
}

/**
 * Whether an allowlist pattern covers `host[:port]`, at label boundaries. A pattern without a port
 * means 80 and 443.
 */
export function covers(pattern: string, wanted: string): boolean {
  const [name = '', port] = pattern.split(':')
  const [host = '', wantedPort] = wanted.split(':')
  const ports = port === undefined ? ['80', '443', undefined] : [port]
  if (!ports.includes(wantedPort)) return false
  return name.startsWith('.') ? host.endsWith(name) : host === name
}

function limitsFor({ executor, ...tool }: ProcessToolSpec, args: Args, budget: Budget): Limits {
  const asked = executor.timeout_ms === undefined ? undefined : args[executor.timeout_ms.arg]
  const limits = { ...DEFAULT_LIMITS, ...defined(tool.limits) }
  const timeouts = [limits.timeout_ms, budget.execution_timeout_ms]
  if (typeof asked === 'number' && Number.isInteger(asked) && asked > 0) timeouts.push(asked)
  return { ...limits, timeout_ms: Math.min(...timeouts) }
}

/**
 * Refuses credentials that no call can use: the tool can't reach their host, or does not allow tier
 * C.
 */
function checkCredentials({ credentials = [], egress, executor }: ProcessToolSpec): Result<true> {
  const idle = credentials.findIndex(({ host }) => !egress.hosts.some((pattern) => covers(pattern, host)))
  if (idle >= 0)
    return err(
      failure(
        'invalid_request',
        `/credentials/${idle}: \`${credentials[idle]?.host}\` is not one of the tool’s hosts`,
      ),
    )
  return credentials.length === 0 || executor.tiers.includes('C')
    ? ok(true)
    : err(failure('invalid_request', '/credentials: only tier C has a proxy that adds them; allow tier C'))
}

/** Refuses a shared folder for a tool with secrets, and for one that allows only tier B. */
function checkWorkspace({ workspace, executor, secrets = [] }: ProcessToolSpec): Result<true> {
  if (workspace === 'call') return ok(true)
  if (secrets.length > 0) return err(failure('invalid_request', `/secrets: ${SHARED_SECRET}`))
  return executor.tiers.includes('C')
    ? ok(true)
    : err(
        failure(
          'invalid_request',
          '/workspace: only in tier C do calls share the folder of their run; allow tier C, or use `call`',
        ),
      )
}

/** The checks of a tool that runs a program, beyond its schemas. */
export function checkProcess(spec: ProcessToolSpec): Result<true> {
  const credentials = checkCredentials(spec)
  return credentials.ok ? checkWorkspace(spec) : credentials
}

/** Refuses settings that Countersign can't enforce for a tool that it does not execute. */
export function checkUnexecuted(spec: RegisteredToolSpec): Result<true> {
  const { egress, secrets = [], credentials = [], workspace, limits } = spec
  const idle = [
    ...(egress.mode === 'none' && egress.hosts.length === 0 ? [] : ['egress']),
    ...(secrets.length === 0 ? [] : ['secrets']),
    ...(credentials.length === 0 ? [] : ['credentials']),
    ...(workspace === 'call' ? [] : ['workspace']),
    ...(Object.keys(limits).length === 0 ? [] : ['limits']),
    ...(['input_files', 'output_files', 'output_schema', 'idempotent'] as const).filter(
      (field) => spec[field] !== undefined,
    ),
  ]
  return idle.length === 0
    ? ok(true)
    : err(
        failure(
          'invalid_request',
          `/${idle[0]}: Countersign does not execute this tool (\`executor.kind\` is \`none\`), so it can’t keep what the contract says there; write \`"egress": {"mode": "none", "hosts": []}\`, \`"workspace": "call"\`, \`"limits": {}\`, and leave the rest out`,
        ),
      )
}

const defined = (limits: ToolSpec['limits']): Partial<Limits> =>
  Object.fromEntries(Object.entries(limits).filter(([, value]) => value !== undefined)) as Partial<Limits> // removed only undefined members
