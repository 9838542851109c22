// Promise: a worker's request is signed in one fixed form (RFC 9421, RFC 9530) that covers all of
// it. A signature of any other form is refused, even if the worker's own key made it.

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

/** Verifies like an edge: reads the claimed signer, then checks with that worker's key. */
function accepted(sent: Headers, as: SignedRequest = request, x: string = WORKER.x): boolean {
  const input = readSignatureInput(sent['signature-input'])
  return (
    input !== undefined &&
    signatureHolds(as, input, { digest: sent['content-digest'], signature: sent['signature'] }, x)
  )
}

/** A signature by the worker's own key over any components and parameters. */
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
  test('a signed request is accepted and names its signer and time', () => {
    expect(accepted(headers)).toBe(true)
    const input = readSignatureInput(headers['signature-input'])
    expect(input).toMatchObject({ tenant: 'default', worker: WORKER_ID, created: 1_763_000_000 })
    expect(input?.nonce).toMatch(/^[A-Za-z0-9_-]{24}$/)
  })

  test('a request’s signature verifies over the signature base of RFC 9421, built from the headers alone', () => {
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

  test('a handmade signature of the fixed form is accepted, so the refusals of altered ones are due to the alteration', () => {
    expect(accepted(handmade(COMPONENTS, PARAMETERS))).toBe(true)
  })

  test('signed requests never repeat a nonce', () => {
    const nonces = Array.from(
      { length: 1_000 },
      () => readSignatureInput(signRequest(request, who, NOW)['signature-input'])?.nonce,
    )
    expect(new Set(nonces).size).toBe(1_000)
  })

  test('a request’s signature ignores the case of the authority', () => {
    expect(accepted(headers, { ...request, authority: 'Edge.Example:8787' })).toBe(true)
  })
})

describe('K02 covered parts of a request can’t be changed', () => {
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
  ])('K02 a signed request with %s is refused', (_name, change) => {
    expect(accepted(headers, { ...request, ...change })).toBe(false)
  })

  test('K02 a signed request with another body and its matching digest is refused', () => {
    const other = Buffer.from('{"tiers":["B"]}')
    expect(
      accepted({ ...headers, 'content-digest': contentDigest(other) }, { ...request, body: other }),
    ).toBe(false)
  })

  test.each(['content-digest', 'signature-input', 'signature'])(
    'K02 a signed request without %s is refused',
    (name) => {
      expect(accepted({ ...headers, [name]: undefined })).toBe(false)
      expect(accepted({ ...headers, [name]: '' })).toBe(false)
    },
  )

  test('K02 a signed request is refused with another worker’s key or another request’s signature', () => {
    expect(accepted(headers, request, STRANGER.x)).toBe(false)
    expect(accepted({ ...headers, signature: signRequest(request, who, NOW)['signature'] })).toBe(false)
  })

  test.each([
    ['created', /created=1763000000/, 'created=1763000001'],
    ['nonce', /nonce="/, 'nonce="-'],
    ['tenant', /keyid="default/, 'keyid="other'],
    ['worker', /000A"/, '000B"'],
  ])('K02 a signed request with a changed parameter %s is refused', (_name, from, to) => {
    const input = headers['signature-input'] ?? ''
    expect(input).toMatch(from)
    expect(accepted({ ...headers, 'signature-input': input.replace(from, to) })).toBe(false)
  })
})

describe('K02 a signature of another shape is refused, though the worker’s key made it', () => {
  test.each(Object.keys(COMPONENTS))('K02 a signature that does not cover %s is refused', (name) => {
    expect(accepted(handmade(without(COMPONENTS, name), PARAMETERS))).toBe(false)
  })

  test.each(Object.keys(parameter))('K02 a signature without the parameter %s is refused', (name) => {
    const rest = Object.values(without(parameter, name)).join('')
    expect(accepted(handmade(COMPONENTS, rest))).toBe(false)
  })

  const { created, nonce, keyid, alg, tag } = parameter
  test.each<[string, Headers]>([
    ['no components at all', handmade({}, PARAMETERS)],
    ['an additional component', handmade({ ...COMPONENTS, '@query': '?' }, PARAMETERS)],
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
    ['an additional parameter', handmade(COMPONENTS, `${PARAMETERS};expires=1763000600`)],
    ['a parameter twice', handmade(COMPONENTS, `${created}${PARAMETERS}`)],
    ['parameters in another order', handmade(COMPONENTS, `${nonce}${created}${keyid}${alg}${tag}`)],
    ['another algorithm', handmade(COMPONENTS, `${created}${nonce}${keyid};alg="hmac-sha256"${tag}`)],
    ['another tag', handmade(COMPONENTS, `${created}${nonce}${keyid}${alg};tag="countersign"`)],
    ['another label', handmade(COMPONENTS, PARAMETERS, 'sig1')],
    [
      'a second signature',
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
    ['an invalid tenant', handmade(COMPONENTS, `${created}${nonce};keyid="-x/${WORKER_ID}"${alg}${tag}`)],
    [
      'an invalid worker',
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
    ['two digests', { ...headers, 'content-digest': `${headers['content-digest']}, sha-512=:AA==:` }],
    ['a signature cut short', { ...headers, signature: 'w=:AAAA:' }],
  ])('K02 a signature with %s is refused', (_name, sent) => {
    expect(accepted(sent)).toBe(false)
  })
})
