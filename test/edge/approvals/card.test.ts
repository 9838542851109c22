// A card shows the whole call, nothing that looks like something else, and no secrets.

import { expect, test } from 'vitest'
import { askRecord, fullTexts, isCardShortened } from '../../../edge/approvals/card.ts'
import { shorten } from '../../../edge/platform/visible-text.ts'
import { markerFor, Redaction } from '../../../edge/secrets/redaction.ts'
import type { CallOrigin } from '../../../shared/evidence/origin.ts'
import { DEFAULT_LIMITS, LIMITS } from '../../../shared/limits.ts'
import { pathFault } from '../../../shared/plan/call-files.ts'
import type { ProcessPlan as Plan } from '../../../shared/plan/plan.ts'
import type { Capability, Tool } from '../../../shared/wire/tools.ts'
import { decision } from '../call/calls.ts'

const NOW = 1_800_000_000_000
const SHA = 'a'.repeat(64)
const REDACTION = new Redaction(markerFor(Buffer.alloc(32), 'default'))

const tool = (change: Partial<Tool> = {}): Tool => ({
  name: 'a_tool',
  version: 3,
  digest: SHA,
  description: 'a tool',
  input_schema: { type: 'object' },
  capabilities: [],
  executor: { kind: 'process', tiers: ['C'], argv: ['echo'], stdin: 'none' },
  egress: { mode: 'strict', hosts: [] },
  workspace: 'call',
  limits: {},
  ...change,
})

const plan = (change: Partial<Plan> = {}): Plan => ({
  tier: 'C',
  executor: { kind: 'process', argv: ['echo', 'hi'], stdin: 'none', env: {}, cwd: '' },
  egress: { mode: 'strict', hosts: [] },
  secrets: [],
  workspace: 'call',
  limits: DEFAULT_LIMITS,
  ...change,
})

type Needs = Parameters<typeof askRecord>[0]['needs']
const card = (
  args: Record<string, unknown>,
  change: { tool?: Partial<Tool>; plan?: Partial<Plan> | null; needs?: Needs; origin?: CallOrigin } = {},
) =>
  askRecord({
    id: 'apr_00000000000000000000000000_1',
    agent: 'dev',
    tool: tool(change.tool),
    args,
    plan: change.plan === null ? null : plan(change.plan),
    decision: decision('ask'),
    origin: change.origin ?? {},
    needs: change.needs ?? [],
    standing: null,
    now: NOW,
    redaction: REDACTION,
  })
const argumentsOf = (args: Record<string, unknown>): string => card(args).prompt.arguments

test('a card shows the agent, the tool, what would run, the reason and the deadline', () => {
  const { prompt, requestedAt, expiresAt, answers } = card({ text: 'hello' })
  expect(prompt).toMatchObject({
    agent: 'dev',
    tool: 'a_tool',
    tool_version: 3,
    title: 'dev wants to run a_tool',
    reason: 'policy says ask',
  })
  expect(JSON.parse(prompt.arguments)).toEqual({ text: 'hello' })
  expect(prompt.command).toBe('["echo","hi"]')
  expect([requestedAt, expiresAt - requestedAt, answers]).toEqual([NOW, LIMITS.approval_ttl_s * 1000, []])
  expect(card({}, { tool: { approval_ttl_s: 30 } }).expiresAt - NOW).toBe(30_000)
})

test('G09 a card shows the agent’s reason apart from policy’s, with its invisible characters written out', () => {
  const { prompt } = card({}, { origin: { reason: 'pay\u202eexe.\u200b\n<b>now</b> `rm`' } })
  expect(prompt).toMatchObject({
    reason: 'policy says ask',
    agent_says: 'pay\\u{202e}exe.\\u{200b}\n<b>now</b> `rm`',
  })
  expect(card({}).prompt).not.toHaveProperty('agent_says')
})

