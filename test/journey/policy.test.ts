// Promise: an operator changes policy from a folder of files, sees what a change does before and
// after it is in force, rolls it back with one command, and never overwrites the change of a
// colleague.

import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { ROOT } from '../../infra/state.ts'
import type { CliResult } from '../support/countersign.ts'
import { countersign } from '../support/countersign.ts'
import { sharedStack, sharedState } from '../support/stack/stack.ts'

sharedStack() // the commands below use it
const folder = mkdtempSync(join(tmpdir(), 'countersign-policy-'))
const env = { COUNTERSIGN_STATE: sharedState() }
const policy = (...args: readonly string[]): Promise<CliResult> =>
  countersign(['policy', ...args], { cwd: folder, env })
type PolicyVersion = { version: number; active: boolean; note: string; policies: Record<string, string> }
async function jsonOf<T = PolicyVersion>(ran: Promise<CliResult>): Promise<T> {
  const { code, out, err } = await ran
  expect({ code, err }).toEqual({ code: 0, err: '' })
  return JSON.parse(out) as T // the wire schema guarantees it
}
const inForce = async () => (await jsonOf(policy('show', '--json'))).version

const before = await inForce()
afterAll(async () => {
  await policy('activate', String(before))
  rmSync(folder, { recursive: true })
})
cpSync(join(ROOT, 'policies/defaults'), join(folder, 'mine'), { recursive: true })
const quiet = (session: string) =>
  `@id("quiet")\n@reason("a quiet day")\nforbid (\n  principal,\n  action in Action::"tool.execute",\n  resource\n)\nwhen { context.session_id == "${session}" };\n`
const write = (text: string) => writeFileSync(join(folder, 'mine', 'quiet.cedar'), text)

test('a policy set is stored, compared, put in force and rolled back', async () => {
  write(quiet('sunday'))
  const stored = await jsonOf(policy('put', 'mine', '--no-activate', '--note', 'sundays', '--json'))
  expect(stored).toMatchObject({ active: false, note: 'sundays' })
  expect(await inForce()).toBe(before)
  const version = String(stored.version)
  const difference = await policy('diff', version)
  expect(difference).toMatchObject({ code: 0, err: '' })
  expect(difference.out).toContain(
    `version ${version} against ${before}: 1 changed\n\nquiet  added  in quiet\n + @id("quiet")\n`,
  )
  const next = `activate ${version} --expect ${before}`
  expect(difference.out).toMatch(new RegExp(`: countersign policy ${next}\n$`))

  expect((await policy(...next.split(' '))).out).toMatch(
    new RegExp(`^version ${version} {2}in force, replacing version ${before}\n(.*\n)* {2}note +sundays\n$`),
  )
  expect((await policy('list')).out).toMatch(
    new RegExp(`^${version} +in force +root +\\S+ +\\S+ by root +sundays$`, 'm'),
  )
  expect((await policy('show', '--only', 'quiet')).out).toContain('  │ @id("quiet")\n')
  expect((await policy('rollback')).out).toMatch(
    new RegExp(`^version ${before} {2}in force, replacing version ${version}\n`),
  )
  expect((await policy('rollback')).out).toMatch(
    new RegExp(`^version ${version} {2}in force, replacing version ${before}\n`),
  )
  expect((await policy('show', version)).out.match(/put in force/g)).toHaveLength(2)
})

test('`policy diff` shows the changed lines of a policy with lines of context', async () => {
  write(quiet('monday'))
  const { version } = await jsonOf(policy('put', 'mine', '--json'))
  const { out } = await policy('diff', String(version), '--against', String(version - 1))
  expect(out).toBe(
    `version ${version} against ${version - 1}: 1 changed\n\nquiet  changed  in quiet\n   ⋮\n     action in Action::"tool.execute",\n     resource\n   )\n - when { context.session_id == "sunday" };\n + when { context.session_id == "monday" };\n`,
  )
  expect((await policy('diff', String(version))).out).toBe(
    `version ${version} against ${version}: no policy differs\n`,
  )
  const { changes } = await jsonOf<{ changes: unknown[] }>(
    policy('diff', String(version), '--against', String(version - 1), '--json'),
  )
  expect(changes).toEqual([expect.objectContaining({ policy: 'quiet', change: 'changed' })])
})

