// Owns a running stack: starts Redis, the edge and one worker in order on a state folder, seeds and
// supervises them, and stops them in reverse order. Used by `npm start`, the demo, the tests and
// the benchmark. No process of it outlives the process that started it.

import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { type Err, err, ok, type Result } from '../shared/result.ts'
import type { Client } from '../shared/routes/client.ts'
import { Child } from './child-process.ts'
import { removeEmptyCgroups } from './delegate-cgroup.ts'
import { redisProgram, redisSpec } from './redis.ts'
import { type DevInfo, enrolmentToken, operatorClient, readKeys, seed } from './seed.ts'
import { type Ready, type Say, setUp } from './setup.ts'
import {
  freePort,
  lockState,
  portRefusal,
  type Refusal,
  redisPort,
  type State,
  TENANT,
  writePrivate,
} from './state.ts'
import {
  enrolledWorkerId,
  enrolWorker,
  prepareWorker,
  type WorkerEndpoints,
  workerSpec,
} from './worker-process.ts'
import { edgeSpec, type WitnessAt, wranglerSpec } from './workerd.ts'

export type StackOptions = {
  /** The state folder; created if missing. */
  readonly state: string
  /** The edge's port; by default a free one. */
  readonly port?: number
  /** The address to listen on; by default 127.0.0.1. */
  readonly host?: string
  /** The address that browsers use, if it differs: behind a TLS proxy. */
  readonly publicUrl?: string
  /** workerd serves the built edge; wrangler serves the sources, for development. */
  readonly edge?: 'workerd' | 'wrangler'
  readonly concurrency?: number
  /**
   * `idle`: it is enrolled and does not run, for tests that play a worker themselves or need none.
   */
  readonly worker?: 'idle'
  /** The worker's program, by its path from the root, for tests that start a bundle of it. */
  readonly workerProgram?: string
  readonly private_hosts?: readonly string[]
  /**
   * For tests and the demo: channels and upstreams may be on this host. A record also maps public
   * origins to test servers here.
   */
  readonly loopbackChannels?: true | Readonly<Record<string, string>>
  /** How long an ended run rests before it is sealed, instead of the setting of the environment. */
  readonly sealAfterS?: number
  /** The witnesses of all logs, instead of those of the environment. */
  readonly witnesses?: readonly WitnessAt[]
  /** Restart parts that die unexpectedly. Tests that kill parts leave it off. */
  readonly supervise?: boolean
  /** For tests: changes the copy of the built edge in this folder before the edge starts. */
  readonly changeEdge?: (bundle: string) => void
  readonly say?: Say
}

export type Stack = {
  readonly url: string
  readonly redisPort: number
  readonly state: State
  readonly dev: DevInfo
  readonly operator: Client
  readonly redis: Child
  readonly edge: Child
  readonly worker: Child
  readonly stop: () => Promise<void>
}

const CONCURRENCY = 8

export async function startStack(options: StackOptions): Promise<Result<Stack, Refusal>> {
  const say: Say = options.say ?? (() => undefined)
  const ready = await setUp(options.state, say)
  if (!ready.ok) return ready
  const lock = lockState(ready.value.state)
  if (!lock.ok) return lock
  const refused = <E>(refusal: Err<E>): Err<E> => {
    lock.value()
    return refusal
  }
  const made = await makeParts(ready.value, options, say)
  if (!made.ok) return refused(made)
  options.changeEdge?.(join(ready.value.state.edge, 'bundle'))
  const started = await startParts(ready.value, made.value, say, options)
  if (!started.ok) return refused(started)
  const { state } = ready.value
  const { url, redisPort: redisAt, operator, redis, edge, worker } = made.value
  writePrivate(state.dev, `${JSON.stringify(started.value, null, 2)}\n`)
  if (options.supervise) for (const part of [redis, edge, worker]) part.supervise()
  const stop = async (): Promise<void> => {
    rmSync(state.dev, { force: true })
    await stopParts(made.value)
    lock.value()
  }
  return ok({ url, redisPort: redisAt, state, dev: started.value, operator, redis, edge, worker, stop })
}