test('a plan in words names isolation, network, folder, secrets and time limit', () => {
  const words = (change: Partial<Plan>): string => card({}, { plan: change }).prompt.plan
  expect(words({})).toMatch(/tier C.*without network.*temporary folder.*30 s/)
  expect(words({ tier: 'B', egress: { mode: 'none', hosts: [] } })).toMatch(
    /tier B.*with the network of the worker/,
  )
  expect(words({ egress: { mode: 'strict', hosts: ['ok.com:443'] } })).toContain(
    'with network to ok.com:443 only',
  )
  const limits = { ...DEFAULT_LIMITS, net_bytes: 3 * 1024 ** 3 + 1 }
  expect(words({ egress: { mode: 'strict', hosts: ['ok.com:443'] }, limits })).toMatch(
    /for at most 30 s and 3,073 MiB of traffic$/,
  )
  expect(words({ limits })).not.toContain('traffic')
  expect(words({ workspace: 'run' })).toContain('in the folder of its run')
  expect(words({ secrets: ['db.password', 'api'] })).toMatch(/secrets? .*db\.password.*api/)
})

test('the risk follows the tool’s capabilities, and a sensitive tool is never low risk', () => {
  const risk = (capabilities: Capability[], sensitive?: boolean) =>
    card({}, { tool: { capabilities, ...(sensitive === undefined ? {} : { sensitive }) } }).prompt.risk
  expect(risk([])).toBe('low')
  expect(risk(['filesystem_read', 'artifacts_read'])).toBe('low')
  expect(risk(['network'])).toBe('medium')
  expect(risk(['filesystem_write'])).toBe('high')
  expect(risk(['network', 'process_exec'])).toBe('high')
  expect(risk(['process_exec', 'secrets_read'])).toBe('critical')
  expect(risk([], true)).toBe('medium')
})

test.each([
  ['a program that reads', ['cat', 'notes.txt'], 'C', 'medium'],
  ['the same by its path', ['/usr/bin/wc', '-c'], 'C', 'medium'],
  ['one of that name in the workspace', ['./cat', 'x'], 'C', 'high'],
  ['the same outside of a sandbox', ['cat', 'notes.txt'], 'B', 'high'],
  ['a search that only finds', ['find', '.', '-name', '*.ts'], 'C', 'medium'],
  ['a search that deletes', ['find', '.', '-delete'], 'C', 'high'],
  ['a search that runs what it finds', ['find', '.', '-execdir', 'sh', ';'], 'C', 'high'],
  ['a search that runs a program first', ['rg', '--pre=sh', 'x'], 'C', 'high'],
  ['a program that writes', ['rm', 'notes.txt'], 'C', 'high'],
] as const)(
  'a command that can only read is medium risk in tier C, and only there: %s',
  (_what, argv, tier, risk) => {
    const change = { tier, executor: { ...plan().executor, argv: [...argv] } }
    expect(card({}, { tool: { capabilities: ['process_exec'] }, plan: change }).prompt.risk).toBe(risk)
    expect(
      card({}, { tool: { capabilities: ['process_exec'], secrets: ['a-key'] }, plan: change }).prompt.risk,
    ).toBe('critical')
    // Tier B is never low risk: it runs on the worker's host.
    expect(card({}, { tool: { capabilities: [] }, plan: change }).prompt.risk).toBe(
      tier === 'B' ? 'high' : 'low',
    )
  },
)

test('V02 a card shows no secrets, neither in the arguments nor in the command line', () => {
  const args = { user: 'ann', password: 'hunter2-hunter2', list: [{ apiKey: 'hunter2-hunter2' }] }
  const shown = JSON.stringify(
    card(args, { plan: { executor: { ...plan().executor, argv: ['login', 'ann', 'hunter2-hunter2'] } } }),
  )
  expect(shown).not.toContain('hunter2')
  expect(shown).toContain('redacted')
  expect(shown).toContain('ann')
})

