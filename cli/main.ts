#!/usr/bin/env node
// `countersign`: the command line for agents, operators and auditors. Commands talk HTTP to an edge
// or, like `verify`, work offline. This file decides what is printed where, and the exit code.

import type { FieldError } from '../shared/failures.ts'
import type { Result } from '../shared/result.ts'
import { ok } from '../shared/result.ts'
import { COMMANDS } from './commands.ts'
import type { Command, CommandOutput, Live, Trouble, Values } from './shell/command.ts'
import { usage } from './shell/command.ts'
import type { Config } from './shell/config.ts'
import { readConfig, readOperatorConfig, wantsColour } from './shell/config.ts'
import type { Api } from './shell/edge-api.ts'
import { connect } from './shell/edge-api.ts'
import { help } from './shell/help.ts'
import type { ParsedCommandLine } from './shell/parse-argv.ts'
import { parse } from './shell/parse-argv.ts'
import { inline, json, jsonLine, paint } from './shell/terminal-text.ts'

async function run(
  parsed: Extract<ParsedCommandLine, { kind: 'run' }>,
): Promise<Result<CommandOutput, Trouble>> {
  const { command, args, flags, rest } = parsed
  if (flags['raw'] === true && (process.stdout.isTTY || parsed.json)) {
    return {
      ok: false,
      error: usage(
        parsed.json
          ? '`--raw` and `--json` can’t be used together'
          : '`--raw` would let the output control this terminal; pipe it or redirect it to a file',
      ),
    }
  }
  const keyed = withKeyFor(command, args)
  const config: Result<Config | undefined, Trouble> =
    keyed.key === 'offline' ? ok(undefined) : readConfig(keyed)
  if (!config.ok) return config
  const offline: Api = () => Promise.reject(new Error(`\`${command.words.join(' ')}\` is offline`))
  return command.run({
    args,
    flags,
    rest,
    api: config.value === undefined ? offline : connect(config.value),
    connection: () => ({ url: config.value?.url ?? '', key: config.value?.key ?? '' }),
    operatorApi: () => operatorApi(command),
    tenant: () => config.value?.tenant ?? 'default',
    paint: paint(wantsColour(process.stdout.isTTY)),
    live: () => live(parsed.json),
    terminal: process.stdout.isTTY && !parsed.json,
  })
}

function withKeyFor(command: Command, args: Values): Command {
  const isGiven = Object.values(args).some((value) => value !== undefined)
  return { ...command, key: (isGiven ? command.keyForArgument : undefined) ?? command.key }
}

function operatorApi(command: Command): Api | undefined {
  const config = readOperatorConfig(command)
  return config.ok ? connect(config.value) : undefined
}

/** Ctrl-C ends a long-running command between two writes, so its output is always whole lines. */
function live(asJson: boolean): Live {
  const interrupted = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
    process.once(signal, () => interrupted.abort())
  return {
    tell: (value, text) => void process.stdout.write(asJson ? jsonLine(value) : text),
    note: (text) => void process.stderr.write(`countersign: ${inline(text)}\n`),
    until: interrupted.signal,
  }
}

function print({ json: value, text, raw }: CommandOutput, asJson: boolean): void {
  process.stdout.write(raw ?? (asJson ? json(value) : text))
}

const fieldLine = ({ at, message, hint }: FieldError): string =>
  `  ${inline(at)}: ${inline(message)}${hint === undefined ? '' : ` (${inline(hint)})`}\n`

function printTrouble({ exit, code, detail, todo, errors }: Trouble, asJson: boolean): number {
  if (asJson)
    process.stdout.write(
      json({
        error: {
          code,
          detail,
          ...(todo === undefined ? {} : { todo }),
          ...(errors === undefined ? {} : { errors }),
        },
      }),
    )
  else {
    const fields = (errors ?? []).map(fieldLine).join('')
    const hint = exit === 2 ? '; see --help' : todo === undefined ? '' : `; ${inline(todo)}`
    process.stderr.write(`countersign: ${inline(detail)}${hint}\n${fields}`)
  }
  return exit
}

async function main(argv: readonly string[]): Promise<number> {
  const asJson = argv.slice(0, argv.includes('--') ? argv.indexOf('--') : undefined).includes('--json')
  const parsed = parse(argv, COMMANDS)
  if (!parsed.ok) return printTrouble(parsed.error, asJson)
  if (parsed.value.kind === 'help') {
    const { commands, asked } = parsed.value
    ;(asked ? process.stdout : process.stderr).write(help(commands, commands.length === COMMANDS.length))
    return asked ? 0 : 2
  }
  const answer = await run(parsed.value)
  if (!answer.ok) return printTrouble(answer.error, asJson)
  print(answer.value, asJson)
  return answer.value.ok ? 0 : 1
}

// The reader of our output may close the pipe early (`| head`); that is not an error.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error
  process.exit()
})
process.exitCode = await main(process.argv.slice(2))
