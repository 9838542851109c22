// An operator may approve a call with other arguments than the agent's. They are decided again
// under their own digest and may not reach further. The original call then never runs, and answers
// to it don't count for the changed one.

import { expect, test } from 'vitest'
import { digestOf } from '../../../shared/bytes/json.ts'
import { LIMITS } from '../../../shared/limits.ts'
import type { Call } from '../../../shared/wire/calls.ts'
import { ConsoleSession } from '../../support/browser/console-session.ts'
import { eventually } from '../../support/eventually.ts'
import { refusalOf, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'
import { newTenant } from '../../support/tenants.ts'
import { PeerWorker } from '../../support/worker/peer-worker.ts'

const fixtures = await newTenant(sharedStack(), 'edits')
const agent = await fixtures.agent()
const [ann, bob] = [await fixtures.operator(['approver']), await fixtures.operator(['approver'])]
const peer = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)
const SCHEMA = {
  type: 'object',
  properties: {
    words: { type: 'array', items: { type: 'string' }, maxItems: 4 },
    amount: { type: 'integer', minimum: 0 },
    timeout: { type: 'integer' },
    hosts: { type: 'array', items: { type: 'string' } },
    password: { type: 'string' },
    note: { type: 'string' },
  },
  additionalProperties: false,
}
const tool = await fixtures.tool({
  capabilities: ['process_exec'],
  input_schema: SCHEMA,
  spends: { arg: 'amount' },
  executor: { argv: ['echo', '{...words}'], timeout_ms: { arg: 'timeout' } },
  egress: { mode: 'strict', hosts: ['a.example.com:443', 'b.example.com:443'], named_by: { arg: 'hosts' } },
})

type PendingCall = Awaited<ReturnType<typeof ask>>
const ARGS = {
  words: ['rm', '-r', 'all'],
  amount: 10,
  timeout: 5_000,
  hosts: ['a.example.com:443'],
  password: 'hunter2-hunter2',
}
const ask = (args: Record<string, unknown> = ARGS, name = tool) =>
  fixtures.proposeForApproval(agent.client, name, args)
const idOf = ({ approval }: PendingCall) => ({ id: approval.id })
const startFrom = async (call: PendingCall) =>
  unwrap(await ann.client('readArguments', { params: idOf(call) })).arguments
const yes = (
  call: PendingCall,
  args: Record<string, unknown>,
  more: Record<string, unknown> = {},
  by = ann,
) =>
  by.client('answerApproval', { params: idOf(call), body: { decision: 'approve', arguments: args, ...more } })
const read = async ({ run, id }: Call) =>
  unwrap(await agent.client('readCall', { params: { run, call: id } }))
const approvalOf = async (call: PendingCall) =>
  unwrap(await ann.client('readApproval', { params: idOf(call) }))

test('a call approved with fewer arguments runs with these, its attestation has them, and its agent sees the change', async () => {
  const call = await ask()
  const narrowed = { ...(await startFrom(call)), words: ['rm', 'one'], amount: 5 }
  const preview = unwrap(
    await ann.client('previewAnswer', { params: idOf(call), body: { arguments: narrowed } }),
  )
  expect(preview).toMatchObject({ digest: call.digest, effect: 'allow', more: 0 })
  expect(preview.changes).toEqual([
    { at: '/words/1', from: '"-r"', to: '"one"' },
    { at: '/words/2', from: '"all"', to: null },
    { at: '/amount', from: '10', to: '5' },
  ])
  expect((await approvalOf(call)).digest).toBe(call.digest) // the preview changed nothing
  const approved = unwrap(
    await yes(call, narrowed, { digest: call.digest, becomes: preview.becomes, reason: 'one is enough' }),
  )
  expect(approved).toMatchObject({
    status: 'approved',
    digest: preview.becomes,
    prompt: { command: '["echo","rm","one"]' },
  })
  expect(approved.edits).toMatchObject([
    { by: ann.name, channel: 'api', from: call.digest, changes: preview.changes },
  ])
  // The worker gets the approved arguments, with the hidden value, and signs them.
  const claim = unwrap(await peer.claim(call.id))
  const meant = { ...ARGS, words: ['rm', 'one'], amount: 5 }
  expect([claim.args, claim.plan.executor.argv, claim.facts_digest]).toEqual([
    meant,
    ['echo', 'rm', 'one'],
    preview.becomes,
  ])
  unwrap(await peer.settle(claim))
  const told = await read(call)
  expect(told).toMatchObject({
    state: 'succeeded',
    digest: preview.becomes,
    edited: { arguments: meant, from: call.digest },
  })
  const bundle = unwrap(await agent.client('readAttestation', { params: { run: call.run, call: call.id } }))
  expect([bundle.call.arguments, digestOf(bundle.call)]).toEqual([meant, preview.becomes])
  const journal = unwrap(await agent.client('readJournal', { params: { run: call.run } })).items
  expect(journal.map(({ kind }) => kind)).toEqual(['approval_requested', 'edited', 'claimed', 'succeeded'])
  expect(journal[1]?.body).toMatchObject({
    by: ann.name,
    from: call.digest,
    digest: preview.becomes,
    args_sha256: digestOf(meant),
  })
  expect(JSON.stringify([journal, approved])).not.toContain('hunter2')
})

