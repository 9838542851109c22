// Input files of calls: stored in the run by digest, named by the call, and part of its digest,
// card and evidence. Only the worker that runs the call can read the bytes, and only while it runs
// it.

import { expect, test } from 'vitest'
import { sha256 } from '../../../shared/bytes/json.ts'
import { LIMITS } from '../../../shared/limits.ts'
import { bearer, client } from '../../../shared/routes/client.ts'
import { Fixtures, refusalOf, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'
import { grantOf, PeerWorker } from '../../support/worker/peer-worker.ts'
import { processPlan } from '../../support/worker/process-plan.ts'

const fixtures = new Fixtures('files', sharedStack())
const [agent, stranger] = [await fixtures.agent(), await fixtures.agent()]
const [taking, asking, keeping, refusing] = [
  await fixtures.tool({ input_files: true, executor: { tiers: ['B', 'C'] } }),
  await fixtures.tool({ input_files: true, capabilities: ['process_exec'] }),
  await fixtures.tool({ output_files: true, executor: { tiers: ['B', 'C'] } }),
  await fixtures.tool(),
]
const [peer, other] = [
  await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool),
  await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool),
]

const newRun = async () => unwrap(await agent.client('createRun', { body: {} })).id
const put = (run: string, text: string | Uint8Array, digest = sha256(text), by = agent) =>
  by.client('putFile', { params: { run, sha256: digest }, body: Buffer.from(text) })
const propose = (run: string, tool: string, files: { path: string; sha256: string }[], key?: string) =>
  agent.client('proposeCall', {
    params: { run },
    body: { tool, args: {}, files },
    ...(key === undefined ? {} : { headers: { 'idempotency-key': key } }),
  })
const part = (by: PeerWorker, call: string, digest: string, n = 0) =>
  by.client('readInput', { params: { call, sha256: digest, part: `${n}` } })

test.concurrent('an upload is accepted, and repeated, only with the bytes of its digest, within the limit and by the run’s agent', async () => {
  const run = await newRun()
  expect(unwrap(await put(run, 'hello'))).toEqual({ sha256: sha256('hello'), bytes: 5 })
  unwrap(await put(run, 'hello'))
  unwrap(await put(run, ''))
  expect(refusalOf(await put(run, 'hellO', sha256('hello')))).toBe('422 digest_mismatch')
  expect(refusalOf(await put(run, 'x', sha256('x'), stranger))).toBe('404 not_found')
  // The refusal comes while the client still sends: some clients see it, some a closed connection.
  const large = await put(run, Buffer.alloc(LIMITS.file_bytes + 1)).then(
    refusalOf,
    (thrown: Error) => `${thrown.cause ?? thrown}`,
  )
  expect(large).toMatch(/^413 body_too_large$|EPIPE|ECONNRESET|other side closed/)
  expect(unwrap(await put(run, 'afterwards'))).toEqual({ sha256: sha256('afterwards'), bytes: 10 })
  const operator = client(fixtures.url, bearer(fixtures.rootKey))
  expect(
    refusalOf(await operator('putFile', { params: { run, sha256: sha256('x') }, body: Buffer.from('x') })),
  ).toBe('403 forbidden')
})

test.concurrent('a run refuses files above its limit of bytes', { timeout: 60_000 }, async () => {
  const run = await newRun()
  const whole = LIMITS.run_files_bytes / LIMITS.file_bytes
  for (let n = 0; n < whole; n++) unwrap(await put(run, Buffer.alloc(LIMITS.file_bytes, n)))
  expect(refusalOf(await put(run, 'one more'))).toBe('409 too_many_files')
})

test.concurrent('a run has at most 256 files (`run_files`)', { timeout: 60_000 }, async () => {
  const run = await newRun()
  for (let n = 0; n < 256; n += 16)
    for (const answer of await Promise.all(Array.from({ length: 16 }, (_, i) => put(run, `file ${n + i}`))))
      unwrap(answer)
  expect(refusalOf(await put(run, 'one more'))).toBe('409 too_many_files')
  unwrap(await put(run, 'file 255')) // which it has
})

