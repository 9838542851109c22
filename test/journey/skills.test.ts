// Promise: an author gets from nothing to a verified call of their own skill with the command line
// alone, well within five minutes: create, build, test, publish, enable by another operator, call,
// verify; and replace, roll back and revoke it.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { CliResult } from '../support/countersign.ts'
import { countersign } from '../support/countersign.ts'
import { Fixtures } from '../support/fixtures.ts'
import { sharedStack, sharedState } from '../support/stack/stack.ts'

const FIVE_MINUTES_MS = 300_000

const stack = sharedStack()
const fixtures = new Fixtures('journey-skill', stack)
const folder = mkdtempSync(join(tmpdir(), 'countersign-skills-'))
afterAll(() => rmSync(folder, { recursive: true }))

const env = { COUNTERSIGN_STATE: sharedState(), XDG_CONFIG_HOME: join(folder, 'config') }
/** Runs the command line in `folder`, with the state folder of the running stack. */
const run = (...args: readonly string[]): Promise<CliResult> => countersign(args, { cwd: folder, env })
let other: string
const asOther = (...args: readonly string[]): Promise<CliResult> =>
  countersign(args, { cwd: folder, env: { ...env, COUNTERSIGN_URL: stack.url, COUNTERSIGN_KEY: other } })

beforeAll(async () => {
  other = (await fixtures.operator(['admin'])).key
})

async function done(ran: Promise<CliResult>): Promise<string> {
  const { code, out, err } = await ran
  expect({ code, err }).toEqual({ code: 0, err: '' })
  return out
}

test('an author gets from nothing to a verified call of a new skill in under 100 s', async () => {
  const began = Date.now()
  const publicKey = /public +(\S+)/.exec(await done(run('skill', 'keygen', 'journey-acme')))?.[1] ?? ''
  expect(await done(run('skill', 'new', 'hello'))).toContain('hello/src/main.ts')
  const built = await done(run('skill', 'build', 'hello'))
  const unlisted = await run('skill', 'publish', 'hello')
  expect(unlisted.err).toContain(
    `\`countersign skill publishers put journey-acme ${publicKey}\`, or publish with \`--pin ${publicKey}\``,
  )
  await done(run('skill', 'publishers', 'put', 'journey-acme', publicKey))
  expect(await done(run('skill', 'test', 'hello'))).toBe(
    'hello/tests/greet.json  2 of 2 as expected\n2 passed\n',
  )
  expect(built).toMatch(/^ {2}contains +quickjs-wasi /m)
  const published = await done(run('skill', 'publish', 'hello'))
  expect(published).toMatch(/^skill hello 1\.0\.0 {2}quarantined$/m)
  expect(published).toMatch(/^next, another operator runs: countersign skill enable hello 1\.0\.0\n$/m)
  expect(await run('call', 'hello_greet', '--args', '{"name":"Ada"}')).toMatchObject({ code: 1 })
  expect(await done(asOther('skill', 'enable', 'hello', '1.0.0', '--reason', 'looked at it'))).toMatch(
    /^skill hello 1\.0\.0 {2}enabled$/m,
  )
  const called = await done(run('call', 'hello_greet', '--args', '{"name":"Ada"}'))
  expect(called).toMatch(/^succeeded {2}hello_greet/)
  expect(called).toContain('{"greeting":"Hello, Ada!"}')
  expect(called).toMatch(/^log:\n {2}│ info: greeting Ada\n$/m)
  expect(called).not.toContain('standard error')
  const id = /call_[0-9A-Z]{26}_\d+/.exec(called)?.[0] ?? ''
  await done(run('attestation', id, '-o', 'call.json'))
  writeFileSync(join(folder, 'keys.json'), await done(run('keys', 'list')))
  expect(await done(run('verify', 'call.json', '--keys', 'keys.json', '--call', id))).toMatch(/^verified$/m)
  expect(Date.now() - began).toBeLessThan(FIVE_MINUTES_MS / 3)
})

test('a new version replaces the old one and is rolled back; a disabled version can be enabled again, a revoked one can’t', async () => {
  const toml = join(folder, 'hello/skill.toml')
  writeFileSync(toml, readFileSync(toml, 'utf8').replace('version = "1.0.0"', 'version = "1.1.0"'))
  const main = join(folder, 'hello/src/main.ts')
  writeFileSync(main, readFileSync(main, 'utf8').replace('Hello, ', 'Good day, '))
  const greeting = async (): Promise<string> =>
    /"greeting":"([^"]*)"/.exec(await done(run('call', 'hello_greet', '--args', '{"name":"Ada"}')))?.[1] ?? ''
  await done(run('skill', 'build', 'hello'))
  const text = readFileSync(main, 'utf8')
  writeFileSync(main, `${text}\n`)
  const note = 'is older than `src/main.ts`; run `countersign skill build hello` to build it again'
  expect(await run('skill', 'publish', 'hello')).toMatchObject({
    code: 0,
    err: expect.stringContaining(note),
  })
  writeFileSync(main, text)
  await done(run('skill', 'publish', 'hello')) // unchanged sources give no note
  await done(asOther('skill', 'enable', 'hello', '1.1.0'))
  expect(await greeting()).toBe('Good day, Ada!')
  expect(await done(asOther('skill', 'rollback', 'hello', '--reason', 'too stiff'))).toMatch(
    /^skill hello 1\.0\.0 {2}enabled$/m,
  )
  expect(await greeting()).toBe('Hello, Ada!')
  expect(await done(run('skill', 'list'))).toMatch(/^hello +1\.1\.0 +disabled/m)
  expect(await done(run('skill', 'disable', 'hello', '1.0.0', '--reason', 'a pause'))).toContain('disabled')
  expect(await run('call', 'hello_greet', '--args', '{"name":"Ada"}')).toMatchObject({ code: 1 })
  await done(asOther('skill', 'enable', 'hello', '1.0.0'))
  expect(await greeting()).toBe('Hello, Ada!')
  expect(await done(run('skill', 'revoke', 'hello', '1.0.0', '--reason', 'a test'))).toContain('revoked')
  expect(await run('call', 'hello_greet', '--args', '{"name":"Ada"}')).toMatchObject({ code: 1 })
  expect(await run('skill', 'enable', 'hello', '1.0.0')).toMatchObject({ code: 1 })
  expect(await done(run('skill', 'show', 'hello', '1.0.0'))).toMatch(/→ revoked by root/)
})

