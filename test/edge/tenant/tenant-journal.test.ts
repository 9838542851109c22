// Promise: each change of what operators administer has one entry in the tenant's journal, which names
// who made it and has no secret. Each entry is a leaf of the tenant's log.

import { createHash } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { type JournalEntry, verifyChain } from '../../../shared/evidence/journal.ts'
import { sealLink } from '../../../shared/evidence/keys.ts'
import type { RouteName, Routes } from '../../../shared/routes/all.ts'
import { ROUTES } from '../../../shared/routes/all.ts'
import { client } from '../../../shared/routes/client.ts'
import { countersign } from '../../support/countersign.ts'
import { eventually } from '../../support/eventually.ts'
import { toolSpec, unwrap } from '../../support/fixtures.ts'
import { logHashes } from '../../support/log-reader.ts'
import { sharedStack } from '../../support/stack/stack.ts'
import { newTenant } from '../../support/tenants.ts'
import { newSigner, PeerWorker } from '../../support/worker/peer-worker.ts'

const dev = sharedStack()
const TENANT = 'journal-acme'
const acme = await newTenant(dev, TENANT)
const { root } = acme

let seen = 0
/** The entries since the last call. */
async function news(): Promise<JournalEntry[]> {
  const { items } = unwrap(await root('readTenantJournal', { query: { after: seen } }))
  seen += items.length
  return items
}
const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')

// No entry may contain these.
const VALUE = 'a value that nobody may see'
const PATH = 'a-path-that-authenticates'
const HMAC = `whsec_${Buffer.alloc(32, 9).toString('base64')}`
const secrets = [VALUE, sha256(VALUE), PATH, HMAC]
const keep = <T extends object>(answer: T): T => {
  const made = answer as { key?: string; webhook_secret?: string; token?: string }
  secrets.push(...[made.key, made.webhook_secret, made.token].filter((text) => text !== undefined))
  return answer
}

const { policies } = unwrap(await root('readPolicies', {}))
const more = {
  ...policies,
  more: '@id("more") forbid (principal is Agent, action, resource) when { false };',
}
const asker = await acme.agent()
const asking = await acme.tool({ sensitive: true })
const peer = await PeerWorker.enrol(dev.url, root, acme.pool)

/** A standing answer in this session. */
async function standingIn(session: string): Promise<string> {
  const body = { tool: asking, args: {}, run: { session } }
  const { approval } = unwrap(await asker.client('proposeCallInNewRun', { body }))
  const params = { id: approval?.id ?? '' }
  unwrap(await root('answerApproval', { params, body: { decision: 'approve', scope: 'session' } }))
  const found = unwrap(await root('listStanding', {})).items.find((each) => each.session === session)
  return found?.id ?? ''
}
const standing = await standingIn('revoked')
await standingIn('reset')

/** The routes of operators that change anything. */
type Changing = {
  [N in RouteName]: Routes[N]['method'] extends 'GET'
    ? never
    : 'operator' extends Routes[N]['callers'][number]
      ? N
      : never
}[RouteName]

type Change = {
  readonly ask: () => Promise<object>
  readonly kind: string
  readonly body: object
  /** Whether the same request changes nothing the second time. */
  readonly twice?: 'changes nothing'
}
/** Why a route writes no entry into this journal. */
type Reason = string

const OF_RUN = 'the journal of the run has it'
const OF_SKILLS = 'the journal of skills has it'
const OF_UPSTREAMS = 'the journal of upstreams has it'
const NOTHING = 'it changes nothing that is administered'

