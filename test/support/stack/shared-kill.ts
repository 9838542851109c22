// Lets tests that run concurrently share the kills of one part, because each start of an edge takes a
// second of CPU. The part is killed when every test that runs waits for it, so that no test has a
// request on its way, as if each ran alone.

import type { Child } from '../../../infra/child-process.ts'
import { whileDead } from './hurt-stack.ts'

type Waiting = { readonly change: () => void } & PromiseWithResolvers<void>

export class SharedKill {
  readonly #part: () => Child
  #running = 0
  #waiting: Waiting[] = []
  #killing: Promise<void> = Promise.resolve()

  constructor(part: () => Child) {
    this.#part = part
  }

  /** The body of a concurrent test. */
  with(work: () => Promise<void>): () => Promise<void> {
    return async () => {
      this.#running += 1
      try {
        await this.#killing
        await work()
      } finally {
        this.#running -= 1
        setImmediate(() => this.#killIfAllWait()) // another test may begin now
      }
    }
  }

  /** Waits for the next kill, changes files of the dead part, and returns when it runs again. */
  whileDead(change: () => void = () => undefined): Promise<void> {
    const waiting = { change, ...Promise.withResolvers<void>() }
    this.#waiting.push(waiting)
    this.#killIfAllWait()
    return waiting.promise
  }

  #killIfAllWait(): void {
    if (this.#waiting.length === 0 || this.#waiting.length < this.#running) return
    const waiting = this.#waiting
    this.#waiting = []
    const failed = new Map<Waiting, unknown>()
    const changeAll = (): void => {
      for (const one of waiting) {
        try {
          one.change()
        } catch (thrown) {
          failed.set(one, thrown)
        }
      }
    }
    this.#killing = whileDead(this.#part(), changeAll).then(
      () => {
        for (const one of waiting) failed.has(one) ? one.reject(failed.get(one)) : one.resolve()
      },
      (thrown: unknown) => {
        for (const one of waiting) one.reject(thrown)
      },
    )
  }
}