test('a repeated proposal returns the changed call if it has the arguments that the agent sent first', async () => {
  const headers = { 'idempotency-key': fixtures.name() }
  const body = { tool, args: ARGS }
  const call = unwrap(await agent.client('proposeCallInNewRun', { body, headers })) as PendingCall // it asks for an approval
  unwrap(await yes(call, { ...(await startFrom(call)), amount: 1 }))
  expect(unwrap(await agent.client('proposeCallInNewRun', { body, headers }))).toMatchObject({
    id: call.id,
    edited: { from: call.digest },
  })
  const other = await agent.client('proposeCallInNewRun', {
    body: { tool, args: { ...ARGS, amount: 1 } },
    headers,
  })
  expect(refusalOf(other)).toBe('409 idempotency_key_reused')
})

test.each([
  ['arguments of the wrong type', { words: 'not a list' }, '422 invalid_arguments'],
  ['an argument that the tool lacks', { more: true }, '422 invalid_arguments'],
  ['a higher amount', { amount: 11 }, '422 edit_too_wide'],
  ['more time', { timeout: 6_000 }, '422 edit_too_wide'],
  ['another host', { hosts: ['b.example.com:443'] }, '422 edit_too_wide'],
  ['a host that the tool does not list', { hosts: ['c.example.com:443'] }, '403 denied'],
  [
    'a mark of a hidden value inside another text',
    { note: 'password=«redacted, mark 0000000000000000»' },
    '422 invalid_arguments',
  ],
  ['the same arguments', {}, '409 conflict'],
])('an edit with %s is refused, and the approval stays unchanged', async (_what, change, code) => {
  const call = await ask()
  const before = await approvalOf(call)
  const changed = { ...(await startFrom(call)), ...change }
  expect(
    refusalOf(await ann.client('previewAnswer', { params: idOf(call), body: { arguments: changed } })),
  ).toBe(code)
  expect(refusalOf(await yes(call, changed))).toBe(code)
  expect(await approvalOf(call)).toEqual(before)
  unwrap(await ann.client('answerApproval', { params: idOf(call), body: { decision: 'deny' } }))
})

// ── Edits that reach further at the same cost ──

const shell = await fixtures.tool({
  capabilities: ['process_exec'],
  input_schema: { type: 'object' },
  executor: { argv: ['{command}', '{...args}'] },
})
const write = await fixtures.tool({
  capabilities: ['filesystem_write'],
  input_schema: { type: 'object', properties: { bytes: { type: 'integer', minimum: 0 } } },
  spends: { arg: 'bytes' },
  executor: { argv: ['write'], stdin: 'args' },
})

test.each([
  [
    'another program',
    { command: 'id', args: [] },
    { command: 'sh', args: ['-c', 'id; curl evil.example'] },
    'it runs another program',
  ],
  [
    'a program of the same name in another folder',
    { command: 'id', args: [] },
    { command: './id', args: [] },
    'it runs another program',
  ],
  [
    'a command that no longer only reads',
    { command: 'find', args: ['.'] },
    { command: 'find', args: ['.', '-delete'] },
    'its risk is high',
  ],
])('B1 an edit to %s reaches further and is refused, whoever makes it', async (_what, args, change, why) => {
  const call = await ask(args, shell)
  const looked = await ann.client('previewAnswer', { params: idOf(call), body: { arguments: change } })
  expect([refusalOf(looked), JSON.stringify(looked)]).toEqual([
    '422 edit_too_wide',
    expect.stringContaining(why),
  ])
  expect(refusalOf(await yes(call, change))).toBe('422 edit_too_wide')
  expect(await approvalOf(call)).toMatchObject({ status: 'pending', digest: call.digest })
})