const DECEIVING: Readonly<Record<string, string>> = {
  'right-to-left override': '\u202e',
  'right-to-left embedding': '\u202b',
  'left-to-right override': '\u202d',
  'right-to-left isolate': '\u2067',
  'pop directional isolate': '\u2069',
  'right-to-left mark': '\u200f',
  'Arabic letter mark': '\u061c',
  'zero-width space': '\u200b',
  'zero-width joiner': '\u200d',
  'word joiner': '\u2060',
  'byte order mark': '\ufeff',
  'soft hyphen': '\u00ad',
  'line separator': '\u2028',
  'paragraph separator': '\u2029',
  'Hangul filler': '\u3164',
  'halfwidth Hangul filler': '\uffa0',
  'Hangul choseong filler': '\u115f',
  'braille blank': '\u2800',
  'no-break space': '\u00a0',
  'ideographic space': '\u3000',
  'Mongolian vowel separator': '\u180e',
  'combining grapheme joiner': '\u034f',
  'variation selector': '\ufe0f',
  'variation selector of the supplement': '\u{e0101}',
  'tag character': '\u{e0041}',
  delete: '\u007f',
  'next line': '\u0085',
  'control sequence introducer': '\u009b',
  'interlinear annotation': '\ufff9',
  'private use': '\ue000',
  'musical control': '\u{1d173}',
  unassigned: '\u{1fffe}',
}

test.each(Object.entries(DECEIVING))(
  'G09 characters that can’t be seen, or that reverse the text, are escaped: %s',
  (_name, char) => {
    const shown = argumentsOf({ text: `pay ${char}bob`, [`na${char}me`]: 1 })
    expect(shown).not.toContain(char)
    expect(shown.split(`\\u{${char.codePointAt(0)?.toString(16)}}`)).toHaveLength(3)
  },
)

test.each(Object.entries(DECEIVING))(
  'G09 the path of an input file is shown without deceiving characters: %s',
  (_name, char) => {
    expect(pathFault(`in/da${char}ta.csv`)).toBeDefined()
  },
)

test('G09 the path of an input file is quoted, has no backtick, and can’t pass for our own words', () => {
  expect(pathFault('a` (1 bytes)')).toBeDefined()
  for (const path of ['in/data.csv', 'Grüße, señor (1).txt', '日本語/テ.txt', 'out/a "b"; é.html'])
    expect([path, pathFault(path)]).toEqual([path, undefined])
  const { prompt } = card(
    {},
    { plan: { files: [{ path: 'a" (1 bytes). It was `checked', sha256: SHA, bytes: 3 }] } },
  )
  expect(prompt.plan).toContain(`\`"a\\" (1 bytes). It was \\u{60}checked"\` (3 bytes, sha256 ${SHA})`)
})

test('V02 two file names that look like the ends of a secret don’t hide our words between them', () => {
  const files = [`-----BEGIN ${'RSA'} PRIVATE KEY-----`, 'run.sh', '-----END RSA PRIVATE KEY-----'].map(
    (path) => ({
      path,
      sha256: SHA,
      bytes: 3,
    }),
  )
  expect(card({}, { plan: { files } }).prompt.plan).toMatch(/"run\.sh".*for at most 30 s/)
})

test('G09 a card shows ordinary text of any language unchanged', () => {
  const texts = [
    'Grüße, señor',
    '日本語テキスト',
    'Привет',
    'שלום',
    'مرحبا',
    'हिन्दी',
    '👍 ok',
    'naïve—“quoted” …',
    'a+b=c; d<e>f&g',
  ]
  for (const text of texts) expect(argumentsOf({ text })).toContain(text)
})

test('G09 a text that looks like one of our escapes is shown differently from a real escape', () => {
  expect(argumentsOf({ text: '\\u{202e}' })).toContain('"\\\\u{202e}"')
  expect(argumentsOf({ text: '\u202e' })).toContain('"\\u{202e}"')
})

