// The first step of every npm script: runs on any Node from 20 with no dependency, puts `node_modules` in order, and goes on under the Node
// that came with it. Owns nothing else: what a script does is in the TypeScript entry that it names.
// usage: node infra/bootstrap.mjs <entry.ts> [arguments]

import { spawn, spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const node = join(root, 'node_modules/.bin/node')
const say = (text) => process.stderr.write(`countersign: ${text}\n`)
const fail = (text) => {
  say(text)
  process.exit(1)
}

if (Number(process.versions.node.split('.')[0]) < 20)
  fail(`this is Node ${process.versions.node}; install Node 20 or newer`)
if (process.platform !== 'linux')
  fail(`this is ${process.platform}; Countersign's sandboxes need Linux (Debian 12 or newer, or alike)`)
const [entry, ...args] = process.argv.slice(2)
if (entry === undefined) fail('name the entry to run, e.g. `node infra/bootstrap.mjs infra/start.ts`')

/** npm writes what it installed to `node_modules/.package-lock.json`, as its last step; it is the stamp that we compare. */
function missing() {
  const installed = join(root, 'node_modules/.package-lock.json')
  if (!existsSync(installed) || !existsSync(node)) return 'node_modules'
  const have = JSON.parse(readFileSync(installed, 'utf8')).packages
  const want = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')).packages
  return Object.keys(want).find((path) => {
    if (path === '' || (have[path] === undefined && want[path].optional)) return false
    return have[path]?.version !== want[path].version || have[path]?.integrity !== want[path].integrity
  })
}

const lacking = missing()
if (lacking !== undefined) {
  say(`\`${lacking}\` is missing or not what package-lock.json says: npm ci (about a minute)`)
  const npm = spawnSync('npm', ['ci', '--no-fund', '--no-audit', '--loglevel=error'], {
    cwd: root,
    stdio: ['ignore', 2, 2],
  })
  if (npm.error) fail(`npm did not start: ${npm.error.message}; install npm`)
  if (npm.status !== 0) fail('npm ci failed; mend what it says above and run again')
}

// setpriv (util-linux, essential in Debian) asks the kernel to end the entry, in order, should this process be killed.
const setpriv = '/usr/bin/setpriv'
const command = [
  ...(existsSync(setpriv) ? [setpriv, '--pdeathsig', 'TERM', '--'] : []),
  node,
  '--disable-warning=ExperimentalWarning',
  entry,
  ...args,
]
const env = {
  ...process.env,
  PATH: `${join(root, 'node_modules/.bin')}:${process.env.PATH}:/usr/local/sbin:/usr/sbin:/sbin`,
  WRANGLER_SEND_METRICS: 'false',
}
const child = spawn(command[0], command.slice(1), { cwd: root, stdio: 'inherit', env })
child.on('error', (error) => fail(`\`${command[0]}\` did not start: ${error.message}`))
child.on('exit', (code, signal) => process.exit(code ?? (signal === 'SIGINT' ? 130 : 1)))

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))

// npm may be killed without a word to us; then nobody is left to stop what we run.
const parent = process.ppid
const watch = setInterval(() => {
  if (process.ppid === parent) return
  clearInterval(watch)
  child.kill('SIGTERM')
}, 500)
watch.unref()
