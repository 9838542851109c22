// Promise: an operator, or a build, checks a folder of policies from a terminal: mistakes are shown
// with file, line and column, failed cases with the expected and the actual decision, and the exit
// code tells them apart from success.

import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { freePort, ROOT } from '../../infra/state.ts'
import { type CliResult, countersign } from '../support/countersign.ts'
import { Fixtures, unwrap } from '../support/fixtures.ts'
import { sharedStack, sharedState } from '../support/stack/stack.ts'

const fixtures = new Fixtures('lint', sharedStack())
const tool = await fixtures.tool({
  input_schema: { type: 'object', properties: { amount: { type: 'integer' } }, required: ['amount'] },
})
const folder = mkdtempSync(join(tmpdir(), 'countersign-lint-'))
afterAll(() => rmSync(folder, { recursive: true }))
const env = { COUNTERSIGN_STATE: sharedState() }
const policy = (
  args: readonly string[],
  changed: Readonly<Record<string, string>> = env,
): Promise<CliResult> => countersign(['policy', ...args], { cwd: folder, env: changed })
const write = (path: string, text: string): void => {
  mkdirSync(dirname(join(folder, path)), { recursive: true })
  writeFileSync(join(folder, path), text)
}

/** Writes the default policies and a rule about the tool's amounts into `dir`. */
const withRule = (dir: string, when: string): void => {
  cpSync(join(ROOT, 'policies/defaults'), join(folder, dir), { recursive: true })
  write(
    `${dir}/refunds.cedar`,
    `@id("large")\n@reason("too large")\nforbid (principal, action == Action::"tool.execute/${tool}", resource)\nwhen { ${when} };\n`,
  )
}
const ASKED = 'context.args.amount > 100 && !context.approval.granted'
const clerk = { agent: 'clerk', tool }
const CASES = {
  about: 'refunds',
  agents: { clerk: { tools: ['*'] } },
  operators: { ann: { roles: ['approver'] } },
  cases: [
    {
      description: 'a small one runs',
      request: { ...clerk, args: { amount: 100 } },
      expect: { effect: 'allow' },
    },
    {
      description: 'a large one runs after a yes',
      request: { ...clerk, args: { amount: 101 } },
      approved_by: ['ann'],
      expect: { effect: 'allow' },
    },
  ],
}
const wrong = {
  description: 'a larger one runs',
  request: { ...clerk, args: { amount: 101 } },
  expect: { effect: 'allow', policies: ['open'] },
}

test('valid policies pass `policy lint`', async () => {
  withRule('good', ASKED)
  expect(await policy(['lint', 'good'])).toMatchObject({
    code: 0,
    err: '',
    out: 'these policies can be put in force\n',
  })
  const ran = await policy(['lint', 'good', '--json'])
  expect([ran.code, JSON.parse(ran.out)]).toEqual([0, { refusal: null, findings: [], results: [] }])
})

test('`policy lint` shows a mistake with path, line and column, and suggests what was probably meant', async () => {
  withRule('bad', 'context.args.amuont > 100')
  const ran = await policy(['lint', 'bad'])
  expect(ran).toMatchObject({ code: 1, err: '' })
  expect(ran.out).toMatch(
    /^bad\/refunds\.cedar:4:\d+: error: .*amuont.* \(.*amount.*\)\nrefused: one mistake in the policies\n$/,
  )
  const json = JSON.parse((await policy(['lint', 'bad', '--json'])).out)
  expect(json).toMatchObject({
    refusal: { code: 'invalid_policy' },
    findings: [{ at: expect.stringMatching(/^refunds:4:\d+$/), severity: 'error' }],
  })
})

test('a rule that can never apply gets a warning, and the policies can still be put in force', async () => {
  withRule('odd', 'context.args.amount > 100 && context.args.amount > 100 && false')
  const ran = await policy(['lint', 'odd'])
  expect(ran).toMatchObject({ code: 0, err: '' })
  expect(ran.out).toMatch(
    /^odd\/refunds\.cedar:1:\d+: warning: .*\nthese policies can be put in force; warnings: 1\n$/,
  )
  withRule('nobody', 'context.approval.quorum.contains("two of nobody")')
  const put = await policy(['put', 'nobody', '--no-activate'])
  expect(put).toMatchObject({ code: 0, err: '' })
  expect(put.out).toMatch(
    /^version \d+ {2}not in force\n(?: {2}.*\n)*nobody\/refunds\.cedar:4:\d+: warning: no approval can have the quorum .* \(.+\)\n$/,
  )
})

test('a set that locks everybody out fails `policy lint`, although it can be stored', async () => {
  write('shut/all.cedar', '@id("all") @reason("all") permit (principal is Agent, action, resource);')
  expect(await policy(['lint', 'shut'])).toMatchObject({
    code: 1,
    out: expect.stringMatching(
      /^policies: error: .*policy\.activate(.|\n)*these policies can be stored but not put in force\n$/,
    ),
  })
})