test('G09 line breaks and escapes in a text stay inside its quotes', () => {
  const shown = argumentsOf({ text: 'a"\n}\n\n"approved": true\u001b[2J' })
  expect(shown.split('\n')).toHaveLength(3)
  expect(JSON.parse(shown)).toEqual({ text: 'a"\n}\n\n"approved": true\u001b[2J' })
})

test('a shortened text shows its beginning and end, how much is missing, and the digest of the whole', () => {
  const shown = argumentsOf({ text: `head${'x'.repeat(10_000)}tail` })
  expect(shown).toMatch(/"head.*8008 characters more, sha256 of all [0-9a-f]{16}.*tail"/)
  expect(shown.length).toBeLessThan(2_500)
  expect(argumentsOf({ text: 'x'.repeat(2_000) })).toContain('x'.repeat(2_000))
})

test('G09 huge arguments say what is left out, and the cut reveals no part of a secret', () => {
  for (const text of [
    `head ${'lorem ipsum '.repeat(87_000)}`,
    Array.from({ length: 5_000 }, (_, i) => `line ${i}`).join('\n'),
  ]) {
    const shown = argumentsOf({ text: `${text} password=hunter2-hunter2 tail` })
    expect(shown).toMatch(/ characters more, sha256 of all [0-9a-f]{16} [\s\S]* tail"/)
    expect(shown).not.toContain('hunter2')
    expect(shown.length).toBeLessThan(2_500)
  }
})

test('the full text of what a card shortens comes in parts that fit a page, with secrets hidden', () => {
  const args = {
    text: `${'😀 lorem '.repeat(30_000)}\u202e`,
    password: 'hunter2-hunter2',
    file: '/etc/passwd',
  }
  const argv = ['tool', 'y'.repeat(3_000), 'hunter2-hunter2']
  const { prompt } = card(args, { plan: { executor: { ...plan().executor, argv } } })
  expect(isCardShortened(prompt)).toBe(true)
  const [command, all] = fullTexts(prompt, args, plan({ executor: { ...plan().executor, argv } }), REDACTION)
  expect([
    command?.parts.length,
    command?.parts[0]?.includes('y'.repeat(3_000)),
    command?.parts.join('').includes('hunter2'),
  ]).toEqual([1, true, false])
  const text = all?.parts.join('') ?? ''
  expect([(all?.parts.length ?? 0) > 1, all?.characters]).toEqual([true, text.length])
  expect(JSON.parse(text.replace('\\u{202e}', '\u202e'))).toEqual({
    ...args,
    password: expect.stringMatching(/^«redacted/),
  })
  for (const part of all?.parts ?? []) expect(part.isWellFormed()).toBe(true)
})

test('only shortened texts, or those that claim to be, can be unfolded', () => {
  const args = { text: '… 5 characters more, sha256 of all 0 …' }
  expect(isCardShortened(card({ text: 'x'.repeat(2_000) }).prompt)).toBe(false)
  expect(fullTexts(card(args).prompt, args, plan(), REDACTION).map(({ title }) => title)).toEqual([
    'The arguments in full',
  ])
})

test('G09 a card shows a right-to-left file name and a mention of everybody as literal text', () => {
  const shown = card({
    file: 'invoice\u202efdp.exe',
    note: '<!channel> see <https://evil.example|the plan>',
  }).prompt
  expect(JSON.parse(shown.arguments.replace(/\\u\{202e\}/, '?'))).toEqual({
    file: 'invoice?fdp.exe',
    note: '<!channel> see <https://evil.example|the plan>',
  })
})

test('P12 a card stays short, however much an agent sends', () => {
  const many = Object.fromEntries(Array.from({ length: 2_000 }, (_, i) => [`name${i}`, 'x'.repeat(250)]))
  const shown = argumentsOf(many)
  expect(shown.length).toBeLessThan(LIMITS.card_chars + 200)
  expect(shown).toContain('name1999')
  const deep = argumentsOf({
    ['n'.repeat(100_000)]: 'a'.repeat(100_000),
    list: Array.from({ length: 50_000 }, () => 1),
  })
  expect(deep.length).toBeLessThan(LIMITS.card_chars + 200)
  expect(deep).toMatch(/characters more, sha256 of all [0-9a-f]{16}/)
})

test('a shortened text is well-formed Unicode, wherever the cut falls', () => {
  for (const text of [`x${'😀'.repeat(4_900)}`, '😀'.repeat(4_900), `${'😀'.repeat(4_900)}x`]) {
    for (const length of [5_000, 5_001, 5_002, 5_003]) expect(shorten(text, length).isWellFormed()).toBe(true)
    expect(argumentsOf({ text }).isWellFormed()).toBe(true)
  }
})

const wanted = (fact: string, value: string | number, words: string): Needs[number][number] => ({
  fact,
  needs: { op: typeof value === 'number' ? '>=' : 'has', value },
  by: 'human',
  words,
})
const ONE = [wanted('approval.count', 1, 'an approval')]
const TWO = [wanted('approval.count', 2, '2 different approvers')]
const FINANCE = [wanted('approval.roles', 'finance', 'an approval by somebody in the role finance')]

test.each<[string, Needs, string, RegExp]>([
  ['one yes', [ONE], 'low', /contract lets it neither change/],
  ['two people', [TWO], 'medium', /^policy requires 2 different approvers$/],
  ['a role', [FINANCE], 'medium', /^policy requires an approval by somebody in the role finance$/],
  ['a role, or two people', [FINANCE, TWO], 'medium', /role finance; or 2 different approvers$/],
  ['a role, or one yes of anybody', [FINANCE, ONE], 'low', /contract lets it neither change/],
])(
  'D17 where policy requires %s for a harmless tool, the card shows the risk and its reason',
  (_what, needs, risk, ground) => {
    const { prompt } = card({}, { tool: { capabilities: [] }, needs })
    expect([prompt.risk, prompt.risk_ground]).toEqual([risk, expect.stringMatching(ground)])
  },
)

test('D17 a card keeps a tool’s higher risk and names both reasons', () => {
  const { prompt } = card({}, { tool: { capabilities: ['process_exec'] }, needs: [TWO] })
  expect([prompt.risk, prompt.risk_ground]).toEqual([
    'high',
    'it runs programs, and policy requires 2 different approvers',
  ])
})

test('D17 a card promises no reader that their own approval is enough', () => {
  expect(card({}, { needs: [ONE] }).prompt.on_yes).toBe(
    'exactly this call runs once; any change needs a new approval',
  )
  for (const needs of [[TWO], [FINANCE]]) {
    const { on_yes } = card({}, { needs }).prompt
    expect(on_yes).toMatch(/^policy requires .*; with that, exactly this call runs once/)
    expect(on_yes).not.toMatch(/it counts|your yes/)
  }
})

test.each<[string[], boolean]>([
  [['sh', '-c', 'id'], true],
  [['/usr/bin/bash', '-c', 'id'], true],
  [['./python3.11', '-c', '1'], true],
  [['perl5.36', '-e', '1'], true],
  [['env', 'X=1', 'id'], true],
  [['xargs', 'rm'], true],
  [['find', '.', '-execdir', 'rm', '{}', ';'], true],
  [['sudo', 'id'], true],
  [['ssh', 'host', 'id'], true],
  [['busybox', 'sh'], true],
  [['/lib64/ld-linux-x86-64.so.2', '/bin/sh'], true],
  [['find', '.', '-name', 'x'], false],
  [['ls', 'sh'], false],
  [['shasum', 'x'], false],
  [['pythonic'], false],
  [['echo', '-c'], false],
])('D17 whether the card of %j names an interpreter: %s', (argv, is) => {
  const executor = { kind: 'process', argv, stdin: 'none', env: {}, cwd: '' } as const
  expect(/" is an interpreter: it/.test(card({}, { plan: { executor } }).prompt.plan)).toBe(is)
})
