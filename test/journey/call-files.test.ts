// Promise: the command line uploads a call's input files by digest, and saves its input and output
// files inside one folder, byte for byte, without overwriting a file or following a link.

import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { readFiles } from '../../cli/calls/call-files.ts'
import { saveBytes } from '../../cli/shell/files.ts'
import { sha256 } from '../../shared/bytes/json.ts'
import { countersign } from '../support/countersign.ts'
import { Fixtures, unwrap } from '../support/fixtures.ts'
import { sharedStack } from '../support/stack/stack.ts'
import { PeerWorker } from '../support/worker/peer-worker.ts'

const fixtures = new Fixtures('call-files', sharedStack())
const agent = await fixtures.agent()
const tool = await fixtures.tool({ input_files: true, output_files: true })
const peer = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)
const folder = mkdtempSync(join(tmpdir(), 'countersign-files-'))
afterAll(() => rmSync(folder, { recursive: true }))
const by = (key: string) => ({ env: { COUNTERSIGN_URL: fixtures.url, COUNTERSIGN_KEY: key }, cwd: folder })
const jsonOf = (ran: { out: string; err: string }) => {
  if (ran.out === '') throw new Error(ran.err)
  return JSON.parse(ran.out)
}

test('input files reach the approver, and output files are saved byte for byte and overwrite nothing', {
  timeout: 60_000,
}, async () => {
  writeFileSync(join(folder, 'sales.csv'), 'a,b\n1,2\n')
  writeFileSync(join(folder, 'q3.json'), Buffer.from([0, 255, 13, 10]))
  const call = jsonOf(
    await countersign(
      ['call', tool, '--file', 'sales.csv', '--file', 'q3.json:in/terms.json', '--wait', '0', '--json'],
      by(agent.key),
    ),
  )
  expect(call.plan.files).toEqual([
    { path: 'sales.csv', sha256: sha256('a,b\n1,2\n'), bytes: 8 },
    { path: 'in/terms.json', sha256: sha256(Buffer.from([0, 255, 13, 10])), bytes: 4 },
  ])
  const tried = await countersign(
    ['policy', 'explain', '--tool', tool, '--file', 'sales.csv', '--file', 'q3.json:in/terms.json', '--json'],
    by(agent.key),
  )
  expect(jsonOf(tried)).toMatchObject({ decision: { effect: 'allow' }, plan: call.plan })
  const read = await countersign(['calls', 'inputs', call.id, '--to', 'read'], by(fixtures.rootKey))
  expect(read).toMatchObject({
    code: 0,
    out: expect.stringContaining(`sales.csv      8      ${sha256('a,b\n1,2\n')}`),
  })
  expect(readFileSync(join(folder, 'read/in/terms.json'))).toEqual(Buffer.from([0, 255, 13, 10]))

  const claim = unwrap(await peer.claim(call.id))
  const left = Buffer.from('sum\n3\n')
  unwrap(await peer.client('putOutput', { params: { call: call.id, sha256: sha256(left) }, body: left }))
  const files = [{ path: 'out/sum.csv', sha256: sha256(left), bytes: left.byteLength }]
  unwrap(await peer.settle(claim, { files: { files, left: [{ path: 'link', why: 'no_file' }], more: 0 } }))
  mkdirSync(join(folder, 'results/out'), { recursive: true })
  writeFileSync(join(folder, 'results/out/sum.csv'), 'mine')
  const save = ['calls', 'outputs', call.id, '--to', 'results']
  const kept = await countersign(save, by(agent.key))
  expect(kept).toMatchObject({
    code: 1,
    err: expect.stringContaining('`results/out/sum.csv` already exists'),
  })
  expect(readFileSync(join(folder, 'results/out/sum.csv'), 'utf8')).toBe('mine')
  const saved = await countersign([...save, '--overwrite'], by(agent.key))
  expect(saved).toMatchObject({ code: 0, out: expect.stringContaining('not kept: link (no_file)') })
  expect(readFileSync(join(folder, 'results/out/sum.csv'))).toEqual(left)
  expect(readdirSync(join(folder, 'results/out'))).toEqual(['sum.csv'])

  const again = jsonOf(
    await countersign(['runs', 'put', '--run', call.run, '--file', 'sales.csv:x', '--json'], by(agent.key)),
  )
  expect(again).toEqual({ run: call.run, files: [{ path: 'x', sha256: sha256('a,b\n1,2\n'), bytes: 8 }] })
  const held = await countersign(['runs', 'files', call.run], by(agent.key))
  expect(held.out.match(/^[0-9a-f]{64} {2}\d+ +yes +20/gm)).toHaveLength(3)
})

