// The plan is exactly what would run: one argument fills one argv element, limits only shrink, and
// hosts match by labels.

import { expect, test } from 'vitest'
import { covers, plansFor } from '../../../edge/tools/planner.ts'
import { DEFAULT_BUDGET, DEFAULT_LIMITS, LIMITS } from '../../../shared/limits.ts'
import type { Budget, ProcessPlan } from '../../../shared/plan/plan.ts'
import { Plan as PlanSchema } from '../../../shared/plan/plan.ts'
import type { ProcessToolSpec as ToolSpec } from '../../../shared/wire/tools.ts'
import { processPlan } from '../../support/worker/process-plan.ts'

type Executor = ToolSpec['executor']
type Change = Partial<Omit<ToolSpec, 'executor'>> & { executor?: Partial<Executor> }

const tool = ({ executor, ...rest }: Change = {}): ToolSpec => ({
  description: 'a tool',
  input_schema: { type: 'object' },
  capabilities: [],
  executor: { kind: 'process', tiers: ['C'], argv: ['echo'], stdin: 'none', ...executor },
  egress: { mode: 'strict', hosts: [] },
  workspace: 'call',
  limits: {},
  ...rest,
})

const plans = (
  change: Change,
  args: Record<string, unknown> = {},
  budget: Budget = DEFAULT_BUDGET,
): readonly ProcessPlan[] => {
  const made = plansFor(tool(change), args, budget)
  if (!made.ok) throw new Error(made.error.detail)
  for (const plan of made.value) expect(PlanSchema.parse(plan)).toEqual(plan)
  return made.value.map(processPlan)
}
const refusal = (change: Change, args: Record<string, unknown> = {}): string | undefined => {
  const made = plansFor(tool(change), args, DEFAULT_BUDGET)
  return made.ok ? undefined : made.error.code
}
const argv = (template: string[], args: Record<string, unknown>) =>
  plans({ executor: { argv: template } }, args)[0]?.executor.argv

test('an argument fills exactly one argv element, whatever its content', () => {
  for (const text of [
    '',
    'a b',
    '; rm -rf /',
    '$(id)',
    '`id`',
    '--flag',
    '-x',
    '{other}',
    '{...other}',
    '*',
    '\n',
    'a\'b"c',
    '漢',
  ]) {
    expect(argv(['echo', '{text}', 'end'], { text, other: 'no' })).toEqual(['echo', text, 'end'])
  }
})

test('an argument with NUL, which argv can’t hold, is refused', () => {
  expect(refusal({ executor: { argv: ['echo', '{text}'] } }, { text: 'a\0b' })).toBe('invalid_arguments')
})

test('a tool with a sandbox profile has no tier B plan, and its plan names the profile', () => {
  expect(
    plans({ executor: { tiers: ['B', 'C'], profile: 'compiler' } }).map(({ tier, profile }) => [
      tier,
      profile,
    ]),
  ).toEqual([['C', 'compiler']])
  expect(plans({ executor: { tiers: ['B'], profile: 'compiler' } })).toEqual([])
  expect(plans({})[0]).not.toHaveProperty('profile')
})

test('the output schema of a tool is part of the plan', () => {
  const output_schema = { type: 'object', required: ['lines'] }
  expect(plans({ output_schema })[0]?.executor.output).toEqual(output_schema)
  expect(plans({})[0]?.executor).not.toHaveProperty('output')
})

test('an argument has at most `argv_item_bytes`, and all of one call together have `argv_bytes`', () => {
  expect([LIMITS.argv_item_bytes, LIMITS.argv_bytes]).toEqual([131_071, 1_048_576])
  const refused = (bytes: number, count: number) =>
    refusal({ executor: { argv: Array<string>(count).fill('{text}') } }, { text: 'é'.repeat(bytes / 2) })
  expect(refused(131_070, 1)).toBeUndefined()
  expect(refused(131_072, 1)).toBe('invalid_arguments')
  expect(refused(104_856, 10)).toBeUndefined()
  expect(refused(104_858, 10)).toBe('invalid_arguments')
})

test('a placeholder has to be a whole argv element; inside an element it is literal text', () => {
  expect(argv(['echo', '--to={text}', '{text', '{a b}', '{{text}}', '{}'], { text: 'a' })).toEqual([
    'echo',
    '--to={text}',
    '{text',
    '{a b}',
    '{{text}}',
    '{}',
  ])
})

