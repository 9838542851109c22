// Promise: a secret leaves the edge only in the answer to a claim, for a tool that may use it.
// Calls whose tool may not use a secret are denied in the same way whether the secret belongs to
// another tool, was removed, or never existed.

import { afterAll, expect, test } from 'vitest'
import { sha256 } from '../../../shared/bytes/json.ts'
import { LIMITS } from '../../../shared/limits.ts'
import type { Call } from '../../../shared/wire/calls.ts'
import { countersign } from '../../support/countersign.ts'
import { Fixtures, refusalOf, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'
import { PeerWorker } from '../../support/worker/peer-worker.ts'

const fixtures = new Fixtures('secrets', sharedStack())
const peer = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)
const agent = await fixtures.agent()

const put = (name: string, value: string, tools: string[], by = fixtures.root) =>
  by('putSecret', { params: { name }, body: { value, tools } })
const made: string[] = []
async function secret(value: string, tools: string[]): Promise<string> {
  const name = fixtures.name()
  unwrap(await put(name, value, tools))
  made.push(name)
  return name
}
/** A tool with a new secret. */
async function wanting(value: string): Promise<{ tool: string; name: string }> {
  const tool = fixtures.name()
  const name = await secret(value, [tool])
  await fixtures.tool({ secrets: [name] }, tool)
  return { tool, name }
}
const approved = async (tool: string, args = {}) => {
  const call = await fixtures.proposeForApproval(agent.client, tool, args)
  unwrap(await fixtures.approve(call.approval.id))
  return call
}
const propose = async (tool: string) =>
  unwrap(await agent.client('proposeCallInNewRun', { body: { tool, args: {} } }))

afterAll(async () => {
  for (const name of made) await fixtures.root('deleteSecret', { params: { name } })
})

test('a secret is listed without its value, and storing it again creates the next version', async () => {
  const name = await secret('correct horse battery', ['some_tool'])
  expect(unwrap(await put(name, 'staple correct horse', ['some_tool', 'other_tool'])).version).toBe(2)
  const { items } = unwrap(await fixtures.root('listSecrets', {}))
  expect(items.find((item) => item.name === name)).toEqual({
    name,
    version: 2,
    tools: ['some_tool', 'other_tool'],
    put_by: 'root',
    put_at_ms: expect.any(Number),
  })
  unwrap(await fixtures.root('deleteSecret', { params: { name } }))
  expect(refusalOf(await fixtures.root('deleteSecret', { params: { name } }))).toBe('404 not_found')
})

test('policy decides who may list and store secrets, and a value that is too short, too long or for no tool is refused', async () => {
  const [auditor, approver] = [await fixtures.operator(['auditor']), await fixtures.operator(['approver'])]
  for (const { client } of [auditor, approver]) {
    expect(unwrap(await client('listSecrets', {})).items).toBeInstanceOf(Array)
    expect(refusalOf(await put('mine', 'correct horse', ['t'], client))).toBe('403 forbidden')
    expect(refusalOf(await client('deleteSecret', { params: { name: 'mine' } }))).toBe('403 forbidden')
  }
  expect(refusalOf(await agent.client('listSecrets', {}))).toBe('403 forbidden')
  for (const [value, tools] of [
    ['short', ['t']],
    ['x'.repeat(LIMITS.secret_chars + 1), ['t']],
    ['long enough', []],
  ] as const)
    expect(refusalOf(await put('mine', value, [...tools]))).toBe('400 invalid_request')
})

