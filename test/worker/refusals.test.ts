// What a worker does not start with, and what it does not run: the real program, under its real user, each with a sentence of what to do.

import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { ROOT } from '../../infra/state.ts'
import { sealGrant } from '../../shared/statement.ts'
import { newSigner } from '../support/fake-edge.ts'
import { LoneWorker } from '../support/lone-worker.ts'

let lone: LoneWorker
beforeAll(async () => {
  lone = await LoneWorker.make({ enrol: true })
})
afterAll(() => lone?.end())
beforeEach(() => lone.configure({ tiers: ['B', 'C'] }))

/** A file that can't be executed in the place of a program, for this process and all that it starts. */
const without = (program: string): string[] => [
  '/usr/bin/bwrap',
  ...['--dev-bind', '/', '/', '--ro-bind', '/etc/passwd', program, '--unshare-pid', '--proc', '/proc', '--die-with-parent', '--'],
]
const WITHOUT_BWRAP = without('/usr/bin/bwrap')

test('as root it does not start, whatever the command', () => {
  expect(process.getuid?.(), 'this test must run as root; `npm test` in CI does').toBe(0)
  const node = join(ROOT, 'node_modules/.bin/node')
  for (const command of ['run', 'enroll', 'doctor']) {
    const args = [join(ROOT, 'worker/main.ts'), command, '--config', join(lone.state.worker, 'worker.json')]
    const { status, stdout, stderr } = spawnSync(node, args, { encoding: 'utf8', input: '', timeout: 60_000 })
    expect([command, status]).toEqual([command, 1])
    expect(`${stdout}${stderr}`).toContain('does not run as root; start it as a user of its own')
  }
  expect(lone.edge.heard.map(({ route }) => route)).toEqual(['enroll'])
})

test.each(['darwin', 'win32'])('on %s it does not start: no sandbox is proven there (seed T56)', (platform) => {
  const pretend = `data:text/javascript,Object.defineProperty(process, 'platform', { value: '${platform}' })`
  const args = ['--import', pretend, join(ROOT, 'worker/main.ts'), 'run', '--config', '/nonexistent']
  const { status, stderr } = spawnSync(join(ROOT, 'node_modules/.bin/node'), args, { encoding: 'utf8', timeout: 60_000 })
  expect([status, stderr]).toEqual([
    1,
    expect.stringMatching(new RegExp(`runs on \`${platform}\`.*use a Linux worker \\(\`unsupported_platform\`\\)`)),
  ])
})

test('S48 with bubblewrap missing it does not start, and claims nothing', async () => {
  const claims = lone.edge.count('claim')
  const { status, stderr } = await lone.command('run', { under: WITHOUT_BWRAP })
  expect([status, stderr]).toEqual([
    1,
    expect.stringContaining('tier C: `bwrap` is missing: install `bubblewrap`; or name in `tiers` only those that this host is to take'),
  ])
  expect(lone.edge.count('claim')).toBe(claims)
})

test('S48 who names tier B alone has a worker that needs no bubblewrap, and that offers nothing else', async () => {
  lone.configure({ tiers: ['B'] })
  const { stdout } = await lone.command('doctor', { under: WITHOUT_BWRAP, args: ['--json'] })
  const findings = stdout.split('\n').flatMap((line) => (line.startsWith('{') ? [JSON.parse(line)] : []))
  // A cgroup is delegated to the worker that is served, and to no command beside it.
  expect(findings.filter(({ check, ok }) => !ok && !check.startsWith('limits: '))).toEqual([])
  expect(findings.find(({ check }) => check === 'tiers')).toMatchObject({ found: 'B' })
})

test('where perl is missing doctor says what comes of it, and what brings it', async () => {
  lone.configure({ tiers: ['C'] })
  const { stdout } = await lone.command('doctor', { under: without('/usr/bin/perl'), args: ['--json'] })
  const findings = stdout.split('\n').flatMap((line) => (line.startsWith('{') ? [JSON.parse(line)] : []))
  const slower = findings.find(({ check }) => check.startsWith('prepared: '))
  expect(slower).toMatchObject({
    ok: false,
    found: expect.stringMatching(/`perl` is missing: install `perl-base`.*starts a sandbox of its own/),
  })
  const quota = findings.find(({ check }) => check === 'quota of inotify')
  expect(quota).toMatchObject({
    ok: true,
    found: expect.stringContaining('calls have no quota'),
    fix: expect.stringContaining('`perl-base`'),
  })
})

test('L1 with an edge whose key is not the pinned one it does not start, and claims nothing', async () => {
  const { signer } = lone.edge
  const claims = lone.edge.count('claim')
  lone.edge.signer = newSigner()
  const { status, stderr } = await lone.command('run')
  expect([status, stderr]).toEqual([1, expect.stringContaining(`the edge does not have the key \`${signer.kid}\` that this worker pinned`)])
  lone.edge.signer = signer
  expect(lone.edge.count('claim')).toBe(claims)
})

test('P08 a grant for another digest: nothing runs, and the edge is told so', async () => {
  await lone.start()
  lone.edge.bend = (claim, grant) => {
    const facts = { ...grant.facts, digest: 'f'.repeat(64) }
    return { ...claim, grant: sealGrant({ ...grant, facts }, lone.edge.signer) }
  }
  const call = await lone.call({ argv: ['echo', 'ran'] })
  expect(await lone.said('ended', { call: call.call })).toMatchObject({ state: 'failed', code: 'grant_invalid' })
  expect(call.settled?.stdout.byteLength ?? 0).toBe(0)
})