const nonceOf = async (link: string): Promise<string> =>
  /name="nonce" value="([^"]+)"/.exec(await (await fetch(link)).text())?.[1] ??
  expect.fail('the page has no form')

/** Sends an edit as the page behind a link does. */
async function byLink(link: string, fields: Record<string, string>): Promise<[status: number, page: string]> {
  const nonce = fields['nonce'] ?? (await nonceOf(link))
  const headers = { origin: new URL(link).origin, 'content-type': 'application/x-www-form-urlencoded' }
  const answer = await fetch(link, {
    method: 'POST',
    headers,
    body: new URLSearchParams({ nonce, ...fields }).toString(),
  })
  return [answer.status, await answer.text()]
}

test.each([
  ['another program', shell, { command: 'id', args: [] }, { command: 'sh', args: ['-c', 'id'] }],
  [
    'other arguments for the same interpreter',
    shell,
    { command: 'sh', args: ['-c', 'ls'] },
    { command: 'sh', args: ['-c', 'rm -r .'] },
  ],
  ['another path and text', write, { path: 'notes', text: 'hello' }, { path: '.profile', text: 'evil' }],
  [
    'the same arguments in another order',
    shell,
    { command: 'cp', args: ['a', 'b'] },
    { command: 'cp', args: ['b', 'a'] },
  ],
  ['an additional argument', write, { path: 'notes' }, { path: 'notes', mode: 'append' }],
])('B1 an edit through a link can’t add anything: %s', async (_what, name, args, change) => {
  const call = await ask(args, name)
  const link = await fixtures.link(bob.client, call.approval.id)
  const fields = { arguments: JSON.stringify(change) }
  expect(await byLink(link, { ...fields, step: 'change' })).toEqual([
    422,
    expect.stringContaining('This change can’t be made'),
  ])
  // Knowing the digest of the changed call does not help.
  const known = await ann.client('previewAnswer', { params: idOf(call), body: { arguments: change } })
  const becomes = known.ok ? known.value.becomes : 'f'.repeat(64)
  expect((await byLink(link, { ...fields, becomes, decision: 'approve' }))[0]).toBe(422)
  expect(await approvalOf(call)).toMatchObject({ status: 'pending', digest: call.digest })
})

test('B1 an edit through a link can remove arguments and lower the amount', async () => {
  const call = await ask({ path: 'notes', text: 'hello', tags: ['a', { b: 1, c: 2 }, 'd'], bytes: 10 }, write)
  const link = await fixtures.link(bob.client, call.approval.id)
  const text = JSON.stringify({ path: 'notes', tags: [{ c: 2 }], bytes: 5 })
  const [status, page] = await byLink(link, { arguments: text, step: 'change' })
  expect([status, page]).toEqual([200, expect.stringContaining('<span class="tag high">high risk</span>')])
  const becomes =
    /name="becomes" value="([0-9a-f]{64})"/.exec(page)?.[1] ?? expect.fail('the page offers nothing')
  const nonce = await nonceOf(link)
  expect((await byLink(link, { arguments: text, becomes, decision: 'approve' }))[0]).toBe(200)
  expect(await approvalOf(call)).toMatchObject({
    status: 'approved',
    digest: becomes,
    edits: [{ by: bob.name, channel: 'link' }],
  })
  // B12: afterwards the link shows the outcome, and forms of earlier pages change nothing.
  const over = expect.stringMatching(/<h1>Approved<\/h1>[\s\S]*has changed the arguments/)
  expect([(await fetch(link)).status, await (await fetch(link)).text()]).toEqual([200, over])
  expect(await byLink(link, { nonce, decision: 'deny' })).toEqual([409, over])
  expect((await byLink(link, { nonce: [...nonce].reverse().join(''), decision: 'deny' }))[0]).toBe(403)
})

