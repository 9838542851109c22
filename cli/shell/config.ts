// The one file that reads the environment: where the edge is, which key to send, whether to use
// colour. Keys come from the environment or from a file that only its owner can read, never from
// the command line, which every process on the machine can see.

import { readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseJson } from '../../shared/bytes/json.ts'
import { PATTERNS, parseKey } from '../../shared/ids.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import type { Command, Trouble } from './command.ts'
import { usage } from './command.ts'

type Variables = Readonly<Record<string, string | undefined>>
type DevInfo = {
  readonly url: string
  readonly tenant: string
  readonly agent_key: string
  readonly operator_key: string
  readonly installation_key: string | undefined
}
export type Config = { readonly url: string; readonly key: string | undefined; readonly tenant: string }

const LOOPBACK = /^(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])$/

export const wantsColour = (terminal: boolean, env: Variables = process.env): boolean =>
  terminal && (env['NO_COLOR'] ?? '') === '' && env['TERM'] !== 'dumb'

/** The state folder of the installation on this host. */
export const stateFolder = (env: Variables = process.env): string =>
  resolve(env['COUNTERSIGN_STATE'] || '.countersign')

/** The signer of the chain of edge keys that is outside of the edge. */
export type RootSettings = Readonly<Record<'file' | 'url' | 'token' | 'key', string | undefined>>
export const rootSettings = (env: Variables = process.env): RootSettings => ({
  file: env['COUNTERSIGN_ROOT_KEY_FILE'] || undefined,
  url: env['COUNTERSIGN_ROOT_SIGNER_URL'] || undefined,
  token: env['COUNTERSIGN_ROOT_SIGNER_TOKEN'] || undefined,
  key: env['COUNTERSIGN_ROOT_SIGNER_KEY'] || undefined,
})

/** The folder of publishers' keys: one file each, readable by its owner only. */
export const publishersFolder = (env: Variables = process.env): string =>
  join(env['XDG_CONFIG_HOME'] || join(homedir(), '.config'), 'countersign', 'publishers')

/** The folder of the checkpoints that this user's commands have seen, one file for each log. */
export const checkpointsFolder = (env: Variables = process.env): string =>
  join(env['XDG_STATE_HOME'] || join(homedir(), '.local', 'state'), 'countersign', 'checkpoints')

/**
 * The environment for third-party programs that we start: ours without any COUNTERSIGN_ variable,
 * so without keys.
 */
export const childEnvironment = (env: Variables = process.env): Record<string, string | undefined> =>
  Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith('COUNTERSIGN_')))

/**
 * Address and key for `command`. A key from the state folder is only sent to the edge of that state
 * folder.
 */
export function readConfig(command: Command, env: Variables = process.env): Result<Config, Trouble> {
  const path = join(env['COUNTERSIGN_STATE'] || '.countersign', 'dev.json')
  const dev = readDev(path)
  const address = env['COUNTERSIGN_URL'] || dev?.url
  if (address === undefined) {
    return err(
      usage(
        `no edge is configured: set COUNTERSIGN_URL and COUNTERSIGN_KEY, or run \`npm start\` here (it writes \`${path}\`)`,
      ),
    )
  }
  const url = URL.canParse(address) ? new URL(address) : undefined
  if (url === undefined || !/^https?:$/.test(url.protocol))
    return err(
      usage('COUNTERSIGN_URL is not an http or https address; set one such as `https://edge.example.com`'),
    )
  if (url.username !== '' || url.password !== '')
    return err(
      usage('COUNTERSIGN_URL contains a user name or password; remove it and set COUNTERSIGN_KEY to the key'),
    )
  if (url.protocol === 'http:' && !LOOPBACK.test(url.hostname)) {
    return err(
      usage(
        'COUNTERSIGN_URL is plain http, which would expose the key on the network; use https (http is for this machine only)',
      ),
    )
  }
  const own = dev !== undefined && url.origin === originOf(dev.url) ? dev : undefined
  const key = keyFor(command, env['COUNTERSIGN_KEY'], own)
  if (!key.ok) return key
  // A command that sends no key still concerns the tenant of the key that is set.
  const tenant = parseKey(key.value ?? env['COUNTERSIGN_KEY'] ?? '')?.tenant ?? own?.tenant ?? 'default'
  return ok({ url: url.href, key: key.value, tenant })
}

/** Address and operator's key of the state folder, whatever key the environment has. */
export const readOperatorConfig = (
  command: Command,
  { COUNTERSIGN_KEY: _, ...env }: Variables = process.env,
): Result<Config, Trouble> => readConfig({ ...command, key: 'operator' }, env)

function keyFor(
  { key: needed, words }: Command,
  given: string | undefined,
  dev: DevInfo | undefined,
): Result<string | undefined, Trouble> {
  if (needed === 'none' || needed === 'offline') return ok(undefined)
  const name = words.join(' ')
  if (given === '') return err(usage('COUNTERSIGN_KEY is empty; set it to a key, or unset it'))
  if (given === undefined) {
    const own =
      needed === 'agent'
        ? dev?.agent_key
        : needed === 'installation'
          ? dev?.installation_key
          : dev?.operator_key
    if (own !== undefined) return ok(own)
    return err(usage(`\`${name}\` needs ${KEY_OWNER[needed]} key: set COUNTERSIGN_KEY`))
  }
  const governs = PATTERNS.installationKey.test(given)
  if (governs && needed === 'installation') return ok(given)
  if (governs)
    return err(usage(`\`${name}\` needs ${KEY_OWNER[needed]} key, and COUNTERSIGN_KEY is the installation’s`))
  const parsed = parseKey(given)
  if (parsed === undefined)
    return err(
      usage(
        'COUNTERSIGN_KEY is not an API key; API keys begin with `cs_agent_`, `cs_operator_` or `cs_installation_`',
      ),
    )
  if (parsed.kind !== needed && !(needed === 'either' && parsed.kind !== 'enrol')) {
    return err(
      usage(`\`${name}\` needs ${KEY_OWNER[needed]} key, and COUNTERSIGN_KEY is ${KEY_OWNER[parsed.kind]}`),
    )
  }
  return ok(given)
}

const KEY_OWNER = {
  agent: 'an agent’s',
  operator: 'an operator’s',
  either: 'an agent’s or operator’s',
  installation: 'the installation’s',
  enrol: 'an enrolment’s',
} as const

const originOf = (text: string): string | undefined => (URL.canParse(text) ? new URL(text).origin : undefined)

/** `dev.json` as a running `npm start` writes it, or `undefined` if it is missing or incomplete. */
function readDev(path: string): DevInfo | undefined {
  let bytes: Uint8Array
  try {
    bytes = readFileSync(path)
  } catch {
    return undefined
  }
  const read = parseJson(bytes)
  if (!read.ok || typeof read.value !== 'object' || read.value === null || Array.isArray(read.value))
    return undefined
  const { url, tenant, agent_key, operator_key, installation_key } = read.value
  const texts =
    typeof url === 'string' &&
    typeof tenant === 'string' &&
    typeof agent_key === 'string' &&
    typeof operator_key === 'string'
  const governs = typeof installation_key === 'string' ? installation_key : undefined
  return texts ? { url, tenant, agent_key, operator_key, installation_key: governs } : undefined
}
