// Conditions under which a worker refuses to start, and calls that it refuses: the real program
// under its real user, with a sentence that says what to do.

import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { ROOT } from '../../../infra/state.ts'
import { sealGrant } from '../../../shared/evidence/statement.ts'
import { newSigner } from '../../support/worker/fake-edge.ts'
import { LoneWorker } from '../../support/worker/lone-worker.ts'

let lone: LoneWorker
beforeAll(async () => {
  lone = await LoneWorker.make({ enrol: true })
})
afterAll(() => lone?.end())
beforeEach(() => lone.configure({ tiers: ['B', 'C'] }))

/** Mounts a file that can't be executed over a program, for a command and its children. */
const without = (program: string): string[] => [
  '/usr/bin/bwrap',
  ...[
    '--dev-bind',
    '/',
    '/',
    '--ro-bind',
    '/etc/passwd',
    program,
    '--unshare-pid',
    '--proc',
    '/proc',
    '--die-with-parent',
    '--',
  ],
]
const WITHOUT_BWRAP = without('/usr/bin/bwrap')

test('as root the worker refuses every command', () => {
  expect(process.getuid?.(), 'this test must run as root; `npm test` in CI does').toBe(0)
  const node = join(ROOT, 'node_modules/.bin/node')
  for (const command of ['run', 'enrol', 'rotate', 'doctor']) {
    const args = [join(ROOT, 'worker/main.ts'), command, '--config', join(lone.state.worker, 'worker.json')]
    const { status, stdout, stderr } = spawnSync(node, args, { encoding: 'utf8', input: '', timeout: 60_000 })
    expect([command, status]).toEqual([command, 1])
    expect(`${stdout}${stderr}`).toContain('does not run as root; start it as a dedicated user')
  }
  expect(lone.edge.requests.map(({ route }) => route)).toEqual(['keys', 'enrol'])
})

test.each(['darwin', 'win32'])(
  'on %s the worker refuses to start, because it has no sandbox there',
  (platform) => {
    const pretend = `data:text/javascript,Object.defineProperty(process, 'platform', { value: '${platform}' })`
    const args = ['--import', pretend, join(ROOT, 'worker/main.ts'), 'run', '--config', '/nonexistent']
    const { status, stderr } = spawnSync(join(ROOT, 'node_modules/.bin/node'), args, {
      encoding: 'utf8',
      timeout: 60_000,
    })
    expect([status, stderr]).toEqual([
      1,
      expect.stringMatching(
        new RegExp(`runs on \`${platform}\`.*use a Linux worker \\(\`unsupported_platform\`\\)`),
      ),
    ])
  },
)

test('S48 without bubblewrap the worker refuses to start and claims nothing', async () => {
  const claims = lone.edge.count('claim')
  const { status, stderr } = await lone.command('run', { under: WITHOUT_BWRAP })
  expect([status, stderr]).toEqual([
    1,
    expect.stringContaining(
      'tier C: `bwrap` is missing: install `bubblewrap`; or list in `tiers` only the tiers that this host should run',
    ),
  ])
  expect(lone.edge.count('claim')).toBe(claims)
})

test('S48 a worker configured for tier B alone needs no bubblewrap and offers no other tier', async () => {
  lone.configure({ tiers: ['B'] })
  const { stdout } = await lone.command('doctor', { under: WITHOUT_BWRAP, args: ['--json'] })
  const findings = stdout.split('\n').flatMap((line) => (line.startsWith('{') ? [JSON.parse(line)] : []))
  // The cgroup is delegated to the serving worker, not to this command.
  expect(findings.filter(({ check, ok }) => !ok && !check.startsWith('limits: '))).toEqual([])
  expect(findings.find(({ check }) => check === 'tiers')).toMatchObject({ found: 'B' })
})

test('if perl is missing, doctor names the consequence and the package to install', async () => {
  lone.configure({ tiers: ['C'] })
  const { stdout } = await lone.command('doctor', { under: without('/usr/bin/perl'), args: ['--json'] })
  const findings = stdout.split('\n').flatMap((line) => (line.startsWith('{') ? [JSON.parse(line)] : []))
  const slower = findings.find(({ check }) => check.startsWith('prepared: '))
  expect(slower).toMatchObject({
    ok: false,
    found: expect.stringMatching(/`perl` is missing: install `perl-base`.*starts cold/),
  })
  const quota = findings.find(({ check }) => check === 'inotify quota')
  expect(quota).toMatchObject({
    ok: true,
    found: expect.stringContaining('calls have no quota'),
    fix: expect.stringContaining('`perl-base`'),
  })
})

test('L1 a worker whose edge has a key other than the pinned one refuses to start and claims nothing', async () => {
  const { signer } = lone.edge
  const claims = lone.edge.count('claim')
  lone.edge.signer = newSigner()
  const { status, stderr } = await lone.command('run')
  expect([status, stderr]).toEqual([
    1,
    expect.stringContaining(`the edge does not continue the key \`${signer.kid}\` that this worker pinned`),
  ])
  lone.edge.signer = signer
  expect(lone.edge.count('claim')).toBe(claims)
})

test('P08 with a grant for another digest nothing runs, and the refusal reaches the edge', async () => {
  await lone.start()
  lone.edge.alterClaim = (claim, grant) => {
    const facts = { ...grant.facts, digest: 'f'.repeat(64) }
    return { ...claim, grant: sealGrant({ ...grant, facts }, lone.edge.signer) }
  }
  const call = await lone.call({ argv: ['echo', 'ran'] })
  expect(await lone.logged('ended', { call: call.call })).toMatchObject({
    state: 'failed',
    code: 'grant_invalid',
  })
  expect(call.settled?.stdout.byteLength ?? 0).toBe(0)
})
