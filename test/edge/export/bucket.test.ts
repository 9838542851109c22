// Promise: a file counts as stored only if the bucket has its bytes, and it is stored once however often
// it is sent. After a failure of the store it is sent again, or refused with the cause, never a secret.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import S3rver from 's3rver'
import { afterAll, beforeEach, expect, type TestContext, test } from 'vitest'
import { putObject } from '../../../edge/export/bucket.ts'
import { LIMITS } from '../../../shared/limits.ts'
import type { ExportTargetSpec } from '../../../shared/wire/exports.ts'
import { faultInSignature } from '../../support/s3/signature.ts'
import { type Fault, StrictStore } from '../../support/s3/strict-store.ts'

const store = await StrictStore.start()
afterAll(() => store.stop())
beforeEach(() => {
  store.objects.clear()
  store.requests.length = 0
  store.faults.length = 0
  store.clock = () => new Date()
})

/** A store that is the test's own, so that it can wait beside others. */
async function storeOf({ onTestFinished }: TestContext): Promise<StrictStore> {
  const own = await StrictStore.start()
  onTestFinished(() => own.stop())
  return own
}

const network = { outside: { fetch: (to: string, init: RequestInit) => fetch(to, init) }, standIns: {} }
const bytes = Uint8Array.from(Buffer.from('{"kind":"part"}\n'))
const outcome = async (change: Partial<ExportTargetSpec> = {}, at = store) => {
  const done = await putObject(network, at.target(change), { name: 'acme/run_1/0.0.0-00.jsonl', bytes })
  return done.ok ? 'stored' : `${done.error.code}: ${done.error.detail}`
}

test('the store of these tests accepts the signatures of AWS’s examples and no others', () => {
  // https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
  const key = {
    id: 'AKIAIOSFODNN7EXAMPLE',
    secret: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY',
    region: 'us-east-1',
  }
  const credential = `AWS4-HMAC-SHA256 Credential=${key.id}/20130524/us-east-1/s3/aws4_request`
  const at = new Date('2013-05-24T00:00:00Z')
  const get = (signature: string) => ({
    method: 'GET',
    target: '/test.txt',
    headers: {
      host: 'examplebucket.s3.amazonaws.com',
      range: 'bytes=0-9',
      'x-amz-content-sha256': 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
      'x-amz-date': '20130524T000000Z',
      authorization: `${credential},SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,Signature=${signature}`,
    },
  })
  const ofGet = 'f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41'
  expect(faultInSignature(get(ofGet), key, at)).toBeUndefined()
  expect(faultInSignature(get(`1${ofGet.slice(1)}`), key, at)).toBe('SignatureDoesNotMatch')
  const ofPut = {
    method: 'PUT',
    target: '/test%24file.text',
    headers: {
      host: 'examplebucket.s3.amazonaws.com',
      date: 'Fri, 24 May 2013 00:00:00 GMT',
      'x-amz-content-sha256': '44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072',
      'x-amz-date': '20130524T000000Z',
      'x-amz-storage-class': 'REDUCED_REDUNDANCY',
      authorization: `${credential},SignedHeaders=date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class,Signature=98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd`,
    },
  }
  expect(faultInSignature(ofPut, key, at)).toBeUndefined()
  expect(faultInSignature(ofPut, { ...key, secret: 'another' }, at)).toBe('SignatureDoesNotMatch')
})

test('a file is stored below the prefix with one signed, conditional request that has its checksum', async () => {
  expect(await outcome({ prefix: 'countersign/eu/' })).toBe('stored')
  expect([...store.objects]).toEqual([['countersign/eu/acme/run_1/0.0.0-00.jsonl', Buffer.from(bytes)]])
  expect(store.requests).toEqual(['PUT /evidence/countersign/eu/acme/run_1/0.0.0-00.jsonl 200'])
})

