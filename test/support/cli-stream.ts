// Runs a `countersign` command that runs until it is interrupted, and collects its lines as they
// arrive.

import { type ChildProcess, spawn } from 'node:child_process'
import { ROOT } from '../../infra/state.ts'
import { CLI, CLI_ENV } from './countersign.ts'
import { eventually } from './eventually.ts'

export class Following {
  readonly #child: ChildProcess
  readonly #closed: Promise<number | null>
  #out = ''
  #err = ''

  constructor(args: readonly string[], env: Readonly<Record<string, string>>) {
    this.#child = spawn(process.execPath, [...CLI, ...args], {
      cwd: ROOT,
      env: { ...CLI_ENV, ...env },
    })
    this.#closed = new Promise((done) => this.#child.once('close', done))
    this.#child.stdout?.on('data', (chunk: Buffer) => {
      this.#out += chunk.toString()
    })
    this.#child.stderr?.on('data', (chunk: Buffer) => {
      this.#err += chunk.toString()
    })
  }

  /** Complete lines only. */
  get lines(): string[] {
    return this.#out.split('\n').slice(0, -1)
  }
  get said(): string {
    return this.#err
  }

  line(what: string, wanted: (line: string) => boolean): Promise<string> {
    return eventually(
      `${what}; there is ${JSON.stringify(this.#out.slice(-2_000))} ${this.#err}`,
      () => this.lines.find(wanted),
      30_000,
    )
  }

  /** Waits until the command ends. `whole`: its output ends with a complete line. */
  async ended(): Promise<{ code: number | null; whole: boolean }> {
    const code = await this.#closed
    return { code, whole: this.#out === '' || this.#out.endsWith('\n') }
  }

  end(signal: 'SIGINT' | 'SIGTERM' = 'SIGINT'): Promise<{ code: number | null; whole: boolean }> {
    this.#child.kill(signal)
    return this.ended()
  }
}