test.concurrent('a grant lasts 10 s longer than its call (`settle_grace_ms`), and a minute more if it has files (`files_ms`)', async () => {
  const run = await newRun()
  unwrap(await put(run, 'an input'))
  const lasts = async (tool: string, files: { path: string; sha256: string }[]) => {
    const { id } = unwrap(await propose(run, tool, files))
    const { issued_at_ms, deadline_ms } = grantOf(unwrap(await peer.claim(id)).grant)
    return deadline_ms - issued_at_ms
  }
  const plain = await fixtures.tool({ limits: { timeout_ms: 7_000 } })
  const taker = await fixtures.tool({
    limits: { timeout_ms: 7_000 },
    input_files: true,
    executor: { tiers: ['B', 'C'] },
  })
  expect(await lasts(plain, [])).toBe(17_000)
  expect(await lasts(taker, [{ path: 'a', sha256: sha256('an input') }])).toBe(77_000)
})

test.concurrent('an agent can upload only if one of its tools takes files, and only within its quota', async () => {
  const idle = await fixtures.agent({ tools: [refusing] })
  const of = async (by: typeof agent) => unwrap(await by.client('createRun', { body: {} })).id
  expect(refusalOf(await put(await of(idle), 'x', sha256('x'), idle))).toBe('403 forbidden')
  const small = await fixtures.agent({ files_bytes: 10 })
  const [one, another] = [await of(small), await of(small)]
  const all = await Promise.all(['aaaa', 'bbbb', 'cccc'].map((text) => put(one, text, sha256(text), small)))
  expect(all.map((answer) => answer.ok).filter(Boolean)).toHaveLength(2)
  expect(refusalOf(await put(another, 'dddd', sha256('dddd'), small))).toBe('409 storage_full')
  unwrap(await put(another, 'dd', sha256('dd'), small))
  const items = async (by: typeof agent) => by.client('listFiles', { params: { run: one } })
  expect(unwrap(await items(small)).items.map(({ bytes, named }) => [bytes, named])).toEqual([
    [4, false],
    [4, false],
  ])
  expect(refusalOf(await items(stranger))).toBe('404 not_found')
  const [first, second] = unwrap(await items(small)).items
  const text = ['aaaa', 'bbbb', 'cccc'].find((each) => sha256(each) === first?.sha256) ?? ''
  unwrap(await put(one, text, sha256(text), small))
  const renewed = unwrap(await items(small)).items
  expect(renewed.map(({ sha256: digest }) => digest)).toEqual([second?.sha256, first?.sha256]) // uploading it again restarts its lifetime
  expect(renewed[1]?.until_ms).toBeGreaterThan(first?.until_ms ?? Number.POSITIVE_INFINITY)
})

test.concurrent('input files are part of plan, digest, card and evidence, and only tier C takes them', async () => {
  const run = await newRun()
  unwrap(await put(run, 'a,b\n'))
  unwrap(await put(run, 'c,d\n'))
  const files = [{ path: 'in/data.csv', sha256: sha256('a,b\n') }]
  const call = unwrap(await propose(run, taking, files))
  expect(call.plan).toMatchObject({ tier: 'C', files: [{ ...files[0], bytes: 4 }] })
  const waiting = unwrap(await propose(run, asking, files))
  const { prompt } = unwrap(
    await fixtures.root('readApproval', { params: { id: waiting.approval?.id ?? '' } }),
  )
  expect(prompt.plan).toContain(`\`"in/data.csv"\` (4 bytes, sha256 ${sha256('a,b\n')})`)

  const [one, two] = [
    await propose(run, taking, files),
    await propose(run, taking, [{ path: 'in/data.csv', sha256: sha256('c,d\n') }]),
  ]
  expect(processPlan(unwrap(one).plan).files).not.toEqual(processPlan(unwrap(two).plan).files)
  await peer.run(call.id)
  const bundle = unwrap(await agent.client('readAttestation', { params: { run, call: call.id } }))
  expect(processPlan(bundle.call.plan).files).toEqual(processPlan(call.plan).files)
})