const name = { params: { name: 'made' } }
const why = { reason: 'case 7' }
const CHANGES: Readonly<Record<Changing, Change | Reason>> = {
  putAgent: {
    ask: () =>
      root('putAgent', {
        ...name,
        body: { tools: ['*'], webhook: { url: `https://hooks.example.com/${PATH}` } },
      }).then(unwrap),
    kind: 'agent.put',
    body: {
      agent: 'made',
      spec_sha256: sha256(
        `{"owners":["root"],"tools":["*"],"webhook":{"url":"https://hooks.example.com/${PATH}"}}`,
      ),
      created: true,
    },
    twice: 'changes nothing',
  },
  rotateAgentKey: {
    ask: () => root('rotateAgentKey', name).then(unwrap),
    kind: 'agent.key_rotated',
    body: { agent: 'made' },
  },
  rotateAgentWebhook: {
    ask: () => root('rotateAgentWebhook', name).then(unwrap),
    kind: 'agent.webhook_rotated',
    body: { agent: 'made' },
  },
  putOperator: {
    ask: () => root('putOperator', { ...name, body: { roles: ['approver'] } }).then(unwrap),
    kind: 'operator.put',
    body: { operator: 'made', roles: ['approver'], created: true },
    twice: 'changes nothing',
  },
  rotateOperatorKey: {
    ask: () => root('rotateOperatorKey', name).then(unwrap),
    kind: 'operator.key_rotated',
    body: { operator: 'made' },
  },
  putTool: {
    ask: () => root('putTool', { ...name, body: toolSpec() }).then(unwrap),
    kind: 'tool.put',
    body: { tool: 'made', version: 1, digest: expect.stringMatching(/^[0-9a-f]{64}$/) },
    twice: 'changes nothing',
  },
  deleteTool: {
    ask: () => root('deleteTool', name).then(unwrap),
    kind: 'tool.removed',
    body: { tool: 'made', version: 1, digest: expect.stringMatching(/^[0-9a-f]{64}$/) },
  },
  putPolicies: {
    ask: () => root('putPolicies', { body: { policies: more, note: 'a test' } }).then(unwrap),
    kind: 'policies.put',
    body: { version: 2, digest: expect.stringMatching(/^[0-9a-f]{64}$/), active: true },
    twice: 'changes nothing',
  },
  activatePolicyVersion: {
    ask: () => root('activatePolicyVersion', { params: { version: '1' } }).then(unwrap),
    kind: 'policies.activated',
    body: { version: 1, digest: expect.stringMatching(/^[0-9a-f]{64}$/) },
    twice: 'changes nothing',
  },
  putPolicyShadow: {
    ask: () => root('putPolicyShadow', { body: { version: 2 } }).then(unwrap),
    kind: 'policies.shadowed',
    body: { version: 2 },
    twice: 'changes nothing',
  },
  createEnrolment: {
    ask: () => root('createEnrolment', { body: { pool: 'gpu' } }).then(unwrap),
    kind: 'enrolment.created',
    body: { enrolment: expect.stringMatching(/^[0-9A-Z]{26}$/), pool: 'gpu' },
  },
  revokeWorker: {
    ask: () =>
      root('revokeWorker', { params: { worker: peer.id }, query: { distrusted_from_ms: 7 } }).then(unwrap),
    kind: 'worker.revoked',
    body: { worker: peer.id, kid: peer.signer.kid, distrusted_from_ms: 7 },
    twice: 'changes nothing',
  },
  putSecret: {
    ask: () => root('putSecret', { ...name, body: { value: VALUE, tools: [asking] } }).then(unwrap),
    kind: 'secret.put',
    body: { secret: 'made', version: 1, tools: [asking], hosts: null },
  },
  deleteSecret: {
    ask: () => root('deleteSecret', name).then(unwrap),
    kind: 'secret.removed',
    body: { secret: 'made', version: 1 },
  },
  putIssuer: {
    ask: () =>
      root('putIssuer', {
        ...name,
        body: {
          issuer: 'https://issuer.example.com',
          rules: [{ claims: { sub: 'ci' }, agent: asker.name }],
        },
      }).then(unwrap),
    kind: 'issuer.put',
    body: { issuer: 'made', spec_sha256: expect.stringMatching(/^[0-9a-f]{64}$/) },
    twice: 'changes nothing',
  },
  deleteIssuer: {
    ask: () => root('deleteIssuer', name).then(unwrap),
    kind: 'issuer.removed',
    body: { issuer: 'made' },
  },
  putChannel: {
    ask: () =>
      root('putChannel', {
        ...name,
        body: { kind: 'webhook', url: `https://hooks.example.com/${PATH}`, keys: [HMAC], after_s: 3_600 },
      }).then(unwrap),
    kind: 'channel.put',
    body: { channel: 'made', kind: 'webhook', spec_sha256: expect.stringMatching(/^[0-9a-f]{64}$/) },
    twice: 'changes nothing',
  },
  deleteChannel: {
    ask: () => root('deleteChannel', name).then(unwrap),
    kind: 'channel.removed',
    body: { channel: 'made' },
  },
  revokeStanding: {
    ask: () => root('revokeStanding', { params: { id: standing } }).then(unwrap),
    kind: 'standing.revoked',
    body: { standing, agent: asker.name, session: 'revoked' },
  },
  resetSession: {
    ask: () =>
      root('resetSession', { params: { session: 'reset' }, body: { agent: asker.name } }).then(unwrap),
    kind: 'session.reset',
    body: { agent: asker.name, session: 'reset' },
    twice: 'changes nothing',
  },
  putRetention: {
    ask: () => root('putRetention', { body: { outputs: 30, arguments: 30, evidence: null } }).then(unwrap),
    kind: 'retention.set',
    body: { rule: 1, keep: { outputs: 30, arguments: 30, evidence: null } },
  },
  putHold: {
    ask: () => root('putHold', { params: { subject: 'tenant' }, body: why }).then(unwrap),
    kind: 'hold.put',
    body: { subject: 'tenant', ...why },
  },
  liftHold: {
    ask: () => root('liftHold', { params: { subject: 'tenant' }, body: why }).then(unwrap),
    kind: 'hold.lifted',
    body: { subject: 'tenant', ...why },
  },
  deleteAgent: {
    ask: () => root('deleteAgent', name).then(unwrap),
    kind: 'agent.removed',
    body: { agent: 'made' },
  },
  deleteOperator: {
    ask: () => root('deleteOperator', name).then(unwrap),
    kind: 'operator.removed',
    body: { operator: 'made' },
  },
  putExportTarget: 'it needs a bucket: test/edge/export/exports.test.ts',
  deleteExportTarget: 'it needs a bucket: test/edge/export/exports.test.ts',
  answerApproval: OF_RUN,
  revokeLinks: OF_RUN,
  cancelRun: OF_RUN,
  cancelCall: OF_RUN,
  publishSkill: OF_SKILLS,
  enableSkill: OF_SKILLS,
  disableSkill: OF_SKILLS,
  revokeSkill: OF_SKILLS,
  rollBackSkill: OF_SKILLS,
  clearSkillStorage: OF_SKILLS,
  putDeniedParts: OF_SKILLS,
  putPublisher: OF_SKILLS,
  revokePublisherKey: OF_SKILLS,
  deletePublisher: OF_SKILLS,
  putUpstream: OF_UPSTREAMS,
  removeUpstream: OF_UPSTREAMS,
  acceptUpstreamTool: OF_UPSTREAMS,
  withdrawUpstreamTool: OF_UPSTREAMS,
  refreshUpstream: OF_UPSTREAMS,
  trySkill: NOTHING,
  previewAnswer: NOTHING,
  decide: NOTHING,
  evaluateAccess: NOTHING,
  evaluateAccesses: NOTHING,
  checkPolicies: NOTHING,
  rehearsePolicyVersion: NOTHING,
  testToken: NOTHING,
  storeExport: NOTHING,
  testChannel: NOTHING,
  retryDeliveries: NOTHING,
  collectMessages: NOTHING,
  putDelegation: 'it asks one more person for a time, and grants nothing; answers are in the runs',
  deleteDelegation: 'as above',
}