test('storing a file that the bucket already has changes nothing, and one with other bytes is refused', async () => {
  expect([await outcome(), await outcome()]).toEqual(['stored', 'stored'])
  store.objects.set('acme/run_1/0.0.0-00.jsonl', Buffer.from('{"kind":"pArt"}\n'))
  expect(await outcome()).toBe('export_mismatch: `acme/run_1/0.0.0-00.jsonl` has other bytes in the bucket')
  store.objects.set('acme/run_1/0.0.0-00.jsonl', Buffer.concat([bytes, bytes]))
  expect(await outcome()).toMatch(/^export_mismatch/)
})

test('if a store returns no checksum, the edge reads the file back, and refuses other bytes', async () => {
  store.faults.push('silent_checksum')
  expect(await outcome()).toBe('stored')
  expect(store.requests.map((line) => line.slice(0, 3))).toEqual(['PUT', 'GET'])
  store.objects.clear()
  store.faults.push('altered')
  expect(await outcome()).toMatch(/^export_mismatch/)
})

test.concurrent.for<Fault>(['slow_down', 'internal', 'conflict', 'unreachable', 'lost', 'torn'])(
  'after the fault `%s` of the store, the file is sent again, and stored once',
  async (fault, context) => {
    const own = await storeOf(context)
    own.faults.push(fault, fault)
    expect(await outcome({}, own)).toBe('stored')
    expect(own.objects.size).toBe(1)
  },
)

test.concurrent('after LIMITS.export_tries attempts the failure says that the store is busy', async (context) => {
  const own = await storeOf(context)
  own.faults.push(...Array<Fault>(LIMITS.export_tries + 1).fill('slow_down'))
  expect(await outcome({}, own)).toBe('export_unavailable: the store answered 503 SlowDown')
  expect(own.requests).toHaveLength(LIMITS.export_tries)
  expect(own.objects.size).toBe(0)
})

test.concurrent('the pause before a further attempt is LIMITS.export_pause_ms, and doubles', async (context) => {
  const own = await storeOf(context)
  own.faults.push('slow_down', 'slow_down', 'slow_down')
  const began: number[] = []
  const timed = (to: string, init: RequestInit) => {
    began.push(performance.now())
    return fetch(to, init)
  }
  const file = { name: 'acme/run_1/0.0.0-00.jsonl', bytes }
  expect((await putObject({ outside: { fetch: timed }, standIns: {} }, own.target(), file)).ok).toBe(true)
  const pauses = began.slice(1).map((at, i) => at - (began[i] ?? 0))
  for (const [i, least] of [200, 400, 800].entries()) {
    expect(pauses[i]).toBeGreaterThanOrEqual(least - 2) // a timer may be early by a millisecond
    expect(pauses[i]).toBeLessThan(least + 1_000)
  }
  expect([pauses.length, LIMITS.export_pause_ms]).toEqual([3, 200])
})

test.concurrent('a store that does not answer is given up after LIMITS.export_ms', {
  timeout: 20_000,
}, async (context) => {
  const own = await storeOf(context)
  own.faults.push('slow_down', 'slow_down', 'slow_down', 'silent')
  const began = performance.now()
  expect(await outcome({}, own)).toBe('export_unavailable: the store gave no answer within 6000 ms')
  const took = performance.now() - began - 200 - 400 - 800 // the pauses
  expect([took >= 5_990, took < 9_000, LIMITS.export_ms]).toEqual([true, true, 6_000])
})

/** The outcome if the store refuses with this body. */
async function refusedWith(body: string | ReadableStream): Promise<string> {
  const outside = { fetch: async () => new Response(body, { status: 403 }) }
  const done = await putObject({ outside, standIns: {} }, store.target(), { name: 'a', bytes })
  return done.ok ? 'stored' : done.error.detail
}

