// A skill's permissions in sentences, for operators who decide whether to enable it. Each sentence
// names one permission, so that two versions can be compared sentence by sentence. Risk and
// sensitivity of a tool come from its contract, as they do for policies and cards.

import { DEFAULT_SKILL_LIMITS } from '../../shared/limits.ts'
import type { SkillManifest } from '../../shared/wire/skills.ts'
import { toolContract } from '../skills/publish/tool-contract.ts'
import { isSensitive } from '../tools/capabilities.ts'
import { riskOf } from '../tools/risk.ts'

type SkillTool = SkillManifest['tools'][number]

const KINDS = {
  log: 'Writes to the log of its call',
  clock: 'Reads the clock',
  random: 'Gets random bytes',
} as const

/**
 * Backticks mark code. `beside`: the version to compare with; a limit is listed if it is above the
 * default, or above that version's.
 */
export const powersOf = (manifest: SkillManifest, beside = manifest): string[] => [
  ...reachOf(manifest),
  ...manifest.tools.flatMap((tool) => runsOf(manifest, tool)),
  ...takesOf(manifest, beside),
]

/** The permissions that reach beyond its own call. */
export function reachOf({ capabilities }: SkillManifest): string[] {
  const { http, secrets = [], credentials = [], kv = [], channels = [] } = capabilities
  const methods = (http?.methods ?? []).join(', ')
  return [
    ...(http?.hosts ?? []).map((host) =>
      host.startsWith('.')
        ? `Sends requests to every host below \`${host.slice(1)}\` (${methods})`
        : `Sends requests to \`${host}\` (${methods})`,
    ),
    ...credentials.map(
      ({ secret, host, header, format = '{}' }) =>
        `Has the secret \`${secret}\` added to its requests to \`${host}\`, as \`${header}${format === '{}' ? '' : `: ${unticked(format)}`}\`, and never sees it`,
    ),
    ...secrets.map((name) => `Reads the secret \`${name}\``),
    ...kv.map((prefix) =>
      prefix === ''
        ? 'Stores data between calls under any key'
        : `Stores data between calls under keys that begin with \`${prefix}\``,
    ),
    ...channels.map((name) => `Posts to the channel \`${name}\``),
    ...(['log', 'clock', 'random'] as const)
      .filter((name) => capabilities[name] === true)
      .map((name) => KINDS[name]),
  ]
}

/** The publisher wrote the format: a backtick in it must not end the code that shows it. */
const unticked = (format: string) => format.replaceAll('`', '\\u{60}')

function runsOf(manifest: SkillManifest, tool: SkillTool): string[] {
  const { name, idempotent } = tool
  const contract = contractOf(manifest, tool)
  return [
    `Runs \`${name}\`, shown as ${riskOf(contract, null)} risk, ${isSensitive(contract) ? 'after a human has approved' : 'without approval'}`,
    ...(idempotent === true ? [`Runs \`${name}\` again if the outcome of a call is unknown`] : []),
  ]
}

function contractOf(manifest: SkillManifest, tool: SkillTool) {
  const digest = manifest.integrity.component_sha256
  return { ...toolContract(manifest, digest, tool), name: tool.name, version: 1, digest }
}

const MiB = 1024 ** 2

/** Exact to the byte, so that two limits that differ never read the same. */
const size = (bytes: number): string => {
  if (bytes % 1024 !== 0) return `${bytes.toLocaleString('en')} bytes`
  return bytes % MiB === 0 ? `${bytes / MiB} MiB` : `${(bytes / 1024).toLocaleString('en')} KiB`
}

const TAKES = {
  timeout_ms: (ms: number) => `Takes up to ${ms / 1000} s for a call`,
  fuel: (units: number) => `Uses up to ${units.toLocaleString('en')} units of fuel in a call`,
  memory_bytes: (bytes: number) => `Uses up to ${size(bytes)} of memory`,
  output_bytes: (bytes: number) => `Returns up to ${size(bytes)}`,
  net_bytes: (bytes: number) => `Sends and receives up to ${size(bytes)} in a call`,
  net_connections: (requests: number) => `Sends up to ${requests} requests to its hosts in a call`,
} as const
type Limit = keyof typeof TAKES

const limitOf = ({ limits }: SkillManifest, name: Limit): number => limits[name] ?? DEFAULT_SKILL_LIMITS[name]

/** The limits above the default, or above those of the other version. */
function takesOf(manifest: SkillManifest, beside: SkillManifest): string[] {
  const names = Object.keys(TAKES) as Limit[] // the keys of the table above
  return names
    .filter((name) => manifest.capabilities.http !== undefined || !name.startsWith('net_'))
    .filter((name) => limitOf(manifest, name) > Math.min(DEFAULT_SKILL_LIMITS[name], limitOf(beside, name)))
    .map((name) => TAKES[name](limitOf(manifest, name)))
}

/** The limits of a call. */
export function limitsOf(manifest: SkillManifest): string {
  const of = (name: Limit) => limitOf(manifest, name)
  return `${of('timeout_ms') / 1000} s, ${of('fuel').toLocaleString('en')} units of fuel, ${size(of('memory_bytes'))} of memory, ${size(of('output_bytes'))} of output`
}

/**
 * The tools that the other version marks as sensitive and this one does not, with the consequence.
 */
export const unguarded = (manifest: SkillManifest, before: SkillManifest): string[] =>
  manifest.tools
    .filter(
      (tool) =>
        tool.sensitive !== true &&
        before.tools.some(({ name, sensitive }) => name === tool.name && sensitive === true),
    )
    .map(
      (tool) =>
        `In ${before.version} \`${tool.name}\` is marked as sensitive, and here it is not: ${
          isSensitive(contractOf(manifest, tool))
            ? 'a human is still asked, because of what it reaches or reads'
            : 'nobody is asked before it runs, unless policy requires it'
        }`,
    )