test('argv gets numbers and booleans as text, one element per list item, and none for an absent list', () => {
  expect(
    argv(['p', '{n}', '{yes}', '{...items}', 'end'], { n: 1.5, yes: true, items: ['a', 2, false] }),
  ).toEqual(['p', '1.5', 'true', 'a', '2', 'false', 'end'])
  expect(argv(['p', '{...items}', 'end'], {})).toEqual(['p', 'end'])
})

test.each([
  ['an absent argument', ['p', '{text}'], {}],
  ['null', ['p', '{text}'], { text: null }],
  ['a list for one', ['p', '{text}'], { text: ['a'] }],
  ['a record', ['p', '{text}'], { text: {} }],
  ['a text to spread', ['p', '{...items}'], { items: 'abc' }],
  ['a list in a list', ['p', '{...items}'], { items: [['a']] }],
  ['null in a list', ['p', '{...items}'], { items: [null] }],
  ['a property of Object.prototype', ['p', '{constructor}'], {}],
  ['a spread property of Object.prototype', ['p', '{...toString}'], {}],
  ['an empty name of a program', ['{text}'], { text: '' }],
])('a value that can’t be an argument of a program is refused: %s', (_name, template, args) => {
  expect(refusal({ executor: { argv: template } }, args)).toBe('invalid_arguments')
})

test('S47 the size of each argument, their sum and their number stay below the kernel’s limits', () => {
  const one = { executor: { argv: ['p', '{text}'] } }
  expect(refusal(one, { text: 'x'.repeat(LIMITS.argv_item_bytes) })).toBeUndefined()
  expect(refusal(one, { text: 'x'.repeat(LIMITS.argv_item_bytes + 1) })).toBe('invalid_arguments')
  expect(refusal(one, { text: 'é'.repeat(LIMITS.argv_item_bytes / 2 + 1) })).toBe('invalid_arguments')
  const all = { executor: { argv: ['p', '{...items}'] } }
  const items = Array.from({ length: 16 }, () => 'x'.repeat(64 * 1024))
  expect(refusal(all, { items: items.slice(1) })).toBeUndefined()
  expect(refusal(all, { items })).toBe('invalid_arguments')
  expect(refusal(all, { items: Array.from({ length: LIMITS.argv_items - 1 }, () => '') })).toBeUndefined()
  expect(refusal(all, { items: Array.from({ length: LIMITS.argv_items }, () => '') })).toBe(
    'invalid_arguments',
  )
})

test('S46 an argument can name only a listed program, without a path', () => {
  const change = { executor: { argv: ['{command}'], allowed_executables: ['ls', 'cat'] } }
  expect(plans(change, { command: 'ls' })[0]?.executor.argv).toEqual(['ls'])
  for (const command of [
    'sh',
    '/bin/ls',
    './ls',
    '../ls',
    'ls ',
    ' ls',
    'LS',
    'ls\n',
    '--args',
    '-c',
    'ls\0',
  ]) {
    expect([command, refusal(change, { command })]).toEqual([
      command,
      expect.stringMatching(/^(denied|invalid_arguments)$/),
    ])
  }
})

test('D5 a tool that shares the folder of its run gets no plan with secrets, but may have credentials', () => {
  expect(refusal({ workspace: 'run', secrets: ['token'] }, {})).toBe('secret_in_run_folder')
  expect(plans({ workspace: 'call', secrets: ['token'] })[0]?.secrets).toEqual(['token'])
  const host = 'api.example.com:8080'
  const change = { workspace: 'run' as const, egress: { mode: 'strict' as const, hosts: [host] } }
  const credentials = [{ secret: 'token', host, header: 'x-api-key' }]
  expect(plans({ ...change, credentials })[0]).toMatchObject({ workspace: 'run', secrets: [], credentials })
})

test('a working directory outside the workspace is refused', () => {
  const change = { executor: { cwd: { arg: 'cwd' } } }
  for (const cwd of ['', 'a', 'a/b', './a', '...', 'a..b', '..a'])
    expect([cwd, plans(change, { cwd })[0]?.executor.cwd]).toEqual([cwd, cwd])
  for (const cwd of ['..', '../a', 'a/..', 'a/../../b', '/', '/etc', '//a', '../..'])
    expect([cwd, refusal(change, { cwd })]).toEqual([cwd, 'workspace_scope_denied'])
  for (const cwd of [5, ['a'], {}, true])
    expect([cwd, refusal(change, { cwd })]).toEqual([cwd, 'invalid_arguments'])
  // A folder that no worker could enter is not planned; the limits count bytes, also for each name.
  const long = 'a/'.repeat(LIMITS.cwd_bytes / 2)
  for (const cwd of ['a'.repeat(255), long]) expect(plans(change, { cwd })[0]?.executor.cwd).toBe(cwd)
  for (const cwd of ['a'.repeat(256), `b/${'漢'.repeat(86)}/c`, `${long}a`, 'a/'.repeat(2_500), 'a\0b'])
    expect([cwd, refusal(change, { cwd })]).toEqual([cwd, 'invalid_arguments'])
  expect(plans(change, {})[0]?.executor.cwd).toBe('')
})