test('of a refusal LIMITS.export_answer_bytes are read, and no more is awaited', async () => {
  expect(LIMITS.export_answer_bytes).toBe(4_096)
  const code = '<Code>Own</Code>'
  const before = ' '.repeat(4_096 - code.length)
  expect(await refusedWith(`${before}${code}`)).toBe('the store answered 403 Own')
  expect(await refusedWith(`${before} ${code}`)).toBe('the store answered 403')
  let sent = 0
  const long = new ReadableStream({
    pull: (controller) => {
      controller.enqueue(Buffer.alloc(1_024, sent++ === 0 ? code.padEnd(1_024) : ' '))
      if (sent === 100) controller.close()
    },
  })
  expect(await refusedWith(long)).toBe('the store answered 403 Own')
  expect(sent).toBeLessThanOrEqual(4 + 1) // the stream makes one in advance
})

test('a redirect is not followed, and no credentials go to its address', async () => {
  store.faults.push('redirect')
  expect(await outcome()).toBe(
    'export_refused: the store answered 307 TemporaryRedirect: it redirects elsewhere; name the endpoint of the bucket’s own region',
  )
  expect(store.requests).toEqual(['PUT /evidence/acme/run_1/0.0.0-00.jsonl 307'])
})

test('wrong settings are refused at once with their cause, and without the access key or its secret', async () => {
  const wrong = 'a-wrong-secret-of-an-access-key'
  const refusals = [
    await outcome({ secret_access_key: wrong }),
    await outcome({ access_key_id: 'UNKNOWNKEY' }),
    await outcome({ region: 'us-east-1' }),
    await outcome({ bucket: 'no-such-bucket' }),
  ]
  store.clock = () => new Date(Date.now() + 16 * 60_000)
  refusals.push(await outcome())
  expect(refusals).toEqual([
    'export_refused: the store answered 403 SignatureDoesNotMatch: the secret of the access key is wrong',
    'export_refused: the store answered 403 InvalidAccessKeyId: the store does not know the access key',
    'export_refused: the store answered 400 AuthorizationHeaderMalformed: the region is not that of the bucket',
    'export_refused: the store answered 404 NoSuchBucket: the bucket does not exist',
    'export_refused: the store answered 403 RequestTimeTooSkewed: the clocks of the edge and of the store differ by more than 15 minutes',
  ])
  expect(store.requests).toHaveLength(refusals.length)
  expect(store.objects.size).toBe(0)
})

test('N14 no request goes to a private address, a private name or plain HTTP', async () => {
  for (const endpoint of [
    'https://169.254.169.254',
    'https://minio.internal',
    'http://s3.example.com',
    store.url,
  ]) {
    const outside = { fetch: () => Promise.reject(new Error('requested')) }
    const done = await putObject({ outside, standIns: undefined }, store.target({ endpoint }), {
      name: 'a',
      bytes,
    })
    expect(done.ok ? 'stored' : `${done.error.code} ${done.error.detail.slice(0, 24)}`).toBe(
      'export_refused /endpoint: the address i',
    )
  }
})

test('s3rver, a store that is not ours and returns no checksum, keeps a file that it gets', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'countersign-s3rver-'))
  const configureBuckets = [{ name: 'evidence' }]
  const other = new S3rver({ port: 0, address: '127.0.0.1', silent: true, directory, configureBuckets })
  const { port } = await other.run()
  try {
    const target = store.target({
      endpoint: `http://127.0.0.1:${port}`,
      region: 'us-east-1',
      access_key_id: 'S3RVER',
      secret_access_key: 'S3RVER',
    })
    const file = { name: 'acme/run_1/0.0.0-00.jsonl', bytes }
    expect(await putObject(network, target, file)).toEqual({ ok: true, value: true })
    const signatureless = await fetch(`${target.endpoint}/evidence/${file.name}`)
    expect(Buffer.from(await signatureless.arrayBuffer())).toEqual(Buffer.from(bytes))
  } finally {
    await other.close()
    rmSync(directory, { recursive: true })
  }
})