test('B5 the review of a change shows the change and the changed call in full, behind a link and in the console', async () => {
  const long = (middle: string) => `${'A'.repeat(1_500)}${middle}${'B'.repeat(1_500)}`
  const call = await ask({ path: 'notes', text: long('BEFORE'), tags: [long('KEPT')] }, write)
  const link = await fixtures.link(bob.client, call.approval.id)
  const out = { path: 'notes', tags: [long('KEPT')] }
  const [status, page] = await byLink(link, { step: 'change', arguments: JSON.stringify(out) })
  expect([status, page]).toEqual([
    200,
    expect.stringMatching(/The changes in full[\s\S]*BEFORE[\s\S]*The arguments in full[\s\S]*KEPT/),
  ])
  const signedIn = await ConsoleSession.open(fixtures.url, bob.key)
  const path = `/console/approvals/${call.approval.id}`
  const fields = {
    ...(await signedIn.fields(path)),
    step: 'change',
    arguments: JSON.stringify({ ...out, text: long('AFTER') }),
  }
  const shown = await (await signedIn.post(path, fields)).text()
  expect(shown).toMatch(/The changes in full[\s\S]*BEFORE[\s\S]*AFTER[\s\S]*The arguments in full[\s\S]*KEPT/)
  const little = await ask({ path: 'notes', text: 'hello' }, write)
  const [, brief] = await byLink(await fixtures.link(bob.client, little.approval.id), {
    step: 'change',
    arguments: '{"path":"notes"}',
  })
  expect(brief).not.toContain('The whole')
})

test('B10 approving next to an edited text does not approve the original call but leads to the review', async () => {
  const call = await ask({ command: 'echo', args: ['one', 'two'] }, shell)
  const link = await fixtures.link(bob.client, call.approval.id)
  const less = { arguments: '{"command":"echo","args":["one"]}' }
  const console_ = await ConsoleSession.open(fixtures.url, bob.key)
  const path = `/console/approvals/${call.approval.id}`
  const token = await console_.fields(path)
  const byConsole = async (fields: Record<string, string>): Promise<[number, string]> => {
    const answer = await console_.post(path, { ...token, ...fields })
    return [answer.status, await answer.text()]
  }
  const shown = [200, expect.stringMatching(/Approve with these changes\?[\s\S]*>one will do<\/textarea>/)]
  const yes = { ...less, decision: 'approve', reason: 'one will do' }
  expect(await byLink(link, yes)).toEqual(shown)
  expect(await byLink(link, { ...less, standing: 'approve session', reason: 'one will do' })).toEqual(shown)
  expect(await byConsole(yes)).toEqual(shown)
  expect(await byConsole({ ...yes, scope: 'session' })).toEqual(shown)
  for (const by of [(fields: Record<string, string>) => byLink(link, fields), byConsole])
    expect((await by({ decision: 'approve', arguments: '{"command":"sh","args":[]}' }))[0]).toBe(422)
  expect(await approvalOf(call)).toMatchObject({ status: 'pending', digest: call.digest, answers: [] })
  // An unchanged text with other white space approves the agent's call, and a denial beside an edit
  // is a denial.
  expect(
    (
      await byLink(link, { decision: 'approve', arguments: '{"args":["one","two"],\r\n"command":"echo"}' })
    )[0],
  ).toBe(200)
  expect(await approvalOf(call)).toMatchObject({ status: 'approved', digest: call.digest })
  const other = await ask({ command: 'echo', args: ['one', 'two'] }, shell)
  expect(
    (await byLink(await fixtures.link(bob.client, other.approval.id), { ...less, decision: 'deny' }))[0],
  ).toBe(200)
  expect((await approvalOf(other)).status).toBe('denied')
})

test('policy decides on the changed call: it can deny it or require a second approver, and earlier answers don’t count', async () => {
  const name = await fixtures.tool({
    input_schema: SCHEMA,
    spends: { arg: 'amount' },
    executor: { argv: ['echo', '{...words}'] },
    capabilities: ['process_exec'],
  })
  const rule = (id: string, when: string) =>
    `@id("${id}-${name}") forbid (principal, action == Action::"tool.execute/${name}", resource) when { context.args has amount && ${when} };`
  const policies = {
    odd: rule('not-seven', 'context.args.amount == 7'),
    two: rule('two', 'context.args.amount > 5 && context.approval.count < 2'),
  }
  await fixtures.withPolicies(policies, async () => {
    const call = await ask({ words: ['pay'], amount: 10 }, name)
    const link = await fixtures.link(bob.client, call.approval.id)
    expect(
      unwrap(await bob.client('answerApproval', { params: idOf(call), body: { decision: 'approve' } }))
        .status,
    ).toBe('pending')
    expect(refusalOf(await yes(call, { words: ['pay'], amount: 7 }))).toBe('403 denied')
    const edited = unwrap(await yes(call, { words: ['pay'], amount: 8 }))
    expect(edited).toMatchObject({
      status: 'pending',
      answers: [{ by: ann.name }],
      edits: [{ by: ann.name, from: call.digest }],
    })
    expect(edited.digest).not.toBe(call.digest)
    // L3: an approver who saw the original call can't approve the changed one, neither by link nor
    // without a digest.
    expect([(await fetch(link)).status, await fetch(link).then((page) => page.text())]).toEqual([
      410,
      expect.stringContaining('has changed the arguments'),
    ])
    const answer = (body: Record<string, unknown>) =>
      bob.client('answerApproval', { params: idOf(call), body: { decision: 'approve', ...body } })
    expect(refusalOf(await answer({}))).toBe('409 outdated')
    expect(refusalOf(await answer({ digest: call.digest }))).toBe('409 outdated')
    expect(
      refusalOf(
        await ann.client('answerApproval', {
          params: idOf(call),
          body: { decision: 'approve', digest: edited.digest },
        }),
      ),
    ).toBe('409 already_answered')
    expect(unwrap(await answer({ digest: edited.digest }))).toMatchObject({
      status: 'approved',
      answers: [{ by: ann.name }, { by: bob.name }],
    })
    expect(unwrap(await peer.claim(call.id)).args).toEqual({ words: ['pay'], amount: 8 })
    // Below the amount for which policy requires two approvers, one is enough.
    const small = await ask({ words: ['pay'], amount: 10 }, name)
    expect(unwrap(await yes(small, { words: ['pay'], amount: 5 })).status).toBe('approved')
  })
})

