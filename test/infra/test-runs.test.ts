// Promise: every test file runs in one project that suits it, and the parts of a run in CI hold
// every file once.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { shardOf } from '../../infra/testing/order.ts'
import { testProjects, usesSharedStack } from '../../infra/testing/projects.ts'

/** Writes these files into a new folder. */
function treeOf(files: Readonly<Record<string, string>>): string {
  const root = mkdtempSync(join(tmpdir(), 'countersign-projects-'))
  onTestFinished(() => rmSync(root, { recursive: true }))
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), text)
  }
  return root
}

test('a test file is a unit test unless it reaches a module that starts processes, or says otherwise', () => {
  const root = treeOf({
    'worker/spawner.ts': "import { spawn } from 'node:child_process'\n",
    'worker/between.ts': "export { start } from './spawner.ts'\n",
    'worker/pure.ts': "import type { Spawner } from './spawner.ts'\n",
    'worker/circle.ts': "import './circle.ts'\n",
    'test/reaches.test.ts': "import {\n  start,\n} from '../worker/between.ts'\n",
    'test/loads.test.ts': "test('x', async () => void (await import('../worker/spawner.ts')))\n",
    'test/types.test.ts': "import { a } from '../worker/pure.ts'\nimport '../worker/circle.ts'\n",
    'test/deep/asks.test.ts': "import { sharedStack } from './support.ts'\nconst dev = sharedStack()\n",
    'test/deep/support.ts': "export { start as sharedStack } from '../../worker/between.ts'\n",
    'test/alone.test.ts':
      "// Promise: it counts.\n// @project exclusive\n\nimport { x } from 'node:child_process'\n",
    'test/both.test.ts':
      "// Promise: it attacks.\n// @project prepared\n\nimport { x } from 'node:child_process'\n",
    'test/long.test.ts':
      "// Promise: it takes long.\n// @project processes\n\nimport { a } from '../worker/pure.ts'\n",
    'test/hosts/boots.test.ts': "import { x } from 'node:child_process'\n",
  })
  expect(testProjects(root)).toEqual({
    unit: ['test/types.test.ts'],
    exclusive: ['test/alone.test.ts'],
    processes: [
      'test/both.test.ts',
      'test/deep/asks.test.ts',
      'test/loads.test.ts',
      'test/long.test.ts',
      'test/reaches.test.ts',
    ],
    prepared: ['test/both.test.ts'],
  })
  const users = ['test/deep/asks.test.ts', 'test/loads.test.ts'].map((file) => usesSharedStack(root, file))
  expect(users).toEqual([true, false])
})

test('every file is in exactly one shard, no shard takes twice as long as another, and every machine computes the same shards', () => {
  const files = Array.from({ length: 61 }, (_, n) => ({
    file: n,
    name: `test/${n}.test.ts`,
    ms: 100 + ((n * 7_919) % 4_001),
  }))
  const shards = [1, 2, 3, 4].map((index) => shardOf(files, index, 4))
  expect(shards.flatMap((shard) => shard.map(({ file }) => file)).sort((a, b) => a - b)).toEqual(
    files.map(({ file }) => file),
  )
  const times = shards.map((shard) => shard.reduce((sum, { ms }) => sum + ms, 0))
  expect(Math.max(...times)).toBeLessThan(2 * Math.min(...times))
  expect(shardOf(files.toReversed(), 2, 4)).toEqual(shards[1])
})
