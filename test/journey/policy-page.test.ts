// Promise: docs/policies.md is true. Its files are written and its commands run in order, in one
// shell, against a stack of their own. The answers that the page shows are the answers that come.

import { readdirSync, readFileSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ROOT } from '../../infra/state.ts'
import { follow, shellForTests, stepsOf } from '../support/doc-runner.ts'

const steps = stepsOf(readFileSync(join(ROOT, 'docs/policies.md'), 'utf8'))
const { folder, shell } = await shellForTests()

test('the rules in docs/policies.md are in the examples', () => {
  const examples = readdirSync(join(ROOT, 'policies/examples')).map((name) =>
    readFileSync(join(ROOT, 'policies/examples', name), 'utf8'),
  )
  const rules = steps.flatMap((step) =>
    step.kind === 'file' && step.name.endsWith('.cedar') ? step.text.trim().split('\n\n') : [],
  )
  expect(rules.length).toBeGreaterThan(0)
  for (const rule of rules)
    expect(
      examples.some((text) => text.includes(rule)),
      rule,
    ).toBe(true)
})

test('every command of docs/policies.md does what the page says', async () => {
  symlinkSync(join(ROOT, 'policies'), join(folder, 'policies'))
  await follow(steps, shell, folder)
}, 180_000)
