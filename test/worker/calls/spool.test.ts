// The spool records, across any death of the worker, which calls began and which results are
// unacknowledged.

import { spawnSync } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import {
  appendFileSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { ROOT } from '../../../infra/state.ts'
import { type PrivateJwk, seal, signerFromJwk } from '../../../shared/evidence/dsse.ts'
import { STATEMENT_TYPE } from '../../../shared/evidence/statement.ts'
import { Spool, type SpooledSettlement } from '../../../worker/calls/spool.ts'

// Ed25519.
const signer = signerFromJwk(
  generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' }) as PrivateJwk,
)
const CALL = 'call_01JZ0000000000000000000000_1'
const OTHER = 'call_01JZ0000000000000000000000_2'
const STAYS = Buffer.from('it stays').toString('base64')
const spooled = (call: string, fence = 1, stdout = ''): SpooledSettlement => ({
  call,
  deadline_ms: 0,
  settlement: { fence, envelope: seal(STATEMENT_TYPE, { call }, signer), output: { stdout, stderr: '' } },
})

let home: string
const dir = (): string => join(home, 'spool')
const journal = (): string => join(dir(), 'journal')
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

test('a spooled settlement survives a restart until it is dropped', () => {
  open().spool.keep(spooled(CALL))
  const next = open()
  expect(next.settled).toEqual([spooled(CALL)])
  next.spool.drop(CALL, 1)
  expect(open().settled).toEqual([])
  expect(statSync(journal()).size).toBe(0)
})

test('no other user can read the spool', () => {
  const { spool } = open()
  spool.keep(spooled(CALL))
  expect(statSync(dir()).mode & 0o777).toBe(0o700)
  expect(statSync(journal()).mode & 0o777).toBe(0o600)
  open() // which rewrites the file
  expect(statSync(journal()).mode & 0o777).toBe(0o600)
})

test('L2 a call begins once per fence, even across a restart', () => {
  const { spool } = open()
  expect(spool.begin(CALL, 1)).toEqual({ ok: true, value: true })
  expect(spool.begin(CALL, 1)).toEqual({ ok: true, value: false })
  const next = open()
  expect(next.lost).toEqual([CALL])
  expect(next.settled).toEqual([])
  expect(next.spool.begin(CALL, 1)).toEqual({ ok: true, value: false })
})

test('L2 a later grant of an idempotent call may run and an earlier one may not, even across a restart', () => {
  const { spool } = open()
  spool.begin(CALL, 2)
  expect(open().spool.begin(CALL, 3)).toEqual({ ok: true, value: true })
  const next = open()
  expect(next.lost).toEqual([CALL])
  expect(next.spool.begin(CALL, 2)).toEqual({ ok: true, value: false })
  expect(next.spool.begin(CALL, 3)).toEqual({ ok: true, value: false })
})

test('D15 a lost call is reported at one start only, and can never run again', () => {
  open().spool.begin(CALL, 1)
  expect(open().lost).toEqual([CALL])
  for (let start = 0; start < 3; start++) {
    const later = open()
    expect(later.lost).toEqual([])
    expect(later.spool.begin(CALL, 1)).toEqual({ ok: true, value: false }) // L2
  }
})

test('D15 a lost call that succeeded at another attempt is not reported', () => {
  const { spool } = open()
  spool.begin(OTHER, 1) // keeps the file from being truncated
  spool.begin(CALL, 1)
  const next = open()
  expect(next.lost).toEqual([OTHER, CALL])
  expect(next.spool.begin(CALL, 2)).toEqual({ ok: true, value: true })
  next.spool.keep(spooled(CALL, 2))
  next.spool.drop(CALL, 2)
  expect(open().lost).toEqual([])
})

test('L2 a call whose result waits for the edge does not begin again', () => {
  const { spool } = open()
  spool.begin(CALL, 1)
  spool.keep(spooled(CALL))
  expect(spool.begin(CALL, 1)).toEqual({ ok: true, value: false })
  expect(open().spool.begin(CALL, 1)).toEqual({ ok: true, value: false })
  expect(open().spool.begin(CALL, 1)).toEqual({ ok: true, value: false })
})

test('L2 after a restart a call with both begun mark and result is sent, not reported as lost', () => {
  const { spool } = open()
  spool.begin(CALL, 1)
  spool.keep(spooled(CALL))
  const next = open()
  expect(next.lost).toEqual([])
  expect(next.settled).toEqual([spooled(CALL)])
})

test('a call that is over stays over after a restart, while others still run', () => {
  const { spool } = open()
  for (const call of [CALL, OTHER]) {
    spool.begin(call, 1)
    spool.keep(spooled(call))
  }
  spool.drop(CALL, 1)
  expect(open().settled).toEqual([spooled(OTHER)])
})

test('L2 a call that is over under an earlier fence is not over under a later one, even across a restart', () => {
  const { spool } = open()
  spool.begin(CALL, 1)
  spool.keep(spooled(CALL, 1))
  spool.begin(CALL, 2)
  spool.drop(CALL, 1)
  expect(spool.begin(CALL, 2)).toEqual({ ok: true, value: false })
  expect(open()).toMatchObject({ settled: [], lost: [CALL] })
  const again = open().spool
  again.keep(spooled(CALL, 2))
  again.drop(CALL, 1)
  expect(open()).toMatchObject({ settled: [spooled(CALL, 2)], lost: [] })
  open().spool.drop(CALL, 2)
  expect(open()).toMatchObject({ settled: [], lost: [] })
})

test('a spool of an older version, whose lines have no fence, is read', () => {
  open().spool.keep(spooled(CALL, 3))
  appendFileSync(journal(), `${JSON.stringify({ over: CALL })}\n`)
  expect(open()).toMatchObject({ settled: [], lost: [], unreadable: undefined })
})

test('a begun mark is forgotten once its call can no longer be granted', () => {
  open().spool.begin(CALL, 1)
  const left = new Spool(dir()).open(Date.now() + 2 * 3_600_000)
  expect(left).toMatchObject({ ok: true, value: { lost: [] } })
  expect(statSync(journal()).size).toBe(0)
})

test('an incomplete last line of the spool is ignored, and unreadable lines are moved to another file', () => {
  open().spool.keep(spooled(CALL))
  appendFileSync(journal(), `{"settled":{"call":"ca\n{"over":"${CALL}"`)
  const next = open()
  expect(next.settled).toEqual([spooled(CALL)])
  expect(readFileSync(next.unreadable ?? '', 'utf8')).toBe('{"settled":{"call":"ca\n')
  expect(open()).toMatchObject({ settled: [spooled(CALL)], unreadable: undefined })
})

test('the spool file stays as small as its live entries, however many calls come and go', () => {
  const { spool } = open({ settlements: 10, bytes: 1_000_000, file_bytes: 20_000 })
  spool.begin(CALL, 1)
  spool.keep(spooled(CALL, 1, STAYS))
  for (let n = 2; n < 200; n++) {
    const call = CALL.replace(/_1$/, `_${n}`)
    spool.begin(call, 1)
    spool.keep(spooled(call))
    spool.drop(call, 1)
    expect(statSync(journal()).size).toBeLessThan(25_000)
  }
  expect(open().settled).toEqual([spooled(CALL, 1, STAYS)])
})

test('the spool is full by number and by bytes, and empty again when all is dropped', () => {
  const few = open({ settlements: 2, bytes: 1_000_000, file_bytes: 1_000_000 }).spool
  few.keep(spooled(CALL))
  expect(few.full).toBe(false)
  few.keep(spooled(OTHER))
  expect(few.full).toBe(true)
  few.drop(CALL, 1)
  expect(few.full).toBe(false)
  few.drop(OTHER, 1)
  const small = open({ settlements: 100, bytes: 5_000, file_bytes: 1_000_000 }).spool
  expect(small.full).toBe(false)
  small.keep(spooled(CALL, 1, Buffer.alloc(6_000).toString('base64')))
  expect(small.full).toBe(true)
  small.drop(CALL, 1)
  expect(small.full).toBe(false)
})

/** The JSON that a program prints under a limit of file size. */
function printedUnder(fsize: string, program: string) {
  const node = [process.execPath, '--input-type=module', '-e', program]
  return JSON.parse(spawnSync('/usr/bin/prlimit', [`--fsize=${fsize}`, '--', ...node]).stdout.toString())
}

test('a line that the disk stores only in part is an error, and the part is ignored', () => {
  const life = `
    const { Spool } = await import(${JSON.stringify(join(ROOT, 'worker/calls/spool.ts'))})
    const spool = new Spool(${JSON.stringify(dir())})
    spool.open(Date.now())
    spool.keep(${JSON.stringify(spooled(CALL))})
    console.log(JSON.stringify([spool.keep(${JSON.stringify(spooled(OTHER, 1, 'A'.repeat(8_000)))}), spool.begin('${OTHER}', 1)]))`
  const printed = printedUnder('4096', life)
  expect(printed).toEqual([
    { ok: false, error: 'EFBIG' },
    { ok: true, value: true },
  ])
  expect(statSync(journal()).size).toBe(4_096)
  expect(open()).toMatchObject({ settled: [spooled(CALL)], lost: [OTHER], unreadable: undefined })
})

test('room for a begun mark is reserved before a claim; after a failed write more room is required, and both changes are reported', () => {
  const life = `
    const { Spool } = await import(${JSON.stringify(join(ROOT, 'worker/calls/spool.ts'))})
    const spool = new Spool(${JSON.stringify(dir())})
    const told = []
    spool.watch((refused) => told.push(refused ?? 'takes'))
    spool.open(Date.now())
    const prepared = [spool.prepare()]
    spool.keep(${JSON.stringify(spooled(OTHER, 1, 'A'.repeat(8_000)))})
    prepared.push(spool.prepare())
    process.getBuiltinModule('node:child_process').execFileSync('/usr/bin/prlimit', ['--pid', String(process.pid), '--fsize=unlimited:'])
    prepared.push(spool.prepare())
    console.log(JSON.stringify([prepared, told, spool.refused]))`
  const printed = printedUnder('5000:', life)
  const [good, bad] = [{ ok: true }, { ok: false, error: 'EFBIG' }]
  expect(printed).toEqual([[good, bad, good], ['EFBIG', 'takes'], false])
})

test('reserved room in the spool is ignored after a restart', () => {
  const { spool } = open()
  spool.prepare()
  spool.begin(CALL, 1)
  spool.prepare()
  expect(open()).toMatchObject({ lost: [CALL], unreadable: undefined })
})

test('an unusable spool folder is a returned error with a remedy', () => {
  open().spool.keep(spooled(CALL, 1, 'A'.repeat(8_000)))
  const life = `
    const { Spool } = await import(${JSON.stringify(join(ROOT, 'worker/calls/spool.ts'))})
    console.log(JSON.stringify(new Spool(${JSON.stringify(dir())}).open(Date.now())))`
  const printed = printedUnder('4096', life)
  expect(printed.error).toMatch(/\(EFBIG\); raise the limit of file size$/)
  expect(readdirSync(dir())).toEqual(['journal']) // no partial copy takes up room
  expect(open().settled).toHaveLength(1)
  rmSync(dir(), { recursive: true })
  writeFileSync(dir(), 'a file in the way')
  expect(new Spool(dir()).open(Date.now())).toMatchObject({
    ok: false,
    error: expect.stringMatching(/; remove the file that is in its place$/),
  })
})
