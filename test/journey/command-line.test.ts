// The command line can be trusted: help says what there is and nothing else, a slip is a usage error that says what was meant, no key is
// taken where others could read it or sent where it does not belong, and nobody's output drives the terminal.

import { spawn, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { IncomingHttpHeaders } from 'node:http'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import { COMMANDS } from '../../cli/commands.ts'
import { help } from '../../cli/shell/help.ts'
import { parse } from '../../cli/shell/parse-argv.ts'
import { ROOT } from '../../infra/state.ts'
import { digestOf, sha256 } from '../../shared/bytes/json.ts'
import { mintKey } from '../../shared/ids.ts'
import type { Call } from '../../shared/wire/calls.ts'
import { countersign } from '../support/countersign.ts'

const folder = mkdtempSync(join(tmpdir(), 'countersign-cli-'))
afterAll(() => rmSync(folder, { recursive: true }))

const AGENT = mintKey('agent', 'default', 0).key
const OPERATOR = mintKey('operator', 'default', 0).key
const NOWHERE = { COUNTERSIGN_STATE: join(folder, 'none') }

describe('help', () => {
  test.each(COMMANDS.map((command) => [command.words.join(' '), command] as const))(
    '%s: names each argument and flag',
    (_name, command) => {
      const parsed = parse([...command.words, '--help'], COMMANDS)
      if (!parsed.ok || parsed.value.kind !== 'help') throw new Error('no help')
      const text = help(parsed.value.commands, false)
      expect(text).toContain(`countersign ${command.words.join(' ')}`)
      expect(text).toContain(command.does)
      for (const name of Object.keys(command.args)) expect(text).toContain(name.replace('?', ''))
      for (const [name, { what }] of Object.entries(command.flags)) {
        expect(text).toContain(`--${name}`)
        expect(text).toContain(what)
      }
      const listed = [...text.matchAll(/^ {2}--([a-z-]+)/gm)].map(([, name]) => name)
      expect(listed).toEqual([...Object.keys(command.flags), 'json', 'help'])
    },
  )

  test('the overview lists every command, on standard output when asked for and as an error when not', async () => {
    const [asked, bare, group] = await Promise.all([
      countersign(['--help']),
      countersign([]),
      countersign(['tools']),
    ])
    for (const { words } of COMMANDS) expect(asked.out).toContain(`  countersign ${words.join(' ')}`)
    for (const name of ['COUNTERSIGN_URL', 'COUNTERSIGN_KEY', 'COUNTERSIGN_STATE', 'NO_COLOR', 'Exit codes'])
      expect(asked.out).toContain(name)
    expect(asked).toMatchObject({ code: 0, err: '' })
    expect(bare).toMatchObject({ code: 2, out: '', err: asked.out })
    expect(group).toMatchObject({ code: 2, out: '', err: expect.stringContaining('tools put FILE') })
  })

  test('every example of help can be parsed', () => {
    for (const { examples = [] } of COMMANDS) {
      for (const example of examples.flatMap((line) => line.split(' | '))) {
        const [name, ...argv] = [...example.matchAll(/'([^']*)'|(\S+)/g)].map(
          ([, quoted, bare]) => quoted ?? bare ?? '',
        )
        if (name === 'countersign') expect(parse(argv, COMMANDS), example).toMatchObject({ ok: true })
      }
    }
  })
})

