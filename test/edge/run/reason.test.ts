// Promise: the reason that an agent gives for a call reaches everybody who judges the call or its
// evidence, as the agent's own words, and decides nothing. Secrets in it are masked before it is
// stored.

import { expect, test } from 'vitest'
import { verifyBundle } from '../../../shared/evidence/bundle.ts'
import { payloadBytes } from '../../../shared/evidence/dsse.ts'
import { callDigest, type Statement } from '../../../shared/evidence/statement.ts'
import { LIMITS } from '../../../shared/limits.ts'
import type { Call } from '../../../shared/wire/calls.ts'
import { ConsoleSession } from '../../support/browser/console-session.ts'
import { countersign } from '../../support/countersign.ts'
import { Fixtures, refusalOf, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'
import { PeerWorker } from '../../support/worker/peer-worker.ts'

const fixtures = new Fixtures('reason', sharedStack())
const agent = await fixtures.agent()
const approver = await fixtures.operator(['approver', 'admin'])
const peer = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)
const [free, asked] = [await fixtures.tool(), await fixtures.tool({ capabilities: ['network'] })]

const REASON = 'the customer asked for a refund of order 17'
const HOSTILE =
  '</pre><script>alert(1)</script> [ok](https://evil.example) \u202egpj\u200b\n*Approved by root*'
const SHOWN =
  '</pre><script>alert(1)</script> [ok](https://evil.example) \\u{202e}gpj\\u{200b}\n*Approved by root*'
const IN_HTML =
  '&lt;/pre&gt;&lt;script&gt;alert(1)&lt;/script&gt; [ok](https://evil.example) \\u{202e}gpj\\u{200b}\n*Approved by root*'

type Wish = { readonly tool?: string; readonly reason?: string; readonly session?: string }
const propose = async ({ tool = asked, reason, session = fixtures.name() }: Wish): Promise<Call> =>
  unwrap(
    await agent.client('proposeCallInNewRun', {
      body: { tool, args: { text: 'a' }, run: { session }, ...(reason === undefined ? {} : { reason }) },
    }),
  )
const answer = async ({ approval }: Call, body: { decision: 'approve' | 'deny'; scope?: 'session' }) =>
  unwrap(await approver.client('answerApproval', { params: { id: approval?.id ?? '' }, body }))
const read = async ({ run, id }: Call) =>
  unwrap(await agent.client('readCall', { params: { run, call: id } }))
const cardOf = async ({ approval }: Call) =>
  unwrap(await approver.client('readApproval', { params: { id: approval?.id ?? '' } }))
const journalOf = async ({ run }: Call) =>
  unwrap(await agent.client('readJournal', { params: { run }, query: {} })).items

/** The evidence of an ended call: what was signed, and whether it verifies. */
async function evidenceOf({ run, id }: Call) {
  const bundle = unwrap(await agent.client('readAttestation', { params: { run, call: id } }))
  const keys = unwrap(await fixtures.root('keys', { query: {} }))
  const signed = JSON.parse(Buffer.from(payloadBytes(bundle.envelope)).toString()) as Statement // verified below
  return { bundle, facts: signed.predicate.facts, ok: verifyBundle(bundle, keys).ok }
}

test('the reason of a call is in its card, its journal and its attestations, whether it ran or not', async () => {
  const [ran, refused] = [await propose({ reason: REASON }), await propose({ reason: REASON })]
  expect((await cardOf(ran)).prompt.agent_says).toBe(REASON)
  await answer(ran, { decision: 'approve' })
  await peer.run(ran.id)
  await answer(refused, { decision: 'deny' })
  for (const [call, state] of [
    [ran, 'succeeded'],
    [refused, 'rejected'],
  ] as const) {
    expect(await read(call)).toMatchObject({ state, origin: { reason: REASON } })
    const entries = await journalOf(call)
    expect(entries[0]).toMatchObject({ kind: 'approval_requested', body: { origin: { reason: REASON } } })
    expect(entries.slice(1).filter(({ body }) => 'origin' in body)).toEqual([])
    const { facts, ok } = await evidenceOf(call)
    expect([facts.origin, ok]).toEqual([{ reason: REASON }, true])
  }
})