test('the timeout is the smallest of the tool’s, the run’s and the requested one', () => {
  const timeout = (tool_ms: number | undefined, run_ms: number, asked: unknown): number | undefined => {
    const limits = tool_ms === undefined ? {} : { timeout_ms: tool_ms }
    const change = { limits, executor: { timeout_ms: { arg: 'ms' } } }
    return plans(change, { ms: asked }, { ...DEFAULT_BUDGET, execution_timeout_ms: run_ms })[0]?.limits
      .timeout_ms
  }
  expect(timeout(5_000, 9_000, 7_000)).toBe(5_000)
  expect(timeout(9_000, 5_000, 7_000)).toBe(5_000)
  expect(timeout(9_000, 7_000, 5_000)).toBe(5_000)
  expect(timeout(undefined, 1_000_000, undefined)).toBe(DEFAULT_LIMITS.timeout_ms)
  for (const nonsense of [0, -1, 1.5, '1', null, true, 1e9])
    expect(timeout(5_000, 9_000, nonsense)).toBe(5_000)
})

test('a limit that the tool does not set has its default', () => {
  expect(plans({ limits: { pids: 3, timeout_ms: undefined } as ToolSpec['limits'] })[0]?.limits).toEqual({
    ...DEFAULT_LIMITS,
    pids: 3,
  })
})

test('plans are ordered from least to most isolated, whatever the order of the tool’s tiers', () => {
  const shape = (tiers: Executor['tiers'], mode: ToolSpec['egress']['mode']) =>
    plans({ executor: { tiers }, egress: { mode, hosts: [] } }).map(
      ({ tier, egress }) => `${tier} ${egress.mode}`,
    )
  expect(shape(['B', 'C'], 'none')).toEqual(['B none', 'C strict'])
  expect(shape(['C', 'B'], 'none')).toEqual(['B none', 'C strict'])
  expect(shape(['B', 'C'], 'preflight')).toEqual(['B preflight', 'C strict'])
  expect(shape(['C'], 'none')).toEqual(['C strict'])
  expect(shape(['C', 'C'], 'strict')).toEqual(['C strict'])
})

test('L8 a tool with strict egress gets no plan of tier B, which can’t enforce that', () => {
  expect(
    plans({ executor: { tiers: ['B', 'C'] }, egress: { mode: 'strict', hosts: [] } }).map(({ tier }) => tier),
  ).toEqual(['C'])
  expect(plans({ executor: { tiers: ['B'] }, egress: { mode: 'strict', hosts: [] } })).toEqual([])
})

test('a tool that shares the run’s folder has no plan in tier B', () => {
  const shape = (tiers: ('B' | 'C')[], workspace: 'call' | 'run') =>
    plans({ executor: { tiers }, egress: { mode: 'none', hosts: [] }, workspace }).map(
      ({ tier, workspace }) => `${tier} ${workspace}`,
    )
  expect(shape(['B', 'C'], 'run')).toEqual(['C run'])
  expect(shape(['B'], 'run')).toEqual([])
  expect(shape(['B', 'C'], 'call')).toEqual(['B call', 'C call'])
})

test('L7 a tool with secrets or credentials gets no plan in tier B, where other processes of the worker’s user could read them', () => {
  const tiers = (change: Change): string[] =>
    plans({ executor: { tiers: ['B', 'C'] }, egress: { mode: 'none', hosts: ['ok.com:80'] }, ...change }).map(
      ({ tier }) => tier,
    )
  expect(tiers({})).toEqual(['B', 'C'])
  expect(tiers({ secrets: ['token'] })).toEqual(['C'])
  expect(tiers({ credentials: [{ secret: 'token', host: 'ok.com:80', header: 'x-api-key' }] })).toEqual(['C'])
})

test('the plans of one call differ only in tier and egress', () => {
  const [b, c] = plans({ executor: { tiers: ['B', 'C'] }, egress: { mode: 'none', hosts: [] } })
  expect({ ...b, tier: 'C', egress: c?.egress }).toEqual(c)
})

// ── Hosts ──

