// Runs the commands of a document: writes its files and types its commands in order, in one shell,
// and compares the answers that the document shows with the answers that come.
//
// A block marked `console not-run` is left out. test/journey/documents.test.ts counts those.

import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, expect } from 'vitest'
import type { StackOptions } from '../../infra/stack.ts'
import { CLI, CLI_ENV } from './countersign.ts'
import { startTestStack } from './stack/stack.ts'

/** `file`: a file to write. `command`: a command to run, and its answer as the page shows it. */
export type Step =
  | { readonly kind: 'file'; readonly name: string; readonly text: string }
  | { readonly kind: 'command'; readonly text: string; readonly shown: readonly string[] }

const FENCE = /^ *```(\w+)(?: (\S+))?\n([\s\S]*?)^ *```$/gm
/** The mark of a console block that no test can run. The document says why. */
export const NOT_RUN = 'not-run'

export function stepsOf(page: string): Step[] {
  return [...page.matchAll(FENCE)].flatMap(([, kind, name, text = '']): Step[] =>
    kind === 'console'
      ? name === NOT_RUN
        ? []
        : commandsIn(text)
      : name === undefined
        ? []
        : [{ kind: 'file', name, text }],
  )
}

const commandsIn = (text: string): Step[] =>
  text
    .split(/^\$ /m)
    .slice(1)
    .map((part) => {
      const [, command = '', shown = ''] = /^((?:.*\\\n)*.*)\n?([\s\S]*)$/.exec(part) ?? []
      return { kind: 'command', text: command, shown: shown.split('\n').filter((line) => line !== '') }
    })

/**
 * Ids in a document have a gap: `call_01M7A…_1`. The first answer that shows one sets its value for
 * the rest of the document. The id of an approval that no answer has shown is that of the call with
 * the same letters.
 */
const ID = /\b(?:call|apr|run)_[0-9A-Z]+…(?:_\d+)?/g

class Ids {
  readonly #known = new Map<string, string>()

  filledIn(command: string): string {
    return command.replace(ID, (id) => this.#known.get(id) ?? this.#ofItsCall(id) ?? `${id} (never shown)`)
  }

  #ofItsCall(id: string): string | undefined {
    return id.startsWith('apr_')
      ? this.#known.get(id.replace('apr', 'call'))?.replace('call', 'apr')
      : undefined
  }

  /**
   * Whether the answer is as shown: `…` is any text within a line, and as a line of its own any
   * lines.
   */
  match(shown: readonly string[], answer: string): boolean {
    const ids: string[] = []
    const line = (text: string): string =>
      text
        .split(/(\b(?:call|apr|run)_[0-9A-Z]+…(?:_\d+)?)/)
        .map((part) => {
          if (part.match(ID) === null) return part.split('…').map(RegExp.escape).join('.*')
          const known = this.#known.get(part)
          if (known !== undefined) return RegExp.escape(known)
          ids.push(part)
          return `(${part.slice(0, part.indexOf('_'))}_[0-9A-Z]{26}(?:_[0-9]+)?)`
        })
        .join('')
    const pattern = shown.map((text) => (text === '…' ? '(?:.*\\n)*' : `${line(text)}\\n`)).join('')
    const lines = answer === '' || answer.endsWith('\n') ? answer : `${answer}\n` // curl prints a body as it is
    const found = new RegExp(`^${pattern}$`).exec(lines.replace(/^\n+|(?<=\n)\n+/g, ''))
    for (const [i, id] of ids.entries())
      if (found?.[i + 1] !== undefined) this.#known.set(id, found[i + 1] ?? '')
    return found !== null
  }
}

/** The address in the documents, which a running stack replaces by its own. */
const DOCUMENTED_URL = 'http://127.0.0.1:8787'

/**
 * One bash for the whole document, like one reader's terminal. `npx countersign` is the command
 * line of this tree.
 */
export class Shell {
  readonly #bash
  #heard = ''
  #wake: () => void = () => undefined

  readonly #url: string

  constructor(cwd: string, state: string, url = DOCUMENTED_URL) {
    this.#url = url
    const env = {
      ...CLI_ENV,
      PATH: `${dirname(process.execPath)}:/usr/bin:/bin`,
      COUNTERSIGN_STATE: state,
      XDG_CONFIG_HOME: join(cwd, '.config'),
      XDG_STATE_HOME: join(cwd, '.state'),
      NO_COLOR: '1',
      CLI: CLI.join(' '),
    }
    this.#bash = spawn('bash', ['--norc'], { cwd, env, stdio: ['pipe', 'pipe', 'pipe'] })
    const hear = (chunk: Buffer): void => {
      this.#heard += chunk
      this.#wake()
    }
    this.#bash.stdout.on('data', hear)
    this.#bash.once('close', () => this.#wake())
    this.#bash.stdin.write(`exec 2>&1\nnpx() { shift; node $CLI "$@"; }\n`)
  }

  async run(command: string): Promise<{ code: number; answer: string }> {
    this.#heard = ''
    const end = /\u0004 (\d+)\n$/
    this.#bash.stdin.write(
      `{ ${command.replaceAll(DOCUMENTED_URL, this.#url)}\n} </dev/null\nprintf '\\004 %d\\n' $?\n`,
    )
    for (let found = end.exec(this.#heard); ; found = end.exec(this.#heard)) {
      if (found !== null) return { code: Number(found[1]), answer: this.#heard.slice(0, found.index) }
      if (this.#bash.exitCode !== null) throw new Error(`the shell ended: ${this.#heard}`)
      await new Promise<void>((wake) => {
        this.#wake = wake
      })
    }
  }

  stop(): void {
    this.#bash.kill('SIGKILL')
  }
}

/** A shell in a new folder, with a stack, for the tests of a file. */
export async function shellForTests(
  options: Omit<StackOptions, 'state'> = {},
): Promise<{ folder: string; shell: Shell }> {
  const folder = mkdtempSync(join(tmpdir(), 'countersign-page-'))
  const stack = await startTestStack(options)
  const shell = new Shell(folder, dirname(stack.state.dev))
  afterAll(async () => {
    shell.stop()
    await stack.stop()
    rmSync(folder, { recursive: true })
  })
  return { folder, shell }
}

/** Runs the steps in order, in the folder in which a reader would work. */
export async function follow(steps: readonly Step[], shell: Shell, folder: string): Promise<void> {
  const ids = new Ids()
  for (const step of steps) {
    if (step.kind === 'file') {
      mkdirSync(dirname(join(folder, step.name)), { recursive: true })
      writeFileSync(join(folder, step.name), step.text)
      continue
    }
    const { code, answer } = await shell.run(ids.filledIn(step.text))
    const expected = Number(/# exits with (\d)/.exec(step.text)?.[1] ?? 0)
    expect(code, `$ ${step.text}\n${answer}`).toBe(expected)
    expect(ids.match(step.shown, answer), `$ ${step.text}\n${answer}`).toBe(true)
  }
}
