// Output files of a call are collected as data once the call is over: regular files under plain
// names, whole, by digest. Everything else is reported and never followed, executed or kept.

import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { sha256 } from '../../../shared/bytes/json.ts'
import { LIMITS } from '../../../shared/limits.ts'
import type { LeftFile } from '../../../shared/plan/call-files.ts'
import { eventually } from '../../support/eventually.ts'
import { loneWorkerForTests } from '../../support/worker/lone-worker.ts'

const lone = await loneWorkerForTests()

const WITHIN = 30_000
async function leaving(script: string, language: 'sh' | 'python3' = 'sh') {
  const call = await lone.call({ argv: [language, '-c', script], outputs: true })
  const { predicate } = (await lone.settled(call, WITHIN)).statement
  const { files, left, more } =
    predicate.execution.files ??
    expect.fail(`nothing was collected: ${JSON.stringify(predicate.execution.outcome)}`)
  const kept = Object.fromEntries(
    files.map(({ path, sha256: digest }) => [path, lone.edge.files.get(digest)?.toString()]),
  )
  return {
    predicate,
    files,
    kept,
    left: Object.fromEntries(left.map(({ path, why }): [string, LeftFile['why']] => [path, why])),
    more,
  }
}
const leftOver = (): string[] =>
  readdirSync(join(lone.state.worker, 'sandbox')).filter((name) => name.startsWith('output-'))

test('regular output files are kept whole and by digest, even those of a failed call, and none stay on the host', {
  timeout: 60_000,
}, async () => {
  const { predicate, files, kept } = await leaving(
    'mkdir -p /output/a/b; echo one > /output/a/b/1; : > /output/empty; exit 3',
  )
  expect(predicate.error).toBe('runtime_failure')
  expect(kept).toEqual({ 'a/b/1': 'one\n', empty: '' })
  expect(files).toEqual([
    { path: 'a/b/1', sha256: sha256('one\n'), bytes: 4 },
    { path: 'empty', sha256: sha256(''), bytes: 0 },
  ])
  await eventually('nothing is left', () => leftOver().length === 0)
})

test('a call that leaves an unreadable folder nested beyond the longest path still ends, and the folder is removed', {
  timeout: 60_000,
}, async () => {
  const deep =
    "import os\nos.chdir('/output')\nfor _ in range(30):\n  os.mkdir('n' * 250)\n  os.chdir('n' * 250)\n"
  const { predicate, kept, left } = await leaving(`${deep}os.chmod('/output', 0)`, 'python3')
  // A folder that can’t be measured counts as too large.
  expect(predicate.execution.outcome).toEqual({ kind: 'workspace_cap' })
  expect([kept, left]).toEqual([{}, { '.': 'no_file' }])
  await eventually('nothing is left', () => leftOver().length === 0)
})

test('S20 a setuid program in the output folder is collected as bytes without its mode', {
  timeout: 60_000,
}, async () => {
  const { files, kept } = await leaving('cp /usr/bin/true /output/t; chmod 4755 /output/t')
  expect(Object.keys(kept)).toEqual(['t'])
  expect(Object.keys(files[0] ?? {})).toEqual(['path', 'sha256', 'bytes'])
  await eventually('nothing is left', () => leftOver().length === 0)
})

test('S40, S42 links and hard links in the output folder are reported and not followed, and FIFOs can’t be made', {
  timeout: 60_000,
}, async () => {
  const secret = join(lone.state.worker, 'secret')
  writeFileSync(secret, 'canary')
  const { kept, left } = await leaving(
    `ln -s ${secret} /output/link; ln -s /etc /output/folder; ln -s ../../.. /output/up; ln -s nowhere /output/dangling
     mkfifo /output/fifo 2>/dev/null; echo twice > /output/one; ln /output/one /output/two; echo kept > /output/plain`,
  )
  expect(kept).toEqual({ plain: 'kept\n' })
  expect(left).toEqual(
    Object.fromEntries(['link', 'folder', 'up', 'dangling', 'one', 'two'].map((name) => [name, 'no_file'])),
  )
  expect([...lone.edge.files.values()].some((bytes) => bytes.includes('canary'))).toBe(false)
})

test('S44, S45 output files with hostile names are reported with escaped names and not collected', {
  timeout: 60_000,
}, async () => {
  const { kept, left } = await leaving(
    `
import os
os.chdir('/output')
for name in [b'a\\nb', b'a\\x1b[2J', b'\\xff\\xfe', 'a\\u202eb'.encode(), b'back\\\\slash', b'plain']:
    open(name, 'w').write('x')
os.makedirs('.git/hooks')
open('.git/hooks/pre-commit', 'w').write('x')
`,
    'python3',
  )
  expect(kept).toEqual({ plain: 'x' })
  expect(Object.values(left)).toEqual(Array.from({ length: 6 }, () => 'name'))
  expect(Object.keys(left).join()).not.toMatch(/[\n\u001b]/)
})

test('output files that are too many, too large or too deep are reported, and the others are kept', {
  timeout: 60_000,
}, async () => {
  const over = LIMITS.call_files + 3
  const { files, left } = await leaving(
    `cd /output; for n in $(seq 100 ${99 + over}); do echo $n > $n; done; mkdir -p ${'z/'.repeat(20)}`,
  )
  expect(files).toHaveLength(LIMITS.call_files)
  expect(Object.values(left).toSorted()).toEqual(['name', 'too_much', 'too_much', 'too_much'])
  const large = await leaving(
    `truncate -s ${LIMITS.file_bytes + 1} /output/large; echo small > /output/small`,
  )
  expect(large.kept).toEqual({ small: 'small\n' })
  expect(large.left).toEqual({ large: 'too_much' })
})

test('V01 an output file that contains a secret of the call is not kept, and the others are', {
  timeout: 60_000,
}, async () => {
  const secrets = { token: 'hunter2-hunter2' }
  const argv = [
    'sh',
    '-c',
    'cd /output; cp /run/secrets/token copy; base64 /run/secrets/token > wrapped; wc -c < /run/secrets/token > length',
  ]
  const call = await lone.call({ argv, outputs: true, secrets })
  const { files, left } =
    (await lone.settled(call, WITHIN)).statement.predicate.execution.files ??
    expect.fail('nothing was collected')
  expect(files).toEqual([{ path: 'length', sha256: sha256('15\n'), bytes: 3 }])
  expect(left).toEqual(['copy', 'wrapped'].map((path) => ({ path, why: 'secret' })))
})

test('a sandbox has no output folder unless the tool’s contract asks for one', {
  timeout: 60_000,
}, async () => {
  const call = await lone.call({ argv: ['ls', '/output'] })
  const { predicate } = (await lone.settled(call, WITHIN)).statement
  expect(predicate).toMatchObject({ state: 'failed', error: 'runtime_failure' })
  expect(predicate.execution.files).toBeUndefined()
  expect(existsSync('/output')).toBe(false)
})
