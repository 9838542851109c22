// Promise: a witness cosigns only heads that continue the last one it cosigned, and answers all else
// as C2SP's tlog-witness says.

import { once } from 'node:events'
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { readWitnessConfig } from '../../../cli/witness/config.ts'
import { witnessServer } from '../../../cli/witness/server.ts'
import { StateFolder } from '../../../cli/witness/state-folder.ts'
import { Witness } from '../../../cli/witness/witness.ts'
import { cosignedBy, parseVerifierKey } from '../../../shared/evidence/cosignature.ts'
import { countersign, type Envelope, type Signer } from '../../../shared/evidence/dsse.ts'
import { edgeKeysOf, sealLink } from '../../../shared/evidence/keys.ts'
import { LIMITS } from '../../../shared/limits.ts'
import { GrownLog, newSigner } from '../../support/grown-log.ts'

const NOW = 1_795_000_000_000
const leaves = (count: number, from = 0) => Array.from({ length: count }, (_, i) => `leaf ${from + i}`)

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'witness-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

async function openFolder(folder: string): Promise<StateFolder> {
  const state = await StateFolder.open(folder)
  if (!state.ok) throw new Error(state.error.detail)
  onTestFinished(() => state.value.close())
  return state.value
}

async function witnessOf(log: GrownLog, folder = newFolder()): Promise<Witness> {
  const logs = [{ origin: log.origin, keys: [newSigner().x, log.signer.x] }]
  return new Witness('witness.example/w1', logs, await openFolder(folder))
}

const cosigned = (body: string, answer: string, witness: Witness) =>
  cosignedBy(`${body.slice(body.indexOf('\n\n') + 2)}${answer}`, [witness.key])

test('a log is followed from its first checkpoint on', async () => {
  const log = new GrownLog('edge.example/default', leaves(20))
  const witness = await witnessOf(log)
  for (const [old, size] of [
    [0, 0],
    [0, 1],
    [1, 1],
    [1, 7],
    [7, 8],
    [8, 20],
  ] as const) {
    const body = log.submission(old, size)
    const { status, body: line } = witness.addCheckpoint(body, NOW)
    expect([status, size]).toEqual([200, size])
    expect(cosigned(body, line, witness)).toEqual([{ name: 'witness.example/w1', at_ms: NOW }])
  }
})

test('a log that was truncated, forked or rolled back gets no cosignature', async () => {
  const log = new GrownLog('edge.example/default', leaves(20))
  const witness = await witnessOf(log)
  expect(witness.addCheckpoint(log.submission(0, 12), NOW).status).toBe(200)
  const fork = new GrownLog(log.origin, [...leaves(11), 'another', ...leaves(10, 12)])
  const forkNote = (size: number) => fork.note(size, log.signer)
  const size = { status: 409, body: '12\n', type: 'text/x.tlog.size' }
  expect(witness.addCheckpoint(log.submission(0, 5), NOW)).toEqual(size)
  expect(witness.addCheckpoint(log.submission(5, 5), NOW)).toEqual(size)
  expect(witness.addCheckpoint(log.submission(13, 20), NOW)).toEqual(size)
  expect(witness.addCheckpoint(`old 12\n\n${forkNote(5)}`, NOW).status).toBe(400)
  const sameSize = witness.addCheckpoint(`old 12\n\n${forkNote(12)}`, NOW)
  expect(sameSize.status).toBe(409)
  expect(sameSize.type).toBeUndefined()
  const proof = fork.submission(12, 20).split('\n\n')[0]
  expect(witness.addCheckpoint(`${proof}\n\n${forkNote(20)}`, NOW).status).toBe(422)
  expect(witness.addCheckpoint(`old 12\n\n${log.note(20)}`, NOW).status).toBe(422)
  expect(witness.addCheckpoint(log.submission(12, 20), NOW).status).toBe(200)
})

test('a checkpoint of an unknown log, or signed by an unknown key, is refused', async () => {
  const log = new GrownLog('edge.example/default', leaves(3))
  const witness = await witnessOf(log)
  const others = ['edge.example/other', 'edge.example/default2', 'edge.example']
  for (const origin of others)
    expect(witness.addCheckpoint(`old 0\n\n${new GrownLog(origin).note(0, log.signer)}`, NOW).status).toBe(
      404,
    )
  expect(witness.addCheckpoint(`old 0\n\n${log.note(3, newSigner())}`, NOW).status).toBe(403)
})

