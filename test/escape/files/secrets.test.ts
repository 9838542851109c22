// A tool of tier C finds the secrets that its plan names in memory of its own sandbox, and nowhere
// else. Their values are masked in its output.

import { readdirSync, readFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Arena, attack, attackReport, planOf, processesWith, unique } from '../arena/arena.ts'

let arena: Arena
beforeAll(async () => {
  arena = await Arena.open()
})
afterAll(() => arena.close())

/**
 * Random, so that nothing else on this host has it; with characters that JSON, URLs and shells
 * escape.
 */
const canary = (): string => `canary "${unique()}" +/?&\\ü`
const MARK = '«secret token»'
const given = (value: string, name = 'token') => ({ secrets: { [name]: value } })
const utf8 = (latin1: string): string => Buffer.from(latin1, 'latin1').toString('utf8')

test('a secret is a file in memory that only the tool can read and nobody can change', async () => {
  const value = canary()
  const seen = attackReport(
    await arena.launch({
      ...given(value),
      plan: planOf(
        attack(`
import hashlib
path = '/run/secrets/token'
tell['names'] = os.listdir('/run/secrets')
tell['digest'] = hashlib.sha256(open(path, 'rb').read()).hexdigest()
tell['mode'] = oct(os.stat(path).st_mode & 0o7777)
tell['write'] = attempt(os.open, path, os.O_WRONLY)
tell['add'] = attempt(os.open, '/run/secrets/other', os.O_WRONLY | os.O_CREAT)
tell['remove'] = attempt(os.unlink, path)
tell['kind'] = [line.split()[2] for line in open('/proc/mounts') if line.split()[1] == '/'][0]`),
        { secrets: ['token'] },
      ),
    }),
  )
  const digest = Buffer.from(await crypto.subtle.digest('SHA-256', Buffer.from(value))).toString('hex')
  expect(seen).toEqual({
    names: ['token'],
    digest,
    mode: '0o400',
    write: expect.any(String),
    add: 'EROFS',
    remove: 'EROFS',
    kind: 'tmpfs',
  })
  expect(['EACCES', 'EROFS']).toContain(seen['write'])
})

test('V02 S21 S22 a secret of a running call is in no environment, command line, descriptor or folder of the host', async () => {
  const [value, word] = [unique().repeat(3), `w${unique()}`]
  const ready = Promise.withResolvers<void>()
  const ran = arena.launch(
    {
      ...given(value),
      plan: planOf(
        attack(`
import time # ${word}
tell['descriptors'] = sorted(int(fd) for fd in os.listdir('/proc/self/fd'))
print('ready', flush=True)
time.sleep(3)
tell['environment'] = open('/proc/self/environ').read()
tell['argv'] = open('/proc/1/cmdline').read()
tell['init'] = attempt(open, '/proc/1/environ')`),
        { secrets: ['token'] },
      ),
    },
    (said) => said.includes('ready') && ready.resolve(),
  )
  await ready.promise
  const shown = readdirSync('/proc')
    .filter((pid) => /^[0-9]+$/.test(pid) && Number(pid) !== process.pid)
    .flatMap((pid) =>
      ['cmdline', 'environ']
        .filter((file) => readable(`/proc/${pid}/${file}`).includes(value))
        .map((file) => `${pid}/${file}`),
    )
  expect(shown).toEqual([])
  expect(filesBelow(arena.home).filter((file) => readable(file).includes(value))).toEqual([])
  expect(processesWith(word)).not.toEqual([]) // control: it still ran when we had looked
  const { descriptors, environment, argv, init } = attackReport(await ran)
  expect(init).toBe('EACCES') // root on the host read it above
  expect(descriptors).toEqual([0, 1, 2, 3]) // the last reads the list
  expect(`${environment}${argv}`).not.toContain(value)
})

const readable = (file: string): string => {
  try {
    return readFileSync(file, 'latin1')
  } catch {
    return '' // it has ended, or we may not read it
  }
}
const filesBelow = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => `${entry.parentPath}/${entry.name}`)

