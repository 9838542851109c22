// The root of the chain of edge keys, if an installation has one: a key in a KMS or HSM behind an HTTP
// bridge, or a file that is kept apart. It signs only links, so it is needed only for a rotation.

import { z } from 'zod'
import { kidOf, type PrivateJwk, signerFromJwk, signWith } from '../../shared/evidence/dsse.ts'
import { PublicKey, Signature, signatureIn } from '../../shared/evidence/ed25519.ts'
import type { RootSigner } from '../../shared/evidence/key-ring.ts'
import { LIMITS } from '../../shared/limits.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import type { Trouble } from '../shell/command.ts'
import { trouble } from '../shell/command.ts'
import type { RootSettings } from '../shell/config.ts'
import { readJson } from '../shell/files.ts'

const Answer = z.object({ signature: Signature })
const LOOPBACK = /^(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])$/

/**
 * The root signer of the environment; undefined if there is none. `root`: the key that the chain
 * already names, without which no link counts.
 */
export function rootSigner(
  settings: RootSettings,
  root: string | undefined,
): Result<RootSigner | undefined, Trouble> {
  const signer = settings.file === undefined ? bridge(settings) : fromFile(settings.file)
  if (!signer.ok) return signer
  if (root !== undefined && signer.value?.x !== root)
    return err(
      trouble(
        'root_signer_missing',
        `the chain names the root \`${kidOf(root)}\`, which must sign the new key, but another root or none is configured`,
        'set COUNTERSIGN_ROOT_SIGNER_URL, _TOKEN and _KEY, or COUNTERSIGN_ROOT_KEY_FILE, to that root',
      ),
    )
  return signer
}

const MISSING = trouble(
  'root_signer_missing',
  'the settings of the root signer are incomplete',
  'set COUNTERSIGN_ROOT_SIGNER_URL to an https address, COUNTERSIGN_ROOT_SIGNER_TOKEN to its bearer token, and COUNTERSIGN_ROOT_SIGNER_KEY to its public key (base64url)',
)

function bridge({ url, token, key }: RootSettings): Result<RootSigner | undefined, Trouble> {
  if (url === undefined && key === undefined) return ok(undefined)
  const x = PublicKey.safeParse(key)
  const address = URL.parse(url ?? '')
  const safe =
    address?.protocol === 'https:' || (address?.protocol === 'http:' && LOOPBACK.test(address.hostname))
  if (!x.success || address === null || !safe || token === undefined) return err(MISSING)
  return ok({ x: x.data, sign: (bytes) => ask(address, token, x.data, bytes) })
}

/** `{"key", "message"}` with the bytes in base64, answered by `{"signature"}`. */
async function ask(
  url: URL,
  token: string,
  x: string,
  bytes: Uint8Array,
): Promise<Result<Uint8Array, string>> {
  try {
    const answer = await fetch(url, {
      method: 'POST',
      redirect: 'error', // the token is for this address alone
      signal: AbortSignal.timeout(LIMITS.root_signer_s * 1_000),
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ key: kidOf(x), message: Buffer.from(bytes).toString('base64') }),
    })
    if (!answer.ok) return err(`the root signer answered ${answer.status}`)
    const read = Answer.safeParse(JSON.parse(await bounded(answer)))
    const signature = read.success ? signatureIn(read.data.signature) : undefined
    return signature === undefined ? err('the root signer’s answer is not a signature') : ok(signature)
  } catch {
    return err('the root signer can’t be reached, or its answer is malformed; check its address and its log')
  }
}

async function bounded({ body }: Response): Promise<string> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of body ?? []) {
    bytes += chunk.byteLength
    if (bytes > LIMITS.root_signer_bytes) throw new Error('the answer is too long')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

const FileKey = z.strictObject({
  kty: z.literal('OKP'),
  crv: z.literal('Ed25519'),
  x: PublicKey,
  d: z.string().length(43),
})

function fromFile(path: string): Result<RootSigner, Trouble> {
  const read = readJson(path)
  if (!read.ok) return read
  const key = FileKey.safeParse(read.value)
  if (!key.success) return err(trouble('unreadable', `\`${path}\` is not an Ed25519 private key as JWK`))
  const signer = signerFromJwk(key.data satisfies PrivateJwk)
  return ok({ x: signer.x, sign: async (bytes) => ok(signWith(signer, bytes)) })
}
