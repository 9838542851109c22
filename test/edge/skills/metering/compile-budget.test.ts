// Promise: the compile budget of a module grows with its code and is never exceeded.

import { expect, test } from 'vitest'
import { CompileBudget } from '../../../../edge/skills/metering/compile-cost.ts'

test('W06 a module may carry 500,000 values (`skill_effort`) and three for each byte (`skill_effort_a_byte`)', () => {
  for (const [bytes, most] of [
    [0, 500_000],
    [1_000, 503_000],
  ] as const) {
    const budget = new CompileBudget(bytes)
    budget.spend(most)
    expect(() => budget.spend(1)).toThrow('it would take too long to compile')
  }
})
