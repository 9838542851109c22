// Promise: an operator tries a folder of policies on the calls that were, and beside the set in force on calls as they come, from a
// terminal; a build learns from the exit code whether anything flips.

import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { tellsLittle } from '../../cli/policy/rehearsal.ts'
import { ROOT } from '../../infra/state.ts'
import type { Call } from '../../shared/wire/calls.ts'
import type { Ran } from '../support/countersign.ts'
import { countersign } from '../support/countersign.ts'
import { eventually } from '../support/stack/hurt-stack.ts'
import { sharedStack, sharedState } from '../support/stack/stack.ts'

sharedStack() // this file works on it
const folder = mkdtempSync(join(tmpdir(), 'countersign-trials-'))
const env = { COUNTERSIGN_STATE: sharedState() }
const run = (...args: readonly string[]): Promise<Ran> => countersign(args, { cwd: folder, env })
const policy = (...args: readonly string[]): Promise<Ran> => run('policy', ...args)
const said = JSON.stringify({ text: `tried ${Date.now()}` })
const call = async (): Promise<Call> =>
  JSON.parse((await run('call', 'text.stats', '--args', said, '--json')).out) as Call // the wire's

afterAll(async () => {
  await policy('shadow', 'off')
  rmSync(folder, { recursive: true })
})
cpSync(join(ROOT, 'policies/defaults'), join(folder, 'mine'), { recursive: true })
const rule = `@id("not-that")\n@reason("not that text")\nforbid (principal, action == Action::"tool.execute/text.stats", resource)\nwhen { context.args has text && context.args.text == ${said.slice(8, -1)} };\n`
writeFileSync(join(folder, 'mine', 'that.cedar'), rule)
const candidate = async () =>
  (JSON.parse((await policy('put', 'mine', '--no-activate', '--json')).out) as { version: number }).version

test('a folder is rehearsed on the calls that were: what flips is told, and is the exit code', async () => {
  const { id, state } = await call()
  expect(state).toBe('succeeded')
  const told = await eventually('the call is in the log', async () => {
    const ran = await policy('rehearse', 'mine', '--limit', '20', '--days', '1')
    return ran.out.includes(id) && ran
  })
  const version = await candidate()
  expect(told).toMatchObject({ code: 1, err: '' })
  expect(told.out).toMatch(new RegExp(`^version ${version} against \\d+: \\d+ calls?, `))
  expect(told.out).toMatch(
    new RegExp(`^allow → deny +(?:allow +)?text\\.stats +dev +${id} +not-that +not that text$`, 'm'),
  )
  expect(told.out).toContain('questions to humans: ')
  const { code, out } = await policy('rehearse', String(version), '--limit', '20', '--json')
  const { flips, ...rest } = JSON.parse(out) as { flips: { call: string }[] } // others' calls of this tenant are among them
  expect([code, rest]).toMatchObject([1, { version }])
  expect(flips.find((flip) => flip.call === id)).toMatchObject({ from: 'allow', now: 'allow', to: 'deny' })
  const { version: present } = JSON.parse((await policy('show', '--json')).out) as { version: number }
  const same = await policy('rehearse', String(present), '--limit', '20', '--json')
  // Of others' calls on this stack, more may have lost their agents than not.
  expect(same).toMatchObject({ code: tellsLittle(JSON.parse(same.out)) === null ? 0 : 1, err: '' })
})

test.each([
  [
    'all that was asked for',
    { looked_at: 20, out_of_time: false, unrehearsable: [{ reason: '', count: 10 }] },
    null,
  ],
  ['nothing, for there was nothing', { looked_at: 0, out_of_time: false, unrehearsable: [] }, null],
  [
    'what there was time for',
    { looked_at: 999, out_of_time: true, unrehearsable: [] },
    /time for 999 calls only/,
  ],
  [
    'mostly what can’t be',
    { looked_at: 20, out_of_time: false, unrehearsable: [5, 6].map((count) => ({ reason: '', count })) },
    /\(11\) than can \(9\)/,
  ],
])('a rehearsal that looked at %s tells much or little', (_what, told, little) => {
  if (little === null) expect(tellsLittle(told)).toBeNull()
  else expect(tellsLittle(told)).toMatch(little)
})

test('a version shadows the set in force, is listed as such, and is told with what it would have done', async () => {
  const version = String(await candidate())
  expect((await policy('shadow', version)).out).toMatch(
    new RegExp(`^version ${version}, since \\S+ by root: differs on 0 of 0 calls`),
  )
  expect((await policy('list')).out).toMatch(new RegExp(`^${version} +shadows it `, 'm'))
  const { id, run: of, state } = await call()
  expect(state).toBe('succeeded')
  expect((await run('runs', 'journal', of, '-o', 'journal.json')).code).toBe(0)
  expect(readFileSync(join(folder, 'journal.json'), 'utf8')).toContain('not-that')
  expect(await run('verify', '--journal', 'journal.json')).toMatchObject({ code: 0, err: '' })
  const told = await eventually('the call is counted', async () => {
    const ran = await policy('shadow')
    return ran.out.includes(id) && ran
  })
  expect(told.out).toMatch(
    /^version \d+, since \S+ by root: differs on 1 of \d+ calls that have ended\n(.*\n)* {2}allow → deny {2}1\n/,
  )
  expect(await policy('shadow', 'off')).toMatchObject({ code: 0, out: 'nothing shadows the set in force\n' })
})

test.each([
  [['rehearse', 'nowhere'], /can't be read/],
  [['rehearse', '999999'], /no version 999999/],
  [['rehearse', '1', '--days', 'x'], /`--days` takes a number/],
  [['rehearse', '1', '--days', '1000'], /days/],
  [['shadow', 'latest'], /name a version, or `off`/],
  [['shadow', '999999'], /no version 999999/],
] as const)('what can’t be done says why: policy %j', async (args, why) => {
  const ran = await policy(...args)
  expect(ran.code).toBeGreaterThan(0)
  expect(ran.err).toMatch(why)
})