test('the arguments of a call can be edited 8 times (`LIMITS.edits`), and the last edit can still be approved', async () => {
  expect(LIMITS.edits).toBe(8)
  const name = await fixtures.tool({
    input_schema: SCHEMA,
    executor: { argv: ['echo', '{...words}'] },
    capabilities: ['process_exec'],
  })
  const two = `@id("two-${name}") forbid (principal, action == Action::"tool.execute/${name}", resource) when { context.approval.count < 2 };`
  await fixtures.withPolicies({ two }, async () => {
    const call = await ask({ words: ['as asked'] }, name)
    const edit = async (n: number) =>
      yes(call, { words: [`${n}`] }, { digest: (await approvalOf(call)).digest }, n % 2 === 0 ? ann : bob)
    for (let n = 1; n <= 8; n++) expect(unwrap(await edit(n)).status).toBe('pending')
    expect(await edit(9)).toMatchObject({
      ok: false,
      error: { code: 'limit_reached', detail: expect.stringContaining('already changed 8 times') },
    })
    const { digest, edits } = await approvalOf(call)
    expect(edits).toHaveLength(8)
    const body = { decision: 'approve' as const, digest }
    expect(unwrap(await bob.client('answerApproval', { params: idOf(call), body })).status).toBe('approved')
    expect(unwrap(await peer.claim(call.id)).args).toEqual({ words: ['8'] })
  })
})

test('an edited call leaves its group of identical approvals, and both are listed with the right count', async () => {
  const name = await fixtures.tool({
    input_schema: SCHEMA,
    executor: { argv: ['echo', '{...words}'] },
    capabilities: ['process_exec'],
  })
  const two = `@id("pair-${name}") forbid (principal, action == Action::"tool.execute/${name}", resource) when { context.approval.count < 2 };`
  await fixtures.withPolicies({ two }, async () => {
    const calls = [
      await ask({ words: ['a', 'b'] }, name),
      await ask({ words: ['a', 'b'] }, name),
      await ask({ words: ['a', 'b'] }, name),
    ]
    const listed = async () =>
      unwrap(await ann.client('listApprovals', { query: { alike: 'once' } }))
        .items.filter(({ call }) => calls.some(({ id }) => id === call))
        .map(({ alike, edits }) => `${alike} ${edits === undefined ? 'as asked' : 'changed'}`)
        .sort()
    await eventually('all three are one', async () => (await listed()).join() === '3 as asked')
    if (calls[0] !== undefined) unwrap(await yes(calls[0], { words: ['a'] }))
    await eventually(
      'one asks something else',
      async () => (await listed()).join() === '1 changed,2 as asked',
    )
  })
})

