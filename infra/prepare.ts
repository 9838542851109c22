// `npm run prepare-host`: prepares a permanent host for the units in infra/systemd: users, folders,
// configurations, secrets and kernel settings. Starts nothing. Run it again after an update; keys
// and passwords stay as they are. `npm start` does not need it.

import {
  chmodSync,
  existsSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { lowCounts, SYSCTL_FILE, sysctlLines } from '../worker/sandbox/limits/host-counts.ts'
import { makeUser, userNamed, WORKER_USER } from './packages.ts'
import { redisProgram, redisSpec } from './redis.ts'
import { sayOnStderr as say, setUp } from './setup.ts'
import { redisPort, sealAfterRefusal, stateDir, wantedPort, witnessesRefusal, writePrivate } from './state.ts'
import { fail } from './terminal.ts'
import { prepareWorker } from './worker-process.ts'
import { edgeEnv, edgeSpec } from './workerd.ts'

const REDIS_USER = 'countersign-redis'
const EDGE_USER = 'countersign-edge'

/**
 * Gives a folder and everything in it to its service's user. Never follows symlinks: the service
 * may have planted one.
 */
function give(path: string, name: string): void {
  const user = userNamed(name) ?? fail(say, `the user \`${name}\` does not exist any more; run this again`)
  lchownSync(path, user.uid, user.gid)
  if (lstatSync(path).isDirectory()) for (const entry of readdirSync(path)) give(join(path, entry), name)
}

/**
 * Raises kernel limits that all calls share, so that one call can't use them up
 * (worker/sandbox/limits/host-counts.ts). Never lowers one.
 */
function raiseCounts(): void {
  const low = lowCounts((path) => (existsSync(path) ? readFileSync(path, 'latin1') : ''))
  if (low.length === 0) return
  writeFileSync(SYSCTL_FILE, sysctlLines(low))
  for (const { sysctl, path, enough } of low) {
    try {
      writeFileSync(path, `${enough}`)
    } catch {
      say(
        `\`${sysctl} = ${enough}\` was written to ${SYSCTL_FILE} but could not be set now; restart the host or, in a container, set it outside`,
      )
    }
  }
}

if (process.getuid?.() !== 0)
  fail(
    say,
    'prepare-host sets up system services and needs root: run it with sudo, or use `npm start`, which needs no root',
  )
const port = wantedPort() ?? fail(say, 'COUNTERSIGN_PORT is not a port; set it to a number from 1 to 65535')
const refusal = sealAfterRefusal() ?? witnessesRefusal()
if (refusal !== undefined) fail(say, refusal)
for (const name of [REDIS_USER, EDGE_USER]) {
  const user = makeUser(name, say)
  if (!user.ok) fail(say, user.error)
}
const ready = await setUp(stateDir(), say)
if (!ready.ok) fail(say, ready.error)
const { state, secrets, build } = ready.value
const program =
  redisProgram(state) ??
  fail(say, 'there is no redis-server on this machine; install the package redis-tools')
// On an update our own Redis uses the port already, so accept it without a check.
const redisAt = await redisPort(state, () => Promise.resolve(true))
const url = process.env['COUNTERSIGN_PUBLIC_URL'] || `http://127.0.0.1:${port}`

redisSpec(state, program, redisAt, secrets)
edgeSpec(state, build, { host: '127.0.0.1', port, redisPort: redisAt })
const variables = Object.entries(edgeEnv(secrets, redisAt, url)).map(
  ([name, value]) => `${name}='${value}'\n`,
)
writePrivate(join(state.dir, 'edge.env'), variables.join(''))
mkdirSync(state.worker, { recursive: true, mode: 0o700 })
prepareWorker(state, { url: `http://127.0.0.1:${port}`, redisPort: redisAt }, secrets, state.worker)
raiseCounts()
give(state.redis, REDIS_USER)
give(state.edge, EDGE_USER)
give(state.worker, WORKER_USER)
// 0711: the services can enter their own folders; only root can list this one or read the secrets
// in it.
chmodSync(state.dir, 0o711)

console.log(`The host is prepared; its state folder is ${state.dir}. Next, run:

  cp infra/systemd/*.service /etc/systemd/system/ && systemctl daemon-reload
  systemctl enable --now countersign-redis countersign-edge

Then enrol the worker as docs/hosts.md describes. The keys of the first operator and of
the installation are in ${state.secrets} (\`operator\`, \`installation\`).`)
