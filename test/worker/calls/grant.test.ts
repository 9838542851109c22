// A worker runs nothing but what the edge's key signed for it: this call, this worker, these
// arguments, this plan, until this deadline.

import { generateKeyPairSync } from 'node:crypto'
import { expect, test } from 'vitest'
import { digestOf } from '../../../shared/bytes/json.ts'
import {
  countersign,
  type Envelope,
  type PrivateJwk,
  type Signer,
  signerFromJwk,
} from '../../../shared/evidence/dsse.ts'
import { GRANT_TYPE, type Grant, STATEMENT_TYPE, sealGrant } from '../../../shared/evidence/statement.ts'
import type { Claim } from '../../../shared/wire/workers.ts'
import { verifyClaim } from '../../../worker/calls/verify-grant.ts'
import { FakeEdge } from '../../support/worker/fake-edge.ts'

const WORKER = 'wrk_01JZ0000000000000000000000'
const edge = new FakeEdge()
const call = edge.propose({ argv: ['/usr/bin/true'], args: { amount: 100 } })
call.fence = 1
const good = edge.grantFor(call, WORKER)
// Ed25519.
const stranger = signerFromJwk(
  generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' }) as PrivateJwk,
)

type Change = {
  grant?: (grant: Grant) => Grant
  signer?: Signer
  claim?: (claim: Claim) => Claim
  envelope?: (envelope: Envelope) => Envelope
  now_ms?: number
}

const judge = ({
  grant = (same) => same,
  signer = edge.signer,
  claim = (same) => same,
  envelope = (same) => same,
  now_ms = edge.now(),
}: Change) =>
  verifyClaim(
    claim({
      grant: envelope(sealGrant(grant(good), signer)),
      plan: call.plan,
      args: call.args,
      facts_digest: good.facts.digest,
      secrets: {},
    }),
    {
      tenant: edge.tenant,
      run: call.run,
      call: call.call,
      worker: WORKER,
      edgeKey: (kid: string) => (kid === edge.signer.kid ? edge.signer.x : undefined),
      now_ms,
    },
  )

test('a genuine grant is accepted, and the digest of the signed grant is returned', () => {
  const verified = judge({})
  expect(verified).toMatchObject({
    kind: 'verified',
    grant: good,
    grant_sha256: digestOf(good),
    argsText: '{"amount":100}',
  })
})

const REFUSED: readonly (readonly [string, Change])[] = [
  ['P08 other arguments', { claim: (claim) => ({ ...claim, args: { amount: 10_000 } }) }],
  ['P08 an additional argument', { claim: (claim) => ({ ...claim, args: { ...claim.args, to: 'me' } }) }],
  [
    'P08 a plan with another argv',
    {
      claim: (claim) => ({
        ...claim,
        plan: { ...claim.plan, executor: { ...claim.plan.executor, argv: ['/usr/bin/false'] } },
      }),
    },
  ],
  ['P08 a plan of a weaker tier', { claim: (claim) => ({ ...claim, plan: { ...claim.plan, tier: 'B' } }) }],
  [
    'Q02 a digest that covers something else',
    { grant: (grant) => ({ ...grant, facts: { ...grant.facts, digest: digestOf('other') } }) },
  ],
  [
    'Q02 another tool under the same digest',
    {
      grant: (grant) => ({
        ...grant,
        facts: { ...grant.facts, tool: { ...grant.facts.tool, name: 'other_tool' } },
      }),
    },
  ],
  [
    'Q02 args_sha256 of other arguments',
    { grant: (grant) => ({ ...grant, facts: { ...grant.facts, args_sha256: digestOf({}) } }) },
  ],
  [
    'Q02 plan_sha256 of another plan',
    { grant: (grant) => ({ ...grant, facts: { ...grant.facts, plan_sha256: digestOf({}) } }) },
  ],
  [
    'D11 L7 a secret that the plan does not name',
    { claim: (claim) => ({ ...claim, secrets: { token: 'a value' } }) },
  ],
  ['Q02 no plan_sha256', { grant: (grant) => ({ ...grant, facts: { ...grant.facts, plan_sha256: null } }) }],
  ['Q03 a deadline that has passed', { now_ms: good.deadline_ms }],
  ['L1 another key than the pinned one', { signer: stranger }],
  ['L1 another key under the key id of the pinned one', { signer: { ...stranger, kid: edge.signer.kid } }],
  ['T01 a second signature beside the edge’s', { envelope: (envelope) => countersign(envelope, stranger) }],
  ['T01 the edge’s signature twice', { envelope: (envelope) => countersign(envelope, edge.signer) }],
  ['T01 another payload type', { envelope: (envelope) => ({ ...envelope, payloadType: STATEMENT_TYPE }) }],
  [
    'T01 a payload type that differs by a space',
    { envelope: (envelope) => ({ ...envelope, payloadType: `${GRANT_TYPE} ` }) },
  ],
]