test('an operator fetches a published package, shows and clears a skill’s storage, and denies parts', async () => {
  const built = readFileSync(join(folder, 'hello/dist/hello-1.1.0.skill.json'), 'utf8')
  expect(await done(run('skill', 'package', 'hello', '1.1.0'))).toBe(built)
  expect(await done(run('skill', 'package', 'hello', '1.1.0', '-o', 'back.json'))).toMatch(
    /^wrote back\.json, \d+ bytes$/m,
  )
  expect(readFileSync(join(folder, 'back.json'), 'utf8')).toBe(built)
  expect(await done(run('skill', 'storage', 'hello'))).toContain('0 keys, 0 bytes')
  expect(await done(run('skill', 'clear', 'hello'))).toContain('is now empty; deleted 0 keys, 0 bytes')
  writeFileSync(join(folder, 'parts.json'), '[{"pattern":"left-pad@0.0.*","reason":"a test"}]')
  expect(await done(run('skill', 'denied-parts', 'parts.json'))).toMatch(/^left-pad@0\.0\.\* +root, /m)
  expect(await done(run('skill', 'denied-parts'))).toContain('a test')
  writeFileSync(join(folder, 'parts.json'), '[{"pattern":"quickjs-wasi@*","reason":"no engines"}]')
  await done(run('skill', 'denied-parts', 'parts.json'))
  for (const ran of [run('skill', 'publish', 'hello'), run('skill', 'show', 'hello')])
    expect(await done(ran)).toMatch(/^ {2}denied +it contains `quickjs-wasi@[\d.]+`: no engines$/m)
  expect(await done(run('skill', 'list'))).toMatch(
    /^hello +1\.1\.0 .* denied: it contains `quickjs-wasi@[\d.]+`: no engines$/m,
  )
  writeFileSync(join(folder, 'parts.json'), '[]')
  expect(await done(run('skill', 'denied-parts', 'parts.json'))).toBe('no denied parts\n')
  for (const ran of [run('skill', 'list'), run('skill', 'show', 'hello')])
    expect(await done(ran)).not.toContain('denied')
})

test('a failed skill test shows what differs', async () => {
  const tests = {
    about: 'greetings',
    tests: [
      {
        description: 'greets',
        tool: 'greet',
        input: { name: 'Bo' },
        expect: { output: { greeting: 'Hello, Bo.' }, log: '', fuel_at_most: 10 },
      },
      { description: 'fails', tool: 'greet', input: { name: 'Bo' }, expect: { error: 'no such person' } },
    ],
  }
  await done(run('skill', 'new', 'wrong', '--publisher', 'journey-acme'))
  writeFileSync(join(folder, 'wrong/tests/greet.json'), JSON.stringify(tests))
  const { code, out } = await run('skill', 'test', 'wrong')
  expect(code).toBe(1)
  for (const line of [
    'wrong/tests/greet.json  0 of 2 as expected',
    'Hello, Bo.',
    'Hello, Bo!',
    'greeting Bo',
    'fuel: expected at most 10',
    'no such person',
    '2 of 2 failed',
  ])
    expect(out).toContain(line)
  rmSync(join(folder, 'wrong/tests'), { recursive: true })
  expect(await run('skill', 'test', 'wrong')).toMatchObject({ code: 2 })
})

test('only listed publishers can publish, and a revoked key of a publisher signs nothing', async () => {
  expect(await done(run('skill', 'publishers', 'list'))).toMatch(/^journey-acme +ed25519:[0-9a-f]{16} +put/m)
  await done(run('skill', 'keygen', 'journey-stranger', '--to', 'stranger.json'))
  await done(run('skill', 'new', 'odd', '--publisher', 'journey-stranger'))
  expect(await run('skill', 'build', 'odd')).toMatchObject({
    code: 2,
    err: expect.stringContaining('skill keygen'),
  })
  await done(run('skill', 'build', 'odd', '--signer', 'stranger.json'))
  const put = '`countersign skill publishers put journey-stranger KEY`' // its key is not in the folder of publishers' keys
  expect(await run('skill', 'publish', 'odd')).toMatchObject({ code: 1, err: expect.stringContaining(put) })
  const kid =
    /^journey-acme +(ed25519:[0-9a-f]{16})/m.exec(await done(run('skill', 'publishers', 'list')))?.[1] ?? ''
  expect(
    await done(run('skill', 'publishers', 'revoke-key', 'journey-acme', kid, '--reason', 'lost')),
  ).toContain('revoked')
  expect(await run('skill', 'publish', 'hello')).toMatchObject({ code: 1 })
  const stranger = JSON.parse(readFileSync(join(folder, 'stranger.json'), 'utf8')).key.x
  await done(run('skill', 'publishers', 'put', 'journey-stranger', stranger))
  expect(await done(run('skill', 'publish', 'odd'))).toContain('quarantined')
  expect(await done(run('skill', 'publishers', 'remove', 'journey-stranger'))).toContain('removed')
})
