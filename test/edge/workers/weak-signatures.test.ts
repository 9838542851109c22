// Promise: nobody can sign as a worker or publisher without its secret, and the edge accepts no
// signature that an auditor's verifier would refuse. Runs against a real edge, with forgeries made
// by the tests' own arithmetic.

import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import { payloadBytes } from '../../../shared/evidence/dsse.ts'
import { contentDigest } from '../../../shared/evidence/http-signature.ts'
import { client } from '../../../shared/routes/client.ts'
import { SKILL_TYPE } from '../../../shared/wire/skills.ts'
import {
  BASE_NONCE,
  chosenSignature,
  encoded,
  L,
  mod,
  NO_KEYS,
  type Nonce,
  WEAK_KEYS,
  WEAK_NONCES,
} from '../../shared/curve.ts'
import { Fixtures, refusalOf, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'
import { newSigner, PeerWorker } from '../../support/worker/peer-worker.ts'

const fixtures = new Fixtures('weak-signatures', sharedStack())
const agent = await fixtures.agent()
const tool = await fixtures.tool()
const peer = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)

const newToken = async () =>
  unwrap(await fixtures.root('createEnrolment', { body: { pool: fixtures.pool } })).token
const enrol = async (x: string) =>
  client(fixtures.url)('enrol', { body: { token: await newToken(), x, name: 'peer', tiers: ['C'] } })

const path = '/v1/worker/heartbeat'
const body = Buffer.from('{"tiers":["B","C"],"running":[]}')

/** The current epoch, from the edge's last refusal. */
let epoch = ''

/**
 * Sends a heartbeat in the name of a worker, signed by `sign` over its signature base (RFC 9421).
 */
async function beat(
  worker: string,
  sign: (base: Buffer) => Buffer | undefined,
  spell = (base64: string) => base64,
): Promise<string> {
  const { host } = new URL(fixtures.url)
  for (let i = 0; ; i++) {
    const nonce = `${epoch}${worker.slice(-12)}${Date.now()}x${i}`
    const created = Math.floor(Date.now() / 1000)
    const parameters = `("@method" "@authority" "@path" "content-digest");created=${created};nonce="${nonce}";keyid="default/${worker}";alg="ed25519";tag="countersign-worker"`
    const digest = contentDigest(body)
    const base = `"@method": POST\n"@authority": ${host}\n"@path": ${path}\n"content-digest": ${digest}\n"@signature-params": ${parameters}`
    const signature = sign(Buffer.from(base))
    if (signature === undefined) continue // try another nonce, which changes h
    const signed = {
      'content-digest': digest,
      'signature-input': `w=${parameters}`,
      signature: `w=:${spell(signature.toString('base64'))}:`,
    }
    const answer = await fetch(new URL(path, fixtures.url), {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...signed },
      body,
    })
    const response = (await answer.json()) as { code?: string; epoch?: string } // a problem, or an answer to a heartbeat
    const { code } = response
    if (code === 'stale_epoch' && response.epoch !== undefined && response.epoch !== epoch) {
      epoch = response.epoch
      continue
    }
    return `${answer.status} ${code ?? 'ok'}`
  }
}

/**
 * For a key of order 8, R = the neutral element and S = 0 verify whenever h is a multiple of 8,
 * without any secret.
 */
function withoutSecret(x: string): (base: Buffer) => Buffer | undefined {
  const R = encoded([0n, 1n])
  return (base) => {
    const h = createHash('sha512')
      .update(R)
      .update(Buffer.from(x, 'base64url'))
      .update(base)
      .digest()
      .reverse()
    const reduced = mod(BigInt(`0x${h.toString('hex')}`), L)
    return reduced % 8n === 0n ? Buffer.concat([R, Buffer.alloc(32)]) : undefined
  }
}

