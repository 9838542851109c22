// Promise: data of calls stays where it belongs (L7), and a stack that is stopped or killed leaves
// nothing behind on the host.
// @project exclusive

import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync, globSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { removeEmptyCgroups } from '../../infra/delegate-cgroup.ts'
import { readSecrets, signingSecret } from '../../infra/state.ts'
import { ProcessToolSpec } from '../../shared/wire/tools.ts'
import { journalOf } from '../support/auditor.ts'
import { eventually } from '../support/eventually.ts'
import { unwrap } from '../support/fixtures.ts'
import { about, boundTo, HurtStack, processesWith, strike } from '../support/stack/hurt-stack.ts'

/** Files below a folder, with their content as bytes. */
function* contents(folder: string): Generator<readonly [string, Buffer]> {
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name)
    if (entry.isFile()) yield [path, readFileSync(path)]
  }
}

/** Encodings in which a text could leak. */
const spellings = (text: string): string[] => [
  text,
  Buffer.from(text).toString('base64').replace(/=*$/, '').slice(0, -1), // the last character depends on what follows
  Buffer.from(text).toString('hex'),
  [...Buffer.from(text)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join(''),
]
const holds = (bytes: Buffer, text: string): boolean =>
  spellings(text).some((spelling) => bytes.includes(spelling))

const readIfPresent = (path: string): Buffer => {
  try {
    return readFileSync(path)
  } catch {
    return Buffer.alloc(0) // it has ended, or is a kernel thread
  }
}

/** Other processes of this host whose command line or environment contains the text. */
const tellers = (text: string): string[] =>
  globSync('/proc/[0-9]*')
    .filter((path) => path !== `/proc/${process.pid}`)
    .filter(
      (path) =>
        holds(readIfPresent(join(path, 'cmdline')), text) ||
        holds(readIfPresent(join(path, 'environ')), text),
    )
    .map((path) => readIfPresent(join(path, 'cmdline')).toString().replaceAll('\0', ' '))

test('V02 L7 a canary in arguments, output and errors is in no file of Redis, log, journal or process list', async () => {
  const hurt = await HurtStack.start()
  onTestFinished(() => hurt.stop())
  const { state, dev } = hurt.stack
  const canary = `canary-${randomBytes(12).toString('hex')}`
  const name = 'cry_aloud'
  // One tool prints its input to standard error and fails, the other prints it to standard output.
  const argv = ['/bin/sh', '-c', 'tee /dev/stderr; exit 3']
  const { items } = unwrap(await hurt.operator('listTools', {}))
  expect(items.map((tool) => tool.name)).toContain('mark_slowly')
  const spec = unwrap(await hurt.operator('readTool', { params: { name: 'mark_slowly' } }))
  const { name: _name, version: _version, digest: _digest, policy: _policy, ...body } = spec
  if (body.executor.kind !== 'process') throw new Error('the tool is not one that runs a program')
  unwrap(
    await hurt.operator('putTool', {
      params: { name },
      body: ProcessToolSpec.parse({ ...body, executor: { ...body.executor, argv } }),
    }),
  )

  const mark = `${canary}\n`
  const running = await hurt.propose('mark_slowly', { mark, seconds: '1' })
  await eventually('it runs', () => hurt.marks(running.run).length > 0)
  expect(tellers(canary)).toEqual([])
  const calls = [
    await hurt.ended(running),
    await hurt.propose(name, { mark }, { wait: 10 }),
    await hurt.propose('text_stats', { text: canary }, { wait: 10 }),
    await hurt.propose('mark_asking', { mark }),
  ]
  expect(calls.map((call) => call.state)).toEqual(['succeeded', 'failed', 'succeeded', 'awaiting_approval'])
  expect(calls[0]?.result?.output).toContain(canary) // control: the output contains it
  expect(calls[1]?.result?.stderr).toContain(canary)
  // Refused input is not logged either.
  for (const args of [{ mark: 7, extra: canary }, { [canary]: canary }]) {
    const refused = await hurt.agent('proposeCallInNewRun', { body: { tool: 'mark_quickly', args } })
    expect(refused.ok).toBe(false)
  }
  for (const call of calls) expect(JSON.stringify(await journalOf(hurt, call.run))).not.toContain(canary)

  const secrets = readSecrets(state)
  const keys = [
    dev.agent_key,
    dev.operator_key,
    signingSecret(secrets),
    secrets.redis.edge,
    secrets.redis.worker,
  ]
  await eventually('the spool is empty', () => hurt.spool().size === 0)
  await hurt.stack.redis.stop() // Redis writes everything to disk when it stops
  let seen = 0
  for (const folder of [state.redis, state.log]) {
    for (const [path, bytes] of contents(folder)) {
      seen += 1
      for (const text of [canary, ...keys]) expect([path, holds(bytes, text)]).toEqual([path, false])
    }
  }
  expect(seen).toBeGreaterThan(4)
  const aof = [...contents(join(state.redis, 'appendonlydir'))]
    .map(([, bytes]) => bytes.toString('latin1'))
    .join('')
  expect(aof).toContain(running.id) // the doorbell was there, and only the doorbell
  for (const [path, bytes] of contents(state.worker))
    if (!path.includes('/runs/')) expect([path, holds(bytes, canary)]).toEqual([path, false])
  for (const key of keys)
    expect([...globSync('/proc/[0-9]*/cmdline')].filter((path) => holds(readIfPresent(path), key))).toEqual(
      [],
    )
})

const mounts = (): string => readFileSync('/proc/self/mountinfo', 'utf8')
/** Only of this worker: other workers on this machine may remove theirs while we list. */
const cgroupsOf = (pid: number): string[] =>
  spawnSync('/usr/bin/find', ['/sys/fs/cgroup', '-path', `*countersign-${pid}-*`], { encoding: 'utf8' })
    .stdout.split('\n')
    .filter(Boolean)

/** The abstract socket by which the worker locks its home. */
function homeHeld(home: string): () => boolean {
  const { dev, ino } = statSync(home)
  return () => readFileSync('/proc/net/unix', 'latin1').includes(`@countersign-worker-${dev}-${ino}`)
}

const refusedAt = (port: number): Promise<boolean> =>
  new Promise((settle) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('connect', () => socket.destroy())
    socket.once('connect', () => settle(false))
    socket.once('error', () => settle(true))
  })

