// Promise: who stands behind an agent's token is in the journal, the statement and the policy's
// context, approvers see it as the issuer's word, and an answer counts for nobody else.

import type { JWTPayload } from 'jose'
import { expect, test } from 'vitest'
import { verifyBundle } from '../../../shared/evidence/bundle.ts'
import { bearer, type Client, client } from '../../../shared/routes/client.ts'
import { PublicJwk } from '../../../shared/wire/issuers.ts'
import { ConsoleSession } from '../../support/browser/console-session.ts'
import { countersign } from '../../support/countersign.ts'
import { Fixtures, refusalOf, unwrap } from '../../support/fixtures.ts'
import { McpClient } from '../../support/http/mcp-client.ts'
import { sharedStack } from '../../support/stack/stack.ts'
import { newSigningKey, sign } from '../../support/tokens/token-issuer.ts'

const dev = sharedStack()
const fixtures = new Fixtures('actors', dev)
const key = await newSigningKey('ES256', 'actors')
const agent = await fixtures.agent()
const [tool, sensitive] = [await fixtures.tool(), await fixtures.tool({ capabilities: ['network'] })]
const ISSUER = 'https://people.example.com'
const rules = [{ claims: { azp: 'portal' }, agent: agent.name }]
unwrap(
  await fixtures.root('putIssuer', {
    params: { name: fixtures.name() },
    body: { issuer: ISSUER, jwks: { keys: [PublicJwk.parse(key.jwk)] }, rules, advertise: false },
  }),
)

/** The agent with a new token on behalf of this person. */
const onBehalfOf = async (sub: string, more: JWTPayload = {}): Promise<Client> =>
  client(dev.url, bearer(await tokenOf(sub, more)))
function tokenOf(sub: string, more: JWTPayload = {}): Promise<string> {
  const now = Math.floor(Date.now() / 1000)
  const claims = { iss: ISSUER, sub, azp: 'portal', aud: dev.url, iat: now, exp: now + 300, ...more }
  return sign(key, { jti: `${sub} ${Math.random()}`, ...claims })
}
const propose = async (by: Client, name: string, session?: string) =>
  unwrap(
    await by('proposeCallInNewRun', {
      body: { tool: name, args: {}, ...(session === undefined ? {} : { run: { session } }) },
    }),
  )

test('the actor of a token is in the call, the journal’s first entry and the signed statement', async () => {
  const by = await onBehalfOf('alice', { jti: 'one', act: { sub: 'assistant' } })
  const call = await propose(by, tool)
  const actor = {
    issuer: ISSUER,
    subject: 'alice',
    client: 'portal',
    acting: 'assistant',
    jti_sha256: '7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed',
  }
  expect(call.origin).toEqual({ actor })
  const entries = unwrap(await by('readJournal', { params: { run: call.run }, query: {} })).items
  expect(entries[0]).toMatchObject({ body: { origin: { actor } } })
  unwrap(await by('cancelCall', { params: { run: call.run, call: call.id } }))
  const bundle = unwrap(await by('readAttestation', { params: { run: call.run, call: call.id } }))
  const verdict = verifyBundle(bundle, unwrap(await fixtures.root('keys', { query: {} })))
  expect([verdict.ok, verdict.statement?.predicate.facts.origin]).toEqual([true, { actor }])
  expect((await propose(agent.client, tool)).origin).toBeUndefined()
})

const ONLY_ALICE = `@id("only-alice") @reason("only on behalf of alice")
forbid (principal == Agent::"${agent.name}", action in Action::"tool.execute", resource)
unless { context has actor && context.actor.issuer == "${ISSUER}" && context.actor.subject == "alice" };`

