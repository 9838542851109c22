// Start and shutdown of a worker: what it refuses to start with, what it finishes first, and what
// it leaves behind.

import { spawnSync } from 'node:child_process'
import { chmodSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { Child, pdeathsig } from '../../../infra/child-process.ts'
import { redisProgram } from '../../../infra/redis.ts'
import { freePort, ROOT, type State } from '../../../infra/state.ts'
import { PATTERNS } from '../../../shared/ids.ts'
import { bundledWorker } from '../../support/bundled.ts'
import { eventually } from '../../support/eventually.ts'
import { newSigner } from '../../support/worker/fake-edge.ts'
import { LoneWorker } from '../../support/worker/lone-worker.ts'

let lone: LoneWorker | undefined
afterEach(async () => {
  await lone?.end()
  lone = undefined
})

const MAIN = join(ROOT, await bundledWorker())
/** Runs the command as the user who runs the tests; in CI that is root. */
const command = (...args: string[]) => {
  const [file = '', ...rest] = pdeathsig([process.execPath, MAIN, ...args])
  const { status, stdout, stderr } = spawnSync(file, rest, {
    encoding: 'utf8',
    timeout: 20_000,
    env: { PATH: '/usr/bin:/bin' },
    input: '',
  })
  return { status, stdout, stderr }
}

test('the worker’s --help names its commands and the fields of its configuration', () => {
  const { status, stdout } = command('--help')
  expect(status).toBe(0)
  for (const word of ['enrol', 'run', 'doctor', '--config', 'edge_url', '0600'])
    expect(stdout).toContain(word)
})

test.each([
  [['run'], '--config'],
  [[], 'one command'],
  [['fly', '--config', 'x'], 'no command `fly`'],
  [['run', '--config', 'x', '--force'], '--force'],
])('a bad command line of the worker ends with exit code 2 and an explanation: %j', (args, expected) => {
  const { status, stderr } = command(...args)
  expect(status).toBe(2)
  expect(stderr).toContain(expected)
})

test('the worker refuses to run as root and says how to start it instead', () => {
  expect(process.getuid?.(), 'this test must run as root; `npm test` in CI does').toBe(0)
  for (const name of ['run', 'enrol']) {
    const { status, stderr } = command(name, '--config', '/nonexistent')
    expect(status).toBe(1)
    expect(stderr).toMatch(/does not run as root; .*setpriv/)
  }
})

test('enrolment creates a key once that only the worker can read, and stores the token in no file', async () => {
  lone = await LoneWorker.make({ enrol: true })
  const path = join(lone.state.worker, 'key.json')
  expect(statSync(path).mode & 0o777).toBe(0o600)
  const file = readFileSync(path, 'utf8')
  expect(JSON.parse(file)).toMatchObject({
    kty: 'OKP',
    crv: 'Ed25519',
    worker: lone.edge.worker?.id,
    edge: { kid: lone.edge.signer.kid },
  })
  expect(file).not.toContain(lone.edge.token)
  expect(lone.edge.requests.find(({ route }) => route === 'enrol')?.body).toMatchObject({
    name: expect.stringMatching(PATTERNS.name),
    tiers: ['B', 'C'],
  })
  const again = await lone.command('enrol', { input: `${lone.edge.token}\n` })
  expect(again).toMatchObject({
    status: 1,
    stderr: expect.stringMatching(/key\.json` already exists; remove it/),
  })
  expect(readFileSync(path, 'utf8')).toBe(file)
})

test('a worker key that other users can read is refused', async () => {
  lone = await LoneWorker.make()
  chmodSync(join(lone.state.worker, 'key.json'), 0o640)
  expect(await lone.command('run')).toMatchObject({
    status: 1,
    stderr: expect.stringMatching(/can be read by others/),
  })
})

test('after SIGTERM the worker takes no more calls, lets running ones end, settles all and exits with 0', async () => {
  lone = await LoneWorker.make({ concurrency: 1 })
  lone.configure({ drain_ms: 10_000 }) // the call may take its time on a busy machine
  await lone.start()
  const running = await lone.call({ argv: ['sh', '-c', 'sleep 1; echo done'] })
  await eventually('the call runs', () => running.state === 'running')
  const waiting = await lone.call({ argv: ['true'] })
  const ended = lone.process.stop()
  await ended
  expect(running.settled?.stdout.toString()).toBe('done\n')
  expect(waiting.claims).toBe(0)
  expect(lone.spool.begun.size).toBe(0)
  await lone.logged('stopped', { running: 0, waiting: 0 })
  await lone.start()
  expect((await lone.settled(waiting)).statement.predicate.state).toBe('succeeded')
})

test('D15 a clean stop leaves none of the folders that the worker made for relays and calls', async () => {
  lone = await LoneWorker.make()
  const folder = join(lone.state.worker, 'sandbox')
  const made = () => readdirSync(folder).filter((name) => /^(?:call|relay|canary|input|output)-/.test(name))
  for (const argv of [['true'], ['sleep', '0.2']]) {
    await lone.start()
    await eventually(
      'two relays are prepared',
      () => made().filter((name) => name.startsWith('relay-')).length === 2,
    )
    await lone.settled(await lone.call({ argv }))
    await lone.process.stop()
    expect(made()).toEqual([])
  }
})

test('SIGTERM or SIGINT ends an idle worker with exit code 0', async () => {
  lone = await LoneWorker.make()
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    const { status, stdout } = await lone.command('run', { args: ['--json'], signals: [signal] })
    expect(
      stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line).msg),
    ).toEqual(['ready', 'stopping', 'stopped'])
    expect(status).toBe(0)
  }
})

test('a second signal ends the worker at once with exit code 1, and its sandboxes die with it', async () => {
  lone = await LoneWorker.make()
  lone.configure({ drain_ms: 60_000 })
  await lone.start()
  const call = await lone.call({ argv: ['sleep', '4711'], timeout_ms: 60_000 })
  await eventually('the process runs', () => processesWith('sleep\x004711') > 0)
  const { pid = 0 } = lone.process
  process.kill(pid, 'SIGTERM')
  await lone.logged('stopping', { running: 1 })
  process.kill(pid, 'SIGINT')
  await lone.logged('killed by a second signal', { signal: 'SIGINT' })
  await eventually('nothing of the call is left', () => processesWith('sleep\x004711') === 0)
  await eventually('the worker is gone', () => !lone?.process.running)
  expect(call.settlements).toBe(0)
})

const processesWith = (words: string): number =>
  readdirSync('/proc').filter((name) => {
    try {
      return /^[0-9]+$/.test(name) && readFileSync(`/proc/${name}/cmdline`, 'latin1').includes(words)
    } catch {
      return false // the process has ended
    }
  }).length

test('after SIGTERM a call that outlasts the drain is ended, and its result says that the worker was stopped', async () => {
  lone = await LoneWorker.make()
  lone.configure({ drain_ms: 300 })
  await lone.start()
  const call = await lone.call({ argv: ['sleep', '60'], timeout_ms: 60_000 })
  await eventually('the call runs', () => call.state === 'running')
  await lone.process.stop()
  expect(call.settled?.statement.predicate).toMatchObject({
    state: 'failed',
    error: 'sandbox_failed',
    execution: { outcome: { kind: 'infra' } },
  })
})

test('after SIGTERM during the upload of output files the output is still checked against the tool’s contract', async () => {
  lone = await LoneWorker.make()
  lone.configure({ drain_ms: 300 })
  await lone.start()
  const { edge } = lone
  edge.misbehave(
    'putOutput',
    { status: 503, body: { status: 503, code: 'overloaded', detail: 'busy' } },
    { times: 10_000 },
  )
  const call = edge.propose({
    argv: ['sh', '-c', 'echo no JSON; echo x > /output/file'],
    outputs: true,
    timeout_ms: 60_000,
  })
  Object.assign(call.plan.executor, { output: { type: 'object' } })
  await lone.ringFor(call)
  await eventually('a file is sent', () => edge.count('putOutput') > 1)
  await lone.process.stop()
  expect(call.settled?.statement.predicate).toMatchObject({ state: 'failed', error: 'invalid_output' })
})

test('a result that the edge did not accept before shutdown is sent by the next worker process', async () => {
  lone = await LoneWorker.make()
  lone.configure({ drain_ms: 300 })
  await lone.start()
  lone.edge.misbehave(
    'settle',
    { status: 503, body: { status: 503, code: 'overloaded', detail: 'busy' } },
    { times: 1_000 },
  )
  const call = await lone.call({ argv: ['echo', 'late'] })
  await lone.logged('ended', { call: call.call, result: 'waiting' })
  await lone.process.stop()
  expect(lone.spool.settled.has(call.call)).toBe(true)
  lone.edge.behave()
  await lone.start()
  expect((await lone.settled(call)).stdout.toString()).toBe('late\n')
})

test('a worker waits for an edge and a Redis that are not up yet', async () => {
  lone = await LoneWorker.make()
  await lone.edge.stop()
  await lone.redis.kill()
  const started = lone.process.start()
  await lone.logged('the edge does not answer; running calls continue, and the worker retries')
  await lone.edge.start()
  await lone.logged('Redis is unreachable; doorbells wait, and running calls continue')
  await lone.startRedis()
  expect(await started).toMatchObject({ ok: true })
  expect((await lone.settled(await lone.call({ argv: ['true'] }))).statement.predicate.state).toBe(
    'succeeded',
  )
})

test('doctor passes a healthy worker and names each fault of an unhealthy one', async () => {
  lone = await LoneWorker.make()
  const well = await lone.command('doctor')
  expect(well.stdout).not.toContain('FAIL')
  expect(well).toMatchObject({ status: 0, stdout: expect.stringMatching(/all checks passed/) })
  expect(well.stdout).toMatch(/^ok +inotify quota +each call of tier C has its own$/m)

  await lone.redis.kill()
  await lone.edge.stop()
  writeFileSync(join(lone.state.worker, 'spool-is-not-looked-at'), '')
  const ill = await lone.command('doctor', { args: ['--json'] })
  expect(ill.status).toBe(1)
  const findings = ill.stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { check: string; ok: boolean; fix?: string }) // doctor wrote it
  const failed = findings.filter(({ ok }) => !ok)
  expect(failed.map(({ check }) => check).sort()).toEqual(['Redis', 'Redis policy', 'Redis rights', 'edge'])
  for (const { fix } of failed) expect(fix?.length).toBeGreaterThan(10)
})

/** A Redis with default settings: no password, no access list. */
async function openRedis(state: State): Promise<{ redis: Child; url: string }> {
  const port = await freePort()
  const program = redisProgram(state) ?? ''
  const log = join(state.log, 'open-redis.log')
  const redis = new Child(
    {
      name: 'open redis',
      argv: pdeathsig([
        program,
        '--port',
        `${port}`,
        '--bind',
        '127.0.0.1',
        '--maxmemory-policy',
        'allkeys-lru',
        '--save',
        '',
        '--dir',
        state.redis,
      ]),
      env: { PATH: '/usr/bin:/bin' },
      cwd: state.redis,
      log,
      ready: (said) => Promise.resolve(said().includes('Ready to accept connections')),
      readyWithin_ms: 10_000,
      stopWithin_ms: 1_000,
    },
    () => undefined,
  )
  const started = await redis.start()
  if (!started.ok) throw new Error(started.error)
  return { redis, url: `redis://127.0.0.1:${port}` }
}

test('doctor reports excessive rights in Redis and an edge key other than the pinned one', async () => {
  lone = await LoneWorker.make()
  lone.edge.signer = newSigner()
  const open = await openRedis(lone.state)
  lone.configure({ redis_url: open.url })
  const { status, stdout } = await lone.command('doctor', { args: ['--json'] })
  await open.redis.kill()
  expect(status).toBe(1)
  const failed = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { check: string; ok: boolean; found: string })
    .filter(({ ok }) => !ok)
  expect(failed.map(({ check }) => check).sort()).toEqual(['Redis policy', 'Redis rights', 'edge key'])
  expect(failed.find(({ check }) => check === 'Redis rights')?.found).toContain('CONFIG')
  expect(failed.find(({ check }) => check === 'Redis policy')?.found).toBe(
    'not set: `maxmemory-policy noeviction`, `appendonly yes`',
  )
})

describe('a worker that one start serves for all', () => {
  let running: LoneWorker
  beforeAll(async () => {
    running = await LoneWorker.make()
    await running.start()
  })
  afterAll(() => running?.end())

  test('the worker re-executes itself with a smaller memory under the same pid', async () => {
    const argv = readFileSync(`/proc/${running.process.pid}/cmdline`, 'latin1').split('\0')
    expect(argv[1]).toMatch(/^--max-semi-space-size=/)
    expect(argv[2]).toMatch(/worker\/serve-main\.mjs$/)
    expect(argv.slice(3, 5)).toEqual(['--config', expect.stringMatching(/worker\.json$/)])
  })

  test('a second worker process on the same home folder is refused', async () => {
    expect(await running.command('run')).toMatchObject({
      status: 1,
      stderr: expect.stringMatching(/another worker runs on/),
    })
  })

  test('a call’s end is reported before its files are removed, and the worker stops only after the removal', {
    timeout: 60_000,
  }, async () => {
    const sandboxes = join(running.state.worker, 'sandbox')
    const left = (): string[] => readdirSync(sandboxes).filter((name) => name.startsWith('call-'))
    const many = 'seq 1 16000 | xargs touch'
    const call = running.edge.propose({ argv: ['sh', '-c', many], tier: 'B', timeout_ms: 40_000 })
    Object.assign(call.plan.limits, { cpu_ms: 40_000, workspace_inodes: 100_000 })
    await running.ringFor(call)
    const { statement } = await running.settled(call, 40_000)
    expect(left()).toHaveLength(1)
    expect(statement.predicate.state).toBe('succeeded')
    await running.process.stop()
    expect(left()).toEqual([])
  })
})