describe('each change by an operator has one entry, which names the operator', () => {
  for (const [route, change] of Object.entries(CHANGES)) {
    if (typeof change === 'string') continue
    const { ask, kind, body, twice } = change
    const title = twice === undefined ? '' : `; the same request again ${twice} and writes none`
    test(`\`${route}\` writes one entry \`${kind}\`${title}`, async () => {
      await news()
      keep(await ask())
      expect((await news()).map((entry) => [entry.kind, entry.body])).toEqual([
        [kind, { ...body, by: 'root' }],
      ])
      if (twice === undefined) return
      await ask()
      expect(await news()).toEqual([])
    })
  }

  test('every route of operators that is not a GET is listed here', () => {
    const changing = Object.entries(ROUTES).flatMap(([route, { method, callers }]) =>
      method !== 'GET' && (callers as readonly string[]).includes('operator') ? [route] : [],
    )
    expect(Object.keys(CHANGES).toSorted()).toEqual(changing.toSorted())
  })
})

test('a worker that enrols or replaces its key is the actor of the entry, and the token’s entry has the same id', async () => {
  await news()
  const enrolled = await PeerWorker.enrol(dev.url, root, 'gpu')
  const next = newSigner()
  const link = sealLink({ from_ms: 0, until_ms: 0, distrusts: null }, enrolled.signer, next)
  unwrap(await enrolled.client('rotateWorkerKey', { body: { link } }))
  unwrap(await enrolled.as(next)('rotateWorkerKey', { body: { link } })) // the answer was lost
  const [token, ...entries] = await news()
  const enrolment = token?.body['enrolment']
  expect([token?.kind, typeof enrolment]).toEqual(['enrolment.created', 'string'])
  const by = `worker ${enrolled.id}`
  const { kid } = enrolled.signer
  expect(entries.map(({ kind, body }) => [kind, body])).toEqual([
    ['worker.enrolled', { worker: enrolled.id, name: 'peer', pool: 'gpu', kid, enrolment, by }],
    ['worker.key_rotated', { worker: enrolled.id, kid: next.kid, former: kid, by }],
  ])
})