test.concurrent('a call is refused if a file is missing or its tool takes none; an idempotency key covers the files', async () => {
  const run = await newRun()
  unwrap(await put(run, 'kept'))
  unwrap(await put(run, 'another'))
  const [kept, another] = [
    { path: 'a', sha256: sha256('kept') },
    { path: 'a', sha256: sha256('another') },
  ]
  expect(refusalOf(await propose(run, taking, [{ path: 'a', sha256: sha256('never put') }]))).toBe(
    '422 no_such_file',
  )
  expect(refusalOf(await propose(run, refusing, [kept]))).toBe('422 invalid_arguments')
  expect(refusalOf(await propose(run, taking, [{ path: '../a', sha256: sha256('kept') }]))).toBe(
    '400 invalid_request',
  )
  const body = JSON.stringify({ tool: taking, args: {}, files: [kept] })
  const headers = { authorization: `Bearer ${agent.key}`, 'content-type': 'application/json' }
  const together = await fetch(`${fixtures.url}/v1/calls`, { method: 'POST', headers, body })
  expect(await together.json()).toMatchObject({
    status: 400,
    errors: [
      {
        at: '/files',
        message:
          'need an existing run: create one with `POST /v1/runs`, upload the files, and propose the call there',
      },
    ],
  })
  const tried = await agent.client('decide', {
    body: { tool: refusing, args: {}, files: [{ ...kept, bytes: 4 }] },
  })
  expect(refusalOf(tried)).toBe('422 invalid_arguments')
  const first = unwrap(await propose(run, taking, [kept], 'a-key'))
  expect(unwrap(await propose(run, taking, [kept], 'a-key')).id).toBe(first.id)
  expect(refusalOf(await propose(run, taking, [another], 'a-key'))).toBe('409 idempotency_key_reused')
  expect(refusalOf(await propose(run, taking, [], 'a-key'))).toBe('409 idempotency_key_reused')
})

test.concurrent('only the worker that runs a call reads its input files, and only while it runs', async () => {
  const run = await newRun()
  const bytes = Buffer.alloc(LIMITS.file_part_bytes + 3, 'x')
  unwrap(await put(run, bytes))
  unwrap(await put(run, 'not of this call'))
  const call = unwrap(await propose(run, taking, [{ path: 'a', sha256: sha256(bytes) }]))
  expect(refusalOf(await part(peer, call.id, sha256(bytes)))).toBe('404 not_found')
  const claim = unwrap(await peer.claim(call.id))
  const parts = await Promise.all(
    [0, 1].map(async (n) => Buffer.from(unwrap(await part(peer, call.id, sha256(bytes), n)).data, 'base64')),
  )
  expect(Buffer.concat(parts)).toEqual(bytes)
  expect(refusalOf(await part(peer, call.id, sha256(bytes), 2))).toBe('404 not_found')
  expect(refusalOf(await part(peer, call.id, sha256('not of this call')))).toBe('404 not_found')
  expect(refusalOf(await part(other, call.id, sha256(bytes)))).toBe('404 not_found')
  unwrap(await peer.settle(claim))
  expect(refusalOf(await part(peer, call.id, sha256(bytes)))).toBe('404 not_found')
})