test('an origin that ends in a slash stands for all logs under it, each with its own head', async () => {
  const [one, two] = [
    new GrownLog('edge.example/one', leaves(3)),
    new GrownLog('edge.example/two', leaves(5)),
  ]
  const logs = [{ origin: 'edge.example/', keys: [one.signer.x] }]
  const state = await openFolder(newFolder())
  const witness = new Witness('w', logs, state)
  expect(witness.addCheckpoint(one.submission(0), NOW).status).toBe(200)
  expect(witness.addCheckpoint(`old 0\n\n${two.note(5, one.signer)}`, NOW).status).toBe(200)
  expect(
    state
      .latest()
      .map(({ origin, size }) => [origin, size])
      .sort(),
  ).toEqual([
    ['edge.example/one', 3],
    ['edge.example/two', 5],
  ])
  expect(witness.page()).toContain('edge.example/two  5 leaves')
  expect(parseVerifierKey(witness.page().split('\n')[2] ?? '')).toEqual({ ok: true, value: witness.key })
})

test('a malformed request is refused before anything is looked up', async () => {
  const log = new GrownLog('edge.example/default', leaves(3))
  const witness = await witnessOf(log)
  const hash = `${Buffer.alloc(32).toString('base64')}\n`
  for (const body of [
    '',
    'old 0',
    `old 00\n\n${log.note()}`,
    `old -1\n\n${log.note()}`,
    `old 9007199254740993\n\n${log.note()}`,
    `new 0\n\n${log.note()}`,
    `old 0\n${hash.slice(1)}\n${log.note()}`,
    `old 0\n${hash.repeat(LIMITS.witness_proof_lines + 1)}\n${log.note()}`,
    `old 0\n\n${log.note().trimEnd()}`,
    `old 0\n\n${log.note().replace('\n3\n', '\n03\n')}`,
    `old 0\n${log.note()}`,
  ])
    expect([body, witness.addCheckpoint(body, NOW).status]).toEqual([body, 400])
  const long = `old 0\n${hash.repeat(LIMITS.witness_proof_lines)}\n${log.note()}`
  expect(witness.addCheckpoint(long, NOW).status).toBe(422)
})

test('a head is on disk before it is cosigned, and nothing is cosigned if it can’t be written', async () => {
  const log = new GrownLog('edge.example/default', leaves(9))
  const folder = newFolder()
  const witness = await witnessOf(log, folder)
  expect(witness.addCheckpoint(log.submission(0, 4), NOW).status).toBe(200)
  const [file = ''] = readdirSync(join(folder, 'heads'))
  mkdirSync(join(folder, 'heads', `${file}.new`)) // so the new head can't be written
  expect(() => witness.addCheckpoint(log.submission(4, 9), NOW)).toThrow()
  rmSync(join(folder, 'heads', `${file}.new`), { recursive: true })
  expect(witness.addCheckpoint(log.submission(4, 9), NOW).status).toBe(200)
  writeFileSync(join(folder, 'heads', file), '{"note"')
  expect(() => witness.addCheckpoint(log.submission(0, 9), NOW)).toThrow('is damaged')
})

test('a witness that starts again remembers its heads and its key, and no second one uses its folder', async () => {
  const log = new GrownLog('edge.example/default', leaves(9))
  const folder = newFolder()
  const state = await openFolder(folder)
  const logs = [{ origin: log.origin, keys: [log.signer.x] }]
  const first = new Witness('w', logs, state)
  expect(first.addCheckpoint(log.submission(0, 6), NOW).status).toBe(200)
  expect(await StateFolder.open(folder)).toMatchObject({ ok: false, error: { code: 'locked' } })
  state.close()
  const again = new Witness('w', logs, await openFolder(folder))
  expect(again.key).toEqual(first.key)
  expect(again.addCheckpoint(log.submission(0, 9), NOW)).toMatchObject({ status: 409, body: '6\n' })
  expect(statSync(join(folder, 'key.json')).mode & 0o777).toBe(0o600)
})