test('a policy on the actor applies to proposals, dry runs, answers and cases', async () => {
  const [alice, bob] = [await onBehalfOf('alice'), await onBehalfOf('bob')]
  const waiting = await propose(bob, sensitive)
  const asked = await propose(alice, sensitive)
  expect([waiting.state, asked.state]).toEqual(['awaiting_approval', 'awaiting_approval'])
  await fixtures.withPolicies({ 'only-alice': ONLY_ALICE }, async () => {
    const effect = async (by: Client) =>
      unwrap(await by('decide', { body: { tool, args: {} } })).decision.effect
    expect([await effect(alice), await effect(bob), await effect(agent.client)]).toEqual([
      'allow',
      'deny',
      'deny',
    ])
    expect((await propose(bob, tool)).decision.policies).toEqual(['only-alice'])
    expect((await propose(agent.client, tool)).state).toBe('denied')
    expect((await propose(alice, tool)).state).toBe('granted')
    const answer = async (id = '') =>
      unwrap(await fixtures.root('answerApproval', { params: { id }, body: { decision: 'approve' } }))
    expect((await answer(waiting.approval?.id)).status).toBe('denied')
    expect((await answer(asked.approval?.id)).status).toBe('approved')
    const request = { agent: agent.name, tool }
    const cases = unwrap(
      await fixtures.root('checkPolicies', {
        body: {
          cases: {
            about: 'actors',
            cases: [
              {
                description: 'alice',
                request: { ...request, actor: { issuer: ISSUER, subject: 'alice' } },
                expect: { effect: 'allow' },
              },
              {
                description: 'bob',
                request: { ...request, actor: { issuer: ISSUER, subject: 'bob' } },
                expect: { effect: 'deny' },
              },
              { description: 'a key', request, expect: { effect: 'deny' } },
            ],
          },
        },
      }),
    )
    expect(cases.results.map(({ passed }) => passed)).toEqual([true, true, true])
  })
})

test('a policy that reads the actor without asking whether there is one is refused', async () => {
  const careless =
    'permit (principal, action in Action::"tool.execute", resource) when { context.actor.subject == "alice" };'
  const { policies } = unwrap(await fixtures.root('readPolicies', {}))
  const put = await fixtures.root('putPolicies', {
    body: { policies: { ...policies, careless }, note: 'a test' },
  })
  expect(put).toMatchObject({ ok: false, error: { code: 'invalid_policy' } })
})

test('L3 a standing answer for one person does not cover calls on behalf of another, or of nobody', async () => {
  const session = fixtures.name()
  const asked = await propose(await onBehalfOf('alice'), sensitive, session)
  unwrap(
    await fixtures.root('answerApproval', {
      params: { id: asked.approval?.id ?? '' },
      body: { decision: 'approve', scope: 'session' },
    }),
  )
  const states = []
  for (const by of [await onBehalfOf('alice'), await onBehalfOf('bob'), agent.client])
    states.push((await propose(by, sensitive, session)).state)
  expect(states).toEqual(['granted', 'awaiting_approval', 'awaiting_approval'])
})

test('L1 over MCP, a call on behalf of one person is never the answer to a call on behalf of another', async () => {
  const { id: run } = unwrap(await agent.client('createRun', { body: {} }))
  const callFor = async (token: string) => {
    const mcp = new McpClient(dev.url, token, 'legacy')
    const { _meta } = await mcp.call(sensitive, {}, { meta: { 'dev.countersign/run': run }, wait: 0 })
    return (_meta as { 'dev.countersign/call': { id: string; state: string } })['dev.countersign/call']
  }
  const alice = await callFor(await tokenOf('alice'))
  expect((await callFor(await tokenOf('alice'))).id).toBe(alice.id) // another token, the same person
  const bob = await callFor(await tokenOf('bob'))
  expect([alice.state, bob.state, bob.id === alice.id]).toEqual([
    'awaiting_approval',
    'awaiting_approval',
    false,
  ])
  await fixtures.withPolicies({ 'only-alice': ONLY_ALICE }, async () => {
    expect((await callFor(await tokenOf('carol'))).state).toBe('denied')
    expect((await callFor(agent.key)).state).toBe('denied')
  })
})

test('G12 L1 an idempotency key that one person’s call has used is a conflict for a call on behalf of another', async () => {
  const headers = { 'idempotency-key': fixtures.name() }
  const { id: run } = unwrap(await agent.client('createRun', { body: {} }))
  const inRun = async (by: Client) =>
    by('proposeCall', { params: { run }, body: { tool: sensitive, args: {} }, headers })
  const alone = async (by: Client) =>
    by('proposeCallInNewRun', { body: { tool: sensitive, args: {} }, headers })
  for (const proposeKeyed of [inRun, alone]) {
    const first = unwrap(await proposeKeyed(await onBehalfOf('alice')))
    expect(unwrap(await proposeKeyed(await onBehalfOf('alice'))).id).toBe(first.id) // another token
    for (const other of [
      await onBehalfOf('bob'),
      await onBehalfOf('alice', { act: { sub: 'assistant' } }),
      agent.client,
    ])
      expect(refusalOf(await proposeKeyed(other))).toBe('409 idempotency_key_reused')
  }
})

