// Promise: offline, `countersign verify` prints `verified` and exits with 0 for genuine evidence,
// and exits with 1 and a reason for everything else.

import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import type { JournalEntry } from '../../shared/evidence/journal.ts'
import { entryHash, GENESIS } from '../../shared/evidence/journal.ts'
import { LIMITS } from '../../shared/limits.ts'
import { deniedBundle, executedBundle, KEYS } from '../shared/evidence.ts'
import { countersign } from '../support/countersign.ts'

const folder = mkdtempSync(join(tmpdir(), 'countersign-verify-'))
afterAll(() => rmSync(folder, { recursive: true }))

let files = 0
function file(content: unknown): string {
  const path = join(folder, `${files++}.json`)
  writeFileSync(
    path,
    typeof content === 'string' || Buffer.isBuffer(content) ? content : JSON.stringify(content, null, 2),
  )
  return path
}

const keys = file(KEYS)
const bundle = executedBundle()
const NO_EDGE = { COUNTERSIGN_STATE: join(folder, 'none') } // no edge is configured

const verify = (path: string, ...more: string[]) =>
  countersign(['verify', path, '--keys', keys, ...more], { env: NO_EDGE })

describe('an attestation', () => {
  test('a genuine attestation is verified: exit code 0, the checklist and its contents', async () => {
    const ran = await verify(file(bundle))
    expect(ran).toMatchObject({ code: 0, err: '' })
    expect(ran.out).toMatch(/^ {2}ok {4}the payload is an in-toto statement of our predicate$/m)
    expect(ran.out).toMatch(/^verified$/m)
    expect(ran.out).not.toMatch(/FAIL|NOT/)
    expect(ran.out).toMatch(/approval +approve by root/)
    expect(ran.out).toMatch(/ran +on wrk_01KA5XJ3M0000000000000000A: sandbox_tier_c_linux_bubblewrap/)
  })

  test('the attestation of a denied call is verified and says that nothing ran', async () => {
    const ran = await verify(file(deniedBundle()))
    expect(ran.code).toBe(0)
    expect(ran.out).toMatch(/ran +nothing$/m)
  })

  test('`verify --json` gives the same verdict as the text', async () => {
    const [fine, foul] = [
      await verify(file(bundle), '--json'),
      await verify(file({ ...bundle, grant: null }), '--json'),
    ]
    expect(JSON.parse(fine.out)).toMatchObject({ verified: true, about: { call: bundle.call.call } })
    expect(fine.code).toBe(0)
    const verdict = JSON.parse(foul.out)
    expect(verdict).toMatchObject({
      verified: false,
      checks: expect.arrayContaining([
        { name: 'the grant is the edge’s, for this call and worker', ok: false, at: '/predicate/grant' },
      ]),
    })
    expect(verdict).not.toHaveProperty('about')
    expect(foul.code).toBe(1)
  })

  test('a folder of bundles is verified if each of its files is, and each fault has the name of its file', async () => {
    const bundles = join(folder, 'bundles')
    mkdirSync(bundles)
    expect(await verify(bundles)).toMatchObject({ code: 1, out: expect.stringContaining('no file `*.json`') })
    cpSync(file(bundle), join(bundles, 'a.json'))
    cpSync(file(deniedBundle()), join(bundles, 'b.json'))
    writeFileSync(join(bundles, 'notes.txt'), 'no bundle')
    expect(await verify(bundles)).toMatchObject({ code: 0, out: expect.stringMatching(/bundles +2$/m) })
    writeFileSync(join(bundles, 'c.json'), JSON.stringify({ ...bundle, grant: null }))
    writeFileSync(join(bundles, 'd.json'), '{')
    const ran = await verify(bundles)
    expect(ran.code).toBe(1)
    expect(ran.out).toContain('FAIL  c.json: the grant is the edge’s, for this call and worker')
    expect(ran.out).toContain('FAIL  d.json: the bundle can be read')
    expect(ran.out).not.toContain('b.json')
  })

  test('a bundle on standard input is verified', async () => {
    const ran = await countersign(['verify', '-', '--keys', keys], {
      env: NO_EDGE,
      stdin: JSON.stringify(bundle),
    })
    expect(ran).toMatchObject({ code: 0, out: expect.stringContaining('\nverified\n') })
  })

  test.each([
    [
      'a byte flipped in the payload',
      JSON.stringify(bundle).replace(/"payload":"e/, '"payload":"f'),
      'FAIL  the payload is an in-toto statement',
    ],
    [
      'a byte flipped in a signature',
      JSON.stringify(bundle).replace(/"sig":"(.)/, (_, first) => `"sig":"${first === 'A' ? 'B' : 'A'}`),
      'FAIL  exactly the worker and the edge signed it',
    ],
    [
      'a byte flipped in the arguments',
      JSON.stringify(bundle).replace('four', 'fove'),
      'FAIL  the digest covers these arguments and this plan',
    ],
    [
      'a duplicate member name',
      JSON.stringify(bundle).replace('{', '{"format":"countersign-bundle/v2",'),
      'is not strict JSON: the member "format" appears twice',
    ],
    ['an extra member', { ...bundle, extra: 1 }, 'FAIL  the bundle is well-formed'],
    ['no content', '', 'FAIL  the bundle can be read'],
    ['bad UTF-8', Buffer.from([0x22, 0xff, 0x22]), 'FAIL  the bundle can be read'],
    ['too many bytes', `"${'x'.repeat(LIMITS.evidence_bytes)}"`, 'FAIL  the bundle can be read'],
    [
      'control characters in a member name',
      { ...bundle, '\x1b[2Jformat': 1 },
      'FAIL  the bundle is well-formed',
    ],
  ])('J01 a bundle with %s is not verified', async (_name, content, line) => {
    const ran = await verify(file(content))
    expect(ran.code).toBe(1)
    expect(ran.out).toContain(line)
    expect(ran.out).toMatch(/^NOT VERIFIED$/m)
    expect(ran.out).not.toMatch(/^verified$/m)
    expect(ran.out).not.toContain('\x1b')
  })

  test('an endless file is given up at the size limit', async () => {
    const ran = await verify('/dev/zero')
    expect(ran).toMatchObject({
      code: 1,
      out: expect.stringContaining(`more than ${LIMITS.evidence_bytes} bytes`),
    })
  })

  test('an attestation of a call other than the one that `--call` names is not verified', async () => {
    expect((await verify(file(bundle), '--call', bundle.call.call)).code).toBe(0)
    const ran = await verify(file(bundle), '--call', deniedBundle().call.call)
    expect(ran).toMatchObject({
      code: 1,
      out: expect.stringContaining('FAIL  the bundle is about the call given with --call'),
    })
  })

  test.each([
    [
      'no keys',
      { ...KEYS, keys: [] },
      'FAIL  the key file is well-formed: /keys: the edge keys are not those',
    ],
    [
      'a weak key',
      { ...KEYS, keys: [{ ...KEYS.keys[0], x: 'A'.repeat(43) }] },
      'FAIL  the key file is well-formed: /keys/0/x: is not an Ed25519 public key',
    ],
    [
      'a malformed key',
      { ...KEYS, keys: [{ ...KEYS.keys[0], x: '!'.repeat(43) }] },
      'FAIL  the key file is well-formed',
    ],
    ['a bundle in place of keys', bundle, 'FAIL  the key file is well-formed'],
    [
      'keys of another tenant',
      { ...KEYS, tenant: 'other' },
      `the key file belongs to the tenant \`other\`, the attestation to \`${bundle.call.tenant}\`: fetch the keys with \`countersign keys list --tenant ${bundle.call.tenant}\``,
    ],
  ])('an attestation is not verified by a key file with %s', async (_name, content, line) => {
    const ran = await countersign(['verify', file(bundle), '--keys', file(content)], { env: NO_EDGE })
    expect(ran).toMatchObject({ code: 1, out: expect.stringContaining(line) })
  })

  test('a missing file, or a folder in place of the keys, is an error and not a verdict', async () => {
    const missing = join(folder, 'missing')
    expect(await verify(missing)).toMatchObject({
      code: 1,
      out: '',
      err: expect.stringContaining('can’t be read'),
    })
    for (const path of [missing, folder]) {
      expect(await countersign(['verify', file(bundle), '--keys', path], { env: NO_EDGE })).toMatchObject({
        code: 1,
        out: '',
      })
    }
  })
})

describe('a journal', () => {
  const entries: JournalEntry[] = []
  for (let seq = 1, prev = GENESIS.hash; seq <= 4; seq++) {
    const link = { seq, at_ms: seq, kind: `event ${seq}`, call: null, body: { n: seq }, prev }
    prev = entryHash(link)
    entries.push({ ...link, hash: prev })
  }
  const head = entries.at(-1)?.hash ?? ''
  const check = (items: unknown, ...more: string[]) =>
    countersign(['verify', '--journal', file({ items }), ...more], { env: NO_EDGE })

  test('an unchanged journal is verified, and without `--head` its end is reported as not checked', async () => {
    const ran = await check(entries)
    expect(ran).toMatchObject({ code: 0, err: '' })
    expect(ran.out).toContain(head)
    expect(ran.out).toContain('not checked: give --head to detect missing entries at the end')
    expect(await check(entries, '--head', head)).toMatchObject({
      code: 0,
      out: expect.not.stringContaining('not checked'),
    })
  })

  test.each<[string, unknown, string]>([
    [
      'a changed entry',
      entries.with(1, { ...(entries[1] as JournalEntry), kind: 'other' }),
      'entry 2: `hash` does not match the entry',
    ], // there are four
    ['a missing entry', entries.toSpliced(1, 1), 'entry 2: entry 2 is missing'],
    ['a missing first entry', entries.slice(1), 'entry 1: entry 1 is missing'],
    [
      'an extra member',
      entries.with(0, { ...(entries[0] as JournalEntry), extra: 1 } as JournalEntry),
      'the journal is well-formed',
    ], // wrong on purpose
  ])('J01 a journal with %s is not verified', async (_name, items, line) => {
    const ran = await check(items)
    expect(ran).toMatchObject({ code: 1, out: expect.stringContaining(line) })
    expect(ran.out).toMatch(/^NOT VERIFIED$/m)
  })

  test('J01 a journal without its last entry is not verified against the head that was kept', async () => {
    expect((await check(entries.slice(0, 3))).code).toBe(0)
    expect(await check(entries.slice(0, 3), '--head', head)).toMatchObject({
      code: 1,
      out: expect.stringContaining('FAIL  the journal ends with the head given with --head'),
    })
  })
})