test('without an edge, `policy lint` says how to start or configure one', async () => {
  const nowhere = {
    COUNTERSIGN_URL: `http://127.0.0.1:${await freePort()}`,
    COUNTERSIGN_KEY: fixtures.rootKey,
  }
  expect(await policy(['lint', 'good'], nowhere)).toMatchObject({
    code: 1,
    out: '',
    err: expect.stringMatching(/no edge answers at .*npm start/),
  })
  expect(await policy(['lint', 'good'], {})).toMatchObject({
    code: 2,
    out: '',
    err: expect.stringContaining('set COUNTERSIGN_URL'),
  })
})

test('`policy test` decides the cases beside the policies, counts them and stores nothing', async () => {
  withRule('tested', ASKED)
  write('tested/cases/refunds.json', JSON.stringify(CASES))
  expect(await policy(['test', 'tested'])).toMatchObject({
    code: 0,
    err: '',
    out: 'tested/cases/refunds.json  2 of 2 as expected\n2 passed\n',
  })
  const before = unwrap(await fixtures.root('listPolicyVersions', {}))
  const ran = await policy(['test', 'tested', '--json'])
  expect([ran.code, JSON.parse(ran.out)]).toMatchObject([
    0,
    { passed: 2, failed: 0, files: [{ file: 'tested/cases/refunds.json' }] },
  ])
  expect(unwrap(await fixtures.root('listPolicyVersions', {}))).toEqual(before)
})

test('a failed case is shown with the expected and the actual decision', async () => {
  write('cases/refunds.json', JSON.stringify({ ...CASES, cases: [...CASES.cases, wrong] }))
  const ran = await policy(['test', 'tested', 'cases'])
  expect(ran).toMatchObject({ code: 1, err: '' })
  expect(ran.out).toBe(
    [
      'cases/refunds.json  2 of 3 as expected',
      '  FAIL  a larger one runs',
      '        expected    allow by open',
      '        got         ask (approval_required) by large in tier C, egress strict because too large',
      '        differs in  effect, policies',
      '1 failed, 2 passed',
      '',
    ].join('\n'),
  )
  expect(JSON.parse((await policy(['test', 'tested', 'cases/refunds.json', '--json'])).out)).toMatchObject({
    passed: 2,
    failed: 1,
  })
})

test('a file of cases can add policy files to single cases', async () => {
  write(
    'beside/strict.cedar',
    `@id("never")\nforbid (principal, action == Action::"tool.execute/${tool}", resource);`,
  )
  const denied = {
    description: 'never',
    with: ['strict'],
    request: { ...clerk, args: { amount: 1 } },
    expect: { effect: 'deny', policies: ['never'] },
  }
  write(
    'beside/cases/file.json',
    JSON.stringify({ ...CASES, sets: { strict: { file: '../strict.cedar' } }, cases: [denied] }),
  )
  expect(await policy(['test', 'tested', 'beside/cases'])).toMatchObject({
    code: 0,
    out: expect.stringContaining('1 passed'),
  })
})

test('`policy lint` warns about files that are not part of the set', async () => {
  withRule('deep', ASKED)
  write('deep/more/rules.cedar', 'permit (principal, action, resource);')
  write('deep/cases/set.cedar', 'permit (principal, action, resource);')
  write('deep/empty.cedar', '\n')
  const ran = await policy(['lint', 'deep'])
  expect([ran.code, ran.out]).toEqual([
    0,
    'warning: deep/more: the .cedar files in this folder are ignored; move them to deep\nwarning: deep/empty.cedar: the file is empty\nthese policies can be put in force; warnings: 2\n',
  ])
  write('named/My Rules.cedar', '')
  expect(await policy(['lint', 'named'])).toMatchObject({
    code: 2,
    err: expect.stringContaining('lower-case letters, digits'),
  })
})

test('if the policies are refused, no case is run and the mistakes are shown', async () => {
  const ran = await policy(['test', 'bad', 'cases'])
  expect(ran).toMatchObject({
    code: 1,
    err: '',
    out: expect.stringMatching(/^cases\/refunds\.json {2}not run\nbad\/refunds\.cedar:4:\d+: error: /),
  })
})

test.each([
  [['test', 'tested', 'nowhere'], /no test cases: `nowhere` does not exist/],
  [['test', 'good'], /no test cases: `good\/cases` does not exist/],
  [['test', 'tested', 'good'], /no test cases: `good` contains no \.json/],
  [['test', 'tested', 'tested/refunds.cedar'], /is not strict JSON/],
  [['lint', 'cases'], /contains no .cedar file/],
  [['lint'], /DIR/],
] as const)('unreadable policies or cases are a usage error that says why: %j', async (args, why) => {
  const ran = await policy(args)
  expect(ran.code).toBe(2)
  expect(ran.err).toMatch(why)
})

test('a case with an unknown field is refused with its place', async () => {
  write('odd.json', JSON.stringify({ ...CASES, cases: [{ ...wrong, expects: {} }] }))
  expect(await policy(['test', 'tested', 'odd.json'])).toMatchObject({
    code: 2,
    err: expect.stringMatching(/`odd.json` can’t be used; `cases\.0\.expects`: is not a known field/),
  })
})
