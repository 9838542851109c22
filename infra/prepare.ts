// `npm run prepare-host`: writes what the units in infra/systemd run on (users, folders, configurations, secrets, kernel settings), and starts nothing.
// For a host that serves for good; `npm start` needs none of it. Run again after an update: keys and passwords stay as they are.

import { chmodSync, existsSync, lchownSync, lstatSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { lowCounts, SYSCTL_FILE, sysctlLines } from '../worker/sandbox/host-counts.ts'
import { makeUser, userNamed, WORKER_USER } from './packages.ts'
import { redisProgram, redisSpec } from './redis.ts'
import { sayOnStderr as say, setUp } from './setup.ts'
import { redisPort, stateDir, wantedPort, writePrivate } from './state.ts'
import { fail } from './terminal.ts'
import { prepareWorker } from './worker-process.ts'
import { edgeEnv, edgeSpec } from './workerd.ts'

const REDIS_USER = 'countersign-redis'
const EDGE_USER = 'countersign-edge'

/** All of a folder belongs to its service, and to no other. Follows no link: the service may have put one there, and the program is one. */
function give(path: string, name: string): void {
  const user = userNamed(name) ?? fail(say, `the user \`${name}\` is gone`)
  lchownSync(path, user.uid, user.gid)
  if (lstatSync(path).isDirectory()) for (const entry of readdirSync(path)) give(join(path, entry), name)
}

/** Raises the settings that let one call use up what all calls share (worker/sandbox/host-counts.ts). Never lowers one. */
function raiseCounts(): void {
  const low = lowCounts((path) => (existsSync(path) ? readFileSync(path, 'latin1') : ''))
  if (low.length === 0) return
  writeFileSync(SYSCTL_FILE, sysctlLines(low))
  for (const { sysctl, path, enough } of low) {
    try {
      writeFileSync(path, `${enough}`)
    } catch {
      say(
        `\`${sysctl} = ${enough}\` is written to ${SYSCTL_FILE} but could not be set now: restart the host, or set it outside this container`,
      )
    }
  }
}

if (process.getuid?.() !== 0) fail(say, 'this prepares a host for systemd and needs root; `npm start` does not')
const port = wantedPort() ?? fail(say, 'COUNTERSIGN_PORT is no port; set it to one from 1 to 65535')
for (const name of [REDIS_USER, EDGE_USER]) {
  const user = makeUser(name, say)
  if (!user.ok) fail(say, user.error)
}
const ready = await setUp(stateDir(), say)
if (!ready.ok) fail(say, ready.error)
const { state, secrets, build } = ready.value
const program = redisProgram(state) ?? fail(say, 'no redis-server on this machine; install the package redis-tools')
// Taken by our own service, when this is an update.
const redisAt = await redisPort(state, () => Promise.resolve(true))
const url = process.env['COUNTERSIGN_PUBLIC_URL'] || `http://127.0.0.1:${port}`

redisSpec(state, program, redisAt, secrets)
edgeSpec(state, build, { host: '127.0.0.1', port, redisPort: redisAt }, secrets)
const variables = Object.entries(edgeEnv(secrets, redisAt, url)).map(([name, value]) => `${name}='${value}'\n`)
writePrivate(join(state.dir, 'edge.env'), variables.join(''))
mkdirSync(state.worker, { recursive: true, mode: 0o700 })
prepareWorker(state, { url: `http://127.0.0.1:${port}`, redisPort: redisAt }, secrets, state.worker)
raiseCounts()
give(state.redis, REDIS_USER)
give(state.edge, EDGE_USER)
give(state.worker, WORKER_USER)
// The services pass through to their own folders; nobody but root may list it, or read the secrets in it.
chmodSync(state.dir, 0o711)

console.log(`Prepared in ${state.dir}. Next:
  cp infra/systemd/*.service /etc/systemd/system/ && systemctl daemon-reload
  systemctl enable --now countersign-redis countersign-edge
  and enrol the worker as README.md says ("On a host of your own"); the keys of the first operator
  and of the installation are in ${state.secrets} (\`operator\`, \`installation\`)`)