test('an agent that resets its own session is the actor of the entry, and a session without answers has none', async () => {
  await standingIn('own')
  await news()
  const reset = (session: string) => asker.client('resetSession', { params: { session }, body: {} })
  expect(unwrap(await reset('own'))).toEqual({ ended: 1 })
  expect(unwrap(await reset('own'))).toEqual({ ended: 0 })
  const by = `agent ${asker.name}`
  expect((await news()).map(({ kind, body }) => [kind, body])).toEqual([
    ['session.reset', { agent: asker.name, session: 'own', by }],
  ])
})

test('a change that is refused has no entry', async () => {
  await news()
  const { key } = unwrap(
    await root('putOperator', { params: { name: 'reader' }, body: { roles: ['auditor'] } }),
  )
  await news()
  const reader = acme.clientOf(key)
  const refused = [
    await reader('putAgent', { ...name, body: { tools: ['*'] } }),
    await root('deleteOperator', { params: { name: 'root' } }),
    await root('deleteAgent', { params: { name: 'nobody' } }),
    await root('deleteChannel', { params: { name: 'nobody' } }),
    await root('activatePolicyVersion', { params: { version: '1' }, headers: { 'if-match': '"2"' } }),
    await client(dev.url)('enrol', {
      body: { token: 'x'.repeat(40), x: newSigner().x, name: 'x', tiers: [] },
    }),
  ]
  expect(refused.map(({ ok }) => ok)).toEqual([false, false, false, false, true, false]) // 1 is active already
  expect(await news()).toEqual([])
})

const folder = mkdtempSync(join(tmpdir(), 'countersign-journal-'))
afterAll(() => rmSync(folder, { recursive: true }))

test('V02 J01 the whole journal has no secret, verifies from a file, and each of its entries is once in the log', async () => {
  const path = join(folder, 'journal.json')
  const env = { COUNTERSIGN_URL: dev.url, COUNTERSIGN_KEY: acme.rootKey }
  expect(await countersign(['journal', '-o', path], { env })).toMatchObject({ code: 0 })
  const text = readFileSync(path, 'utf8')
  const { items } = JSON.parse(text) as { items: JournalEntry[] }
  expect(items.length).toBeGreaterThan(30)
  expect(secrets.length).toBeGreaterThan(8)
  for (const secret of secrets) expect(text).not.toContain(secret)
  expect(verifyChain(items)).toMatchObject({ ok: true, value: { seq: items.length } })
  expect(await countersign(['verify', '--journal', path], {})).toMatchObject({ code: 0 })
  writeFileSync(path, text.replace('"by": "root"', '"by": "mallory"'))
  expect(await countersign(['verify', '--journal', path], {})).toMatchObject({ code: 1 })

  const ours = items.map(({ hash }) => hash).toSorted()
  const logged = await eventually('all entries are in the log', async () => {
    const own = (await logHashes(root, TENANT)).filter((hash) => ours.includes(hash))
    return own.length >= ours.length && own
  })
  expect(logged.toSorted()).toEqual(ours)
})
