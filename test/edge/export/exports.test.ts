// Promise: operators export runs to their bucket or to a folder, an export that is repeated stores
// nothing twice, and whoever has the files and the keys verifies them offline.

import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { sha256 } from '../../../shared/bytes/json.ts'
import { objectOfRun } from '../../../shared/ids.ts'
import { LIMITS } from '../../../shared/limits.ts'
import { ExportLine } from '../../../shared/wire/exports.ts'
import { countersign } from '../../support/countersign.ts'
import { eventually } from '../../support/eventually.ts'
import { refusalOf, unwrap } from '../../support/fixtures.ts'
import { StrictStore } from '../../support/s3/strict-store.ts'
import { startTestStack } from '../../support/stack/stack.ts'
import { newTenant } from '../../support/tenants.ts'
import { PeerWorker } from '../../support/worker/peer-worker.ts'

const stack = await startTestStack({ worker: 'idle', loopbackChannels: true })
const { dev } = stack
const store = await StrictStore.start()
const folder = mkdtempSync(join(tmpdir(), 'countersign-export-'))
afterAll(async () => {
  await Promise.all([stack.stop(), store.stop()])
  rmSync(folder, { recursive: true })
})

const fixtures = await newTenant(dev, 'export-acme')
const agent = await fixtures.agent()
const tool = await fixtures.tool()
const peer = await PeerWorker.enrol(dev.url, fixtures.root, fixtures.pool)
const as = (key: string, ...argv: string[]) =>
  countersign(argv, { env: { COUNTERSIGN_URL: dev.url, COUNTERSIGN_KEY: key } })
const run = (...argv: string[]) => as(fixtures.rootKey, ...argv)

async function ranCall(given?: string, stdout = 'out\n'): Promise<{ run: string; call: string }> {
  const id = given ?? unwrap(await agent.client('createRun', { body: {} })).id
  const body = { tool, args: { text: stdout.slice(0, 10) } }
  const call = unwrap(await agent.client('proposeCall', { params: { run: id }, body }))
  await peer.run(call.id, { stdout, stderr: 'é' })
  return { run: id, call: call.id }
}
const setTarget = async () => unwrap(await fixtures.root('putExportTarget', { body: store.target() }))
const stored = async (id: string, from = '0.0.0') =>
  unwrap(await fixtures.root('storeExport', { params: { run: id }, query: { from } }))

test('a bucket becomes the export target only if the edge could store an object there, and its secret is never shown', async () => {
  expect(refusalOf(await fixtures.root('readExportTarget', {}))).toBe('409 no_export_target')
  const { run: first } = await ranCall()
  const store409 = await fixtures.root('storeExport', { params: { run: first }, query: {} })
  expect(refusalOf(store409)).toBe('409 no_export_target')
  const wrong = store.target({ secret_access_key: 'another-secret' })
  expect(refusalOf(await fixtures.root('putExportTarget', { body: wrong }))).toBe('422 export_refused')
  const inside = store.target({ endpoint: 'https://169.254.169.254' })
  expect(refusalOf(await fixtures.root('putExportTarget', { body: inside }))).toBe('422 export_refused')
  expect(refusalOf(await fixtures.root('readExportTarget', {}))).toBe('409 no_export_target')

  const body = store.target({ prefix: 'kept/' })
  const { secret_access_key, ...shown } = body
  const put = unwrap(await fixtures.root('putExportTarget', { body }))
  expect(put).toEqual({ ...shown, put_by: 'root', put_at_ms: put.put_at_ms })
  expect(unwrap(await fixtures.root('readExportTarget', {}))).toEqual(put)
  expect([...store.objects.keys()]).toEqual(['kept/export-acme/countersign.json'])
  const objects = join(stack.state.edge, 'objects')
  const holding = readdirSync(objects, { recursive: true, encoding: 'utf8' }).filter(
    (name) => /sqlite/.test(name) && readFileSync(join(objects, name)).includes(secret_access_key),
  )
  expect(holding).toEqual([])

  const auditor = await fixtures.operator(['auditor'])
  expect(unwrap(await auditor.client('readExportTarget', {})).bucket).toBe('evidence')
  expect(refusalOf(await auditor.client('putExportTarget', { body }))).toBe('403 forbidden')
  expect(refusalOf(await auditor.client('deleteExportTarget', {}))).toBe('403 forbidden')
  expect(refusalOf(await agent.client('readExportTarget', {}))).toBe('403 forbidden')

  unwrap(await fixtures.root('deleteExportTarget', {}))
  expect(refusalOf(await fixtures.root('deleteExportTarget', {}))).toBe('409 no_export_target')
  const { items } = unwrap(await fixtures.root('readTenantJournal', { query: {} }))
  const entries = items.filter(({ kind }) => kind.startsWith('export_target.'))
  const spec_sha256 = expect.stringMatching(/^[0-9a-f]{64}$/)
  expect(entries.map((entry) => [entry.kind, entry.body])).toEqual([
    ['export_target.put', { bucket: 'evidence', spec_sha256, by: 'root' }],
    ['export_target.removed', { bucket: 'evidence', by: 'root' }],
  ])
})

