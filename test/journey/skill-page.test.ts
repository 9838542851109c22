// Promise: skills/README.md is true. Its commands run in its order, in one shell, against a stack of its own; what the page shows of the answers
// is what came, and the code that it shows is that of the template.

import { mkdtempSync, readFileSync, rmSync, statSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { ROOT } from '../../infra/state.ts'
import { follow, Shell, stepsOf } from '../support/page.ts'
import { startTestStack } from '../support/stack.ts'

const page = readFileSync(join(ROOT, 'skills/README.md'), 'utf8')
const folder = mkdtempSync(join(tmpdir(), 'countersign-page-'))
const stack = await startTestStack({ worker: 'idle' })
const shell = new Shell(folder, dirname(stack.state.dev))
afterAll(async () => {
  shell.stop()
  await stack.stop()
  rmSync(folder, { recursive: true })
})

test('the code of the page is that of the template', () => {
  const template = readFileSync(join(ROOT, 'cli/skills/templates/typescript/src/main.ts'), 'utf8')
  const [, code = ''] = /^```ts\n([\s\S]*?)^```$/m.exec(page) ?? []
  expect(code.length).toBeGreaterThan(0)
  for (const part of code.trim().split('\n\n')) expect(template).toContain(part)
})

test('the page says what happens', async () => {
  symlinkSync(join(ROOT, 'skills'), join(folder, 'skills'))
  await follow(stepsOf(page), shell, folder)
  expect(statSync(join(folder, '.countersign/mia.json')).mode & 0o077).toBe(0)
}, 180_000)
