// The stacks that test files share: one for each vitest worker, so that no two files use a stack at
// the same time. The first starts at once if a file of this run needs one, the others with the first
// file that needs one. All stop after the last file.

import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { TestProject } from 'vitest/node'
import type { Stack } from '../../../infra/stack.ts'
import { startTestStack } from './stack.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** The URL that returns the state folder of a stack, by the number of the vitest worker. */
    readonly stacks: string | undefined
    /** Whether a file of this run uses a shared stack. */
    readonly startsSharedStack: boolean
  }
}

export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const stacks = new Map<string, Promise<Stack>>()
  let last: Promise<unknown> = Promise.resolve()
  /** Starts them one after another, because each looks for free ports. */
  const start = (worker: string): Promise<Stack> => {
    const stack = last.catch(() => undefined).then(() => startTestStack())
    last = stack
    stacks.set(worker, stack)
    return stack
  }
  /** The file that needs it receives its error. */
  const startFirst = (): void => {
    if (project.getProvidedContext().startsSharedStack) start('/1').catch(() => undefined)
  }
  startFirst()
  const server = createServer(({ url = '' }, response) => {
    const stack = stacks.get(url) ?? start(url)
    stack.then(
      ({ state }) => response.end(state.dir),
      (error: Error) => response.writeHead(500).end(error.message),
    )
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  project.provide('stacks', `http://127.0.0.1:${(server.address() as AddressInfo).port}`) // the address of a TCP server
  const stop = async (): Promise<void> => {
    const all = [...stacks.values()]
    stacks.clear()
    await Promise.all(
      all.map((stack) =>
        stack.then(
          ({ stop }) => stop(),
          () => undefined, // it never started, and its file has reported that
        ),
      ),
    )
  }
  // In watch mode the next run gets stacks of the changed code.
  project.onTestsRerun(async () => {
    await stop()
    startFirst()
  })
  return async () => {
    server.close()
    await stop()
  }
}