test('D2 T02 K01 a worker with a key of order 8 can’t enrol, so nobody can sign as it without a secret', async () => {
  const x = Buffer.from('26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05', 'hex').toString(
    'base64url',
  )
  const enrolled = await enrol(x)
  const beaten = enrolled.ok ? await beat(enrolled.value.worker, withoutSecret(x)) : 'not enrolled'
  expect([refusalOf(enrolled), beaten]).toEqual(['400 invalid_request', 'not enrolled'])
})

/** An invalid package: the pinned key is refused before the package is read. */
const UNREAD = {
  payloadType: SKILL_TYPE as typeof SKILL_TYPE,
  payload: '',
  signatures: [{ keyid: 'x', sig: '' }],
}

test('D2 T02 keys of small order or in a non-canonical encoding can’t be enrolled, given to a publisher or pinned', async () => {
  const publisher = fixtures.name()
  for (const [name, x] of Object.entries({ ...WEAK_KEYS, ...NO_KEYS })) {
    expect([name, refusalOf(await enrol(x))]).toEqual([name, '400 invalid_request'])
    const put = await fixtures.root('putPublisher', { params: { name: publisher }, body: { keys: [x] } })
    expect([name, refusalOf(put)]).toEqual([name, '400 invalid_request'])
    const pinned = await fixtures.root('publishSkill', { query: { pin: x }, body: UNREAD })
    expect([name, refusalOf(pinned), pinned.ok || pinned.error.detail]).toEqual([
      name,
      '400 invalid_request',
      'the query does not match what this route expects',
    ])
  }
  const sound = newSigner().x
  unwrap(await fixtures.root('putPublisher', { params: { name: publisher }, body: { keys: [sound] } }))
  unwrap(await enrol(sound))
})

const jwkOf = (worker: PeerWorker) => ({ ...worker.signer.key.export({ format: 'jwk' }), x: worker.signer.x })

test('D3 T02 a request whose signature has an R of small order or in a non-canonical encoding is refused', async () => {
  const sent = (choice: Nonce) => beat(peer.id, (base) => chosenSignature(base, choice, jwkOf(peer)))
  expect(await sent(BASE_NONCE)).toBe('200 ok')
  for (const [name, choice] of Object.entries(WEAK_NONCES))
    expect([name, await sent(choice)]).toEqual([name, '401 bad_signature'])
})

test('D3 T02 a request whose signature is not canonical base64 is refused: trailing bits, base64url, no padding', async () => {
  const sign = (base: Buffer) => chosenSignature(base, BASE_NONCE, jwkOf(peer))
  const next = (char: string): string => String.fromCharCode(char.charCodeAt(0) + 1)
  expect(await beat(peer.id, sign)).toBe('200 ok')
  for (const spell of [
    (text: string) => text.replace(/(.)==$/, (_, char: string) => `${next(char)}==`),
    (text: string) => `-_${text.slice(2)}`,
    (text: string) => text.slice(0, -2),
  ])
    expect(await beat(peer.id, sign, spell)).toBe('401 bad_signature')
})

test('D3 T02 a statement whose signature has an R of small order is refused, and the call can still be settled', async () => {
  const call = unwrap(await agent.client('proposeCallInNewRun', { body: { tool, args: {} } }))
  const claim = unwrap(await peer.claim(call.id))
  const asSent = peer.settlement(claim)
  const { payloadType, payload } = asSent.envelope
  const bytes = Buffer.from(payloadBytes(asSent.envelope))
  const signed = Buffer.concat([
    Buffer.from(`DSSEv1 ${payloadType.length} ${payloadType} ${bytes.byteLength} `),
    bytes,
  ])
  const by = (choice: Nonce) => {
    const sig = chosenSignature(signed, choice, jwkOf(peer)).toString('base64')
    return peer.client('settle', {
      body: { ...asSent, envelope: { payloadType, payload, signatures: [{ keyid: peer.signer.kid, sig }] } },
    })
  }
  for (const [name, choice] of Object.entries(WEAK_NONCES))
    expect([name, refusalOf(await by(choice))]).toEqual([name, '422 attestation_invalid'])
  expect(unwrap(await by(BASE_NONCE)).state).toBe('succeeded')
})