test('a key file that other users can read, or that has no key, is refused', async () => {
  const folder = newFolder()
  ;(await openFolder(folder)).close()
  chmodSync(join(folder, 'key.json'), 0o640)
  expect(await StateFolder.open(folder)).toMatchObject({ error: { code: 'key_exposed' } })
  chmodSync(join(folder, 'key.json'), 0o600)
  writeFileSync(join(folder, 'key.json'), '{}')
  expect(await StateFolder.open(folder)).toMatchObject({ error: { code: 'unreadable' } })
})

test('a witness keeps heads of at most `witness_logs` logs', async () => {
  const log = new GrownLog('edge.example/one', leaves(2))
  const folder = newFolder()
  const witness = await witnessOf(log, folder)
  for (let i = 0; i < LIMITS.witness_logs; i++) writeFileSync(join(folder, 'heads', `${i}.json`), '')
  expect(witness.addCheckpoint(log.submission(0), NOW).status).toBe(507)
  rmSync(join(folder, 'heads', '0.json'))
  expect(witness.addCheckpoint(log.submission(0), NOW).status).toBe(200)
})

test('a configuration has at most `witness_entries` logs with `witness_keys` keys each, and no unknown members', () => {
  const file = join(newFolder(), 'witness.json')
  const { x } = newSigner()
  const read = (more: object) => {
    const listen = { host: '127.0.0.1', port: 8456 }
    const logs = [{ origin: 'edge.example/', keys: [x] }]
    writeFileSync(file, JSON.stringify({ name: 'w', listen, state: 'state', logs, ...more }))
    return readWitnessConfig(file).ok
  }
  const entries = (count: number) => Array(count).fill({ origin: 'edge.example/', keys: [x] })
  const keys = (count: number) => [{ origin: 'edge.example/', keys: Array(count).fill(x) }]
  expect(read({})).toBe(true)
  expect(read({ logs: entries(LIMITS.witness_entries) })).toBe(true)
  expect(read({ logs: entries(LIMITS.witness_entries + 1) })).toBe(false)
  expect(read({ logs: keys(LIMITS.witness_keys) })).toBe(true)
  expect(read({ logs: keys(LIMITS.witness_keys + 1) })).toBe(false)
  expect(read({ logs: [{ origin: 'edge.example/', keys: ['A'.repeat(43)] }] })).toBe(false)
  expect(read({ name: 'with space' })).toBe(false)
  expect(read({ key: 'secret' })).toBe(false)
})