test('L7 a claim hands over the current value of a secret, and nothing else of the call contains it', async () => {
  const { tool, name } = await wanting('first-value-of-it')
  const call = await approved(tool)
  unwrap(await put(name, 'second-value-of-it', [tool]))
  const claim = unwrap(await peer.claim(call.id))
  expect([claim.plan.secrets, claim.secrets]).toEqual([[name], { [name]: 'second-value-of-it' }])
  expect(unwrap(await peer.claim(call.id)).secrets).toEqual(claim.secrets) // as if the first answer was lost
  unwrap(await peer.settle(claim))
  const { run, id } = call
  const responses = JSON.stringify([
    Buffer.from(claim.grant.payload, 'base64').toString(),
    unwrap(await fixtures.root('readCall', { params: { run, call: id } })),
    unwrap(await fixtures.root('readApproval', { params: { id: call.approval.id } })),
    unwrap(await fixtures.root('readJournal', { params: { run }, query: {} })),
    unwrap(await fixtures.root('readAttestation', { params: { run, call: id } })),
  ])
  expect(responses).toContain(name)
  expect(responses).not.toMatch(/value-of-it/)
})

test('V03 a secret of another tool, a removed one and one that never existed deny a call with the same reason', async () => {
  const theirs = await secret('not yours at all', ['other_tool'])
  const never = `${fixtures.name()}-never`
  const reasons: string[] = []
  for (const name of [theirs, never]) {
    const { state, decision } = await propose(await fixtures.tool({ secrets: [name] }))
    expect([state, decision.code, decision.policies]).toEqual(['denied', 'denied', ['vault.secrets']])
    reasons.push(decision.reason.replaceAll(name, 'NAME').replace(/`secrets-\d+`/, 'TOOL'))
  }
  expect(new Set(reasons)).toEqual(new Set(['there is no secret `NAME` for TOOL']))
  const { tool, name } = await wanting('gone before long')
  const call = await approved(tool)
  unwrap(await fixtures.root('deleteSecret', { params: { name } }))
  expect(refusalOf(await peer.claim(call.id))).toBe('409 not_claimable')
  const { state, decision } = unwrap(
    await fixtures.root('readCall', { params: { run: call.run, call: call.id } }),
  )
  expect([state, decision.reason]).toEqual(['cancelled', `there is no secret \`${name}\` for \`${tool}\``])
})

test('V03 a repeated claim is refused if the secret was since taken from the tool or bound to a host', async () => {
  const { tool, name } = await wanting('lent for a while')
  const call = await approved(tool)
  unwrap(await peer.claim(call.id))
  const again = async () => {
    const claim = await peer.claim(call.id)
    return claim.ok ? claim.value.secrets : refusalOf(claim)
  }
  expect(await again()).toEqual({ [name]: 'lent for a while' })
  unwrap(await put(name, 'for another tool now', ['other_tool']))
  expect(await again()).toBe('409 not_claimable')
  const bound = { value: 'for a host alone now', tools: [tool], hosts: ['erp.example.com:443'] }
  unwrap(await fixtures.root('putSecret', { params: { name }, body: bound }))
  expect(await again()).toBe('409 not_claimable')
  unwrap(await put(name, 'its own once more', [tool]))
  expect(await again()).toEqual({ [name]: 'its own once more' })
})

test('V03 an agent that may not call a tool learns nothing about its secrets, not even whether they exist', async () => {
  const outsider = await fixtures.agent({ tools: [] })
  const { tool, name } = await wanting('nothing for outsiders')
  const never = `${fixtures.name()}-never`
  for (const asked of [tool, await fixtures.tool({ secrets: [never] })]) {
    const body = { tool: asked, args: {} }
    const [call, dry] = [
      await outsider.client('proposeCallInNewRun', { body }),
      await outsider.client('decide', { body }),
    ]
    const { id, run, decision } = unwrap(call)
    expect(decision.policies).toEqual(unwrap(await outsider.client('decide', { body })).decision.policies)
    const explained = unwrap(await outsider.client('explainCall', { params: { run, call: id } }))
    const responses = JSON.stringify([call, dry, explained])
    for (const secret of [name, never, 'vault.secrets']) expect(responses).not.toContain(secret)
  }
})

