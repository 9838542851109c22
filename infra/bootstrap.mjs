// The first step of every npm script: runs on any Node from 20 on without dependencies, installs
// what package-lock.json lists if needed, and runs the TypeScript entry under the Node from
// node_modules. Tests and the demo also get the packages of test/agents, which nothing else needs.
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
  fail(`this is ${process.platform}; Countersign's sandboxes need Linux (Debian 12 or newer, or similar)`)
const [entry, ...args] = process.argv.slice(2)
if (entry === undefined) fail('name the entry to run, e.g. `node infra/bootstrap.mjs infra/start.ts`')

/**
 * The first package that is missing in a folder. As its last step, npm writes what it installed to
 * `node_modules/.package-lock.json`, which we compare.
 */
function missingIn(folder) {
  const installed = join(folder, 'node_modules/.package-lock.json')
  if (!existsSync(installed)) return 'node_modules'
  const have = JSON.parse(readFileSync(installed, 'utf8')).packages
  const want = JSON.parse(readFileSync(join(folder, 'package-lock.json'), 'utf8')).packages
  return Object.keys(want).find((path) => {
    if (path === '' || (have[path] === undefined && want[path].optional)) return false
    return have[path]?.version !== want[path].version || have[path]?.integrity !== want[path].integrity
  })
}

function install(name) {
  const folder = join(root, name)
  const missing = missingIn(folder) ?? (name === '' && !existsSync(node) ? 'node' : undefined)
  if (missing === undefined) return
  const lock = join(name, 'package-lock.json')
  say(`\`${missing}\` is missing or differs from ${lock}; running npm ci (about a minute)`)
  const npm = spawnSync('npm', ['ci', '--no-fund', '--no-audit', '--loglevel=error'], {
    cwd: folder,
    stdio: ['ignore', 2, 2],
  })
  if (npm.error) fail(`npm could not be started: ${npm.error.message}; install npm`)
  if (npm.status !== 0) fail(`npm ci failed in ${folder}; fix the error above and run this again`)
}

install('')
if (/^infra\/(?:testing|demo)\//.test(entry)) install('test/agents')

// setpriv (util-linux, essential in Debian) makes the kernel send the entry SIGTERM if this process
// dies.
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
  // Compiled modules, so that each process of the checks and the tests starts in half the time.
  NODE_COMPILE_CACHE:
    process.env.NODE_COMPILE_CACHE ?? join(root, 'node_modules/.cache/countersign/compiled'),
}
const child = spawn(command[0], command.slice(1), { cwd: root, stdio: 'inherit', env })
child.on('error', (error) => fail(`\`${command[0]}\` could not be started: ${error.message}`))
child.on('exit', (code, signal) => process.exit(code ?? (signal === 'SIGINT' ? 130 : 1)))

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))

// npm may be killed without passing a signal on; then we stop the entry ourselves.
const parent = process.ppid
const watch = setInterval(() => {
  if (process.ppid === parent) return
  clearInterval(watch)
  child.kill('SIGTERM')
}, 500)
watch.unref()
