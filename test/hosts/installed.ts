// Owns the installation of Countersign on a machine: the commands of docs/hosts.md, as a person
// would type them, in that order.

import { execFileSync } from 'node:child_process'
import { readFileSync, realpathSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { ROOT } from '../../infra/state.ts'
import { Machine } from './machine.ts'

/** The folder of the checkout in the documents. */
export const APP = '/opt/countersign'
export const STATE = '/var/lib/countersign'
export const UNITS = ['countersign-redis', 'countersign-edge', 'countersign-worker'] as const

const HEADING = '## On a host of your own'

/** The commands in the first block after the heading, without those that fetch the checkout. */
export function documentedCommands(): string[] {
  const section =
    readFileSync(join(ROOT, 'docs/hosts.md'), 'utf8').split(`\n${HEADING}\n`)[1]?.split('\n## ')[0] ?? ''
  const block = /```console not-run\n(.*?)```/s.exec(section)?.[1] ?? ''
  const commands = block.split('\n').flatMap((line) => (line.startsWith('$ ') ? [line.slice(2)] : []))
  if (commands.length === 0) throw new Error(`docs/hosts.md has no commands under \`${HEADING}\``)
  return commands.filter((command) => !command.startsWith('git clone '))
}

/**
 * A machine with the prerequisites of docs/hosts.md: the checkout, Node and npm. It is not booted
 * yet.
 */
export async function bareMachine(name: string): Promise<Machine> {
  const npm = dirname(dirname(realpathSync(execFileSync('which', ['npm'], { encoding: 'utf8' }).trim())))
  return Machine.open({
    name,
    // The packages that `npm run prepare-host` would install if this machine reached a mirror.
    packages: ['bubblewrap', 'redis-tools', 'socat', 'curl', 'ca-certificates'],
    shared: { [ROOT]: APP, [npm]: '/usr/lib/node_modules/npm' },
    links: {
      'usr/local/bin/node': `${APP}/node_modules/.bin/node`,
      'usr/local/bin/npm': '/usr/lib/node_modules/npm/bin/npm-cli.js',
      'usr/local/bin/npx': '/usr/lib/node_modules/npm/bin/npx-cli.js',
    },
  })
}

/**
 * Runs the commands in one shell, as root, in the checkout. Throws at the first failure, with the
 * units' logs.
 */
export async function type(machine: Machine, commands: readonly string[]): Promise<string> {
  const script = commands.map((command) => `echo '$' ${quoted(command)}\n${command}\n`).join('')
  const { code, out, err } = await machine.run(['bash', '--norc', '-euo', 'pipefail', '-c', script], {
    cwd: APP,
  })
  if (code !== 0)
    throw new Error(
      `on ${machine.name} a documented command ended with ${code}:\n${out}${err}\n${await machine.diagnosis(UNITS)}`,
    )
  return out
}

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`

type Secrets = {
  readonly operator: string
  readonly edge: { readonly d: string }
  readonly redis: Readonly<Record<string, string>>
}
export const secretsOf = (machine: Machine): Secrets =>
  JSON.parse(readFileSync(join(machine.root, STATE, 'secrets.json'), 'utf8')) as Secrets // prepare-host wrote it

/** The command line on the machine, with a key in its environment. */
export async function countersign(
  machine: Machine,
  key: string,
  argv: readonly string[],
): Promise<{ code: number | null; out: string }> {
  const env = { COUNTERSIGN_URL: 'http://127.0.0.1:8787', COUNTERSIGN_KEY: key, NO_COLOR: '1' }
  const { code, out, err } = await machine.run(['node', join(APP, 'cli/main.ts'), ...argv], { env })
  return { code, out: `${out}${err}` }
}
