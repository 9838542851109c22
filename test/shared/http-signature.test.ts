// A worker's request is signed in one shape (RFC 9421, RFC 9530). Everything in it is covered; a signature of any other shape is none,
// even where the worker's own key made it.

import { createHash, createPublicKey, sign, verify } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import type { SignedRequest } from '../../shared/evidence/http-signature.ts'
import {
  contentDigest,
  readSignatureInput,
  signatureHolds,
  signRequest,
} from '../../shared/evidence/http-signature.ts'
import { STRANGER, WORKER, WORKER_ID } from './evidence.ts'

const NOW = 1_763_000_000_123
const body = Buffer.from('{"tiers":["C"]}')
const request: SignedRequest = {
  method: 'POST',
  authority: 'edge.example:8787',
  path: '/v1/worker/claims',
  body,
}
const who = { tenant: 'default', worker: WORKER_ID, key: WORKER.key }
type Headers = Record<string, string | undefined>
const headers: Headers = signRequest(request, who, NOW)

/** As an edge does it: read who claims to sign, then check with that worker's key. */
function accepted(sent: Headers, as: SignedRequest = request, x: string = WORKER.x): boolean {
  const input = readSignatureInput(sent['signature-input'])
  return (
    input !== undefined &&
    signatureHolds(as, input, { digest: sent['content-digest'], signature: sent['signature'] }, x)
  )
}

/** A signature by the worker's own key over whatever lines and parameters the test likes. */
function handmade(components: Record<string, string>, parameters: string, label = 'w'): Headers {
  const list = `(${Object.keys(components)
    .map((name) => `"${name}"`)
    .join(' ')})${parameters}`
  const lines = Object.entries({ ...components, '@signature-params': list }).map(
    ([name, value]) => `"${name}": ${value}`,
  )
  const signature = sign(null, Buffer.from(lines.join('\n')), WORKER.key).toString('base64')
  return {
    'content-digest': contentDigest(body),
    'signature-input': `${label}=${list}`,
    signature: `${label}=:${signature}:`,
  }
}

const COMPONENTS = {
  '@method': 'POST',
  '@authority': 'edge.example:8787',
  '@path': '/v1/worker/claims',
  'content-digest': contentDigest(body),
}
const parameter = {
  created: ';created=1763000000',
  nonce: ';nonce="abcdefghijklmnopqrstuvwx"',
  keyid: `;keyid="default/${WORKER_ID}"`,
  alg: ';alg="ed25519"',
  tag: ';tag="countersign-worker"',
}
const PARAMETERS = Object.values(parameter).join('')
const without = (from: Record<string, string>, name: string): Record<string, string> =>
  Object.fromEntries(Object.entries(from).filter(([key]) => key !== name))

describe('a signed request', () => {
  test('is accepted, and says who signed it and when', () => {
    expect(accepted(headers)).toBe(true)
    const input = readSignatureInput(headers['signature-input'])
    expect(input).toMatchObject({ tenant: 'default', worker: WORKER_ID, created: 1_763_000_000 })
    expect(input?.nonce).toMatch(/^[A-Za-z0-9_-]{24}$/)
  })

  test('has the signature base of RFC 9421, built here from the headers alone', () => {
    const parameters = (headers['signature-input'] ?? '').slice('w='.length)
    expect(parameters).toMatch(
      /^\("@method" "@authority" "@path" "content-digest"\);created=1763000000;nonce="[^"]+";keyid="[^"]+";alg="ed25519";tag="countersign-worker"$/,
    )
    const digest = `sha-256=:${createHash('sha256').update(body).digest('base64')}:`
    expect(headers['content-digest']).toBe(digest)
    const base = [
      '"@method": POST',
      '"@authority": edge.example:8787',
      '"@path": /v1/worker/claims',
      `"content-digest": ${digest}`,
      `"@signature-params": ${parameters}`,
    ].join('\n')
    const signature = Buffer.from((headers['signature'] ?? '').slice('w=:'.length, -1), 'base64')
    const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x: WORKER.x }, format: 'jwk' })
    expect(verify(null, Buffer.from(base), key, signature)).toBe(true)
  })

  test('made by hand in that shape is accepted: the refusals below are for what they change', () => {
    expect(accepted(handmade(COMPONENTS, PARAMETERS))).toBe(true)
  })

  test('never carries the same nonce twice', () => {
    const nonces = Array.from(
      { length: 1_000 },
      () => readSignatureInput(signRequest(request, who, NOW)['signature-input'])?.nonce,
    )
    expect(new Set(nonces).size).toBe(1_000)
  })

  test('is the same however the authority is cased', () => {
    expect(accepted(headers, { ...request, authority: 'Edge.Example:8787' })).toBe(true)
  })
})

