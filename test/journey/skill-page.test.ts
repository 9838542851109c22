// Promise: docs/skills.md is true. Its commands run in order, in one shell, against a stack of
// their own. The answers that the page shows are the answers that come, and the code that it shows
// is in the template.

import { readFileSync, statSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ROOT } from '../../infra/state.ts'
import { follow, shellForTests, stepsOf } from '../support/doc-runner.ts'

const page = readFileSync(join(ROOT, 'docs/skills.md'), 'utf8')
const { folder, shell } = await shellForTests({ worker: 'idle' })

test('the code in docs/skills.md is in the template', () => {
  const template = readFileSync(join(ROOT, 'cli/skills/templates/typescript/src/main.ts'), 'utf8')
  const [, code = ''] = /^```ts\n([\s\S]*?)^```$/m.exec(page) ?? []
  expect(code.length).toBeGreaterThan(0)
  for (const part of code.trim().split('\n\n')) expect(template).toContain(part)
})

test('every command of docs/skills.md does what the page says', async () => {
  symlinkSync(join(ROOT, 'skills'), join(folder, 'skills'))
  await follow(stepsOf(page), shell, folder)
  expect(statSync(join(folder, '.countersign/mia.json')).mode & 0o077).toBe(0)
}, 180_000)

test('the publisher of a skill who enables it alone is refused, and learns how to create a second operator', async () => {
  await shell.run(
    "sed -i 's/1\\.0\\.0/1.0.1/' hello/skill.toml && npx countersign skill build hello && npx countersign skill publish hello",
  )
  const own = await shell.run('npx countersign skill enable hello 1.0.1')
  expect(own.code).not.toBe(0)
  for (const part of [
    'another operator has to enable it',
    '`countersign operators put NAME --roles admin`',
    '`skill.enable_own`',
  ])
    expect(own.answer).toContain(part)
})
