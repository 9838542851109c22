// Owns the stack's worker: its home, configuration, enrolment and process. Started by root, it
// becomes the unprivileged worker user before its first line runs. No secret is on a command line.

import { spawn } from 'node:child_process'
import { chownSync, existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { err, ok, type Result } from '../shared/result.ts'
import { type ChildSpec, pdeathsig } from './child-process.ts'
import { userNamed, WORKER_USER } from './packages.ts'
import { redisUrl } from './redis.ts'
import { asWorker, type User } from './run-as-user.ts'
import { type Refusal, ROOT, type Secrets, type State, TENANT, writePrivate } from './state.ts'

export type WorkerEndpoints = {
  readonly url: string
  readonly redisPort: number
  /** Settings for `npm start` and tests. On a permanent host the operator chooses them. */
  readonly stack?: {
    readonly concurrency: number
    /** Private addresses that the egress proxy may reach, for test servers. */
    readonly private_hosts: readonly string[]
  }
}

/** Shorter than a server's 20 s, so that Ctrl-C in a developer's terminal is quick. */
const DRAIN_MS = 4_000
const ENROL_MS = 20_000

const ENV = { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', LANG: 'C.UTF-8' } as const

const user = (): User =>
  userNamed(WORKER_USER) ?? { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 }
const asRoot = (): boolean => process.getuid?.() === 0

/** The worker's program, by its path from the root. */
const PROGRAM = 'worker/main.ts'

/** The worker's command line, with the paths under which its user sees the program and its home. */
export const workerArgv = (
  state: State,
  program: string,
  command: string,
  flags: readonly string[] = [],
): string[] =>
  asWorker(user(), { app: ROOT, home: state.worker }, ({ app, home }) =>
    pdeathsig([
      ...['/usr/bin/env', `NODE_COMPILE_CACHE=${join(home, 'cache')}`], // the one of worker/re-exec.ts
      join(app, 'node_modules/.bin/node'),
      join(app, program),
      command,
      '--config',
      join(home, 'worker.json'),
      ...flags,
    ]),
  )

/** The path under which the worker's user sees its home. */
function homePath(state: State): string {
  let seen = state.worker
  asWorker(user(), { home: state.worker }, ({ home }) => {
    seen = home
    return []
  })
  return seen
}

/**
 * Writes worker.json at every start, because ports may have changed; other settings of the operator
 * stay. The worker's user must own the file, or the worker refuses it.
 */
export function prepareWorker(
  state: State,
  at: WorkerEndpoints,
  secrets: Secrets,
  home = homePath(state),
): void {
  const own = (path: string): void => {
    const { uid, gid } = user()
    if (asRoot()) chownSync(path, uid, gid)
  }
  mkdirSync(state.worker, { recursive: true, mode: 0o700 })
  own(state.worker)
  const config = {
    edge_url: at.url,
    tenant: TENANT,
    pool: 'default',
    redis_url: redisUrl('worker', secrets, at.redisPort),
    home,
    ...(at.stack === undefined ? {} : stackSettings(at.stack)),
  }
  const path = join(state.worker, 'worker.json')
  const before = existsSync(path) ? readConfig(path) : {}
  writePrivate(path, `${JSON.stringify({ ...before, ...config }, null, 2)}\n`)
  own(path)
}

const stackSettings = ({ concurrency, private_hosts }: NonNullable<WorkerEndpoints['stack']>): object => ({
  concurrency,
  drain_ms: DRAIN_MS,
  ...(private_hosts.length === 0 ? {} : { private_hosts }),
})

/** Fails on an unreadable file instead of overwriting the operator's settings. */
function readConfig(path: string): object {
  try {
    const read: unknown = JSON.parse(readFileSync(path, 'utf8'))
    if (typeof read === 'object' && read !== null) return read
  } catch {
    // Reported below.
  }
  throw new Error(`\`${path}\` is not a JSON object; correct it, or delete it and it will be written again`)
}

const keyFile = (state: State): string => join(state.worker, 'key.json')

/**
 * The id that the edge gave our worker, or `undefined` if it was not enrolled or the enrolment was
 * cut off.
 */
export function enrolledWorkerId(state: State): string | undefined {
  if (!existsSync(keyFile(state))) return undefined
  try {
    const { worker }: { worker: string } = JSON.parse(readFileSync(keyFile(state), 'utf8')) // worker/identity wrote it
    return worker
  } catch {
    return undefined
  }
}

export async function enrolWorker(state: State, token: string): Promise<Result<void, Refusal>> {
  rmSync(keyFile(state), { force: true })
  const [file = '', ...args] = workerArgv(state, PROGRAM, 'enrol')
  const child = spawn(file, args, {
    cwd: ROOT,
    env: { ...ENV, HOME: homePath(state) },
    stdio: ['pipe', 'pipe', 'pipe'],
    timeout: ENROL_MS,
    killSignal: 'SIGKILL',
  })
  const output: Buffer[] = []
  child.stdout.on('data', (chunk: Buffer) => output.push(chunk))
  child.stderr.on('data', (chunk: Buffer) => output.push(chunk))
  child.stdin.on('error', () => undefined) // it ended before it read the token; its output says why
  child.stdin.end(`${token}\n`)
  const code = await new Promise<number | string>((settle) => {
    child.on('error', (error) => settle(error.message))
    child.on('close', (exit, signal) => settle(exit ?? signal ?? 'no exit code'))
  })
  return code === 0
    ? ok(undefined)
    : err(`the worker could not be enrolled (${code}): ${Buffer.concat(output).toString().trim()}`)
}

export const workerSpec = (state: State, program = PROGRAM): ChildSpec => ({
  name: 'worker',
  argv: workerArgv(state, program, 'run', ['--json']),
  env: { ...ENV, HOME: homePath(state) },
  cwd: ROOT,
  log: join(state.log, 'worker.log'),
  ready: (log) => Promise.resolve(/"msg":"ready"/.test(log())),
  readyWithin_ms: 30_000,
  stopWithin_ms: DRAIN_MS + 8_000,
})