test('N07 a host pattern with a leading dot covers only whole labels', () => {
  for (const host of ['a.ok.com:443', 'a.b.ok.com:80', 'a.ok.com'])
    expect([host, covers('.ok.com', host)]).toEqual([host, true])
  for (const host of [
    'ok.com',
    'evil-ok.com',
    'evilok.com:443',
    'ok.com.evil:443',
    'a.ok.com.evil',
    'a.ok.co',
    '.ok.com.',
    'ok.com:443',
  ])
    expect([host, covers('.ok.com', host)]).toEqual([host, false])
  for (const host of ['a.ok.com', 'evil-ok.com', 'ok.com.', 'ok.com.evil', 'ok.comm', 'k.com'])
    expect([host, covers('ok.com', host)]).toEqual([host, false])
})

test('N07 a host pattern without a port covers 80 and 443, and one with a port only that port', () => {
  expect(
    ['ok.com', 'ok.com:80', 'ok.com:443', 'ok.com:22', 'ok.com:8443', 'ok.com:4430'].filter((host) =>
      covers('ok.com', host),
    ),
  ).toEqual(['ok.com', 'ok.com:80', 'ok.com:443'])
  expect(
    ['ok.com', 'ok.com:80', 'ok.com:443', 'ok.com:8443'].filter((host) => covers('ok.com:8443', host)),
  ).toEqual(['ok.com:8443'])
})

const named: Change = {
  egress: { mode: 'strict', hosts: ['ok.com', '.wide.org:443'], named_by: { arg: 'hosts' } },
}
const url: Change = {
  egress: { mode: 'strict', hosts: ['ok.com', '.wide.org:443'], named_by: { url: 'url' } },
}

test('N07 a call can name only hosts of the tool’s list, and the plan has exactly these', () => {
  expect(plans(named, { hosts: ['ok.com:443', 'A.wide.org:443'] })[0]?.egress.hosts).toEqual([
    'ok.com:443',
    'a.wide.org:443',
  ])
  expect(plans(named, {})[0]?.egress.hosts).toEqual([])
  for (const host of [
    'evil.com',
    'evil-ok.com',
    'ok.com.evil',
    'ok.com:22',
    'wide.org:443',
    'a.wide.org:80',
    'a.wide.org',
    '127.0.0.1',
  ])
    expect([host, refusal(named, { hosts: [host] })]).toEqual([host, 'egress_denied'])
  for (const host of [
    '',
    '.wide.org:443',
    'ok.com:',
    'ok.com:0',
    'ok.com:x',
    'ok.com/',
    'http://ok.com',
    'ok..com',
    'ok.com\n',
    'ok.com ',
    '[::1]',
    'ök.com',
    5,
    null,
    {},
    { toString: 5, valueOf: 5 },
  ])
    expect([host, refusal(named, { hosts: [host] })]).toEqual([host, 'invalid_arguments'])
})

test('N05 the plan has the host that the URL parser finds', () => {
  const hostsOf = (value: string) => plans(url, { url: value })[0]?.egress.hosts
  expect(hostsOf('https://ok.com/a?b#c')).toEqual(['ok.com:443'])
  expect(hostsOf('http://OK.com')).toEqual(['ok.com:80'])
  expect(hostsOf('https://ok.com.')).toEqual(['ok.com:443'])
  expect(hostsOf('https://a.wide.org:443/x')).toEqual(['a.wide.org:443'])
  for (const value of [
    'ftp://ok.com',
    'file:///etc/passwd',
    'javascript:alert(1)',
    'ok.com',
    '//ok.com',
    'https://',
    'https://user@ok.com/',
    'https://u:p@ok.com',
    'https://[::1]/',
    5,
    null,
  ])
    expect([value, refusal(url, { url: value })]).toEqual([value, 'invalid_arguments'])
  for (const value of [
    'https://evil.com',
    'https://ok.com:22',
    'http://a.wide.org',
    'http://2130706433',
    'http://0x7f.1',
    'http://127.1',
    'https://ok.com.evil',
  ])
    expect([value, refusal(url, { url: value })]).toEqual([value, 'egress_denied'])
})

test('N05 a URL that two parsers could read differently is refused', () => {
  for (const value of [
    'http://ok.com\\@evil.com',
    'http:\\\\ok.com',
    'http://ok.com\t.evil.com',
    'http://ok\n.com',
    ' https://ok.com',
    'https://ok.com ',
    'https:ok.com',
    'https:/ok.com',
    'https:///ok.com',
  ])
    expect([value, refusal(url, { url: value })]).toEqual([value, 'invalid_arguments'])
})
