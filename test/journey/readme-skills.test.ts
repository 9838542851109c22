// Promise: what README says of skills can be typed as it stands, from nothing to a verified call: its commands run in its order, in one shell,
// against a stack of its own.

import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { ROOT } from '../../infra/state.ts'
import type { Step } from '../support/page.ts'
import { follow, Shell, stepsOf } from '../support/page.ts'
import { startTestStack } from '../support/stack.ts'

const [, section = ''] = /^## Skills\n([\s\S]*?)^## /m.exec(readFileSync(join(ROOT, 'README.md'), 'utf8')) ?? []
const folder = mkdtempSync(join(tmpdir(), 'countersign-readme-'))
const stack = await startTestStack({ worker: 'idle' })
const shell = new Shell(folder, dirname(stack.state.dev))
afterAll(async () => {
  shell.stop()
  await stack.stop()
  rmSync(folder, { recursive: true })
})

/** README shows little of the answers: where it shows nothing, anything may come. */
const leftOut = (step: Step): Step => (step.kind === 'command' && step.shown.length === 0 ? { ...step, shown: ['…'] } : step)

test('every line of README’s skill does what it says', async () => {
  const steps = stepsOf(section).map(leftOut)
  expect(steps.map(({ kind }) => kind)).toContain('command')
  await follow(steps, shell, folder)
  expect(statSync(join(folder, '.countersign/mia.json')).mode & 0o077).toBe(0)
  const verified = await shell.run('npx countersign verify call.json --keys keys.json')
  expect(verified.answer).toMatch(/^verified[\s\S]*wasm_isolate/m)
}, 180_000)

test('who published it is told who has to enable it, and how there comes to be one', async () => {
  await shell.run(
    "sed -i 's/1\\.0\\.0/1.0.1/' hello/skill.toml && npx countersign skill build hello && npx countersign skill publish hello",
  )
  const own = await shell.run('npx countersign skill enable hello 1.0.1')
  expect(own.code).not.toBe(0)
  for (const part of ['another operator has to enable it', '`countersign operators put NAME --roles admin`', '`skill.enable_own`'])
    expect(own.answer).toContain(part)
})
