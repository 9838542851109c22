// Owns the protocol between the benchmark and its two measuring processes: one JSON value a line, a
// question on standard input, its answer on standard output, one at a time. Separate processes keep
// the bench’s own work out of the measurement.

import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { createInterface, type Interface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'

/** The parent's side. The process's standard error is ours. */
export class Peer<Question, Answer> {
  readonly #name: string
  readonly #child: ChildProcessByStdio<Writable, Readable, null>
  readonly #lines: AsyncIterator<string>
  readonly #reader: Interface

  constructor(
    name: string,
    [program = '', ...args]: readonly string[],
    env: Readonly<Record<string, string>>,
  ) {
    this.#name = name
    this.#child = spawn(program, args, { env, cwd: '/', stdio: ['pipe', 'pipe', 'inherit'] })
    this.#child.stdin.on('error', () => undefined) // it has ended; the missing answer is reported
    this.#reader = createInterface({ input: this.#child.stdout })
    this.#lines = this.#reader[Symbol.asyncIterator]()
  }

  async ask(question: Question): Promise<Answer> {
    this.#child.stdin.write(`${JSON.stringify(question)}\n`)
    const { value, done } = await this.#lines.next()
    if (done === true)
      throw new Error(`the process \`${this.#name}\` ended without an answer; its messages are above`)
    return JSON.parse(value) as Answer // `answerQuestions` wrote it
  }

  /** It ends when its standard input does. */
  async end(): Promise<void> {
    this.#child.stdin.end()
    if (this.#child.exitCode === null && this.#child.signalCode === null) {
      await new Promise((settle) => this.#child.once('exit', settle))
    }
    this.#reader.close()
  }
}

/** The child's side: answers until standard input ends. */
export async function answerQuestions<Question, Answer>(
  answer: (question: Question) => Promise<Answer>,
): Promise<void> {
  for await (const line of createInterface({ input: process.stdin })) {
    const question = JSON.parse(line) as Question // `Peer` wrote it
    process.stdout.write(`${JSON.stringify(await answer(question))}\n`)
  }
}
