// Promise: the command line can be trusted. Help lists exactly what exists, a slip is a usage error
// with a suggestion, no key is accepted where others could read it or sent to another edge, and no
// output of a tool controls the terminal.

import { spawn, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { IncomingHttpHeaders } from 'node:http'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
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
    'help of `%s` describes each argument and flag',
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

  test('the overview lists every command, on standard output with --help and on standard error without a command', async () => {
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

  test('cli/main.ts runs as it is, without a bundle, a cache or an environment', async () => {
    const plain = spawnSync(join(ROOT, 'cli/main.ts'), ['--help'], {
      env: { PATH: `${dirname(process.execPath)}:/usr/bin:/bin` },
      encoding: 'utf8',
    })
    expect(plain).toMatchObject({ status: 0, stderr: '', stdout: (await countersign(['--help'])).out })
  })

  test('every example in help can be parsed', () => {
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

describe('usage errors', () => {
  test.concurrent.each([
    ['an unknown command', ['cal', 'x'], 'there is no command `cal` (did you mean `call`?)'],
    [
      'an unknown second word',
      ['tools', 'lst'],
      'there is no command `tools lst` (did you mean `tools list`?); `tools` has `list`, `show`, `put`, `withdraw`',
    ],
    ['a command unlike any other', ['frobnicate'], 'there is no command `frobnicate`'],
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
      'an inherited property as a flag',
      ['call', 'x', '--constructor', 'x'],
      '`call` has no flag `--constructor`',
    ],
    ['a missing argument', ['call'], '`TOOL` is missing; usage: countersign call TOOL'],
    ['an extra argument', ['keys', 'list', 'x'], 'unexpected argument `x`; usage: countersign keys list'],
    ['a repeated flag', ['call', 'x', '--wait', '1', '--wait=2'], '`--wait` is given twice'],
    ['a value for a switch', ['call', 'x', '--raw=yes'], '`--raw` takes no value'],
    ['a flag without its value', ['call', 'x', '--args'], '`--args` needs a value: --args JSON|@FILE|-'],
    [
      'a flag in place of a value',
      ['call', 'x', '--args', '--json'],
      '`--args` needs a value: --args JSON|@FILE|-',
    ],
    ['a bundle without keys', ['verify', 'x'], '`--keys` is missing'],
    ['no file to verify', ['verify'], '`FILE` is missing'],
    [
      'a bundle beside a journal',
      ['verify', 'x', '--journal', 'y'],
      '`--journal` checks a journal alone; leave out `x`',
    ],
  ])('%s is a usage error, and nothing is sent', async (_name, argv, detail) => {
    const ran = await countersign(argv, { env: NOWHERE })
    if (!argv.includes('--json')) expect(ran.err).toContain(`countersign: ${detail}`)
    else expect(JSON.parse(ran.out)).toMatchObject({ error: { code: 'usage', detail } })
    expect(ran.code).toBe(2)
  })

  test.concurrent('with --json a usage error is JSON on standard output', async () => {
    const ran = await countersign(['cal', '--json'], { env: NOWHERE })
    expect(JSON.parse(ran.out)).toEqual({
      error: { code: 'usage', detail: 'there is no command `cal` (did you mean `call`?)' },
    })
    expect(ran).toMatchObject({ code: 2, err: '' })
  })
})

describe('keys', () => {
  test.concurrent.each([
    [['keys', '--key', AGENT]],
    [['keys', `--key=${AGENT}`]],
    [['call', 'x', '--api-key', 'x']],
    [['agents', 'list', AGENT]],
    [['call', 'x', '--args', `{"k":"${AGENT}"}`]],
  ])('a key on the command line is refused and not repeated in the error: %j', async (argv) => {
    const ran = await countersign(argv, { env: NOWHERE })
    expect(ran.err).toMatch(/^countersign: a key on the command line can be read by every process/)
    expect(ran.err).not.toContain(AGENT.slice(-20))
    expect(ran.code).toBe(2)
  })

  test.concurrent.each([
    ['no edge', {}, 'no edge is configured'],
    [
      'an address without a scheme',
      { COUNTERSIGN_URL: 'edge', COUNTERSIGN_KEY: AGENT },
      'is not an http or https address',
    ],
    [
      'a file: address',
      { COUNTERSIGN_URL: 'file:///etc/passwd', COUNTERSIGN_KEY: AGENT },
      'is not an http or https address',
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
      'contains a user name or password',
    ],
    ['no key', { COUNTERSIGN_URL: 'https://edge.example' }, '`call` needs an agent’s key'],
    [
      'a malformed key',
      { COUNTERSIGN_URL: 'https://edge.example', COUNTERSIGN_KEY: 'secret' },
      'is not an API key',
    ],
    [
      'an operator’s key where an agent’s is needed',
      { COUNTERSIGN_URL: 'https://edge.example', COUNTERSIGN_KEY: OPERATOR },
      '`call` needs an agent’s key, and COUNTERSIGN_KEY is an operator’s',
    ],
  ])('with %s in the environment, nothing is sent', async (_name, env, detail) => {
    const ran = await countersign(['call', 'x'], { env: { ...NOWHERE, ...env } })
    expect(ran).toMatchObject({ code: 2, out: '', err: expect.stringContaining(detail) })
    expect(ran.err).not.toContain('secret')
  })

  test('keys of the state folder are sent to that folder’s edge and to no other', async () => {
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
  tool: 'text_stats',
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

/** The event stream of a call that writes `EVIL` and ends. */
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

/** An HTTP server that answers every request with `value` and records the request headers. */
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
  const { port } = server.address() as AddressInfo // the address of a TCP server
  return { url: `http://127.0.0.1:${port}`, seen }
}

/**
 * Runs a command in a pseudo-terminal and returns what it shows. Not `spawnSync`: the edge is in
 * this process.
 */
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

describe('S32 untrusted output in a terminal', () => {
  test('S32 text of a tool or agent is printed with its control characters escaped and behind a bar', async () => {
    const { url } = await fakeEdge()
    const ran = await countersign(['call', 'text_stats'], {
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

  test('S32 live output is escaped too, also where a terminal follows it by default', async () => {
    const { ended_at_ms: _, ...running } = CALL
    const { url } = await fakeEdge({ ...running, state: 'running' })
    const env = { COUNTERSIGN_URL: url, COUNTERSIGN_KEY: AGENT }
    const followed = await countersign(['calls', 'follow', CALL.id], { env })
    expect(followed).toMatchObject({ code: 0, err: '' })
    expect(followed.out).not.toMatch(ACTIVE)
    expect(followed.out).toContain(
      '  │ ok\\x1b[2J\\x1b]0;title\\x07\\x9b31m\n  │ \\u{202e}gnp.exe\\u{202c}\\u{200b}\\x08\\x00\n',
    ) // a carriage return ends a line
    expect(followed.out).toContain('  ┆ \\x1b[31mred �\n')
    const json = await countersign(['calls', 'follow', CALL.id, '--json'], { env })
    expect(json.out).not.toMatch(ACTIVE)
    expect(
      json.out
        .split('\n')
        .slice(0, -1)
        .map((line) => JSON.parse(line).event),
    ).toEqual(['call', 'stdout', 'stderr', 'end', 'call'])
    const command = `${process.execPath} ${join(ROOT, 'cli/main.ts')} call text_stats`
    const seen = await terminal(command, { ...env, NO_COLOR: '1' })
    expect(seen).toContain('  │   countersign says: approved\r\n')
    expect(await terminal(`${command} --wait 0`, { ...env, NO_COLOR: '1' })).toContain('running  text_stats')
  })

  test('S32 JSON output has its control characters escaped and parses to the same value', async () => {
    const { url } = await fakeEdge()
    const ran = await countersign(['call', 'text_stats', '--json'], {
      env: { COUNTERSIGN_URL: url, COUNTERSIGN_KEY: AGENT },
    })
    expect(ran.out).not.toMatch(ACTIVE)
    expect(JSON.parse(ran.out)).toEqual(CALL)
  })

  test('S32 without escaping, which `--raw` turns off: every byte of the output is passed on unchanged', async () => {
    const binary = Buffer.from(Array.from({ length: 256 }, (_, i) => i))
    for (const [result, bytes] of [
      [CALL.result, Buffer.from(EVIL)],
      [{ ...CALL.result, output: binary.toString('base64'), encoding: 'base64' }, binary],
    ] as const) {
      const { url } = await fakeEdge({ ...CALL, result })
      const ran = await countersign(['call', 'text_stats', '--raw'], {
        env: { COUNTERSIGN_URL: url, COUNTERSIGN_KEY: AGENT },
      })
      expect(ran.bytes.equals(bytes)).toBe(true)
    }
    const both = await countersign(['call', 'x', '--raw', '--json'], { env: NOWHERE })
    expect(both.code).toBe(2)
  })

  test('S32 `--raw` is refused on a terminal; a terminal gets colour unless NO_COLOR is set', async () => {
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
    expect(raw).toMatchObject({
      status: 2,
      stdout: expect.stringContaining('would let the output control this terminal'),
    })
    const missing = join(folder, 'journal.json')
    writeFileSync(missing, '{"items":[]}')
    expect(onTerminal(`verify --journal ${missing}`).stdout).toContain('\x1b[32mverified\x1b[39m')
    expect(onTerminal(`verify --journal ${missing}`, { NO_COLOR: '1' }).stdout).not.toContain('\x1b')
    expect((await countersign(['verify', '--journal', missing])).out).not.toContain('\x1b')
  })
})

describe('unexpected answers of the edge', () => {
  test.each<[string, unknown, number, string, number]>([
    [
      'an error of the edge',
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
    ['an HTML page', '<html>', 200, 'is not JSON', 1],
    ['JSON of another shape', { id: 1 }, 200, 'does not understand the answer', 1],
    ['an error of another server', { message: 'teapot' }, 418, 'not from a Countersign edge', 1],
    [
      'an error with fields of other types',
      { code: 'x', detail: 'y', errors: 7, todo: [] },
      400,
      'countersign: y\n',
      1,
    ],
  ])(
    'an answer that is %s is reported on standard error with exit code 1',
    async (_name, value, status, message, code) => {
      const { url } = await fakeEdge(value, status)
      const ran = await countersign(['call', 'x'], { env: { COUNTERSIGN_URL: url, COUNTERSIGN_KEY: AGENT } })
      expect(ran).toMatchObject({ code, out: '', err: expect.stringContaining(message) })
    },
  )

  test('an unreachable edge is reported with its address', async () => {
    const ran = await countersign(['call', 'x', '--json'], {
      env: { COUNTERSIGN_URL: 'http://127.0.0.1:1', COUNTERSIGN_KEY: AGENT },
    })
    expect(ran.code).toBe(1)
    expect(JSON.parse(ran.out)).toMatchObject({
      error: { code: 'unreachable', detail: 'no edge answers at http://127.0.0.1:1/' },
    })
  })

  test('an answer with unknown fields is accepted and printed whole', async () => {
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
  ] as const)('`calls show` of a call that is %s exits with %d', async (state, code) => {
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
    ['JSON with a duplicate name', ['call', 'x', '--args', '{"a":1,"a":2}'], 'appears twice'],
    ['a JSON list as arguments', ['call', 'x', '--args', '[]'], 'one JSON object'],
    ['a wait above `wait_s`', ['call', 'x', '--wait', '61'], 'from 0 to 60'],
    ['an invalid tool name', ['call', 'X Y'], '`tool`'],
    ['an invalid call id', ['attestation', 'x'], 'not a call id'],
    ['a path in place of an id', ['runs', 'show', '../../v1/agents'], '`run`'],
    ['a path in place of a name', ['tools', 'show', '..'], '`name`'],
  ])('%s is a usage error and is not sent to the edge', async (_name, argv, message) => {
    const edge = await fakeEdge()
    const key = argv[0] === 'call' ? AGENT : OPERATOR
    const ran = await countersign(argv, { env: { COUNTERSIGN_URL: edge.url, COUNTERSIGN_KEY: key } })
    expect(ran).toMatchObject({ code: 2, err: expect.stringContaining(message) })
    expect(edge.seen).toEqual([])
  })
})