const SAID = `
import base64, html, json, sys, time, urllib.parse
value = open('/run/secrets/token').read()
raw = value.encode()
def say(text, to=sys.stdout): print('<' + text + '>', file=to)
say(value); say(value, sys.stderr); say(json.dumps(value, ensure_ascii=False)); say(raw.hex()); say(raw.hex().upper())
say(urllib.parse.quote(value, safe='')); say(urllib.parse.quote(value, safe='').lower())
for before in ('', 'a', 'ab'): say(base64.b64encode((before + value + 'rest').encode()).decode())
for before in ('', 'a', 'ab'): say(base64.urlsafe_b64encode((before + value + 'rest').encode()).decode())
sys.stdout.flush()
for byte in raw:
    sys.stdout.buffer.write(bytes([byte])); sys.stdout.flush(); time.sleep(0.001)
print(raw[:-1].decode('latin1')); print(value + value)
print(base64.encodebytes((value * 9).encode()).decode()); print(html.escape(value)); print(list(raw)); print(raw.hex(':'))`

test('V01 a secret is masked in output: plain, JSON, hexadecimal, URL, base64 at each offset, byte by byte, twice in a row, wrapped, HTML, numbers', async () => {
  const value = canary()
  const seen = await arena.launch({
    ...given(value),
    plan: planOf(['python3', '-I', '-c', SAID], { secrets: ['token'] }),
  })
  const [out, err] = [utf8(seen.out), utf8(seen.err)]
  expect(seen.outcome).toEqual({ kind: 'exit', code: 0 })
  expect(err).toBe(`<${MARK}>\n`)
  const lines = out.split('\n')
  expect(lines.slice(0, 2)).toEqual([`<${MARK}>`, `<"${MARK}">`])
  for (const line of lines.slice(2, 12)) expect(line).toMatch(/^<.{0,4}«secret token».{0,12}>$/)
  expect(lines[12]).toContain(MARK)
  expect(lines[13]).toBe(MARK)
  for (const line of lines.slice(-4, -1)) expect(line).toMatch(/^\[?«secret token»\]?$/)
  for (const line of lines.slice(14, -4))
    expect(line).toMatch(/^(?:«secret token»|\W|[\w/+]{1,2}(?![\w/+]))*$/)
  expect(seen.stdout.bytes).toBe(seen.out.length)
  const sha256 = Buffer.from(await crypto.subtle.digest('SHA-256', Buffer.from(seen.out, 'latin1'))).toString(
    'hex',
  )
  expect(seen.stdout.sha256).toBe(sha256) // of the masked output, so that nobody can guess values with it
})

test('V01 a failed call reveals no secret in its output or its outcome', async () => {
  const value = canary()
  for (const script of [
    'cat /run/secrets/token >&2; exit 3',
    'cat /run/secrets/token; kill -9 $$',
    '"$(cat /run/secrets/token)"',
  ]) {
    const seen = await arena.launch({
      ...given(value),
      plan: planOf(['bash', '-c', script], { secrets: ['token'] }),
    })
    expect(seen.outcome, script).not.toEqual({ kind: 'exit', code: 0 })
    expect(utf8(seen.out + seen.err), script).toContain(MARK)
    expect(JSON.stringify(seen), script).not.toContain(value)
  }
})

test('V01 control: a secret of another call is not masked', async () => {
  const value = unique()
  const seen = await arena.launch({
    ...given(canary()),
    plan: planOf(['echo', value], { secrets: ['token'] }),
  })
  expect(seen.out).toBe(`${value}\n`)
})

test('V01 a host name that contains a secret is masked in the record of connections', async () => {
  const value = `Canary${unique()}`
  const plan = planOf(['curl', '-sS', '--max-time', '5', `http://${value}.example.org/`], {
    secrets: ['token'],
    egress: { mode: 'strict', hosts: ['example.com:80'] },
  })
  const seen = await arena.launch({ ...given(value), plan })
  expect(seen.connections).toMatchObject([{ host: `${MARK}.example.org`, verdict: 'host_not_listed' }])
})

test('a plan of tier B with secrets is refused', async () => {
  const seen = await arena.launch({
    ...given(canary()),
    plan: planOf(['true'], { tier: 'B', secrets: ['token'] }),
  })
  expect(seen.outcome).toMatchObject({ kind: 'refused', code: 'sandbox_unavailable' })
})