type Parts = {
  readonly url: string
  readonly redisPort: number
  readonly operator: Client
  readonly redis: Child
  readonly edge: Child
  readonly worker: Child
  readonly workerAt: WorkerEndpoints
}

async function makeParts(
  { state, secrets, build }: Ready,
  options: StackOptions,
  say: Say,
): Promise<Result<Parts, Refusal>> {
  rmSync(state.dev, { force: true })
  const host = options.host ?? '127.0.0.1'
  const port = options.port ?? (await freePort())
  const refusal = await portRefusal(port)
  if (refusal !== undefined) return err(refusal)
  const program = redisProgram(state)
  if (program === undefined)
    return err(
      'there is no redis-server on this machine; install the package redis-tools, or Redis 7 or newer',
    )
  const redisAt = await redisPort(state)
  const url = `http://127.0.0.1:${port}`
  const { publicUrl } = options
  const edgeAt = {
    host,
    port,
    publicUrl,
    redisPort: redisAt,
    loopbackChannels: options.loopbackChannels === true ? {} : options.loopbackChannels,
    sealAfterS: options.sealAfterS,
    witnesses: options.witnesses,
  }
  return ok({
    url,
    redisPort: redisAt,
    operator: operatorClient(url, secrets.operator),
    redis: new Child(redisSpec(state, program, redisAt, secrets), say),
    edge: new Child(
      options.edge === 'wrangler' ? wranglerSpec(state, edgeAt, secrets) : edgeSpec(state, build, edgeAt),
      say,
    ),
    worker: new Child(workerSpec(state, options.workerProgram), say),
    workerAt: {
      url,
      redisPort: redisAt,
      stack: { concurrency: options.concurrency ?? CONCURRENCY, private_hosts: options.private_hosts ?? [] },
    },
  })
}

/**
 * The edge is ready only with Redis. A worker that is not enrolled needs the edge first; an
 * enrolled worker starts at once and waits for both.
 */
async function startParts(
  ready: Ready,
  parts: Parts,
  say: Say,
  options: StackOptions,
): Promise<Result<DevInfo, Refusal>> {
  const started = await startInOrder(ready, parts, say, options)
  if (!started.ok) await stopParts(parts)
  return started
}

async function stopParts({ worker, edge, redis }: Parts): Promise<void> {
  for (const part of [worker, edge, redis]) await part.stop()
  removeEmptyCgroups()
}

async function startInOrder(
  { state, secrets }: Ready,
  { url, operator, redis, edge, worker, workerAt }: Parts,
  say: Say,
  options: StackOptions,
): Promise<Result<DevInfo, Refusal>> {
  prepareWorker(state, workerAt, secrets)
  const start = (): ReturnType<Child['start']> =>
    options.worker === 'idle' ? Promise.resolve(ok(undefined)) : worker.start()
  // An enrolled worker tries its sandboxes before it asks for the edge, which takes about as long
  // as the edge takes to start.
  const early = enrolledWorkerId(state) === undefined ? undefined : start()
  for (const part of [redis, edge]) {
    const started = await part.start()
    if (!started.ok) return started
  }
  const seeded = await seed(state, operator)
  if (!seeded.ok) return seeded
  if (early === undefined) {
    say('enrolling the worker')
    const token = await enrolmentToken(operator)
    const enrolled = token.ok ? await enrolWorker(state, token.value) : token
    if (!enrolled.ok) return enrolled
  }
  const worker_id = enrolledWorkerId(state)
  if (worker_id === undefined) return err('the worker has no identity after its enrolment')
  const working = await (early ?? start())
  if (!working.ok) return working
  const keys = await readKeys(operator)
  if (!keys.ok) return keys
  return ok({
    url,
    tenant: TENANT,
    agent_key: seeded.value.agent_key,
    operator_key: secrets.operator,
    installation_key: secrets.installation,
    worker_id,
    keys: keys.value,
  })
}