test('a call without a reason has no trace of one', async () => {
  const call = await propose({ tool: free })
  await peer.run(call.id)
  const { facts, ok } = await evidenceOf(call)
  expect([ok, 'origin' in facts, 'origin' in (await read(call))]).toEqual([true, false, false])
  expect(JSON.stringify(await journalOf(call))).not.toContain('origin')
  expect((await cardOf(await propose({}))).prompt).not.toHaveProperty('agent_says')
})

test('the digest of a call does not cover its reason', async () => {
  const call = await propose({ tool: free, reason: REASON })
  await peer.run(call.id)
  const { bundle } = await evidenceOf(call)
  const { tenant, run, call: id, tool, plan } = bundle.call
  expect(callDigest({ tenant, run, call: id, tool, arguments: { text: 'a' }, plan })).toBe(call.digest)
})

test('a repetition with the same idempotency key may word its reason differently and returns the first call', async () => {
  const run = unwrap(await agent.client('createRun', { body: {} })).id
  const headers = { 'idempotency-key': fixtures.name() }
  const body = { tool: free, args: { text: 'a' } }
  const first = unwrap(
    await agent.client('proposeCall', { params: { run }, body: { ...body, reason: REASON }, headers }),
  )
  for (const reason of ['in other words', undefined]) {
    const again = { ...body, ...(reason === undefined ? {} : { reason }) }
    expect(
      unwrap(await agent.client('proposeCall', { params: { run }, body: again, headers })),
    ).toMatchObject({
      id: first.id,
      origin: { reason: REASON },
    })
  }
})

test('a standing approval covers a similar call with another reason', async () => {
  const session = fixtures.name()
  await answer(await propose({ session, reason: REASON }), { decision: 'approve', scope: 'session' })
  expect(await propose({ session, reason: 'something else entirely' })).toMatchObject({
    state: 'granted',
    approval: { status: 'approved' },
  })
})

test('calls with different reasons are not answered together, though they are otherwise identical', async () => {
  const groups = await Promise.all(
    ['one', 'one', 'two', undefined].map(async (reason) => {
      const call = await propose(reason === undefined ? {} : { reason })
      return (await cardOf(call)).group
    }),
  )
  expect(new Set(groups).size).toBe(3)
  expect(groups[0]).toBe(groups[1])
})

test.each([
  ['1,001 characters', 'x'.repeat(LIMITS.reason_chars + 1)],
  ['nothing', ''],
  ['a number', 17],
  ['a list', ['because']],
])('a reason that is %s is refused, and the refusal names the field', async (_, reason) => {
  const body = { tool: free, args: {}, reason: reason as string }
  const run = unwrap(await agent.client('createRun', { body: {} })).id
  for (const refused of [
    await agent.client('proposeCallInNewRun', { body }),
    await agent.client('proposeCall', { params: { run }, body }),
  ])
    expect(refused).toMatchObject({
      ok: false,
      error: { status: 400, code: 'invalid_request', errors: [{ at: '/reason' }] },
    })
})

test('a proposal may have a reason of 1,000 characters, and a hypothetical call may have none', async () => {
  const longest = 'é'.repeat(LIMITS.reason_chars)
  expect((await propose({ tool: free, reason: longest })).origin).toEqual({ reason: longest })
  const body = { tool: free, args: {}, reason: REASON } as { tool: string; args: object }
  expect(refusalOf(await agent.client('decide', { body: body as never }))).toBe('400 invalid_request')
})

