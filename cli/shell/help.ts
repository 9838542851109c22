// Help, generated from the table of commands, so that it can't disagree with what the parser
// accepts.

import type { Command, Flag } from './command.ts'
import { argumentLabel, COMMON_FLAGS } from './parse-argv.ts'
import { columns } from './terminal-text.ts'

const CONFIGURATION = `Environment variables:
  COUNTERSIGN_URL    the edge's address, e.g. https://edge.example.com
  COUNTERSIGN_KEY    the API key to send: an agent's, an operator's or, for \`tenants\`, the installation key; never put a key on the command line
  COUNTERSIGN_STATE  if the two above are not set: the state folder of a running \`npm start\` (default: .countersign); its dev.json has the address and all three keys
  NO_COLOR           set it to turn colour off

Exit codes: 0 done; 1 refused, failed or not verified; 2 wrong usage or configuration.
`

const KEY_NOTES = {
  agent: 'Sends an agent’s key.',
  operator: 'Sends an operator’s key.',
  either: 'Sends an agent’s or an operator’s key.',
  installation: 'Sends the installation key.',
  none: 'Sends no key.',
  offline: 'Needs no edge.',
} as const

const ARGUMENT_NOTES = { installation: 'the installation key', offline: 'needs no edge' } as const

export const help = (commands: readonly Command[], whole: boolean): string => {
  const [only] = commands
  return commands.length === 1 && only !== undefined ? commandHelp(only) : overview(commands, whole)
}

function overview(commands: readonly Command[], whole: boolean): string {
  const rows = commands.map((command) => [
    [...command.words, ...Object.keys(command.args).map(argumentLabel)].join(' '),
    command.does,
  ])
  const title = whole ? 'countersign: no tool call of an AI agent runs without a countersign.\n\n' : ''
  return `${title}${columns(rows, '  countersign ')}\n\`countersign COMMAND --help\` shows its arguments, flags and examples.\n${whole ? `\n${CONFIGURATION}` : ''}`
}

function commandHelp(command: Command): string {
  const { words, args, flags, rest, does, key, keyForArgument, exits, examples } = command
  const line = [
    'countersign',
    ...words,
    ...Object.keys(args).map(argumentLabel),
    ...Object.entries(flags).map(([name, flag]) => `[${flagLabel(name, flag)}]`),
    ...(rest === undefined ? [] : ['-- COMMAND…']),
  ]
  const rows = [
    ...Object.entries(args).map(([name, what]) => [argumentLabel(name), what]),
    ...(rest === undefined ? [] : [['COMMAND…', rest]]),
    ...Object.entries({ ...flags, ...COMMON_FLAGS }).map(([name, flag]: [string, Flag]) => [
      `${flagLabel(name, flag)}${flag.short === undefined ? '' : `, -${flag.short}`}`,
      flag.what,
    ]),
  ]
  const codes = exits ?? '0 done; 1 refused or failed'
  const shownExamples = (examples ?? []).map((example) => `  ${example}\n`).join('')
  return `${line.join(' ')}\n\n${does}.\n\n${columns(rows, '  ')}\n${KEY_NOTES[key]}${keyForArgument === undefined ? '' : ` With an argument: ${ARGUMENT_NOTES[keyForArgument]}.`} Exit codes: ${codes}; 2 wrong usage or configuration.\n${shownExamples === '' ? '' : `\n${shownExamples}`}`
}

const flagLabel = (name: string, { value }: Flag): string =>
  value === undefined ? `--${name}` : `--${name} ${value}`
