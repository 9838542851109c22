// What a skill may do, in sentences that somebody can read before they enable it: each names one thing, so that two versions can be held
// against each other sentence by sentence.

import { DEFAULT_SKILL_LIMITS } from '../../shared/limits.ts'
import type { SkillManifest } from '../../shared/skills.ts'

const KINDS = { log: 'Writes lines into the log of its call', clock: 'Is told the time', random: 'Is given random bytes' } as const

/** Code stands between backticks. */
export function powersOf({ capabilities }: SkillManifest): string[] {
  const { http, secrets = [], credentials = [], kv = [], channels = [] } = capabilities
  const ways = (http?.methods ?? []).join(', ')
  return [
    ...(http?.hosts ?? []).map((host) =>
      host.startsWith('.') ? `Asks every host below \`${host.slice(1)}\` (${ways})` : `Asks \`${host}\` (${ways})`,
    ),
    ...credentials.map(
      ({ secret, host, header }) =>
        `Has the secret \`${secret}\` added to what it asks of \`${host}\`, as \`${header}\`, and never holds it`,
    ),
    ...secrets.map((name) => `Reads the secret \`${name}\``),
    ...kv.map((prefix) =>
      prefix === '' ? 'Keeps whatever it likes from call to call' : `Keeps what begins with \`${prefix}\` from call to call`,
    ),
    ...channels.map((name) => `Posts to the channel \`${name}\``),
    ...(['log', 'clock', 'random'] as const).filter((name) => capabilities[name] === true).map((name) => KINDS[name]),
  ]
}

const MiB = 1024 ** 2

/** What a call of it takes at the most. */
export function limitsOf({ limits }: SkillManifest): string {
  const of = (name: 'timeout_ms' | 'fuel' | 'memory_bytes' | 'output_bytes') => limits[name] ?? DEFAULT_SKILL_LIMITS[name]
  const size = (bytes: number) => (bytes < MiB ? `${Math.ceil(bytes / 1024)} KiB` : `${Math.ceil(bytes / MiB)} MiB`)
  return `${Math.ceil(of('timeout_ms') / 1000)} s, ${of('fuel').toLocaleString('en')} units of fuel, ${size(of('memory_bytes'))} of memory, ${size(of('output_bytes'))} of output`
}