test.each(['stopped', 'killed whole'])(
  'a stack that is %s while a call runs leaves no process, mount, cgroup or socket behind',
  async (how) => {
    const hurt = await HurtStack.start()
    onTestFinished(() => hurt.stop())
    const { state, url, redisPort, worker, edge, redis } = hurt.stack
    const [before, pid] = [mounts(), worker.pid ?? 0]
    const held = homeHeld(state.worker)
    const stays = about(60)
    expect((await hurt.propose('text_stats', { text: 'a\n' }, { wait: 10 })).state).toBe('succeeded')
    const call = await hurt.propose('mark_slowly', { mark: 'left\n', seconds: stays })
    await eventually('it runs', () => hurt.marks(call.run).length > 0)
    expect(boundTo(state.dir).length).toBeGreaterThan(5) // the stack's three processes, and those of the sandbox
    expect(processesWith(stays)).not.toEqual([])
    expect(held()).toBe(true)
    expect(cgroupsOf(pid)).not.toEqual([])
    const began = Date.now()
    if (how === 'stopped') await hurt.stop()
    else for (const part of [redis, worker, edge]) await strike(part)
    expect(Date.now() - began).toBeLessThan(15_000)
    await eventually(
      'its processes are gone',
      () => processesWith(stays).length === 0 && boundTo(state.dir).length === 0,
      5_000,
    )
    expect(held()).toBe(false)
    expect(mounts()).toEqual(before)
    if (how !== 'stopped') removeEmptyCgroups() // as the next start does
    expect(cgroupsOf(pid)).toEqual([])
    for (const port of [Number(new URL(url).port), redisPort]) expect(await refusedAt(port)).toBe(true)
    expect(existsSync(state.dir)).toBe(how !== 'stopped') // stopping a test stack removes its folder
  },
)
