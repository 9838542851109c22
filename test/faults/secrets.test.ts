// Promise: on a whole stack with a real worker, a secret reaches its tool and nothing else: no file
// of edge, Redis or worker, no log and no response contains it, while the call runs and after (L7,
// V02).

import { afterAll, beforeAll, expect, test } from 'vitest'
import { sha256 } from '../../shared/bytes/json.ts'
import type { ProcessToolSpec } from '../../shared/wire/tools.ts'
import { eventually } from '../support/eventually.ts'
import { refusalOf, unwrap } from '../support/fixtures.ts'
import { HurtStack, revive, strike } from '../support/stack/hurt-stack.ts'
import { fileOf, runFileOf } from '../support/stack/object-file.ts'

const CANARY = 'CANARY-of-the-vault-0w3b'
const READING =
  'sha256sum < /run/secrets/token; cat /run/secrets/token; base64 /run/secrets/token >&2; sleep 2'
const READS: ProcessToolSpec = {
  description: 'says what it was given, and that it was given it',
  input_schema: { type: 'object', properties: {} },
  capabilities: [],
  executor: { kind: 'process', tiers: ['C'], argv: ['/bin/sh', '-c', READING], stdin: 'none' },
  egress: { mode: 'strict', hosts: [] },
  secrets: ['token'],
  workspace: 'call',
  limits: {},
}
let hurt: HurtStack
beforeAll(async () => {
  hurt = await HurtStack.start()
})
afterAll(() => hurt?.stop())

/** The part of its base64 form that does not depend on the bytes around it. */
const FORMS = [
  CANARY,
  Buffer.from(CANARY).toString('hex'),
  ...['', 'a', 'ab'].map((before) => btoa(before + CANARY).slice(4, -4)),
]
const holding = (): string[] => FORMS.flatMap((form) => hurt.filesWith(form))

test('V02 V01 a secret is in no file, log or response while its tool runs and after', async () => {
  unwrap(
    await hurt.operator('putSecret', {
      params: { name: 'token' },
      body: { value: CANARY, tools: ['reads_token'] },
    }),
  )
  unwrap(await hurt.operator('putTool', { params: { name: 'reads_token' }, body: READS }))
  const asked = await hurt.propose('reads_token', {})
  unwrap(
    await hurt.operator('answerApproval', {
      params: { id: asked.approval?.id ?? '' },
      body: { decision: 'approve' },
    }),
  )
  await hurt.until(asked, ['running'])
  expect(holding()).toEqual([])
  const ended = await hurt.ended(asked)
  expect([ended.state, ended.result?.error]).toEqual(['succeeded', undefined])
  expect(ended.result?.output).toBe(`${sha256(CANARY)}  -\n«secret token»`)
  expect(ended.result?.stderr).toContain('«secret token»')
  const { run, id } = asked
  const responses = JSON.stringify([
    ended,
    unwrap(await hurt.operator('readJournal', { params: { run }, query: {} })),
    unwrap(await hurt.operator('readAttestation', { params: { run, call: id } })),
    unwrap(await hurt.operator('listSecrets', {})),
  ])
  for (const form of FORMS) expect(responses).not.toContain(form)
  await eventually(
    'the stack’s files are at rest',
    () => holding().length === 0 && hurt.filesWith(id).length > 0,
  )
})

test('control: the search finds a value that is not secret', async () => {
  const mark = 'CANARY-that-is-no-secret'
  const call = await hurt.propose('mark_quickly', { mark: `${mark}\n` })
  await hurt.ended(call)
  expect(hurt.filesWith(mark)).not.toEqual([])
})

test('a stored secret can be used after the edge was killed', async () => {
  await hurt.stack.edge.restart()
  const call = await hurt.propose('reads_token', {})
  unwrap(
    await hurt.operator('answerApproval', {
      params: { id: call.approval?.id ?? '' },
      body: { decision: 'approve' },
    }),
  )
  expect((await hurt.ended(call, 30_000)).result?.output).toContain(sha256(CANARY))
})

test('D5 V01 a tool that receives a secret can’t be registered to share the folder of its run', async () => {
  const put = await hurt.operator('putTool', {
    params: { name: 'keeps_token' },
    body: { ...READS, workspace: 'run' },
  })
  expect(refusalOf(put)).toBe('400 invalid_request')
  expect(put).toMatchObject({
    error: { detail: expect.stringMatching(/^\/secrets: .*`credentials`.*"call"/) },
  })
  expect(refusalOf(await hurt.operator('readTool', { params: { name: 'keeps_token' } }))).toBe(
    '404 not_found',
  )
})

test('D5 V01 calls of a tool with secret and shared folder from an older directory are denied, even while they wait for approval', async () => {
  const name = 'reads_token'
  const waiting = await hurt.propose(name, {})
  await hurt.stack.edge.stop()
  const tenant = fileOf('tenant', hurt.stack.state.dir)
  tenant
    .prepare("update tools set spec = json_set(spec, '$.workspace', 'run') where name = ? and active = 1")
    .run(name)
  tenant.close()
  const run = runFileOf(waiting.run, hurt.stack.state.dir)
  run.exec("update calls set record = json_set(record, '$.proposal.plan.workspace', 'run')")
  run.close()
  await revive(hurt.stack.edge)

  const fresh = await hurt.propose(name, {})
  expect(fresh).toMatchObject({
    state: 'denied',
    decision: { effect: 'deny', code: 'secret_in_run_folder', policies: ['tool.secrets'] },
  })
  expect(fresh.decision.reason).toMatch(/folder of its run.*`credentials`/)
  const decision = { decision: 'approve' as const }
  expect(
    unwrap(
      await hurt.operator('answerApproval', { params: { id: waiting.approval?.id ?? '' }, body: decision }),
    ).status,
  ).toBe('denied')
  expect(await hurt.read(waiting)).toMatchObject({
    state: 'denied',
    decision: { code: 'denied', reason: fresh.decision.reason },
  })
  await strike(hurt.stack.edge)
  await revive(hurt.stack.edge) // it opens such a directory at every start
  expect((await hurt.propose(name, {})).state).toBe('denied')
})
