// Help, made from the table of commands and from nothing else, so that it can't say what is not so. Pure.

import type { Command, Flag } from './command.ts'
import { EVERYWHERE, shown } from './parse-argv.ts'
import { columns } from './terminal-text.ts'

const CONFIGURATION = `Where the edge is and whose key to send:
  COUNTERSIGN_URL    the edge's address, e.g. https://edge.example.com
  COUNTERSIGN_KEY    an agent's or operator's API key, or the installation key for tenants; keys never go on the command line
  COUNTERSIGN_STATE  without the two above: the state folder of a running \`npm start\` (default .countersign), whose dev.json has the address and all three keys
  NO_COLOR           no colour

Exit codes: 0 done; 1 refused, failed or not verified; 2 the command line or the configuration can't be used.
`

const KEYS = {
  agent: 'Sends an agent’s key.',
  operator: 'Sends an operator’s key.',
  either: 'Sends an agent’s or an operator’s key.',
  installation: 'Sends the installation key.',
  none: 'Sends no key.',
  offline: 'Needs no edge.',
} as const

export const help = (commands: readonly Command[], whole: boolean): string => {
  const [only] = commands
  return commands.length === 1 && only !== undefined ? one(only) : overview(commands, whole)
}

function overview(commands: readonly Command[], whole: boolean): string {
  const rows = commands.map((command) => [
    [...command.words, ...Object.keys(command.args).map(shown)].join(' '),
    command.does,
  ])
  const title = whole ? 'countersign: no tool call of an AI agent runs without a countersign.\n\n' : ''
  return `${title}${columns(rows, '  countersign ')}\n\`countersign COMMAND --help\` says more of one.\n${whole ? `\n${CONFIGURATION}` : ''}`
}

function one(command: Command): string {
  const { words, args, flags, does, key, exits, examples } = command
  const line = [
    'countersign',
    ...words,
    ...Object.keys(args).map(shown),
    ...Object.entries(flags).map(([name, flag]) => `[${spelled(name, flag)}]`),
  ]
  const rows = [
    ...Object.entries(args).map(([name, what]) => [shown(name), what]),
    ...Object.entries({ ...flags, ...EVERYWHERE }).map(([name, flag]: [string, Flag]) => [
      `${spelled(name, flag)}${flag.short === undefined ? '' : `, -${flag.short}`}`,
      flag.what,
    ]),
  ]
  const codes = exits ?? '0 done; 1 refused or failed'
  const shownExamples = (examples ?? []).map((example) => `  ${example}\n`).join('')
  return `${line.join(' ')}\n\n${does}.\n\n${columns(rows, '  ')}\n${KEYS[key]} Exit codes: ${codes}; 2 the command line or the configuration can't be used.\n${shownExamples === '' ? '' : `\n${shownExamples}`}`
}

const spelled = (name: string, { value }: Flag): string =>
  value === undefined ? `--${name}` : `--${name} ${value}`