test('S40 S44 a file is not saved outside the folder, through a link or over another file', () => {
  const [into, elsewhere] = [join(folder, 'into'), join(folder, 'elsewhere')]
  mkdirSync(into)
  mkdirSync(elsewhere)
  symlinkSync(elsewhere, join(into, 'linked'))
  symlinkSync(join(elsewhere, 'target'), join(into, 'dangling'))
  writeFileSync(join(into, 'file'), 'mine')
  const code = (path: string, overwrite = false) => {
    const saved = saveBytes(into, path, Buffer.from('x'), overwrite)
    return saved.ok ? 'saved' : saved.error.code
  }
  for (const overwrite of [false, true])
    expect(
      ['../x', '/x', 'linked/x', 'file/x', 'a\u202eb', '.git/config'].map((path) => code(path, overwrite)),
    ).toEqual(Array(6).fill('unwritable'))
  expect([code('dangling'), code('dangling', true), code('file')]).toEqual(['exists', 'exists', 'exists'])
  expect([
    readdirSync(elsewhere),
    existsSync(join(folder, 'x')),
    readFileSync(join(into, 'file'), 'utf8'),
  ]).toEqual([[], false, 'mine'])
  expect([code('new/file'), code('file', true), code('new/file')]).toEqual(['saved', 'saved', 'exists'])
})

test('an invalid file name is a usage error, and nothing is read', () => {
  const outcome = (...given: string[]) => {
    const read = readFiles(given)
    return read.ok ? 'read' : `${read.error.exit} ${read.error.detail}`
  }
  writeFileSync(join(folder, 'a'), 'a')
  const a = join(folder, 'a')
  expect([outcome(a), outcome(`${a}:b`), outcome(a, `${a}:b`)]).toEqual(['read', 'read', 'read'])
  expect(outcome(`${a}:../b`)).toContain('2 `--file')
  expect(outcome(`${a}:`)).toContain('write PATH:NAME')
  expect(outcome(':b')).toContain('there is no path before the `:`')
  expect(outcome(a, a)).toContain('must name each path once')
  expect(outcome(join(folder, 'none'))).toContain('1 `')
})

test('a file whose bytes do not have the digest that the call names is not saved', async () => {
  const call = unwrap(await agent.client('proposeCallInNewRun', { body: { tool, args: {} } }))
  const named = { ...call, plan: { ...call.plan, files: [{ path: 'a', sha256: sha256('right'), bytes: 5 }] } }
  const server = createServer((request, response) => {
    const isFile = request.url?.includes('/files/') === true
    response.writeHead(200, { 'content-type': isFile ? 'application/octet-stream' : 'application/json' })
    response.end(isFile ? 'wrong' : JSON.stringify(named))
  })
  await new Promise<void>((settle) => server.listen(0, '127.0.0.1', settle))
  onTestFinished(() => void server.close())
  const { port } = server.address() as AddressInfo // the address of a TCP server
  const env = { COUNTERSIGN_URL: `http://127.0.0.1:${port}`, COUNTERSIGN_KEY: agent.key }
  const ran = await countersign(['calls', 'inputs', call.id, '--to', 'wrong', '--json'], { env, cwd: folder })
  expect(jsonOf(ran)).toMatchObject({ error: { code: 'digest_mismatch' } })
  expect(readdirSync(join(folder, 'wrong'))).toEqual([])
})
