// Promise: an operator changes policy from a folder of files, sees what a change does before and after it is in force, takes it back with
// one command, and never overwrites a colleague's.

import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { ROOT } from '../../infra/state.ts'
import type { Ran } from '../support/countersign.ts'
import { countersign } from '../support/countersign.ts'
import { sharedStack, sharedState } from '../support/stack/stack.ts'

sharedStack() // this file works on it
const folder = mkdtempSync(join(tmpdir(), 'countersign-policy-'))
const env = { COUNTERSIGN_STATE: sharedState() }
const policy = (...args: readonly string[]): Promise<Ran> =>
  countersign(['policy', ...args], { cwd: folder, env })
type Told = { version: number; active: boolean; note: string; policies: Record<string, string> }
async function told<T = Told>(ran: Promise<Ran>): Promise<T> {
  const { code, out, err } = await ran
  expect({ code, err }).toEqual({ code: 0, err: '' })
  return JSON.parse(out) as T // as the wire's schema has it
}
const inForce = async () => (await told(policy('show', '--json'))).version

const before = await inForce()
afterAll(async () => {
  await policy('activate', String(before))
  rmSync(folder, { recursive: true })
})
cpSync(join(ROOT, 'policies/defaults'), join(folder, 'mine'), { recursive: true })
const quiet = (session: string) =>
  `@id("quiet")\n@reason("a quiet day")\nforbid (\n  principal,\n  action in Action::"tool.execute",\n  resource\n)\nwhen { context.session_id == "${session}" };\n`
const write = (text: string) => writeFileSync(join(folder, 'mine', 'quiet.cedar'), text)

test('a set is stored and compared first, then put in force, and rolled back', async () => {
  write(quiet('sunday'))
  const stored = await told(policy('put', 'mine', '--no-activate', '--note', 'sundays', '--json'))
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
    new RegExp(`^version ${version} {2}in force, in place of version ${before}\n(.*\n)* {2}note +sundays\n$`),
  )
  expect((await policy('list')).out).toMatch(
    new RegExp(`^${version} +in force +root +\\S+ +\\S+ by root +sundays$`, 'm'),
  )
  expect((await policy('show', '--only', 'quiet')).out).toContain('  │ @id("quiet")\n')
  expect((await policy('rollback')).out).toMatch(
    new RegExp(`^version ${before} {2}in force, in place of version ${version}\n`),
  )
  expect((await policy('rollback')).out).toMatch(
    new RegExp(`^version ${version} {2}in force, in place of version ${before}\n`),
  )
  expect((await policy('show', version)).out.match(/put in force/g)).toHaveLength(2)
})

test('of a changed policy the changed lines are shown, with those around them', async () => {
  write(quiet('monday'))
  const { version } = await told(policy('put', 'mine', '--json'))
  const { out } = await policy('diff', String(version), '--against', String(version - 1))
  expect(out).toBe(
    `version ${version} against ${version - 1}: 1 changed\n\nquiet  changed  in quiet\n   ⋮\n     action in Action::"tool.execute",\n     resource\n   )\n - when { context.session_id == "sunday" };\n + when { context.session_id == "monday" };\n`,
  )
  expect((await policy('diff', String(version))).out).toBe(
    `version ${version} against ${version}: nothing that decides differs\n`,
  )
  const { changes } = await told<{ changes: unknown[] }>(
    policy('diff', String(version), '--against', String(version - 1), '--json'),
  )
  expect(changes).toEqual([expect.objectContaining({ policy: 'quiet', change: 'changed' })])
})

test('what a colleague did in between is not overwritten, and is named', async () => {
  const seen = await inForce()
  write(quiet('tuesday'))
  const colleague = await told(policy('put', 'mine', '--json'))
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
    `in force is ${colleague.version}`,
  )
  expect(await policy('put', 'mine', '--expect', String(colleague.version))).toMatchObject({ code: 0 })
  const again = await policy('put', 'mine', '--expect', String(seen))
  expect(again).toMatchObject({ code: 0, out: expect.stringContaining('in force, as it was already\n') })
})

test('a note is kept, or said not to be', async () => {
  write(quiet('thursday'))
  const stored = await told(policy('put', 'mine', '--no-activate', '--json'))
  const noted = await told(policy('put', 'mine', '--no-activate', '--note', 'thursdays', '--json'))
  expect(noted).toEqual({ ...stored, note: 'thursdays' })
  expect((await told(policy('put', 'mine', '--no-activate', '--json'))).note).toBe('thursdays')
  expect((await told(policy('put', 'mine', '--note', 'Thursdays', '--json'))).note).toBe('Thursdays')
  const { code, out } = await policy('put', 'mine', '--note', 'fridays')
  expect([code, out]).toEqual([
    0,
    expect.stringMatching(
      / {2}note +Thursdays\n\/note: warning: the note is not kept: .* in force under another\n/,
    ),
  ])
})

test('a set that is wrong is refused by file, line and column, and nothing changes', async () => {
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
  [['put', 'nowhere'], /can't be read/],
  [['put', '.'], /holds no .cedar file/],
  [['show', '--only', 'nothing'], /there is no policy text `nothing`/],
  [['show', '999999'], /no version 999999/],
] as const)('what can’t be done says why: policy %j', async (args, why) => {
  const ran = await policy(...args)
  expect(ran.code).toBeGreaterThan(0)
  expect(ran.err).toMatch(why)
})

test('the floor is shown with what is in force', async () => {
  const { floor } = await told<{ floor: Record<string, string> }>(policy('show', '--json'))
  for (const name of Object.keys(floor))
    expect((await policy('show', '--only', name)).out).toContain('forbid (')
})
