// Owns a running stack: Redis, the edge and one worker, started in order on a state folder, seeded, watched, and stopped in reverse.
// `npm start`, the demo, the tests and the benchmark all come through here. Nothing of it outlives the process that started it.

import { rmSync } from 'node:fs'
import type { Client } from '../shared/client.ts'
import { err, ok, type Result } from '../shared/result.ts'
import { Child } from './child.ts'
import { redisProgram, redisSpec } from './redis.ts'
import { type DevInfo, enrolmentToken, operatorClient, readKeys, seed } from './seed.ts'
import { type Say, setUp } from './setup.ts'
import { freePort, lockState, portRefusal, type Refusal, redisPort, type State, TENANT, writePrivate } from './state.ts'
import { enrolWorker, isEnrolled, type WorkerAt, workerSpec } from './worker-process.ts'
import { edgeSpec, wranglerSpec } from './workerd.ts'

export type StackOptions = {
  /** The state folder; made when it is not there. */
  readonly state: string
  /** The edge's port; a free one when absent. */
  readonly port?: number
  /** 127.0.0.1 unless somebody means it. */
  readonly host?: string
  /** workerd serves the built edge; wrangler serves the sources, for development. */
  readonly edge?: 'workerd' | 'wrangler'
  readonly concurrency?: number
  readonly private_hosts?: readonly string[]
  /** Start a part again that died unasked. Tests that kill leave it off. */
  readonly supervise?: boolean
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
  const ready = setUp(options.state, say)
  if (!ready.ok) return ready
  const { state, secrets, build } = ready.value
  const host = options.host ?? '127.0.0.1'
  const port = options.port ?? (await freePort())
  const refusal = await portRefusal(port)
  if (refusal !== undefined) return err(refusal)
  const lock = lockState(state)
  if (!lock.ok) return lock
  rmSync(state.dev, { force: true })

  const program = redisProgram(state)
  if (program === undefined) return err('no redis-server on this machine; install the package redis-server (7 or newer)')
  const redisAt = await redisPort(state)
  const url = `http://127.0.0.1:${port}`
  const workerAt: WorkerAt = {
    url,
    redisPort: redisAt,
    concurrency: options.concurrency ?? CONCURRENCY,
    private_hosts: options.private_hosts ?? [],
  }
  const redis = new Child(redisSpec(state, program, redisAt, secrets), say)
  const edgeAt = { host, port, redisPort: redisAt }
  const edge = new Child(options.edge === 'wrangler' ? wranglerSpec(state, edgeAt, secrets) : edgeSpec(state, build, edgeAt, secrets), say)
  const worker = new Child(workerSpec(state, workerAt, secrets), say)
  const operator = operatorClient(url, secrets.operator)

  const stop = async (): Promise<void> => {
    rmSync(state.dev, { force: true })
    for (const part of [worker, edge, redis]) await part.stop()
    lock.value()
  }
  const rise = async (): Promise<Result<DevInfo, Refusal>> => {
    for (const part of [redis, edge]) {
      const started = await part.start()
      if (!started.ok) return started
    }
    const seeded = await seed(state, operator)
    if (!seeded.ok) return seeded
    if (!isEnrolled(state)) {
      say('enrolling the worker')
      const token = await enrolmentToken(operator)
      if (!token.ok) return token
      const enrolled = await enrolWorker(state, token.value)
      if (!enrolled.ok) return enrolled
    }
    const working = await worker.start()
    if (!working.ok) return working
    const workers = await operator('listWorkers', {})
    if (!workers.ok) return err(`the workers were not read: ${workers.error.detail}`)
    const enrolled = workers.value.items.filter(({ status }) => status === 'active').sort((a, b) => b.enrolled_at_ms - a.enrolled_at_ms)[0]
    if (enrolled === undefined) return err('no worker is enrolled')
    const keys = await readKeys(operator)
    if (!keys.ok) return keys
    return ok({
      url,
      tenant: TENANT,
      agent_key: seeded.value.agent_key,
      operator_key: secrets.operator,
      worker_id: enrolled.id,
      keys: keys.value,
    })
  }

  const risen = await rise()
  if (!risen.ok) {
    await stop()
    return risen
  }
  writePrivate(state.dev, `${JSON.stringify(risen.value, null, 2)}\n`)
  if (options.supervise) for (const part of [redis, edge, worker]) part.supervise()
  return ok({ url, redisPort: redisAt, state, dev: risen.value, operator, redis, edge, worker, stop })
}