test('policy can forbid calls by the secrets in their plan', async () => {
  const { tool, name } = await wanting('for nobody at all')
  const texts = {
    vault: `@id("nobody-${name}") forbid (principal, action in Action::"tool.execute", resource) when { context.plan.secrets.contains("${name}") };`,
  }
  await fixtures.withPolicies(texts, async () =>
    expect((await propose(tool)).decision.policies).toEqual([`nobody-${name}`]),
  )
})

test('a tool that receives secrets runs in tier C even if its contract allows tier B', async () => {
  const tool = fixtures.name()
  const name = await secret('only in a wall', [tool])
  await fixtures.tool({ secrets: [name], executor: { tiers: ['B', 'C'] } }, tool)
  const call = await fixtures.proposeForApproval(agent.client, tool)
  expect(call.plan?.tier).toBe('C')
  unwrap(await fixtures.root('cancelRun', { params: { run: call.run } }))
})

test('V02 V01 a secret value that an agent sends is masked on cards, pages, explanations and editable arguments in every encoding', async () => {
  const value = `K+9/"${fixtures.name()}"/ü`
  const { tool } = await wanting(value)
  const bytes = Buffer.from(value)
  const forms = [
    value,
    JSON.stringify({ deep: value }),
    bytes.toString('hex'),
    encodeURIComponent(value),
    ...['', 'a', 'ab'].map((before) => Buffer.from(`${before}${value}rest`).toString('base64')),
  ]
  const call = await fixtures.proposeForApproval(agent.client, tool, {
    text: 'as it is',
    forms,
    [value]: { [value]: 1 },
  })
  const id = call.approval.id
  const page = await fetch(await fixtures.link(fixtures.root, id))
  const responses = [
    JSON.stringify(unwrap(await fixtures.root('readApproval', { params: { id } }))),
    JSON.stringify(unwrap(await fixtures.root('readArguments', { params: { id } }))),
    JSON.stringify(unwrap(await fixtures.root('explainCall', { params: { run: call.run, call: call.id } }))),
    await page.text(),
  ]
  for (const text of responses) {
    expect(text).not.toContain(value.slice(6))
    for (const form of forms.slice(2)) expect(text).not.toContain(form)
  }
  expect(responses[0]).toContain('as it is')
  expect(responses[0]?.match(/«redacted, mark/g)?.length).toBeGreaterThanOrEqual(forms.length)
  unwrap(await fixtures.root('cancelRun', { params: { run: call.run } }))
})

test('V02 the former value of a replaced or removed secret stays masked in calls that still wait', async () => {
  const { tool, name } = await wanting('the first of its values')
  const call = await fixtures.proposeForApproval(agent.client, tool, {
    text: 'the first of its values',
    kept: 'as it is',
  })
  const { id } = call.approval
  const expectMasked = async (): Promise<void> => {
    const responses = JSON.stringify([
      unwrap(await fixtures.root('readApproval', { params: { id } })),
      unwrap(await fixtures.root('readArguments', { params: { id } })),
      unwrap(await fixtures.root('explainCall', { params: { run: call.run, call: call.id } })),
      await (await fetch(await fixtures.link(fixtures.root, id))).text(),
    ])
    expect(responses).toContain('as it is')
    expect(responses).not.toContain('the first of its values')
  }
  await expectMasked()
  unwrap(await put(name, 'the second of its values', [tool]))
  await expectMasked()
  unwrap(await fixtures.root('deleteSecret', { params: { name } }))
  await expectMasked()
  unwrap(await fixtures.root('cancelRun', { params: { run: call.run } }))
})

test('the last `LIMITS.former_secrets` former values stay masked, and older ones do not', async () => {
  const { tool, name } = await wanting('value number 0')
  const texts = ['value number 0', 'value number 1']
  const call = await fixtures.proposeForApproval(agent.client, tool, { texts })
  const shown = async () => {
    const view = JSON.stringify(
      unwrap(await fixtures.root('readArguments', { params: { id: call.approval.id } })),
    )
    return texts.filter((text) => view.includes(text))
  }
  for (let n = 1; n <= LIMITS.former_secrets; n++) unwrap(await put(name, `value number ${n}`, [tool]))
  expect(await shown()).toEqual([])
  unwrap(await put(name, 'the last value', [tool]))
  expect(await shown()).toEqual(['value number 0'])
  unwrap(await fixtures.root('cancelRun', { params: { run: call.run } }))
})

