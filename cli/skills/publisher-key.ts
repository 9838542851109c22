// A publisher's signing key: generated here and kept in a file that only its owner can read. It
// never appears on a command line.

import { generateKeyPairSync } from 'node:crypto'
import { chmodSync, existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { z } from 'zod'
import { parseJson } from '../../shared/bytes/json.ts'
import { type PrivateJwk, type Signer, signerFromJwk } from '../../shared/evidence/dsse.ts'
import { PublicKey } from '../../shared/evidence/ed25519.ts'
import { Name } from '../../shared/fields.ts'
import { PATTERNS } from '../../shared/ids.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Trouble } from '../shell/command.ts'
import { command, trouble, usage } from '../shell/command.ts'
import { publishersFolder } from '../shell/config.ts'
import { readBytes, reason } from '../shell/files.ts'
import { columns, inline } from '../shell/terminal-text.ts'

const KeyFile = z.strictObject({
  publisher: Name,
  key: z.strictObject({
    kty: z.literal('OKP'),
    crv: z.literal('Ed25519'),
    x: PublicKey,
    d: z.string().min(40).max(48),
  }),
})
type KeyFile = z.infer<typeof KeyFile>

const ENDING = '.json'
const fileOf = (publisher: string): string => join(publishersFolder(), `${publisher}${ENDING}`)

/** The publishers whose keys are on this machine. */
export function localPublishers(): string[] {
  try {
    return readdirSync(publishersFolder())
      .filter((name) => name.endsWith(ENDING))
      .map((name) => basename(name, ENDING))
      .sort()
  } catch {
    return []
  }
}

export function signerOf(publisher: string, given?: string): Result<Signer, Trouble> {
  const path = given ?? fileOf(publisher)
  if (given === undefined && !existsSync(path)) return err(usage(missingKeyText(publisher)))
  const file = readKey(path)
  if (!file.ok) return file
  return file.value.publisher === publisher
    ? ok(signerFromJwk(file.value.key))
    : err(
        usage(
          `\`${path}\` is the key of \`${file.value.publisher}\`, but skill.toml names the publisher \`${publisher}\``,
        ),
      )
}

function missingKeyText(publisher: string): string {
  const here = localPublishers()
  const make = `\`countersign skill keygen ${publisher}\``
  return here.length === 0
    ? `there is no key at \`${fileOf(publisher)}\`; ${make} creates it`
    : `skill.toml names the publisher \`${publisher}\`, whose key is not on this machine; name one whose key is here (${here.map((name) => `\`${name}\``).join(', ')}), or create the key with ${make}`
}

function readKey(path: string): Result<KeyFile, Trouble> {
  const there = statSync(path, { throwIfNoEntry: false })
  if (there === undefined)
    return err(usage(`there is no key at \`${path}\`; \`countersign skill keygen NAME\` creates one`))
  if ((there.mode & 0o077) !== 0)
    return err(
      trouble(
        'key_exposed',
        `other users can read \`${path}\``,
        `run \`chmod 600 ${path}\`; if anybody may have read it, create a new key`,
      ),
    )
  const bytes = readBytes(path, LIMITS.body_bytes)
  if (!bytes.ok) return bytes
  const json = parseJson(bytes.value)
  const read = json.ok ? KeyFile.safeParse(json.value) : undefined
  if (read?.success !== true) return err(usage(`\`${path}\` is not a publisher’s key file`)) // its content may be secret, so it is not quoted
  return ok(read.data)
}

function existingKeyError(path: string): Trouble {
  const file = readKey(path)
  if (!file.ok) return trouble('exists', `\`${path}\` already exists`, 'choose another file with `--to`')
  const { publisher, key } = file.value
  const then = `if no operator has registered it yet, ask one to run \`countersign skill publishers put ${publisher} ${key.x}\``
  return trouble('exists', `the key of \`${publisher}\` already exists and can be used: \`${path}\``, then)
}

/** Public keys are typed as command-line arguments, so one that begins with `-` is not used. */
export function newKey(): PrivateJwk {
  const jwk = generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' }) as PrivateJwk // an Ed25519 key has these members
  return jwk.x.startsWith('-') ? newKey() : jwk
}

export const keygen = command({
  words: ['skill', 'keygen'],
  args: { PUBLISHER: 'the name under which skills are published' },
  flags: {
    to: {
      value: 'FILE',
      what: 'write the key to this file (default: a file in ~/.config/countersign/publishers)',
    },
  },
  does: 'Create a publisher’s key in a file that only you can read, and print the public key for the operators',
  key: 'offline',
  examples: ['countersign skill keygen acme'],
  async run({ args: { PUBLISHER: publisher }, flags: { to }, paint }) {
    if (!PATTERNS.name.test(publisher))
      return err(
        usage(
          `\`${publisher}\` is not a valid publisher name; a name starts with a lower-case letter and has at most 64 lower-case letters, digits, \`_\`, \`.\` or \`-\``,
        ),
      )
    const path = to ?? fileOf(publisher)
    const jwk = newKey()
    const { kty, crv, x, d } = jwk
    try {
      mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
      writeFileSync(path, `${JSON.stringify({ publisher, key: { kty, crv, x, d } })}\n`, {
        flag: 'wx',
        mode: 0o600,
      })
      chmodSync(path, 0o600)
    } catch (thrown) {
      if (existsSync(path)) return err(existingKeyError(path))
      return err(trouble('unwritable', `\`${path}\` can’t be written: ${reason(thrown)}`))
    }
    const { kid } = signerFromJwk(jwk)
    const rows = [
      ['key', path],
      ['public', x],
      ['kid', kid],
    ]
    const then = `next, an operator runs: ${paint.bold(`countersign skill publishers put ${inline(publisher)} ${x}`)}\n`
    return ok({
      ok: true,
      json: { publisher, path, x, kid },
      text: `publisher ${paint.bold(inline(publisher))}\n${columns(rows, '  ')}${then}`,
    })
  },
})