test('identical calls for one person share one question, whatever their token; for two people they don’t', async () => {
  const groups = []
  for (const sub of ['carol', 'carol', 'dave']) {
    const { approval } = await propose(await onBehalfOf(sub), sensitive)
    groups.push(unwrap(await fixtures.root('readApproval', { params: { id: approval?.id ?? '' } })).group)
  }
  expect([groups[1] === groups[0], groups[2] === groups[0]]).toEqual([true, false])
})

test('G09 cards show the actor as asserted by the issuer, with hostile names inert', async () => {
  const hostile = '`rm` <b>*root*</b> \u202eecila'
  const call = await propose(await onBehalfOf(hostile), sensitive)
  const id = call.approval?.id ?? ''
  const { prompt } = unwrap(await fixtures.root('readApproval', { params: { id } }))
  expect(prompt.on_behalf_of).toBe(
    `\`"\\u{60}rm\\u{60} <b>*root*</b> \\u{202e}ecila"\` (client \`"portal"\`, issuer \`"${ISSUER}"\`)`,
  )
  const session = await ConsoleSession.open(dev.url, fixtures.rootKey)
  for (const path of [`/console/approvals/${id}`, `/console/calls/${call.id}`]) {
    const page = await (await session.get(path)).text()
    expect(page).toContain('On behalf of (asserted by the issuer)')
    expect(page).toContain('&lt;b&gt;*root*')
    expect(page).not.toContain('<b>*root*')
    expect(page).not.toContain('\u202e')
  }
  const env = { COUNTERSIGN_URL: dev.url, COUNTERSIGN_KEY: fixtures.rootKey }
  const shown = await countersign(['approvals', 'show', id], { env })
  expect(shown.out).toMatch(/on behalf of .*\\u\{202e\}ecila.*as the issuer asserts/)
  expect(shown.out).not.toContain('\u202e')
})

test('G09 cards show that a call came over MCP, with the client’s own name inert, next to the actor', async () => {
  const mcp = new McpClient(dev.url, await tokenOf('alice'), 'modern')
  const clientInfo = { name: '`root` <b>approve</b>', version: '1' }
  const meta = { 'io.modelcontextprotocol/clientInfo': clientInfo }
  const { requestState } = await mcp.call(sensitive, { text: 'over MCP' }, { meta, wait: 0 })
  expect(requestState).toEqual(expect.any(String))
  const { items } = unwrap(await fixtures.root('listApprovals', { query: { status: 'pending' } }))
  const found = items.find(({ prompt }) => prompt.arguments.includes('over MCP'))
  expect(found?.prompt.via).toBe(
    'MCP 2026-07-28, by a client that calls itself `"\\u{60}root\\u{60} <b>approve</b>"`',
  )
  const { id = '', call = '' } = found ?? {}
  const session = await ConsoleSession.open(dev.url, fixtures.rootKey)
  for (const path of [`/console/approvals/${id}`, `/console/calls/${call}`]) {
    const page = await (await session.get(path)).text()
    expect(page).toMatch(
      /On behalf of[\s\S]*alice[\s\S]*Proposed over[\s\S]*MCP 2026-07-28[\s\S]*&lt;b&gt;approve/,
    )
    expect(page).not.toContain('<b>approve')
  }
  const env = { COUNTERSIGN_URL: dev.url, COUNTERSIGN_KEY: fixtures.rootKey }
  for (const words of [
    ['approvals', 'show', id],
    ['calls', 'show', call],
  ]) {
    const shown = await countersign(words, { env })
    expect(shown.out).toMatch(/on behalf of .*alice.*asserts\n/)
    expect(shown.out).toMatch(/proposed over +MCP 2026-07-28, by a client that calls itself .*approve/)
  }
})