test('a request over HTTP is bounded in bytes, time and connections', async () => {
  const log = new GrownLog('edge.example/default', leaves(3))
  const witness = await witnessOf(log)
  const notes: string[] = []
  const server = witnessServer(witness, (text) => notes.push(text)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  expect(server.requestTimeout).toBe(LIMITS.witness_request_ms)
  expect(server.maxConnections).toBe(LIMITS.witness_connections)
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const post = (body: string | Uint8Array<ArrayBuffer>) =>
    fetch(`${url}/add-checkpoint`, { method: 'POST', body })
  const good = await post(log.submission(0))
  expect(good.status).toBe(200)
  expect(cosigned(log.submission(0), await good.text(), witness)).toHaveLength(1)
  const behind = await post(log.submission(0))
  expect([behind.status, behind.headers.get('content-type'), await behind.text()]).toEqual([
    409,
    'text/x.tlog.size',
    '3\n',
  ])
  const page = await fetch(url)
  expect(await page.text()).toContain('edge.example/default  3 leaves')
  expect((await post('x'.repeat(LIMITS.witness_body_bytes))).status).toBe(400)
  expect((await post('x'.repeat(LIMITS.witness_body_bytes + 1))).status).toBe(413)
  expect((await post(Uint8Array.of(0xff, 0x0a))).status).toBe(400)
  expect((await fetch(`${url}/add-checkpoint`)).status).toBe(405)
  expect((await fetch(`${url}/other`)).status).toBe(404)
})

/** An edge whose document of keys has this chain. */
async function keysEdge(first: Signer) {
  let body = ''
  let asked = 0
  const server = createServer((request, response) => {
    asked += request.url === '/.well-known/countersign/keys.json?tenant=default' ? 1 : 0
    response.end(body)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked: () => asked,
    send: (text: string) => {
      body = text
    },
    pad(bytes: number, ...chain: Envelope[]) {
      this.serve(...chain)
      body += ' '.repeat(bytes)
    },
    serve(...chain: Envelope[]) {
      const keys = edgeKeysOf(first.x, chain)
      body = JSON.stringify({
        format: 'countersign-keys/v2',
        tenant: 'default',
        keys: keys.ok ? keys.value : [],
        chain,
      })
    },
  }
}

describe('T03 a new key of the log', () => {
  const [first, second, third, root] = [newSigner(), newSigner(), newSigner(), newSigner()]
  const log = new GrownLog('edge.example/default', leaves(9))
  const by = (signer: Signer) => `old 0\n\n${log.note(9, signer)}`
  const LINK = { from_ms: 1, until_ms: 2, distrusts: null }
  const next = sealLink(LINK, first, second)
  async function newWitness(folder = newFolder(), keys = [first.x]) {
    const edge = await keysEdge(first)
    const state = await openFolder(folder)
    const witness = new Witness('w', [{ origin: 'edge.example/', keys, edge: edge.url }], state)
    return { edge, state, witness, folder }
  }

  test('is accepted if the edge’s chain leads to it from a known one, also after a restart without the edge', async () => {
    const { edge, state, witness, folder } = await newWitness()
    edge.serve(next, sealLink(LINK, second, third))
    expect((await witness.answer(by(third), NOW)).status).toBe(200)
    state.close()
    const again = new Witness('w', [{ origin: 'edge.example/', keys: [first.x] }], await openFolder(folder))
    expect(again.addCheckpoint(by(third).replace('old 0', 'old 9'), NOW).status).toBe(200)
  })

  test('is refused if the chain does not lead to it, is broken, too long, or does not begin with a known key', async () => {
    const forged = sealLink(LINK, { ...third, kid: first.kid, x: first.x }, second)
    const cases: [string, (edge: Awaited<ReturnType<typeof keysEdge>>) => void, string[]][] = [
      ['no link', (edge) => edge.serve(), [first.x]],
      ['a link that the known key has not signed', (edge) => edge.serve(forged), [first.x]],
      ['a chain of other keys', (edge) => edge.serve(next), [third.x]],
      ['no JSON', (edge) => edge.send('<html>'), [first.x]],
      ['more than 1 MiB', (edge) => edge.pad(LIMITS.body_bytes, next), [first.x]],
    ]
    for (const [name, serve, keys] of cases) {
      const { edge, witness } = await newWitness(newFolder(), keys)
      serve(edge)
      expect([name, (await witness.answer(by(second), NOW)).status, edge.asked()]).toEqual([name, 403, 1])
    }
  })

  test('a key that the chain distrusts is refused from then on, though the configuration names it', async () => {
    const { edge, witness } = await newWitness()
    edge.serve(sealLink({ ...LINK, distrusts: { kid: first.kid, from_ms: 1 } }, first, second))
    expect((await witness.answer(by(second), NOW)).status).toBe(200)
    expect((await witness.answer(by(first), NOW + 1)).status).toBe(403)
  })

  test('a chain without the root that an earlier link named is not followed', async () => {
    const { edge, witness } = await newWitness()
    edge.serve(countersign(sealLink({ ...LINK, root: root.x }, first, second), root))
    expect((await witness.answer(by(second), NOW)).status).toBe(200)
    const stolen = [next, sealLink(LINK, second, third)]
    edge.serve(...stolen)
    expect((await witness.answer(by(third), NOW + LIMITS.witness_keys_pause_ms)).status).toBe(403)
    expect(edge.asked()).toBe(2)
  })

  test('strangers can make the witness read the document once in `witness_keys_pause_ms`, for `witness_keys_ms`', async () => {
    const { edge, witness } = await newWitness()
    edge.serve()
    for (const at of [0, 1, LIMITS.witness_keys_pause_ms - 1])
      expect((await witness.answer(by(third), NOW + at)).status).toBe(403)
    expect(edge.asked()).toBe(1)
    expect((await witness.answer(by(third), NOW + LIMITS.witness_keys_pause_ms)).status).toBe(403)
    expect([edge.asked(), LIMITS.witness_keys_ms]).toEqual([2, 4_000]) // less than the edge waits for the witness
  })
})
