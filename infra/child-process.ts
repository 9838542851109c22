// Owns one long-running child process: starts it, waits until it is ready, notices its death,
// restarts and stops it. The only place that spawns processes of the stack. Output goes to a log
// file; the child dies when we die, however that happens (see `pdeathsig`).

import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, existsSync, openSync, readFileSync, renameSync, statSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { err, ok, type Result } from '../shared/result.ts'
import type { Refusal } from './state.ts'

export type ChildSpec = {
  readonly name: string
  /** Starts with an absolute path. Holds no secret. */
  readonly argv: readonly string[]
  /** The child's complete environment. */
  readonly env: Readonly<Record<string, string>>
  readonly cwd: string
  readonly log: string
  /** Polled after a start; `log` returns what the child has written since then. */
  readonly ready: (log: () => string) => Promise<boolean>
  readonly readyWithin_ms: number
  /** How long it may drain after SIGTERM before it gets SIGKILL. */
  readonly stopWithin_ms: number
}

const LOG_MAX_BYTES = 16 * 1024 * 1024

/**
 * Makes the kernel end the process when its parent dies. Must come last before the program: a
 * change of user clears it.
 */
export const pdeathsig = (argv: readonly string[], signal: 'KILL' | 'TERM' = 'KILL'): string[] => [
  '/usr/bin/setpriv',
  '--pdeathsig',
  signal,
  '--',
  ...argv,
]

export class Child {
  readonly name: string
  readonly #spec: ChildSpec
  /** Reports an unexpected death of the child and its restarts. */
  readonly #say: (text: string) => void
  #process: ChildProcess | undefined
  #gone: Promise<void> = Promise.resolve()
  #wanted = false
  #supervised = false
  #starting = false

  constructor(spec: ChildSpec, say: (text: string) => void) {
    this.name = spec.name
    this.#spec = spec
    this.#say = say
  }

  get pid(): number | undefined {
    return this.#process?.pid
  }

  get running(): boolean {
    return this.#process !== undefined
  }

  /** From now on, restarts the child whenever it dies without `stop` or `kill`. */
  supervise(): void {
    this.#supervised = true
  }

  async start(): Promise<Result<void, Refusal>> {
    this.#wanted = true
    return this.running ? ok(undefined) : this.#attempt()
  }

  /** SIGKILL, as a power cut would; it stays dead until `start`. */
  async kill(): Promise<void> {
    this.#wanted = false
    await this.#end()
  }

  /** SIGTERM, then SIGKILL after `stopWithin_ms`. */
  async stop(): Promise<void> {
    this.#wanted = false
    this.#signal('SIGTERM')
    await Promise.race([this.#gone, sleep(this.#spec.stopWithin_ms, undefined, { ref: false })])
    await this.#end()
  }

  /** SIGKILL and a new start. */
  async restart(): Promise<Result<void, Refusal>> {
    await this.kill()
    return this.start()
  }

  /** SIGKILL goes to the child's whole process group, so that nothing in it is left. */
  #signal(signal: 'SIGTERM' | 'SIGKILL'): void {
    const pid = this.#process?.pid
    if (pid === undefined) return
    try {
      process.kill(signal === 'SIGKILL' ? -pid : pid, signal)
    } catch {
      // The process has already ended.
    }
  }

  async #end(): Promise<void> {
    this.#signal('SIGKILL')
    await this.#gone
  }

  async #attempt(): Promise<Result<void, Refusal>> {
    this.#starting = true
    try {
      const log = logFrom(this.#spec.log)
      this.#spawn()
      const deadline = Date.now() + this.#spec.readyWithin_ms
      for (let pause = 5; this.running; pause = Math.min(pause * 1.5, 100)) {
        if (await this.#spec.ready(log)) return ok(undefined)
        if (Date.now() > deadline) {
          await this.#end()
          return err(
            `${this.name} was not ready within ${this.#spec.readyWithin_ms / 1000} s; its log is \`${this.#spec.log}\`${lastLines(log())}`,
          )
        }
        await sleep(pause)
      }
      return err(`${this.name} ended while starting; its log is \`${this.#spec.log}\`${lastLines(log())}`)
    } finally {
      this.#starting = false
    }
  }

  #spawn(): void {
    const { log, argv, env, cwd } = this.#spec
    const [file, ...args] = argv
    if (file === undefined) throw new Error('an argv needs a program')
    const out = openSync(log, 'a', 0o600)
    // Detached, so that Ctrl-C in the terminal reaches only us and we stop the parts in order.
    const child = spawn(file, args, { cwd, env, stdio: ['ignore', out, out], detached: true })
    closeSync(out)
    this.#process = child
    this.#gone = new Promise<void>((settle) => {
      child.once('error', () => settle())
      child.once('exit', () => settle())
    }).then(() => {
      this.#process = undefined
      if (this.#wanted && this.#supervised && !this.#starting) void this.#revive(child)
    })
  }

  async #revive(dead: ChildProcess): Promise<void> {
    let why = `${this.name} ended (${dead.signalCode ?? dead.exitCode ?? 'not started'})`
    for (const pause of backoff()) {
      this.#say(`${why}; restarting it in ${pause} ms`)
      await sleep(pause)
      if (!this.#wanted || this.running) return
      const started = await this.#attempt()
      if (started.ok) return this.#say(`${this.name} runs again (pid ${this.pid})`)
      why = started.error
    }
  }
}

function* backoff(): Generator<number> {
  for (const pause of [100, 200, 500, 1_000, 2_000]) yield pause
  for (;;) yield 5_000
}

/**
 * Returns a reader of what is written to the log from now on. A log over the size limit is renamed
 * first.
 */
function logFrom(path: string): () => string {
  if (existsSync(path) && statSync(path).size > LOG_MAX_BYTES) renameSync(path, `${path}.1`)
  const from = existsSync(path) ? statSync(path).size : 0
  return () => (existsSync(path) ? readFileSync(path).subarray(from).toString() : '')
}

const lastLines = (log: string): string => {
  const lines = log.trimEnd().split('\n').slice(-8).filter(Boolean)
  return lines.length === 0 ? '' : `\n    ${lines.join('\n    ')}`
}