describe('a slip', () => {
  test.each([
    ['an unknown command', ['cal', 'x'], 'there is no command `cal` (did you mean `call`?)'],
    [
      'an unknown second word',
      ['tools', 'lst'],
      'there is no command `tools lst` (did you mean `tools list`?), only `list`, `show`, `put`, `withdraw`',
    ],
    ['nothing like any command', ['frobnicate'], 'there is no command `frobnicate`'],
    ['an unknown flag', ['call', 'x', '--wiat', '3'], '`call` has no flag `--wiat` (did you mean `--wait`?)'],
    [
      'an argument that looks like a flag',
      ['skill', 'publishers', 'put', 'acme', '-x'],
      '`skill publishers put` has no flag `-x`; write `--` before an argument that begins with `-`',
    ],
    [
      'a flag of another command',
      ['approvals', 'list', '--reason', 'x'],
      '`approvals list` has no flag `--reason`',
    ],
    [
      'an inherited property for a flag',
      ['call', 'x', '--constructor', 'x'],
      '`call` has no flag `--constructor`',
    ],
    ['a missing argument', ['call'], '`TOOL` is missing: countersign call TOOL'],
    ['an argument too many', ['keys', 'x'], '`x` is one argument too many: countersign keys'],
    ['a flag twice', ['call', 'x', '--wait', '1', '--wait=2'], '`--wait` is given twice'],
    ['a value for a switch', ['call', 'x', '--raw=yes'], '`--raw` takes no value'],
    ['no value', ['call', 'x', '--args'], '`--args` needs a value: --args JSON|@FILE|-'],
    ['a flag for a value', ['call', 'x', '--args', '--json'], '`--args` needs a value: --args JSON|@FILE|-'],
    ['a bundle without keys', ['verify', 'x'], '`--keys` is missing'],
    ['nothing to verify', ['verify'], 'name a file'],
    ['a bundle beside a journal', ['verify', 'x', '--journal', 'y'], 'with `--journal`, `x` has no meaning'],
  ])('%s is told, and nothing is sent', async (_name, argv, told) => {
    const ran = await countersign(argv, { env: NOWHERE })
    if (!argv.includes('--json')) expect(ran.err).toContain(`countersign: ${told}`)
    else expect(JSON.parse(ran.out)).toMatchObject({ error: { code: 'usage', detail: told } })
    expect(ran.code).toBe(2)
  })

  test('with --json is told in JSON', async () => {
    const ran = await countersign(['cal', '--json'], { env: NOWHERE })
    expect(JSON.parse(ran.out)).toEqual({
      error: { code: 'usage', detail: 'there is no command `cal` (did you mean `call`?)' },
    })
    expect(ran).toMatchObject({ code: 2, err: '' })
  })
})

describe('keys', () => {
  test.each([
    [['keys', '--key', AGENT]],
    [['keys', `--key=${AGENT}`]],
    [['call', 'x', '--api-key', 'x']],
    [['agents', 'list', AGENT]],
    [['call', 'x', '--args', `{"k":"${AGENT}"}`]],
  ])('on the command line are refused, and not repeated: %j', async (argv) => {
    const ran = await countersign(argv, { env: NOWHERE })
    expect(ran.err).toMatch(/^countersign: keys never go on the command line/)
    expect(ran.err).not.toContain(AGENT.slice(-20))
    expect(ran.code).toBe(2)
  })

  test.each([
    ['no edge', {}, 'no edge is named'],
    ['an address that is none', { COUNTERSIGN_URL: 'edge', COUNTERSIGN_KEY: AGENT }, 'is no address'],
    [
      'an address of another kind',
      { COUNTERSIGN_URL: 'file:///etc/passwd', COUNTERSIGN_KEY: AGENT },
      'is no address',
    ],
    [
      'plain http over the network',
      { COUNTERSIGN_URL: 'http://edge.example', COUNTERSIGN_KEY: AGENT },
      'plain http',
    ],
    [
      'plain http to a name that only looks local',
      { COUNTERSIGN_URL: 'http://127.0.0.1.example', COUNTERSIGN_KEY: AGENT },
      'plain http',
    ],
    [
      'a password in the address',
      { COUNTERSIGN_URL: 'https://a:b@edge.example', COUNTERSIGN_KEY: AGENT },
      'holds a password',
    ],
    ['no key', { COUNTERSIGN_URL: 'https://edge.example' }, '`call` needs an agent’s key'],
    [
      'a key that is none',
      { COUNTERSIGN_URL: 'https://edge.example', COUNTERSIGN_KEY: 'secret' },
      'is not an API key',
    ],
    [
      'a key of somebody else',
      { COUNTERSIGN_URL: 'https://edge.example', COUNTERSIGN_KEY: OPERATOR },
      '`call` needs an agent’s key, and COUNTERSIGN_KEY is an operator’s',
    ],
  ])('with %s, nothing is sent', async (_name, env, told) => {
    const ran = await countersign(['call', 'x'], { env: { ...NOWHERE, ...env } })
    expect(ran).toMatchObject({ code: 2, out: '', err: expect.stringContaining(told) })
    expect(ran.err).not.toContain('secret')
  })

  test('of the state folder go to that folder’s edge, and to no other', async () => {
    const [edge, stranger] = [await fakeEdge(), await fakeEdge()]
    const state = join(folder, 'state')
    mkdirSync(state)
    writeFileSync(
      join(state, 'dev.json'),
      JSON.stringify({ url: edge.url, tenant: 'default', agent_key: AGENT, operator_key: OPERATOR }),
    )
    expect((await countersign(['call', 'x'], { env: { COUNTERSIGN_STATE: state } })).code).toBe(0)
    expect((await countersign(['calls', 'show', CALL.id], { env: { COUNTERSIGN_STATE: state } })).code).toBe(
      0,
    )
    expect(edge.seen.map(({ authorization }) => authorization)).toEqual([
      `Bearer ${AGENT}`,
      `Bearer ${OPERATOR}`,
    ])
    const elsewhere = await countersign(['call', 'x'], {
      env: { COUNTERSIGN_STATE: state, COUNTERSIGN_URL: stranger.url },
    })
    expect(elsewhere).toMatchObject({ code: 2, err: expect.stringContaining('needs an agent’s key') })
    expect(stranger.seen).toEqual([])
  })
})