test('an edit can keep, move or replace a hidden value', async () => {
  const secret = { words: ['a', '--token', 'abcdefghijklmnop'], password: 'hunter2-hunter2' }
  const kept = await ask(secret)
  const shown = await startFrom(kept)
  expect(JSON.stringify(shown)).not.toMatch(/hunter2|abcdefghijklmnop/)
  unwrap(await yes(kept, { ...shown, note: 'kept' }))
  expect(unwrap(await peer.claim(kept.id)).args).toEqual({ ...secret, note: 'kept' })
  // A literal text that looks like a mark stays a literal text.
  const marker = String(shown['password'])
  const literal = await ask({ words: [marker], note: marker, password: secret.password })
  unwrap(await yes(literal, { ...(await startFrom(literal)), words: [marker, 'more'] }))
  expect(unwrap(await peer.claim(literal.id)).args).toEqual({
    words: [marker, 'more'],
    note: marker,
    password: secret.password,
  })
  const replaced = await ask(secret)
  const { password } = await startFrom(replaced)
  unwrap(await yes(replaced, { words: ['b', password], password: 'another' }))
  expect(unwrap(await peer.claim(replaced.id)).args).toEqual({
    words: ['b', 'hunter2-hunter2'],
    password: 'another',
  })
})

test('an operator who may not answer can’t edit; an edit is accepted only with an approval of this one call', async () => {
  const call = await ask()
  const auditor = await fixtures.operator(['auditor'])
  expect(refusalOf(await yes(call, { words: [] }, {}, auditor))).toBe('403 forbidden')
  expect(
    refusalOf(await auditor.client('previewAnswer', { params: idOf(call), body: { arguments: {} } })),
  ).toBe('403 forbidden')
  expect(refusalOf(await yes(call, { words: [] }, { decision: 'deny' }))).toBe('400 invalid_request')
  expect(refusalOf(await yes(call, { words: [] }, { scope: 'session' }))).toBe('400 invalid_request')
  const narrowed = { ...(await startFrom(call)), words: ['a'] }
  expect(refusalOf(await yes(call, narrowed, { becomes: 'f'.repeat(64) }))).toBe('409 outdated')
  expect(refusalOf(await yes(call, narrowed, { digest: 'f'.repeat(64) }))).toBe('409 outdated')
  expect((await approvalOf(call)).edits).toBeUndefined()
})

test('P08 the arguments of a call can’t be edited once its tool has changed', async () => {
  const name = await fixtures.tool({ capabilities: ['process_exec'], input_schema: SCHEMA })
  const call = await ask({ words: ['a'] }, name)
  await fixtures.tool({ capabilities: ['process_exec'], input_schema: SCHEMA, description: 'another' }, name)
  expect(refusalOf(await yes(call, { words: [] }))).toBe('409 conflict')
})

test('P11 if an edit, two answers, a cancellation and the expiry coincide, exactly one wins, and only its call runs', {
  timeout: 90_000,
}, async () => {
  const urgent = await fixtures.tool({
    capabilities: ['process_exec'],
    input_schema: SCHEMA,
    approval_ttl_s: 1,
    executor: { argv: ['echo', '{...words}'] },
  })
  const seen = new Set<string>()
  for (let round = 0; round < 4; round++) {
    const calls = await Promise.all(
      Array.from({ length: 15 }, () => ask({ words: ['long'] }, round === 3 ? urgent : tool)),
    )
    if (round === 3)
      await eventually(
        'the expiry is near',
        () => Date.now() >= Math.max(...calls.map(({ approval }) => approval.expires_at)) - 20,
      )
    await Promise.all(
      calls.map(async (call, i) => {
        const racers = [
          () => yes(call, { words: ['short'] }),
          () => bob.client('answerApproval', { params: idOf(call), body: { decision: 'approve' } }),
          () => yes(call, { words: [] }, {}, bob),
          () => agent.client('cancelCall', { params: { run: call.run, call: call.id } }),
        ]
        const [first, ...rest] = [...racers.slice(i % 4), ...racers.slice(0, i % 4)]
        const running = first?.()
        // In every other race the first request arrives before the others start, so that the
        // fastest verb does not always win.
        if (i % 8 < 4) await running
        await Promise.all([running, ...rest.map((race) => race())])
      }),
    )
    for (const call of calls) {
      const now = await eventually('it is decided', async () => {
        const one = await read(call)
        return one.state === 'awaiting_approval' ? undefined : one
      })
      const kinds = unwrap(await agent.client('readJournal', { params: { run: call.run } })).items.map(
        ({ kind }) => kind,
      )
      const told = kinds.slice(1, 2).join()
      seen.add(told)
      expect(['approved', 'edited', 'cancelled', 'expired']).toContain(told)
      expect(kinds.filter((kind) => kind === 'approved' || kind === 'edited').length).toBeLessThanOrEqual(1)
      const { digest, edits = [] } = await approvalOf(call)
      expect([digest, digest === call.digest]).toEqual([now.digest, edits.length === 0])
    }
  }
  expect(seen.size).toBeGreaterThan(1)
})