test('the folder in the bucket has at most `export_prefix_chars` characters', async () => {
  const put = (prefix: string) => fixtures.root('putExportTarget', { body: store.target({ prefix }) })
  expect(LIMITS.export_prefix_chars).toBe(256)
  const longest = `${'a'.repeat(255)}/`
  expect(unwrap(await put(longest)).prefix).toBe(longest)
  expect(store.objects.has(`${longest}export-acme/countersign.json`)).toBe(true)
  expect(refusalOf(await put(`a${longest}`))).toBe('400 invalid_request')
  expect(unwrap(await fixtures.root('readExportTarget', {})).prefix).toBe(longest)
})

test('an exported run is stored once under its digest, and again only if it has changed', async () => {
  await setTarget()
  const { run: id } = await ranCall()
  const once = await stored(id)
  expect(once.next).toBeNull()
  const bytes = store.objects.get(`export-acme/${once.name}`)
  expect(once.name).toBe(`${objectOfRun(id)}/0.0.0-${sha256(bytes ?? '')}.jsonl`)
  expect(Buffer.from(unwrap(await fixtures.root('readExport', { params: { run: id }, query: {} })))).toEqual(
    bytes,
  )
  const before = store.objects.size
  expect(await stored(id)).toEqual(once)
  expect(store.objects.size).toBe(before)
  await ranCall(id)
  expect((await stored(id)).sha256).not.toBe(once.sha256)
  expect(store.objects.size).toBe(before + 1)
})

test('a run of another tenant is not found, and a position must be one of an export', async () => {
  const other = await newTenant(dev, 'export-other')
  const { run: id } = await ranCall()
  const params = { run: id }
  expect(refusalOf(await other.root('readExport', { params, query: {} }))).toBe('404 not_found')
  expect(refusalOf(await other.root('storeExport', { params, query: {} }))).toBe('404 not_found')
  expect(refusalOf(await fixtures.root('readExport', { params, query: { from: '1.x.0' } }))).toBe(
    '400 invalid_request',
  )
  expect(refusalOf(await agent.client('readExport', { params, query: {} }))).toBe('403 forbidden')
})

test('a large run is exported in parts of about LIMITS.export_part_chars, which are verified together', {
  timeout: 240_000,
}, async () => {
  await setTarget()
  const { run: id } = await ranCall(undefined, 'a'.repeat(60_000))
  for (let i = 0; i < 17; i++) await ranCall(id, `${i}`.repeat(30_000))
  const parts = [await stored(id)]
  for (let next = parts[0]?.next; next; next = parts.at(-1)?.next) parts.push(await stored(id, next))
  expect(parts.length).toBeGreaterThan(1)
  const dir = join(folder, 'large')
  for (const { name } of parts) {
    mkdirSync(join(dir, objectOfRun(id)), { recursive: true })
    writeFileSync(join(dir, name), store.objects.get(`export-acme/${name}`) ?? '')
  }
  const keys = join(folder, 'keys.json')
  writeFileSync(keys, (await run('keys', 'list', '--json')).out)
  const verified = await run('verify', '--export', dir, '--keys', keys, '--json')
  expect([verified.code, JSON.parse(verified.out).about]).toEqual([
    0,
    { files: `${parts.length}`, calls: '18', entries: '54' },
  ])
  renameSync(join(dir, parts[0]?.name ?? ''), join(dir, 'hidden'))
  const rest = await run('verify', '--export', dir, '--keys', keys)
  expect([rest.code, rest.out]).toEqual([1, expect.stringContaining('the part before')])
})