describe('K02 what is covered can’t be changed', () => {
  test.each<[string, Partial<SignedRequest>]>([
    ['another method', { method: 'PUT' }],
    ['the method in lower case', { method: 'post' }],
    ['another authority', { authority: 'other.example:8787' }],
    ['another port', { authority: 'edge.example:8788' }],
    ['another path', { path: '/v1/worker/attestations' }],
    ['a longer path', { path: '/v1/worker/claims/' }],
    ['another body', { body: Buffer.from('{"tiers":["B"]}') }],
    ['no body', { body: Buffer.alloc(0) }],
    ['a longer body', { body: Buffer.concat([body, Buffer.from(' ')]) }],
  ])('%s', (_name, change) => {
    expect(accepted(headers, { ...request, ...change })).toBe(false)
  })

  test('another body with its own digest', () => {
    const other = Buffer.from('{"tiers":["B"]}')
    expect(
      accepted({ ...headers, 'content-digest': contentDigest(other) }, { ...request, body: other }),
    ).toBe(false)
  })

  test.each(['content-digest', 'signature-input', 'signature'])('no %s', (name) => {
    expect(accepted({ ...headers, [name]: undefined })).toBe(false)
    expect(accepted({ ...headers, [name]: '' })).toBe(false)
  })

  test('the key of another worker, and a signature of another request', () => {
    expect(accepted(headers, request, STRANGER.x)).toBe(false)
    expect(accepted({ ...headers, signature: signRequest(request, who, NOW)['signature'] })).toBe(false)
  })

  test.each([
    ['created', /created=1763000000/, 'created=1763000001'],
    ['nonce', /nonce="/, 'nonce="-'],
    ['tenant', /keyid="default/, 'keyid="other'],
    ['worker', /000A"/, '000B"'],
  ])('the parameter %s', (_name, from, to) => {
    const input = headers['signature-input'] ?? ''
    expect(input).toMatch(from)
    expect(accepted({ ...headers, 'signature-input': input.replace(from, to) })).toBe(false)
  })
})

describe('K02 another shape is no signature, though the worker’s key made it', () => {
  test.each(Object.keys(COMPONENTS))('without %s', (name) => {
    expect(accepted(handmade(without(COMPONENTS, name), PARAMETERS))).toBe(false)
  })

  test.each(Object.keys(parameter))('without the parameter %s', (name) => {
    const rest = Object.values(without(parameter, name)).join('')
    expect(accepted(handmade(COMPONENTS, rest))).toBe(false)
  })

  const { created, nonce, keyid, alg, tag } = parameter
  test.each<[string, Headers]>([
    ['no components at all', handmade({}, PARAMETERS)],
    ['a component more', handmade({ ...COMPONENTS, '@query': '?' }, PARAMETERS)],
    [
      'a component twice',
      {
        ...handmade(COMPONENTS, PARAMETERS),
        'signature-input': `w=("@method" "@method" "@authority" "@path" "content-digest")${PARAMETERS}`,
      },
    ],
    [
      'components in another order',
      handmade({ '@authority': COMPONENTS['@authority'], ...without(COMPONENTS, '@authority') }, PARAMETERS),
    ],
    ['a parameter more', handmade(COMPONENTS, `${PARAMETERS};expires=1763000600`)],
    ['a parameter twice', handmade(COMPONENTS, `${created}${PARAMETERS}`)],
    ['parameters in another order', handmade(COMPONENTS, `${nonce}${created}${keyid}${alg}${tag}`)],
    ['another algorithm', handmade(COMPONENTS, `${created}${nonce}${keyid};alg="hmac-sha256"${tag}`)],
    ['another tag', handmade(COMPONENTS, `${created}${nonce}${keyid}${alg};tag="countersign"`)],
    ['another label', handmade(COMPONENTS, PARAMETERS, 'sig1')],
    [
      'a second signature beside it',
      {
        ...headers,
        'signature-input': `${headers['signature-input']}, x=()`,
        signature: `${headers['signature']}, x=:AA==:`,
      },
    ],
    ['a time with a leading zero', handmade(COMPONENTS, `;created=01763000000${nonce}${keyid}${alg}${tag}`)],
    ['a negative time', handmade(COMPONENTS, `;created=-1763000000${nonce}${keyid}${alg}${tag}`)],
    ['a fraction of a second', handmade(COMPONENTS, `;created=1763000000.5${nonce}${keyid}${alg}${tag}`)],
    ['a short nonce', handmade(COMPONENTS, `${created};nonce="abc"${keyid}${alg}${tag}`)],
    [
      'a nonce with a quote',
      handmade(COMPONENTS, `${created};nonce="abcdefghijklmnop\\"x"${keyid}${alg}${tag}`),
    ],
    [
      'a key id without a tenant',
      handmade(COMPONENTS, `${created}${nonce};keyid="${WORKER_ID}"${alg}${tag}`),
    ],
    ['a tenant that is none', handmade(COMPONENTS, `${created}${nonce};keyid="-x/${WORKER_ID}"${alg}${tag}`)],
    [
      'a worker that is none',
      handmade(COMPONENTS, `${created}${nonce};keyid="default/wrk_${'U'.repeat(26)}"${alg}${tag}`),
    ],
    ['spaces', handmade(COMPONENTS, PARAMETERS.replaceAll(';', '; '))],
    [
      'a header of a megabyte',
      { ...headers, 'signature-input': `${headers['signature-input']}${' '.repeat(1 << 20)}` },
    ],
    [
      'a digest by another algorithm',
      { ...headers, 'content-digest': `sha-512=:${createHash('sha512').update(body).digest('base64')}:` },
    ],
    [
      'a digest beside another',
      { ...headers, 'content-digest': `${headers['content-digest']}, sha-512=:AA==:` },
    ],
    ['a signature cut short', { ...headers, signature: 'w=:AAAA:' }],
  ])('%s', (_name, sent) => {
    expect(accepted(sent)).toBe(false)
  })
})