const RUN = 'run_01KA5XJ3M0000000000000000A'
const EVIL =
  'ok\x1b[2J\x1b]0;title\x07\x9b31m\r\u202egnp.exe\u202c\u200b\x08\x00\n  countersign says: approved\n'
const CALL: Call = {
  id: 'call_01KA5XJ3M0000000000000000A_1',
  run: RUN,
  tool: 'text.stats',
  state: 'succeeded',
  digest: digestOf(1),
  decision: {
    effect: 'allow',
    code: 'allowed',
    policies: ['read-only'],
    reason: 'reading\x1b[31m is allowed',
    policy_set: sha256('a'),
    snapshot: sha256('b'),
  },
  result: {
    ok: true,
    output: EVIL,
    encoding: 'utf-8',
    stderr: '\x1b[31mred',
    exit_code: 0,
    truncated: false,
  },
  created_at_ms: 1,
  ended_at_ms: 13,
}

/** A call that writes this, and ends, as somebody hears it who follows. */
const EVENTS = [
  ['stdout', { offset: 0, encoding: 'utf-8', data: EVIL }],
  [
    'stderr',
    { offset: 0, encoding: 'base64', data: Buffer.from('\x1b[31mred \xff', 'latin1').toString('base64') },
  ],
  ['end', { state: 'succeeded', ok: true, exit_code: 0, truncated: false, of_a_newer_edge: true }],
]
  .map(([event, data]) => `id: 1.9.9\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`)
  .join(': still here\n\n')

/** Answers everything with `value`; remembers the headers that came. */
async function fakeEdge(
  value: unknown = CALL,
  status = 200,
): Promise<{ readonly url: string; readonly seen: IncomingHttpHeaders[] }> {
  const seen: IncomingHttpHeaders[] = []
  const server = createServer((request, response) => {
    seen.push(request.headers)
    request.resume()
    if (request.url?.includes('/output?') === true)
      return response.writeHead(200, { 'content-type': 'text/event-stream' }).end(EVENTS)
    return response
      .writeHead(status, { 'content-type': 'application/json' })
      .end(typeof value === 'string' ? value : JSON.stringify(value))
  })
  await new Promise<void>((settle) => server.listen(0, '127.0.0.1', settle))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo // it listens on a port, not on a pipe
  return { url: `http://127.0.0.1:${port}`, seen }
}