test('V02 a secret in a reason is masked on the card, in the journal and in the attestation', async () => {
  const value = 'h0rse-17' // shorter than its mask
  const name = fixtures.name()
  unwrap(await fixtures.root('putSecret', { params: { name }, body: { value, tools: [free] } }))
  try {
    const long = `${'x'.repeat(LIMITS.reason_chars - value.length - 1)} ${value}`
    const encoded = `it is ${Buffer.from(value).toString('base64')}, and password=hunter2hunter2`
    for (const reason of [`log in with ${value}, please`, long, encoded]) {
      const call = await propose({ reason })
      const { prompt } = await cardOf(call)
      await answer(call, { decision: 'deny' })
      const { bundle, facts, ok } = await evidenceOf(call)
      const seen = JSON.stringify([call, prompt, bundle, facts, await journalOf(call)])
      for (const secret of [value, Buffer.from(value).toString('base64'), 'hunter2hunter2'])
        expect(seen).not.toContain(secret)
      expect([ok, facts.origin?.reason]).toEqual([true, prompt.agent_says])
    }
    const masked = await propose({ reason: `log in with ${value}, please` })
    expect(masked.origin).toEqual({ reason: 'log in with «redacted», please' })
  } finally {
    unwrap(await fixtures.root('deleteSecret', { params: { name } }))
  }
})

test('G09 a hostile reason is plain text on the link page, in the console and in the terminal, marked as the agent’s', async () => {
  const call = await propose({ reason: HOSTILE })
  expect((await cardOf(call)).prompt.agent_says).toBe(SHOWN)
  const link = await fixtures.link(approver.client, call.approval?.id ?? '')
  const session = await ConsoleSession.open(fixtures.url, approver.key)
  const pages = [
    await (await fetch(link)).text(),
    await (await session.get(`/console/approvals/${call.approval?.id}`)).text(),
    await (await session.get(`/console/calls/${call.id}`)).text(),
  ]
  for (const page of pages) {
    expect(page).toContain(
      `<dt>The agent says (not verified)</dt><dd><pre class="says">${IN_HTML}</pre></dd>`,
    )
    expect(page).not.toContain('<script>alert')
    expect(page).not.toContain('href="https://evil.example')
    expect(page).not.toMatch(/[\u202a-\u202e\u200b]/)
  }
  const env = { COUNTERSIGN_URL: fixtures.url, COUNTERSIGN_KEY: approver.key }
  const shown = await countersign(['approvals', 'show', call.approval?.id ?? ''], { env })
  expect(shown).toMatchObject({ code: 0, err: '' })
  expect(shown.out).toContain(
    `the agent says (not verified):\n${SHOWN.split('\n')
      .map((line) => `  │ ${line}\n`)
      .join('')}`,
  )
})

test('the reason stays on the card after an operator has changed the arguments', async () => {
  const tool = await fixtures.tool({ capabilities: ['network'], executor: { argv: ['echo', '{text}'] } })
  const call = await propose({ tool, reason: REASON })
  const { digest } = await cardOf(call)
  const params = { id: call.approval?.id ?? '' }
  const changed = { text: 'b' }
  const { becomes } = unwrap(await approver.client('previewAnswer', { params, body: { arguments: changed } }))
  const body = { decision: 'approve' as const, digest, arguments: changed, becomes }
  expect(unwrap(await approver.client('answerApproval', { params, body })).prompt.agent_says).toBe(REASON)
  await peer.run(call.id)
  expect((await evidenceOf(call)).facts.origin).toEqual({ reason: REASON })
})

test('`countersign call --reason` sends the reason with the proposal', async () => {
  const env = { COUNTERSIGN_URL: fixtures.url, COUNTERSIGN_KEY: agent.key }
  const words = ['call', asked, '--args', '{"text":"a"}', '--reason', REASON, '--json']
  const { out } = await countersign(words, { env })
  expect((JSON.parse(out) as Call).origin).toEqual({ reason: REASON })
  const long = await countersign(['call', asked, '--reason', 'x'.repeat(LIMITS.reason_chars + 1)], { env })
  expect([long.code, long.err]).toEqual([
    2,
    expect.stringContaining('`reason`: must have at most 1000 characters'),
  ])
})
