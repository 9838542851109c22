// As many threads as this machine has processors, each of which verifies one object of runs at a time.

import { once } from 'node:events'
import { availableParallelism } from 'node:os'
import { Worker } from 'node:worker_threads'
import type { Keys } from '../../shared/evidence/keys.ts'
import type { PartFile } from './verify-export.ts'
import type { ObjectVerdict, VerifiedObject } from './verify-object.ts'

/** Verifies one object, here or in a thread. A file counts as added when the next one may be read. */
export type Verifying = {
  readonly add: (...part: Parameters<VerifiedObject['add']>) => void | Promise<void>
  readonly finished: () => ObjectVerdict | Promise<ObjectVerdict>
}

export class VerifyingThreads {
  readonly #keys: Keys
  readonly #threads: Worker[] = []
  readonly #idle: Worker[] = []
  readonly #waiting: ((thread: Worker) => void)[] = []

  constructor(keys: Keys) {
    this.#keys = keys
  }

  /** Takes a thread for one object, when there is one. */
  async idle(): Promise<Verifying> {
    const thread = this.#idle.pop() ?? this.#started() ?? (await this.#next())
    // One file may wait for the thread, so that this one reads the next.
    let last: Promise<ObjectVerdict | null> = Promise.resolve(null)
    return {
      add: async (name, bytes) => {
        await last
        last = answerOf(thread, { name, bytes })
      },
      finished: async () => {
        await last
        const verdict = await answerOf(thread, null)
        const take = this.#waiting.shift()
        if (take === undefined) this.#idle.push(thread)
        else take(thread)
        return verdict as ObjectVerdict // the answer to `null`
      },
    }
  }

  end(): void {
    for (const thread of this.#threads) void thread.terminate()
  }

  #started(): Worker | undefined {
    if (this.#threads.length >= availableParallelism()) return undefined
    const thread = new Worker(new URL('./verify-thread.ts', import.meta.url), { workerData: this.#keys })
    this.#threads.push(thread)
    return thread
  }

  #next(): Promise<Worker> {
    return new Promise((resolve) => this.#waiting.push(resolve))
  }
}

/** Rejects with what the thread throws, which is a bug. */
async function answerOf(thread: Worker, message: PartFile | null): Promise<ObjectVerdict | null> {
  thread.postMessage(message)
  const [answer] = (await once(thread, 'message')) as [ObjectVerdict | null] // as verify-thread.ts answers
  return answer
}
