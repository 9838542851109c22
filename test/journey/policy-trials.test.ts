// Promise: an operator tries a folder of policies on past calls, and as a shadow on new calls, from
// a terminal; a build learns from the exit code whether a decision changes.

import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { inconclusiveBecause } from '../../cli/policy/rehearsal.ts'
import { ROOT } from '../../infra/state.ts'
import type { Call } from '../../shared/wire/calls.ts'
import type { CliResult } from '../support/countersign.ts'
import { countersign } from '../support/countersign.ts'
import { eventually } from '../support/eventually.ts'
import { sharedStack, sharedState } from '../support/stack/stack.ts'

sharedStack() // the commands below use it
const folder = mkdtempSync(join(tmpdir(), 'countersign-trials-'))
const env = { COUNTERSIGN_STATE: sharedState() }
const run = (...args: readonly string[]): Promise<CliResult> => countersign(args, { cwd: folder, env })
const policy = (...args: readonly string[]): Promise<CliResult> => run('policy', ...args)
const args = JSON.stringify({ text: `tried ${Date.now()}` })
const call = async (): Promise<Call> =>
  JSON.parse((await run('call', 'text_stats', '--args', args, '--json')).out) as Call // the wire's

afterAll(async () => {
  await policy('shadow', 'off')
  rmSync(folder, { recursive: true })
})
cpSync(join(ROOT, 'policies/defaults'), join(folder, 'mine'), { recursive: true })
const rule = `@id("not-that")\n@reason("not that text")\nforbid (principal, action == Action::"tool.execute/text_stats", resource)\nwhen { context.args has text && context.args.text == ${args.slice(8, -1)} };\n`
writeFileSync(join(folder, 'mine', 'that.cedar'), rule)
const candidate = async () =>
  (JSON.parse((await policy('put', 'mine', '--no-activate', '--json')).out) as { version: number }).version

test('a folder of policies is rehearsed on past calls; changed decisions are listed and make the exit code 1', async () => {
  const { id, state } = await call()
  expect(state).toBe('succeeded')
  const ran = await eventually('the call is in the log', async () => {
    const ran = await policy('rehearse', 'mine', '--limit', '20', '--days', '1')
    return ran.out.includes(id) && ran
  })
  const version = await candidate()
  expect(ran).toMatchObject({ code: 1, err: '' })
  expect(ran.out).toMatch(new RegExp(`^version ${version} against \\d+: \\d+ calls?, `))
  expect(ran.out).toMatch(
    new RegExp(`^allow → deny +(?:allow +)?text_stats +dev +${id} +not-that +not that text$`, 'm'),
  )
  expect(ran.out).toContain('approvals needed: ')
  const { code, out } = await policy('rehearse', String(version), '--limit', '20', '--json')
  const { flips, ...rest } = JSON.parse(out) as { flips: { call: string }[] } // includes other tests' calls
  expect([code, rest]).toMatchObject([1, { version }])
  expect(flips.find((flip) => flip.call === id)).toMatchObject({ from: 'allow', now: 'allow', to: 'deny' })
  const { version: present } = JSON.parse((await policy('show', '--json')).out) as { version: number }
  const same = await policy('rehearse', String(present), '--limit', '20', '--json')
  // Most of the other tests' calls on this stack may belong to deleted agents.
  expect(same).toMatchObject({ code: inconclusiveBecause(JSON.parse(same.out)) === null ? 0 : 1, err: '' })
})

test.each([
  ['most calls', { looked_at: 20, out_of_time: false, unrehearsable: [{ reason: '', count: 10 }] }, null],
  ['no calls, because there were none', { looked_at: 0, out_of_time: false, unrehearsable: [] }, null],
  [
    'fewer calls than it should, for lack of time',
    { looked_at: 999, out_of_time: true, unrehearsable: [] },
    /out after 999 calls/,
  ],
  [
    'fewer than half of the calls',
    { looked_at: 20, out_of_time: false, unrehearsable: [5, 6].map((count) => ({ reason: '', count })) },
    /^11 of 20 calls/,
  ],
])('a rehearsal of %s says whether it is conclusive', (_what, rehearsal, why) => {
  if (why === null) expect(inconclusiveBecause(rehearsal)).toBeNull()
  else expect(inconclusiveBecause(rehearsal)).toMatch(why)
})

test('a shadow version is listed as such and reports the calls that it would have decided differently', async () => {
  const version = String(await candidate())
  expect((await policy('shadow', version)).out).toMatch(
    new RegExp(
      `^version ${version} has been the shadow since \\S+, set by root; it differs on 0 of 0 ended calls`,
    ),
  )
  expect((await policy('list')).out).toMatch(new RegExp(`^${version} +shadow `, 'm'))
  const { id, run: of, state } = await call()
  expect(state).toBe('succeeded')
  expect((await run('runs', 'journal', of, '-o', 'journal.json')).code).toBe(0)
  expect(readFileSync(join(folder, 'journal.json'), 'utf8')).toContain('not-that')
  expect(await run('verify', '--journal', 'journal.json')).toMatchObject({ code: 0, err: '' })
  const ran = await eventually('the call is counted', async () => {
    const ran = await policy('shadow')
    return ran.out.includes(id) && ran
  })
  expect(ran.out).toMatch(
    /^version \d+ has been .* it differs on 1 of \d+ ended calls\n(.*\n)* {2}allow → deny {2}1\n/,
  )
  expect(await policy('shadow', 'off')).toMatchObject({ code: 0, out: 'there is no shadow version\n' })
})

test.each([
  [['rehearse', 'nowhere'], /can’t be read/],
  [['rehearse', '999999'], /no version 999999/],
  [['rehearse', '1', '--days', 'x'], /`--days` takes a number/],
  [['rehearse', '1', '--days', '1000'], /days/],
  [['shadow', 'latest'], /give the number of a version, or `off`/],
  [['shadow', '999999'], /no version 999999/],
] as const)('a failing `policy` command says why: %j', async (args, why) => {
  const ran = await policy(...args)
  expect(ran.code).toBeGreaterThan(0)
  expect(ran.err).toMatch(why)
})
