// The stacks that the test files which only need HTTP share: one for each of vitest's workers, so that whoever has a stack has it alone while
// its file runs; started before the first of them, stopped after the last.

import type { TestProject } from 'vitest/node'
import type { Stack } from '../../../infra/stack.ts'
import { startTestStack } from './stack.ts'

declare module 'vitest' {
  interface ProvidedContext {
    readonly states: readonly string[]
  }
}

export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const stacks: Stack[] = []
  for (let n = 0; n < project.config.maxWorkers; n++) stacks.push(await startTestStack()) // one by one: each looks for ports
  project.provide(
    'states',
    stacks.map(({ state }) => state.dir),
  )
  return async () => {
    await Promise.all(stacks.map((stack) => stack.stop()))
  }
}
