// The one stack that the test files which only need HTTP share: started before the first of them, stopped after the last.

import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { startTestStack } from './stack.ts'

declare module 'vitest' {
  interface ProvidedContext {
    readonly dev: string
  }
}

export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const stack = await startTestStack()
  project.provide('dev', join(stack.state.dir, 'dev.json'))
  return stack.stop
}