test.each(REFUSED)(
  'P08 Q02 Q03 T01: %s: the answer to a claim is refused, and the refusal is attested',
  (_name, change) => {
    expect(judge(change)).toMatchObject({
      kind: 'untrusted',
      grant: { facts: { call: call.call }, worker: WORKER },
    })
  },
)

test('D11 a claim is accepted only with exactly the secrets that its plan names', () => {
  const secrets = { 'db.password': 'one value', token: 'another' }
  const handed = edge.propose({ argv: ['/usr/bin/true'], secrets })
  handed.fence = 1
  const grant = edge.grantFor(handed, WORKER)
  const judgeWith = (given: Readonly<Record<string, string>>) =>
    verifyClaim(
      {
        grant: sealGrant(grant, edge.signer),
        plan: handed.plan,
        args: handed.args,
        facts_digest: grant.facts.digest,
        secrets: given,
      },
      {
        tenant: edge.tenant,
        run: handed.run,
        call: handed.call,
        worker: WORKER,
        edgeKey: (kid: string) => (kid === edge.signer.kid ? edge.signer.x : undefined),
        now_ms: edge.now(),
      },
    )
  expect(judgeWith(secrets)).toMatchObject({ kind: 'verified', secrets })
  for (const given of [
    {},
    { token: 'another' },
    { ...secrets, more: 'x' },
    { 'db.password': 'one value', tokem: 'another' },
  ])
    expect(judgeWith(given)).toMatchObject({ kind: 'untrusted', reason: expect.stringContaining('secrets') })
})

const NOT_OURS: readonly (readonly [string, Change])[] = [
  [
    'a grant for another worker',
    { grant: (grant) => ({ ...grant, worker: 'wrk_01JZ0000000000000000000001' }) },
  ],
  [
    'a grant for another call',
    { grant: (grant) => ({ ...grant, facts: { ...grant.facts, call: `${call.call}2` } }) },
  ],
  [
    'a grant for another run',
    { grant: (grant) => ({ ...grant, facts: { ...grant.facts, run: 'run_01JZ0000000000000000000000' } }) },
  ],
  [
    'a grant for another tenant',
    { grant: (grant) => ({ ...grant, facts: { ...grant.facts, tenant: 'other' } }) },
  ],
  [
    'a payload that is not a grant',
    { envelope: (envelope) => ({ ...envelope, payload: Buffer.from('{}').toString('base64') }) },
  ],
  [
    'a grant with a duplicate member',
    { envelope: (envelope) => ({ ...envelope, payload: twice(envelope.payload) }) },
  ],
]
const twice = (payload: string): string => {
  const text = Buffer.from(payload, 'base64').toString()
  return Buffer.from(text.replace('"fence":1', '"fence":1,"fence":2')).toString('base64')
}

test.each(NOT_OURS)('Q02 %s: the answer to a claim is ignored without a report', (_name, change) => {
  expect(judge(change)).toEqual({ kind: 'stray', reason: expect.any(String) })
})

test('an answer that is not a claim is ignored', () => {
  const expected = {
    tenant: 'default',
    run: call.run,
    call: call.call,
    worker: WORKER,
    edgeKey: (kid: string) => (kid === edge.signer.kid ? edge.signer.x : undefined),
    now_ms: 0,
  }
  for (const answer of [
    undefined,
    null,
    {},
    [],
    'claim',
    { grant: {}, plan: call.plan, args: {}, facts_digest: '' },
  ]) {
    expect(verifyClaim(answer, expected)).toMatchObject({ kind: 'stray' })
  }
})