test('the command line exports to a folder and to the bucket, and its export is verified offline', {
  timeout: 240_000,
}, async () => {
  await setTarget()
  const since = new Date().toISOString()
  const { run: id, call } = await ranCall()
  const alone = unwrap(await agent.client('proposeCallInNewRun', { body: { tool, args: {} } }))
  await peer.run(alone.id, { stdout: 'b' })
  const listed = async () => unwrap(await fixtures.root('listRuns', { query: {} })).items.map((one) => one.id)
  await eventually('both runs are listed', async () => {
    const ids = await listed()
    return ids.includes(id) && ids.includes(alone.run)
  })
  const dir = join(folder, 'cli')
  const exported = async (to: string, ...flags: string[]) => run('export', '--to', to, ...flags)
  const first = await exported(dir, '--since', since, '--json')
  expect(first.code).toBe(0)
  const names = (JSON.parse(first.out).files as { name: string }[]).map(({ name }) => name)
  expect(new Set(names.map((name) => name.split('/')[0]))).toEqual(
    new Set([objectOfRun(id), objectOfRun(alone.run)]),
  )
  expect((await exported(dir, '--since', since)).code).toBe(0) // the folder has all parts already
  expect((await exported(dir, '--until', '2020-01-01')).out).toBe('files: 0, bytes: 0, objects of runs: 0\n')
  const toBucket = await exported('s3://evidence', '--since', since, '--json')
  expect((JSON.parse(toBucket.out).files as { name: string }[]).map(({ name }) => name).sort()).toEqual(
    names.sort(),
  )
  for (const name of names)
    expect(store.objects.get(`export-acme/${name}`)).toEqual(readFileSync(join(dir, name)))
  expect(await exported('s3://another')).toMatchObject({ code: 2 })

  const keys = join(folder, 'keys-2.json')
  writeFileSync(keys, (await run('keys', 'list', '--json')).out)
  const verify = () => run('verify', '--export', dir, '--keys', keys)
  expect(await verify()).toMatchObject({ code: 0, out: expect.stringContaining('verified') })

  // Each change is found, even if the file's name has the new digest.
  const name = names.find((one) => one.startsWith(objectOfRun(id))) ?? ''
  const text = readFileSync(join(dir, name), 'utf8')
  const lines = text.trimEnd().split('\n')
  const without = (word: string) => `${lines.filter((line) => !line.includes(word)).join('\n')}\n`
  const changed: [string, string][] = [
    [text.replace('"kind":"claimed"', '"kind":"clAimed"'), 'each journal is whole'],
    [without('"kind":"call"'), 'the attestations are exactly those'],
    [
      text.replaceAll(`"call":"${call}","state":"succeeded"`, `"call":"${call}","state":"failed"`),
      'each attestation is signed',
    ],
    [text.replace('"text":"out\\n"', '"text":"in\\n"'), 'each attestation is signed'],
    [without('"kind":"snapshot"'), 'each attestation is signed'],
    [without('"kind":"snapshot"').replace('"kind":"end"', '"kind":"ended"'), 'each file has the digest'],
    [without('"entry":{"seq":3'), 'each journal is whole'],
    [without('"kind":"entry"'), 'each journal is whole'],
    [without('"kind":"run"'), 'each journal is whole'],
  ]
  for (const [bytes, check] of changed) {
    expect(bytes).not.toBe(text)
    rmSync(join(dir, objectOfRun(id)), { recursive: true })
    mkdirSync(join(dir, objectOfRun(id)))
    writeFileSync(join(dir, `${objectOfRun(id)}/0.0.0-${sha256(bytes)}.jsonl`), bytes)
    const { code, out } = await verify()
    expect([
      code,
      out
        .split('\n')
        .filter((line) => line.includes('FAIL'))
        .join(),
    ]).toEqual([1, expect.stringContaining(check)])
  }
  writeFileSync(join(dir, name), `${text} `)
  expect(await verify()).toMatchObject({ code: 1, out: expect.stringContaining('another digest') })
})

test('the command line looks for the end of a part in its last `export_end_bytes`', async () => {
  expect(LIMITS.export_end_bytes).toBe(256)
  const longest = { kind: 'end', next: '999999.9999999999.9999999' }
  expect(ExportLine.parse(longest)).toEqual(longest)
  expect(`${JSON.stringify(longest)}\n`.length).toBeLessThan(256)

  const since = new Date().toISOString()
  const { run: id } = await ranCall()
  await eventually('the run is listed', async () =>
    unwrap(await fixtures.root('listRuns', { query: {} })).items.some((one) => one.id === id),
  )
  // An edge whose last lines have this many bytes.
  let bytes = 256
  const other = createServer(async (request, response) => {
    const headers = { authorization: request.headers.authorization ?? '' }
    const answer = await fetch(`${dev.url}${request.url}`, { headers })
    const text = Buffer.from(await answer.arrayBuffer()).toString()
    response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? '' })
    const spaces = ' '.repeat(bytes - '{"kind":"end","next":null}\n'.length)
    response.end(text.replace(/(?<="kind":"end",)(?="next":null\}\n$)/, spaces))
  })
  await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void other.close())
  const { port } = other.address() as AddressInfo // it listens on a port
  const exported = (to: string) =>
    countersign(['export', '--to', join(folder, to), '--since', since], {
      env: { COUNTERSIGN_URL: `http://127.0.0.1:${port}`, COUNTERSIGN_KEY: fixtures.rootKey },
    })
  expect(await exported('end-256')).toMatchObject({ code: 0, err: '' })
  bytes = 257
  const refused = await exported('end-257')
  expect([refused.code, refused.err]).toEqual([1, expect.stringContaining('incomplete part')])
  expect(existsSync(join(folder, 'end-257'))).toBe(false)
})

test('the command line sets, shows and removes the export target', { timeout: 120_000 }, async () => {
  const { secret_access_key, endpoint, region, access_key_id } = store.target()
  const set = await countersign(
    [
      'export-target',
      'set',
      's3://evidence/of/acme/',
      '-',
      '--endpoint',
      endpoint,
      '--region',
      region,
      '--access-key',
      access_key_id,
    ],
    { env: { COUNTERSIGN_URL: dev.url, COUNTERSIGN_KEY: fixtures.rootKey }, stdin: `${secret_access_key}\n` },
  )
  expect([set.code, set.out]).toEqual([0, expect.stringMatching(/folder\s+of\/acme\/\n/)])
  expect(set.out).not.toContain(secret_access_key)
  expect((await run('export-target', 'show')).out).toBe(set.out)
  expect((await run('export-target', 'remove')).code).toBe(0)
  expect(await run('export-target', 'show')).toMatchObject({ code: 1 })
})