test.concurrent('readers of a call get its output files as bytes that a browser saves and never shows', async () => {
  const run = await newRun()
  const call = unwrap(await propose(run, keeping, []))
  expect(call.plan).toMatchObject({ tier: 'C', outputs: true })
  const claim = unwrap(await peer.claim(call.id))
  const page = Buffer.from('<script>alert(1)</script>')
  const file = { path: 'out/a "b"; é.html', sha256: sha256(page), bytes: page.byteLength }
  const files = { files: [file], left: [{ path: 'link', why: 'no_file' as const }], more: 0 }
  expect(refusalOf(await peer.settle(claim, { files }))).toBe('422 attestation_invalid') // it was never put
  expect(
    refusalOf(
      await other.client('putOutput', { params: { call: call.id, sha256: file.sha256 }, body: page }),
    ),
  ).toBe('404 not_found')
  unwrap(await peer.client('putOutput', { params: { call: call.id, sha256: file.sha256 }, body: page }))
  const at = `${fixtures.url}/v1/runs/${run}/calls/${call.id}/files/${file.sha256}`
  const get = (key: string) => fetch(at, { headers: { authorization: `Bearer ${key}` } })
  expect((await get(agent.key)).status).toBe(404)
  expect(refusalOf(await peer.settle(claim, { files: { ...files, files: [{ ...file, bytes: 1 }] } }))).toBe(
    '422 attestation_invalid',
  )
  unwrap(await peer.settle(claim, { files }))

  const ended = unwrap(await agent.client('readCall', { params: { run, call: call.id } }))
  expect(ended.result?.files).toEqual(files)
  const answer = await get(agent.key)
  expect(Buffer.from(await answer.arrayBuffer())).toEqual(page)
  expect(Object.fromEntries(answer.headers)).toMatchObject({
    'content-type': 'application/octet-stream',
    'content-disposition': "attachment; filename*=UTF-8''a%20%22b%22%3B%20%C3%A9.html",
    'content-security-policy': "default-src 'none'; sandbox",
    'x-content-type-options': 'nosniff',
  })
  expect((await get(fixtures.rootKey)).status).toBe(200)
  expect((await get(stranger.key)).status).toBe(404)
  unwrap(await propose(run, taking, [{ path: 'again', sha256: file.sha256 }])) // one call's output is another one's input
})

test.concurrent('output files are kept only if the tool declares it, and only in tier C', async () => {
  const run = await newRun()
  const plain = unwrap(await peer.claim(unwrap(await propose(run, taking, [])).id))
  expect(refusalOf(await peer.settle(plain, { files: { files: [], left: [], more: 0 } }))).toBe(
    '422 attestation_invalid',
  )
  const inB = await fixtures.tool({ output_files: true, executor: { tiers: ['B'] } })
  const refused = await propose(run, inB, [])
  expect(refusalOf(refused)).toBe('422 invalid_arguments')
  expect(refused).toMatchObject({
    error: { detail: expect.stringMatching(/contract is wrong, not the arguments.* tier C/) },
  })
})

test.concurrent('L3 no standing answer covers a call with files, because their content may change under the same name', async () => {
  const session = fixtures.name()
  const run = unwrap(await agent.client('createRun', { body: { session } })).id
  unwrap(await put(run, 'echo harmless'))
  unwrap(await put(run, 'echo not seen'))
  const bringing = async (text: string) =>
    unwrap(await propose(run, asking, [{ path: 'run.sh', sha256: sha256(text) }]))
  const first = await bringing('echo harmless')
  const of = (call: typeof first) => ({ params: { id: call.approval?.id ?? '' } })
  const card = unwrap(await fixtures.root('readApproval', of(first)))
  expect([card.prompt.standing, card.options.map(({ scope }) => scope)]).toEqual([
    undefined,
    ['once', 'once'],
  ])
  for (const decision of ['approve', 'deny'] as const)
    expect(
      refusalOf(
        await fixtures.root('answerApproval', { ...of(first), body: { decision, scope: 'session' } }),
      ),
    ).toBe('403 once_only')

  const bare = unwrap(await propose(run, asking, []))
  expect(unwrap(await fixtures.root('readApproval', of(bare))).prompt.standing?.covers).toContain(
    'as long as it supplies no input files',
  )
  unwrap(
    await fixtures.root('answerApproval', { ...of(bare), body: { decision: 'approve', scope: 'session' } }),
  )
  expect(unwrap(await propose(run, asking, [])).state).toBe('granted')
  for (const text of ['echo harmless', 'echo not seen'])
    expect((await bringing(text)).state).toBe('awaiting_approval')
})
