// Promise: `npm run demo` tells the whole story in under 30 s, ends in `verified`, and leaves nothing running; with a stack that runs, it uses
// that one and leaves it alone.

import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { ROOT } from '../../infra/state.ts'
import { startTestStack } from '../support/stack.ts'

function demo(state: string): { status: number | null; text: string; told: string; ms: number } {
  const began = performance.now()
  const ran = spawnSync('npm', ['run', '-s', 'demo'], {
    cwd: ROOT,
    env: { ...process.env, COUNTERSIGN_STATE: state },
    encoding: 'utf8',
    timeout: 50_000,
  })
  return { status: ran.status, text: ran.stdout, told: ran.stderr, ms: performance.now() - began }
}

function theStory({ status, text, told, ms }: ReturnType<typeof demo>): void {
  expect(text).toMatch(
    /decision +allow.*state +succeeded.*decision +deny.*state +denied.*state +awaiting_approval.*ran in +tier C.*\bverified\b/s,
  )
  expect(text.trimEnd().split('\n').at(-1)).toMatch(/^verified/)
  expect(status, told).toBe(0)
  expect(ms).toBeLessThan(30_000)
}

test('without a stack', () => {
  const state = mkdtempSync(join(tmpdir(), 'countersign-'))
  onTestFinished(() => rmSync(state, { recursive: true }))
  theStory(demo(state))
  expect([join(state, 'dev.json'), join(state, 'lock')].filter(existsSync)).toEqual([])
})

test('with a stack that runs', async () => {
  const stack = await startTestStack()
  onTestFinished(stack.stop)
  theStory(demo(stack.state.dir))
  expect([stack.redis.running, stack.edge.running, stack.worker.running]).toEqual([true, true, true])
  expect((await stack.operator('listCalls', {})).ok).toBe(true)
})