test('a change by a colleague in the meantime is not overwritten, and the error names it', async () => {
  const seen = await inForce()
  write(quiet('tuesday'))
  const colleague = await jsonOf(policy('put', 'mine', '--json'))
  write(quiet('wednesday'))
  for (const args of [['put', 'mine'], ['activate', String(before)], ['rollback']]) {
    const refused = await policy(...args, '--expect', String(seen))
    expect(refused).toMatchObject({
      code: 1,
      out: '',
      err: expect.stringContaining(`version ${seen} is not in force`),
    })
    expect(refused.err).toContain(`policy diff VERSION --against ${seen}`)
    expect(JSON.parse((await policy(...args, '--expect', String(seen), '--json')).out)).toMatchObject({
      error: { code: 'version_conflict' },
    })
  }
  expect(await inForce()).toBe(colleague.version)
  expect((await policy('activate', String(before), '--expect', String(seen))).err).toContain(
    `is not in force, version ${colleague.version} is`,
  )
  expect(await policy('put', 'mine', '--expect', String(colleague.version))).toMatchObject({ code: 0 })
  const again = await policy('put', 'mine', '--expect', String(seen))
  expect(again).toMatchObject({ code: 0, out: expect.stringContaining('in force, as before\n') })
})

test('a note is stored with the version, or a warning says that it is not', async () => {
  write(quiet('thursday'))
  const stored = await jsonOf(policy('put', 'mine', '--no-activate', '--json'))
  const noted = await jsonOf(policy('put', 'mine', '--no-activate', '--note', 'thursdays', '--json'))
  expect(noted).toEqual({ ...stored, note: 'thursdays' })
  expect((await jsonOf(policy('put', 'mine', '--no-activate', '--json'))).note).toBe('thursdays')
  expect((await jsonOf(policy('put', 'mine', '--note', 'Thursdays', '--json'))).note).toBe('Thursdays')
  const { code, out } = await policy('put', 'mine', '--note', 'fridays')
  expect([code, out]).toEqual([
    0,
    expect.stringMatching(
      / {2}note +Thursdays\n\/note: warning: the note was dropped: .* keeps the note under which it was in force\n/,
    ),
  ])
})

test('an invalid policy set is refused with file, line and column, and nothing changes', async () => {
  const present = await inForce()
  write('\npermit (principal, action resource);')
  expect(await policy('put', 'mine')).toMatchObject({
    code: 1,
    out: '',
    err: expect.stringMatching(/mine\/quiet\.cedar:2:\d+/),
  })
  expect(await inForce()).toBe(present)
})

test.each([
  [['diff'], /VERSION/],
  [['activate', 'latest'], /a version is a number/],
  [['diff', '1', '--against', 'x'], /against/],
  [['put', 'mine', '--expect', 'latest'], /--expect 7/],
  [['put', 'nowhere'], /can’t be read/],
  [['put', '.'], /contains no .cedar file/],
  [['show', '--only', 'nothing'], /this version has no policy text `nothing`/],
  [['show', '999999'], /no version 999999/],
] as const)('a failing `policy` command says why: %j', async (args, why) => {
  const ran = await policy(...args)
  expect(ran.code).toBeGreaterThan(0)
  expect(ran.err).toMatch(why)
})

test('`policy show` shows the floor with the version in force', async () => {
  const { floor } = await jsonOf<{ floor: Record<string, string> }>(policy('show', '--json'))
  for (const name of Object.keys(floor))
    expect((await policy('show', '--only', name)).out).toContain('forbid (')
})