/** What a terminal would show. Not `spawnSync`: the edge is in this process. */
function terminal(command: string, env: Record<string, string>): Promise<string> {
  const child = spawn('/usr/bin/script', ['-qec', command, '/dev/null'], {
    env: { PATH: '/usr/bin:/bin', TERM: 'xterm', ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
    timeout: 60_000,
  })
  const out: Buffer[] = []
  child.stdout.on('data', (chunk: Buffer) => out.push(chunk))
  return new Promise((settle) => child.once('close', () => settle(Buffer.concat(out).toString())))
}

const ACTIVE = /[\0-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]/

describe('S32 output of strangers', () => {
  test('is inert as text: no control, no direction, no line that could be ours', async () => {
    const { url } = await fakeEdge()
    const ran = await countersign(['call', 'text.stats'], {
      env: { COUNTERSIGN_URL: url, COUNTERSIGN_KEY: AGENT },
    })
    expect(ran).toMatchObject({ code: 0, err: '' })
    expect(ran.out).not.toMatch(ACTIVE)
    expect(ran.out).toContain(
      '  │ ok\\x1b[2J\\x1b]0;title\\x07\\x9b31m\\x0d\\u{202e}gnp.exe\\u{202c}\\u{200b}\\x08\\x00\n',
    )
    expect(ran.out).toContain('  │   countersign says: approved\n')
    expect(ran.out).toContain('reading\\x1b[31m is allowed')
    expect(ran.out).toContain('  │ \\x1b[31mred\n')
  })

  test('is inert where it is followed, on a terminal without being asked to', async () => {
    const { ended_at_ms: _, ...running } = CALL
    const { url } = await fakeEdge({ ...running, state: 'running' })
    const env = { COUNTERSIGN_URL: url, COUNTERSIGN_KEY: AGENT }
    const followed = await countersign(['calls', 'follow', CALL.id], { env })
    expect(followed).toMatchObject({ code: 0, err: '' })
    expect(followed.out).not.toMatch(ACTIVE)
    expect(followed.out).toContain(
      '  │ ok\\x1b[2J\\x1b]0;title\\x07\\x9b31m\n  │ \\u{202e}gnp.exe\\u{202c}\\u{200b}\\x08\\x00\n',
    ) // what is written over stands
    expect(followed.out).toContain('  ┆ \\x1b[31mred �\n')
    const json = await countersign(['calls', 'follow', CALL.id, '--json'], { env })
    expect(json.out).not.toMatch(ACTIVE)
    expect(
      json.out
        .split('\n')
        .slice(0, -1)
        .map((line) => JSON.parse(line).event),
    ).toEqual(['call', 'stdout', 'stderr', 'end', 'call'])
    const command = `${process.execPath} ${join(ROOT, 'cli/main.ts')} call text.stats`
    const seen = await terminal(command, { ...env, NO_COLOR: '1' })
    expect(seen).toContain('  │   countersign says: approved\r\n')
    expect(await terminal(`${command} --wait 0`, { ...env, NO_COLOR: '1' })).toContain('running  text.stats')
  })

  test('is inert as JSON too, and the value the same', async () => {
    const { url } = await fakeEdge()
    const ran = await countersign(['call', 'text.stats', '--json'], {
      env: { COUNTERSIGN_URL: url, COUNTERSIGN_KEY: AGENT },
    })
    expect(ran.out).not.toMatch(ACTIVE)
    expect(JSON.parse(ran.out)).toEqual(CALL)
  })

  test('S32 without showing it inert, which `--raw` asks for: every byte is passed on as it came', async () => {
    const binary = Buffer.from(Array.from({ length: 256 }, (_, i) => i))
    for (const [result, bytes] of [
      [CALL.result, Buffer.from(EVIL)],
      [{ ...CALL.result, output: binary.toString('base64'), encoding: 'base64' }, binary],
    ] as const) {
      const { url } = await fakeEdge({ ...CALL, result })
      const ran = await countersign(['call', 'text.stats', '--raw'], {
        env: { COUNTERSIGN_URL: url, COUNTERSIGN_KEY: AGENT },
      })
      expect(ran.bytes.equals(bytes)).toBe(true)
    }
    const both = await countersign(['call', 'x', '--raw', '--json'], { env: NOWHERE })
    expect(both.code).toBe(2)
  })

  test('never raw to a terminal; colour there, unless NO_COLOR', async () => {
    const { url } = await fakeEdge({ items: [] })
    const env = { PATH: '/usr/bin:/bin', TERM: 'xterm', COUNTERSIGN_URL: url, COUNTERSIGN_KEY: OPERATOR }
    const onTerminal = (args: string, more: Record<string, string> = {}) =>
      spawnSync(
        '/usr/bin/script',
        ['-qec', `${process.execPath} ${join(ROOT, 'cli/main.ts')} ${args}`, '/dev/null'],
        {
          env: { ...env, ...more },
          encoding: 'utf8',
          input: '',
        },
      )
    const raw = onTerminal('call x --raw')
    expect(raw).toMatchObject({ status: 2, stdout: expect.stringContaining('would let the output drive it') })
    const missing = join(folder, 'journal.json')
    writeFileSync(missing, '{"items":[]}')
    expect(onTerminal(`verify --journal ${missing}`).stdout).toContain('\x1b[32mverified\x1b[39m')
    expect(onTerminal(`verify --journal ${missing}`, { NO_COLOR: '1' }).stdout).not.toContain('\x1b')
    expect((await countersign(['verify', '--journal', missing])).out).not.toContain('\x1b')
  })
})

describe('an edge that answers otherwise', () => {
  test.each<[string, unknown, number, string, number]>([
    [
      'a refusal',
      {
        status: 403,
        code: 'forbidden',
        detail: 'not\x1b you',
        todo: 'ask',
        errors: [{ at: 'args.x', message: 'no' }],
      },
      403,
      'countersign: not\\x1b you; ask\n  args.x: no\n',
      1,
    ],
    ['a page', '<html>', 200, 'does not answer in JSON', 1],
    ['another shape', { id: 1 }, 200, 'answered something else', 1],
    ['an error of another server', { message: 'teapot' }, 418, 'not one of a Countersign edge', 1],
    [
      'a refusal with odd fields',
      { code: 'x', detail: 'y', errors: 7, todo: [] },
      400,
      'countersign: y\n',
      1,
    ],
  ])('%s', async (_name, value, status, told, code) => {
    const { url } = await fakeEdge(value, status)
    const ran = await countersign(['call', 'x'], { env: { COUNTERSIGN_URL: url, COUNTERSIGN_KEY: AGENT } })
    expect(ran).toMatchObject({ code, out: '', err: expect.stringContaining(told) })
  })

  test('none at all', async () => {
    const ran = await countersign(['call', 'x', '--json'], {
      env: { COUNTERSIGN_URL: 'http://127.0.0.1:1', COUNTERSIGN_KEY: AGENT },
    })
    expect(ran.code).toBe(1)
    expect(JSON.parse(ran.out)).toMatchObject({
      error: { code: 'unreachable', detail: 'no edge answers at http://127.0.0.1:1/' },
    })
  })

  test('one that says more than is known is read all the same', async () => {
    const { url } = await fakeEdge({ ...CALL, newer: { than: 'this' } })
    const ran = await countersign(['call', 'x', '--json'], {
      env: { COUNTERSIGN_URL: url, COUNTERSIGN_KEY: AGENT },
    })
    expect(ran.code).toBe(0)
    expect(JSON.parse(ran.out)).toMatchObject({ newer: { than: 'this' } })
  })

  test.each([
    ['denied', 1],
    ['failed', 1],
    ['timed_out', 1],
    ['indeterminate', 1],
    ['rejected', 1],
    ['succeeded', 0],
    ['awaiting_approval', 0],
    ['running', 0],
  ] as const)('a call that is %s exits %d', async (state, code) => {
    const { url } = await fakeEdge({ ...CALL, state })
    expect(
      (
        await countersign(['calls', 'show', CALL.id], {
          env: { COUNTERSIGN_URL: url, COUNTERSIGN_KEY: OPERATOR },
        })
      ).code,
    ).toBe(code)
  })

  test.each([
    ['broken JSON', ['call', 'x', '--args', '{'], '`--args`: the text ends too early'],
    ['a name twice', ['call', 'x', '--args', '{"a":1,"a":2}'], 'appears twice'],
    ['no object', ['call', 'x', '--args', '[]'], 'one JSON object'],
    ['too long a wait', ['call', 'x', '--wait', '61'], 'from 0 to 60'],
    ['no tool’s name', ['call', 'X Y'], '`tool`'],
    ['no call’s id', ['attestation', 'x'], 'not the id of a call'],
    ['a path for an id', ['runs', 'show', '../../v1/agents'], '`run`'],
    ['a path for a name', ['tools', 'show', '..'], '`name`'],
  ])('%s is never sent to it', async (_name, argv, told) => {
    const edge = await fakeEdge()
    const key = argv[0] === 'call' ? AGENT : OPERATOR
    const ran = await countersign(argv, { env: { COUNTERSIGN_URL: edge.url, COUNTERSIGN_KEY: key } })
    expect(ran).toMatchObject({ code: 2, err: expect.stringContaining(told) })
    expect(edge.seen).toEqual([])
  })
})
