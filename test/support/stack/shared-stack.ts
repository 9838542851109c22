// The stacks that the files of vitest's project `shared` use: one for each of vitest's workers, so that a file has its stack alone while it
// runs. The first starts at once, the others when a file asks for them; all stop after the last.

import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { TestProject } from 'vitest/node'
import type { Stack } from '../../../infra/stack.ts'
import { startTestStack } from './stack.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** Answers with the state folder of the stack of one of vitest's workers, by its number. */
    readonly stacks: string | undefined
  }
}

export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const stacks = new Map<string, Promise<Stack>>()
  let last: Promise<unknown> = Promise.resolve()
  /** One by one: each looks for free ports. */
  const start = (worker: string): Promise<Stack> => {
    const stack = last.catch(() => undefined).then(() => startTestStack())
    last = stack
    stacks.set(worker, stack)
    return stack
  }
  /** The file that asks for it receives its error. */
  const startFirst = (): void => void start('/1').catch(() => undefined)
  startFirst()
  const server = createServer(({ url = '' }, response) => {
    const stack = stacks.get(url) ?? start(url)
    stack.then(
      ({ state }) => response.end(state.dir),
      (error: Error) => response.writeHead(500).end(error.message),
    )
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  project.provide('stacks', `http://127.0.0.1:${(server.address() as AddressInfo).port}`) // it listens on TCP
  const stop = async (): Promise<void> => {
    const all = [...stacks.values()]
    stacks.clear()
    await Promise.all(
      all.map((stack) =>
        stack.then(
          ({ stop }) => stop(),
          () => undefined, // it never started, and its file said so
        ),
      ),
    )
  }
  // In watch mode the next file gets a stack with what was changed.
  project.onTestsRerun(async () => {
    await stop()
    startFirst()
  })
  return async () => {
    server.close()
    await stop()
  }
}