test('the command line stores a secret from standard input byte for byte, and refuses bytes that are not text', async () => {
  const tool = fixtures.name()
  const name = await secret('put by the command line', [tool])
  await fixtures.tool({ secrets: [name] }, tool)
  const from = (stdin: string | Uint8Array) =>
    countersign(['secrets', 'put', name, '-', '--tools', tool], {
      env: { COUNTERSIGN_URL: fixtures.url, COUNTERSIGN_KEY: fixtures.rootKey },
      stdin,
    })
  const refused = await from(Buffer.from([...Buffer.from('a key of bytes '), 0xff, 0xfe]))
  expect(refused).toMatchObject({
    code: 1,
    out: '',
    err: expect.stringContaining('the secret is not UTF-8 text'),
  })
  expect(
    unwrap(await fixtures.root('listSecrets', {})).items.find((item) => item.name === name)?.version,
  ).toBe(1)
  expect(await from('schlüssel €\r\n  of lines\t\n\n')).toMatchObject({ code: 0, err: '' })
  const claim = unwrap(await peer.claim((await approved(tool)).id))
  expect(claim.secrets).toEqual({ [name]: 'schlüssel €\r\n  of lines\t\n' })
})

test('V02 a card masks a secret value in the path of a file, a host, a program and a session', async () => {
  const value = 's3cr3t-value-of-erp'
  await secret(value, ['some_tool'])
  const promptOf = async (call: Call) => {
    const { prompt } = unwrap(
      await fixtures.root('readApproval', { params: { id: call.approval?.id ?? '' } }),
    )
    expect(JSON.stringify(prompt)).not.toContain(value)
    return prompt
  }
  const taking = await fixtures.tool({ input_files: true, capabilities: ['process_exec'] })
  const run = unwrap(await agent.client('createRun', { body: {} })).id
  unwrap(await agent.client('putFile', { params: { run, sha256: sha256('x') }, body: Buffer.from('x') }))
  const files = [{ path: `in/${value}/data.csv`, sha256: sha256('x') }]
  const bringing = unwrap(
    await agent.client('proposeCall', { params: { run }, body: { tool: taking, args: {}, files } }),
  )
  expect((await promptOf(bringing)).plan).toMatch(/"in\/«redacted, mark [0-9a-f]{16}»\/data.csv"/)

  const reaching = await fixtures.tool({
    capabilities: ['process_exec'],
    input_schema: { type: 'object', properties: { command: { type: 'string' }, host: { type: 'string' } } },
    executor: { argv: ['{command}'] },
    egress: { mode: 'strict', hosts: ['.example.org:443'], named_by: { arg: 'host' } },
  })
  const args = { command: value, host: `${value}.example.org:443` }
  const call = unwrap(
    await agent.client('proposeCallInNewRun', {
      body: { tool: reaching, args, run: { session: `a\`${value}` } },
    }),
  )
  const { plan, standing } = await promptOf(call)
  for (const text of [plan, standing?.covers])
    expect(text).toMatch(/with network to «redacted, mark [0-9a-f]{16}».example.org:443 only/)
  expect(standing?.covers).toContain('in session `a\\u{60}«redacted')
  unwrap(
    await fixtures.root('answerApproval', {
      params: { id: call.approval?.id ?? '' },
      body: { decision: 'approve', scope: 'session' },
    }),
  )
  const stands = unwrap(await fixtures.root('listStanding', {})).items.find(
    ({ approval }) => approval === call.approval?.id,
  )
  expect(stands?.covers).toBe(standing?.covers)
})
