// What a skill may do, in sentences that somebody can read before they enable it: each names one thing, so that two versions can be held
// against each other sentence by sentence. What guards a tool is read off the contract that it is called by, as policies and cards read it.

import { DEFAULT_SKILL_LIMITS } from '../../shared/limits.ts'
import type { SkillManifest } from '../../shared/wire/skills.ts'
import { specOf } from '../skills/publish/tool-contract.ts'
import { isSensitive } from '../tools/capabilities.ts'
import { riskOf } from '../tools/risk.ts'

type SkillTool = SkillManifest['tools'][number]

const KINDS = {
  log: 'Writes lines into the log of its call',
  clock: 'Is told the time',
  random: 'Is given random bytes',
} as const

/** Code stands between backticks. `beside`: a version that takes less than is usual makes more of what is usual. */
export const powersOf = (manifest: SkillManifest, beside = manifest): string[] => [
  ...reachOf(manifest),
  ...manifest.tools.flatMap((tool) => runsOf(manifest, tool)),
  ...takesOf(manifest, beside),
]

/** What it has of the world beyond its own call. */
export function reachOf({ capabilities }: SkillManifest): string[] {
  const { http, secrets = [], credentials = [], kv = [], channels = [] } = capabilities
  const ways = (http?.methods ?? []).join(', ')
  return [
    ...(http?.hosts ?? []).map((host) =>
      host.startsWith('.')
        ? `Asks every host below \`${host.slice(1)}\` (${ways})`
        : `Asks \`${host}\` (${ways})`,
    ),
    ...credentials.map(
      ({ secret, host, header, format = '{}' }) =>
        `Has the secret \`${secret}\` added to its requests to \`${host}\`, as \`${header}${format === '{}' ? '' : `: ${unticked(format)}`}\`, and never holds it`,
    ),
    ...secrets.map((name) => `Reads the secret \`${name}\``),
    ...kv.map((prefix) =>
      prefix === ''
        ? 'Keeps whatever it likes from call to call'
        : `Keeps what begins with \`${prefix}\` from call to call`,
    ),
    ...channels.map((name) => `Posts to the channel \`${name}\``),
    ...(['log', 'clock', 'random'] as const)
      .filter((name) => capabilities[name] === true)
      .map((name) => KINDS[name]),
  ]
}

/** A format is its publisher's: it does not end the code that it is shown as. */
const unticked = (format: string) => format.replaceAll('`', '\\u{60}')

function runsOf(manifest: SkillManifest, tool: SkillTool): string[] {
  const { name, idempotent } = tool
  const contract = contractOf(manifest, tool)
  return [
    `Runs \`${name}\`, shown as ${riskOf(contract, null)} risk, ${isSensitive(contract) ? 'once a human has said yes' : 'without asking anybody'}`,
    ...(idempotent === true ? [`Runs \`${name}\` again where it is not known how a call of it ended`] : []),
  ]
}

function contractOf(manifest: SkillManifest, tool: SkillTool) {
  const digest = manifest.integrity.component_sha256
  return { ...specOf(manifest, digest, tool), name: tool.name, version: 1, digest }
}

const MiB = 1024 ** 2

/** To the byte, for what differs is to read differently. */
const size = (bytes: number): string => {
  if (bytes % 1024 !== 0) return `${bytes.toLocaleString('en')} bytes`
  return bytes % MiB === 0 ? `${bytes / MiB} MiB` : `${(bytes / 1024).toLocaleString('en')} KiB`
}

const TAKES = {
  timeout_ms: (ms: number) => `Takes up to ${ms / 1000} s for a call`,
  fuel: (units: number) => `Burns up to ${units.toLocaleString('en')} units of fuel in a call`,
  memory_bytes: (bytes: number) => `Holds up to ${size(bytes)} of memory`,
  output_bytes: (bytes: number) => `Returns up to ${size(bytes)}`,
  net_bytes: (bytes: number) => `Sends and is sent up to ${size(bytes)} in a call`,
  net_connections: (requests: number) => `Asks its hosts up to ${requests} times in a call`,
} as const
type Limit = keyof typeof TAKES

const limitOf = ({ limits }: SkillManifest, name: Limit): number => limits[name] ?? DEFAULT_SKILL_LIMITS[name]

/** What is more than usual, or than the other version takes. */
function takesOf(manifest: SkillManifest, beside: SkillManifest): string[] {
  const names = Object.keys(TAKES) as Limit[] // the keys of the table above
  return names
    .filter((name) => manifest.capabilities.http !== undefined || !name.startsWith('net_'))
    .filter((name) => limitOf(manifest, name) > Math.min(DEFAULT_SKILL_LIMITS[name], limitOf(beside, name)))
    .map((name) => TAKES[name](limitOf(manifest, name)))
}

/** What a call of it takes at the most. */
export function limitsOf(manifest: SkillManifest): string {
  const of = (name: Limit) => limitOf(manifest, name)
  return `${of('timeout_ms') / 1000} s, ${of('fuel').toLocaleString('en')} units of fuel, ${size(of('memory_bytes'))} of memory, ${size(of('output_bytes'))} of output`
}

/** The tools that the other version calls sensitive and this one does not, and what comes of it. */
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
            ? 'a human is asked all the same, because of what it reaches or reads'
            : 'nobody is asked before it runs, unless policy wants it'
        }`,
    )
