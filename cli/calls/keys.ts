// `countersign keys list`: the public keys that verify evidence, as our document, as a JWK set, or as
// PEM for openssl.

import type { KeyEntry, Keys } from '../../shared/evidence/keys.ts'
import { err } from '../../shared/result.ts'
import type { Command } from '../shell/command.ts'
import { command, usage } from '../shell/command.ts'
import { json } from '../shell/terminal-text.ts'
import { emitEvidence, OUTPUT } from './evidence-file.ts'

const list = command({
  words: ['keys', 'list'],
  args: {},
  flags: {
    output: OUTPUT,
    tenant: { value: 'NAME', what: 'the tenant (default: the one of COUNTERSIGN_KEY, or else `default`)' },
    format: {
      value: 'FORM',
      what: 'json (the default, which `countersign verify` reads), jwks or pem; jwks and pem leave out keys that are no longer trusted',
    },
  },
  does: 'Fetch the public keys of the edge and of one tenant’s workers, with their times',
  key: 'none',
  examples: ['countersign keys list --tenant acme -o keys.json', 'countersign keys list --format pem'],
  async run({ flags, api, tenant }) {
    const write = FORMATS.get(flags.format ?? 'json')
    if (write === undefined) return err(usage('`--format` must be json, jwks or pem'))
    const read = await api('keys', { query: { tenant: flags.tenant ?? tenant() } })
    if (!read.ok) return read
    const { value, text } = write(read.value)
    return emitEvidence(value, flags.output, text, text)
  },
})

type Written = { readonly value: unknown; readonly text: string }
const asJson = (value: object): Written => ({ value, text: json(value) })
const trusted = ({ keys }: Keys): KeyEntry[] => keys.filter(({ status }) => status !== 'distrusted')

const FORMATS = new Map<string, (keys: Keys) => Written>([
  ['json', asJson],
  [
    'jwks',
    (keys) =>
      asJson({
        keys: trusted(keys).map(({ kid, kty, crv, x }) => ({ kid, kty, crv, x, alg: 'EdDSA', use: 'sig' })),
      }),
  ],
  [
    'pem',
    (keys) => {
      const text = trusted(keys).map(pemOf).join('')
      return { value: { pem: text }, text }
    },
  ],
])

/** A SubjectPublicKeyInfo of an Ed25519 key, up to the key's 32 bytes (RFC 8410). */
const SPKI = Buffer.from('302a300506032b6570032100', 'hex')

/** Readers of PEM skip the lines before a block. */
function pemOf({ kid, x, role, worker, status }: KeyEntry): string {
  const info = Buffer.concat([SPKI, Buffer.from(x, 'base64url')]).toString('base64')
  return `# ${kid} ${worker ?? role} ${status}\n-----BEGIN PUBLIC KEY-----\n${info}\n-----END PUBLIC KEY-----\n`
}

export const KEYS: readonly Command[] = [list]
