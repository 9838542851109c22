// The spool remembers, over any death of the worker, which calls were begun here and which results nobody has acknowledged.

import { generateKeyPairSync } from 'node:crypto'
import { mkdtempSync, readdirSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type PrivateJwk, seal, signerFromJwk } from '../../shared/dsse.ts'
import { STATEMENT_TYPE } from '../../shared/statement.ts'
import { Spool, type Spooled } from '../../worker/spool.ts'

const signer = signerFromJwk(generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' }) as PrivateJwk) // Ed25519
const CALL = 'call_01JZ0000000000000000000000_1'
const spooled = (call: string, fence = 1, stdout = ''): Spooled => ({
  call,
  deadline_ms: 0,
  settlement: { fence, envelope: seal(STATEMENT_TYPE, { call }, signer), output: { stdout, stderr: '' } },
})

let home: string
const dir = (): string => join(home, 'spool')
const open = (bounds?: ConstructorParameters<typeof Spool>[1]) => {
  const spool = new Spool(dir(), bounds)
  const left = spool.open(Date.now())
  if (!left.ok) throw new Error(left.error)
  return { spool, ...left.value }
}
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'countersign-spool-'))
})
afterEach(() => rmSync(home, { recursive: true, force: true }))

test('a settlement is found again by the next life, until it is dropped', () => {
  open().spool.keep(spooled(CALL))
  const next = open()
  expect(next.settled).toEqual([spooled(CALL)])
  next.spool.drop(CALL)
  expect(open().settled).toEqual([])
  expect(readdirSync(dir())).toEqual([])
})

test('nobody else can read it', () => {
  open().spool.keep(spooled(CALL))
  expect(statSync(dir()).mode & 0o777).toBe(0o700)
  expect(statSync(join(dir(), `${CALL}.json`)).mode & 0o777).toBe(0o600)
})

test('L2 a call is begun once under one fence, in this life and the next', () => {
  const { spool } = open()
  expect(spool.begin(CALL, 1)).toEqual({ ok: true, value: true })
  expect(spool.begin(CALL, 1)).toEqual({ ok: true, value: false })
  const next = open()
  expect(next.lost).toEqual([CALL])
  expect(next.settled).toEqual([])
  expect(next.spool.begin(CALL, 1)).toEqual({ ok: true, value: false })
})

test('L2 a later grant of an idempotent call may run, an earlier one may not, in this life and the next', () => {
  const { spool } = open()
  spool.begin(CALL, 2)
  expect(open().spool.begin(CALL, 3)).toEqual({ ok: true, value: true })
  const next = open()
  expect(next.lost).toEqual([CALL])
  expect(next.spool.begin(CALL, 2)).toEqual({ ok: true, value: false })
  expect(next.spool.begin(CALL, 3)).toEqual({ ok: true, value: false })
  next.spool.drop(CALL)
  expect(readdirSync(dir())).toEqual([])
})

test('L2 a call whose result waits for the edge is not begun again', () => {
  const { spool } = open()
  spool.begin(CALL, 1)
  spool.keep(spooled(CALL))
  expect(spool.begin(CALL, 1)).toEqual({ ok: true, value: false })
  expect(open().spool.begin(CALL, 1)).toEqual({ ok: true, value: false })
})

test('L2 a beginning and its result are found together, and the result is sent', () => {
  const { spool } = open()
  spool.begin(CALL, 1)
  spool.keep(spooled(CALL))
  const next = open()
  expect(next.lost).toEqual([])
  expect(next.settled).toEqual([spooled(CALL)])
  next.spool.drop(CALL)
  expect(readdirSync(dir())).toEqual([])
})

test('a beginning that can be granted no more is forgotten', () => {
  const { spool } = open()
  spool.begin(CALL, 1)
  const old = Date.now() / 1000 - 2 * 3600
  utimesSync(join(dir(), `${CALL}.1.begun`), old, old)
  expect(open().lost).toEqual([])
  expect(readdirSync(dir())).toEqual([])
})

test('half a file is never taken for a settlement', () => {
  open().spool.keep(spooled(CALL))
  writeFileSync(join(dir(), `${CALL}.json.new`), '{"call":"ca')
  writeFileSync(join(dir(), 'call_01JZ0000000000000000000000_2.json'), '{"call":"ca')
  const next = open()
  expect(next.settled).toHaveLength(1)
  expect(next.unreadable).toEqual(['call_01JZ0000000000000000000000_2.json'])
  expect(readdirSync(dir()).sort()).toEqual([`${CALL}.json`, 'call_01JZ0000000000000000000000_2.json.unreadable'])
})

test('a settlement under another call’s name is put aside', () => {
  open()
  writeFileSync(join(dir(), 'call_01JZ0000000000000000000000_2.json'), JSON.stringify(spooled(CALL)))
  expect(open()).toMatchObject({ settled: [], unreadable: ['call_01JZ0000000000000000000000_2.json'] })
})

test('it is full by number and by bytes, and not when all is dropped', () => {
  const few = open({ files: 2, bytes: 1_000_000 }).spool
  few.keep(spooled(CALL))
  expect(few.full).toBe(false)
  few.keep(spooled('call_01JZ0000000000000000000000_2'))
  expect(few.full).toBe(true)
  few.drop(CALL)
  expect(few.full).toBe(false)
  const small = open({ files: 100, bytes: 5_000 }).spool
  expect(small.full).toBe(false)
  small.keep(spooled('call_01JZ0000000000000000000000_3', 1, Buffer.alloc(6_000).toString('base64')))
  expect(small.full).toBe(true)
  small.drop('call_01JZ0000000000000000000000_3')
  expect(small.full).toBe(false)
})

test('a disk that refuses is told, not thrown', () => {
  const { spool } = open()
  rmSync(dir(), { recursive: true })
  writeFileSync(dir(), 'a file in the way')
  expect(spool.keep(spooled(CALL)).ok).toBe(false)
  expect(spool.begin(CALL, 1).ok).toBe(false)
  expect(new Spool(dir()).open(Date.now()).ok).toBe(false)
})
