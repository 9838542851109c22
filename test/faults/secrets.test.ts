// Promise: on a whole stack with a real worker, a secret reaches its tool and nothing else: no file
// of edge, Redis or worker, no log and no response contains it, while the call runs and after (L7,
// V02).

import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { sha256 } from '../../shared/bytes/json.ts'
import { verifyBundle } from '../../shared/evidence/bundle.ts'
import type { Envelope } from '../../shared/evidence/dsse.ts'
import { followChain, type Keys, readKeys } from '../../shared/evidence/keys.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Call } from '../../shared/wire/calls.ts'
import type { ProcessToolSpec } from '../../shared/wire/tools.ts'
import { attested } from '../support/auditor.ts'
import { type CliResult, countersign } from '../support/countersign.ts'
import { eventually } from '../support/eventually.ts'
import { refusalOf, unwrap } from '../support/fixtures.ts'
import { HurtStack, insist, revive, strike } from '../support/stack/hurt-stack.ts'
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

/** A call of the tool with the secret, approved. */
async function readsToken(): Promise<Call> {
  const call = await hurt.propose('reads_token', {})
  const params = { id: call.approval?.id ?? '' }
  unwrap(await hurt.operator('answerApproval', { params, body: { decision: 'approve' } }))
  return hurt.ended(call, 30_000)
}

const keys = (): Promise<Keys> => hurt.operator('keys', { query: {} }).then(unwrap)
const edgeKids = ({ keys }: Keys): string[] => keys.flatMap(({ role, kid }) => (role === 'edge' ? [kid] : []))
const onHost = async (...args: readonly string[]): Promise<CliResult> => {
  const done = await countersign(args, { env: { COUNTERSIGN_STATE: hurt.stack.state.dir } })
  if (done.code !== 0) throw new Error(done.err)
  return done
}
const pinnedByWorker = (): string => {
  const [file = ''] = globSync(join(hurt.stack.state.worker, '**/key.json'))
  return JSON.parse(readFileSync(file, 'utf8')).edge.kid
}
const kidsOf = ({ signatures }: Envelope): string[] => signatures.map(({ keyid }) => keyid)

test('T03 the edge’s key is rotated while calls run: they end, old and new evidence verifies, and secrets reach their tools', async () => {
  const pinned = await keys()
  const [first = ''] = edgeKids(pinned)
  const before = await hurt.ended(await hurt.propose('mark_quickly', { mark: 'before\n' }))
  const waiting = await hurt.propose('reads_token', {})
  const running = await hurt.propose('mark_slowly', { mark: 'during\n', seconds: '3' })
  await hurt.until(running, ['running'])
  await onHost('keys', 'rotate')
  await hurt.stack.edge.restart()
  const params = { id: waiting.approval?.id ?? '' }
  unwrap(await insist(() => hurt.operator('answerApproval', { params, body: { decision: 'approve' } })))
  expect((await hurt.ended(waiting, 30_000)).result?.output).toContain(sha256(CANARY))
  expect((await hurt.ended(running)).state).toBe('succeeded')

  const rotated = await keys()
  const [, second = ''] = edgeKids(rotated)
  expect(followChain(pinned, rotated).ok && readKeys(rotated).ok).toBe(true)
  const [old, now] = rotated.keys
  expect((old?.until_ms ?? 0) - (now?.from_ms ?? 0)).toBe(3_600_000)
  expect(LIMITS.key_overlap_s).toBe(3_600)
  expect(pinnedByWorker()).toBe(second)
  for (const call of [before, waiting, running]) await attested(hurt, await hurt.read(call))
  const params2 = { run: running.run, call: running.id }
  const bundle = unwrap(await hurt.agent('readAttestation', { params: params2 }))
  expect([bundle.grant && kidsOf(bundle.grant), kidsOf(bundle.envelope)]).toEqual([
    [first],
    [expect.any(String), second],
  ])
})

test('T03 a distrusted key signs nothing more, and a worker that was off follows two links with a new key of its own', async () => {
  const last = await hurt.ended(await hurt.propose('mark_quickly', { mark: 'second\n' }))
  await hurt.stack.worker.stop()
  await hurt.rotateWorkerKey()
  await onHost('keys', 'rotate')
  const [, second = '', third = ''] = edgeKids(await keys())
  expect(third).toBe('')
  const { ended_at_ms } = (await attested(hurt, last)).predicate.execution
  const since = new Date(ended_at_ms + 1).toISOString()
  const distrusted = await onHost('keys', 'distrust', second, '--from', since)
  expect(distrusted.out).toContain('distrusted')
  await hurt.stack.edge.restart()
  await onHost('keys', 'forget')
  await hurt.stack.edge.restart()
  await revive(hurt.stack.worker)
  expect((await readsToken()).result?.output).toContain(sha256(CANARY))
  const now = await keys()
  expect(pinnedByWorker()).toBe(edgeKids(now).at(-1))
  await attested(hurt, last)
  expect(now.keys.filter(({ role }) => role === 'worker').map(({ status }) => status)).toEqual([
    'retired',
    'active',
  ])
  const bundle = unwrap(await hurt.agent('readAttestation', { params: { run: last.run, call: last.id } }))
  const stolen = now.keys.map((key) =>
    key.kid === second ? { ...key, distrusted_from_ms: ended_at_ms } : key,
  )
  expect(verifyBundle(bundle, { ...now, keys: stolen }).ok).toBe(false)
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
