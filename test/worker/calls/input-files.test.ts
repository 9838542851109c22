// Input files of a call: fetched by digest, complete, read-only, next to the workspace.

import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, statSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { sha256 } from '../../../shared/bytes/json.ts'
import { LIMITS } from '../../../shared/limits.ts'
import { eventually } from '../../support/eventually.ts'
import { type LoneWorker, loneWorkerForTests } from '../../support/worker/lone-worker.ts'

const lone = await loneWorkerForTests()

type Proposal = Parameters<LoneWorker['call']>[0]
const WITHIN = 30_000
const ended = async (proposal: Proposal) => {
  const { statement, stdout, stderr } = await lone.settled(await lone.call(proposal), WITHIN)
  return { predicate: statement.predicate, stdout: stdout.toString(), stderr: stderr.toString() }
}
const sh = (script: string): string[] => ['sh', '-c', script]
const leftOver = (): string[] =>
  readdirSync(join(lone.state.worker, 'sandbox')).filter((name) => name.startsWith('input-'))

test('a tool finds its input files by name, in folders and of any size, and none remain afterwards', {
  timeout: 60_000,
}, async () => {
  const big = Buffer.alloc(2 * LIMITS.file_part_bytes + 17, 'countersign ')
  const files = { 'a.txt': Buffer.from('one\n'), 'deep/er/b ü.bin': big, empty: Buffer.alloc(0) }
  const seen = await ended({
    argv: sh('cat /input/a.txt; sha256sum < "/input/deep/er/b ü.bin"; wc -c < /input/empty'),
    files,
  })
  expect(seen.stdout).toBe(`one\n${sha256(big)}  -\n0\n`)
  await eventually('nothing is left', () => leftOver().length === 0)
})

test('S20, S45 input files and their folder can’t be written, replaced, made executable, removed or added to', {
  timeout: 60_000,
}, async () => {
  const tries = [
    'echo x > /input/a',
    'echo x > /input/new',
    'mkdir /input/.git',
    'chmod 4755 /input/a',
    'rm -f /input/a',
    'mv /input/a /input/b',
    'mount --bind /tmp /input',
  ]
  const script = `${tries.map((one) => `(${one}) 2>/dev/null && echo "did: ${one}"`).join('; ')}; cat /input/a`
  expect((await ended({ argv: sh(script), files: { a: Buffer.from('as decided') } })).stdout).toBe(
    'as decided',
  )
})

test('P08 input bytes that don’t match their digest never reach a tool', { timeout: 60_000 }, async () => {
  for (const change of [
    (bytes: Buffer) => Buffer.from(bytes.toString().replace('good', 'evil')),
    (bytes: Buffer) => bytes.subarray(1),
    (bytes: Buffer) => Buffer.concat([bytes, bytes]),
    () => Buffer.alloc(0),
  ]) {
    const call = lone.edge.propose({ argv: ['cat', '/input/a'], files: { a: Buffer.from('good') } })
    lone.edge.files.set(sha256('good'), change(Buffer.from('good')))
    await lone.ringFor(call)
    const { predicate } = (await lone.settled(call, WITHIN)).statement
    expect(predicate).toMatchObject({
      state: 'failed',
      error: 'grant_invalid',
      execution: { argv_sha256: null },
    })
  }
  await eventually('nothing is left', () => leftOver().length === 0)
})

test('P08 an input file that the disk stores only in part is reported and never reaches a tool', {
  timeout: 60_000,
}, async () => {
  const { uid, gid } = statSync(lone.state.worker) // with the worker's own rights
  const mayWrite = (bytes: string) =>
    execFileSync('/usr/bin/prlimit', ['--pid', `${lone.process.pid}`, `--fsize=${bytes}:`], { uid, gid })
  const argv = sh('wc -c < /input/a')
  const files = { a: Buffer.alloc(2 * LIMITS.file_part_bytes, 'countersign ') }
  // The write of the second part is cut short there, as on a full disk.
  mayWrite(`${1.5 * LIMITS.file_part_bytes}`)
  const { predicate } = await ended({ argv, files }).finally(() => mayWrite('unlimited'))
  expect(predicate).toMatchObject({
    state: 'failed',
    error: 'sandbox_failed',
    execution: { argv_sha256: null },
  })
  await eventually('nothing is left', () => leftOver().length === 0)
  expect((await ended({ argv, files })).stdout).toBe(`${2 * LIMITS.file_part_bytes}\n`)
})

test('if an input file can’t be fetched, the tool does not start and the worker is at fault', {
  timeout: 60_000,
}, async () => {
  const call = lone.edge.propose({ argv: ['cat', '/input/a'], files: { a: Buffer.from('gone') } })
  lone.edge.files.delete(sha256('gone'))
  await lone.ringFor(call)
  expect((await lone.settled(call, WITHIN)).statement.predicate).toMatchObject({
    error: 'sandbox_failed',
    execution: { argv_sha256: null },
  })
  await eventually('nothing is left', () => leftOver().length === 0)
})

test('a cancellation while input files are fetched cancels the call and does not count as a failure of the worker', {
  timeout: 60_000,
}, async () => {
  lone.edge.misbehave('readInput', { status: 503, body: { code: 'unavailable' } }, { times: 1_000 })
  const before = lone.edge.count('readInput')
  const call = await lone.call({ argv: ['cat', '/input/a'], files: { a: Buffer.from('slow') } })
  await eventually('it is being fetched', () => lone.edge.count('readInput') > before, WITHIN)
  call.cancelled = true
  expect((await lone.settled(call, WITHIN)).statement.predicate).toMatchObject({
    error: 'cancelled',
    execution: { argv_sha256: null },
  })
  lone.edge.behave()
  await eventually('nothing is left', () => leftOver().length === 0)
})

test('links that a call left in its run’s folder don’t redirect input files of a later call', {
  timeout: 60_000,
}, async () => {
  const outside = join(lone.state.worker, 'outside')
  const first = await lone.call({ argv: ['true'], folder: 'new' })
  await lone.settled(first, WITHIN)
  const folder = join(lone.state.worker, 'runs', first.run)
  mkdirSync(join(lone.state.worker, 'target'))
  symlinkSync(outside, join(folder, 'a')) // dangling: following it would create a file outside
  symlinkSync(join(lone.state.worker, 'target'), join(folder, 'input'))
  const files = { a: Buffer.from('brought'), 'input/b': Buffer.from('brought') }
  const second = await ended({
    argv: sh('cat /input/a /input/input/b; cat /workspace/input/b'),
    run: first.run,
    folder: 'kept',
    files,
  })
  expect(second.stdout).toBe('broughtbrought')
  expect(existsSync(outside)).toBe(false)
  expect(readdirSync(join(lone.state.worker, 'target'))).toEqual([])
})
