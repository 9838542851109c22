// A real worker process under its own user, a real Redis with the real access list, and a fake edge
// between the worker and the test. All files are in one temporary folder; all processes are ours
// and are ended by pid.

import { spawn } from 'node:child_process'
import {
  chownSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Queue } from 'bullmq'
import { afterAll } from 'vitest'
import { Child } from '../../../infra/child-process.ts'
import { removeEmptyCgroups } from '../../../infra/delegate-cgroup.ts'
import { redisProgram, redisSpec, redisUrl } from '../../../infra/redis.ts'
import { freePort, openState, ROOT, readSecrets, type Secrets, type State } from '../../../infra/state.ts'
import { enrolWorker, prepareWorker, workerArgv, workerSpec } from '../../../infra/worker-process.ts'
import { bundledWorker } from '../bundled.ts'
import { eventually } from '../eventually.ts'
import type { Limits } from '../stack/other-limits.ts'
import { copyOfSeeded } from '../stack/seeded-state.ts'
import { type FakeCall, FakeEdge, type Proposal } from './fake-edge.ts'
import { spoolIn } from './spool.ts'

/** One line of the worker's log. */
export type LogLine = { readonly msg: string; readonly level: string; readonly [field: string]: unknown }

type Ended = { readonly status: number | null; readonly stdout: string; readonly stderr: string }

/** The file of a seeded folder with the edge's side of the enrolment. */
const ENROLLED = 'enrolment.json'

const printError = (text: string): void => void process.stderr.write(`${text}\n`)

/** A running worker for the tests of a file. */
export async function loneWorkerForTests(): Promise<LoneWorker> {
  const lone = await LoneWorker.make()
  afterAll(() => lone.end())
  await lone.start()
  return lone
}

export class LoneWorker {
  readonly edge = new FakeEdge()
  readonly state: State
  readonly #program: string
  readonly #secrets: Secrets
  readonly #redisPort: number
  readonly redis: Child
  readonly process: Child
  #queue: Queue | undefined

  private constructor(state: State, program: string, redisPort: number) {
    this.state = state
    this.#program = program
    this.#secrets = readSecrets(state)
    this.#redisPort = redisPort
    const redis = redisProgram(state)
    if (redis === undefined) throw new Error('redis-server is not installed; `npm test` installs it')
    this.redis = new Child(redisSpec(state, redis, redisPort, this.#secrets), printError)
    this.process = new Child(workerSpec(state, program), printError)
  }

  /**
   * Starts Redis and the fake edge, with an enrolled worker that the test starts. `enrol`: enrol it
   * with this edge, instead of copying the folder that was seeded for all tests. `limits`: of the worker,
   * other than the real ones.
   */
  static async make({ concurrency = 4, enrol = false, limits = {} as Limits } = {}): Promise<LoneWorker> {
    const dir = enrol
      ? mkdtempSync(join(tmpdir(), 'countersign-worker-'))
      : await copyOfSeeded('worker', LoneWorker.seed)
    const lone = await LoneWorker.#in(dir, concurrency, limits)
    if (enrol) await lone.#enrol()
    else lone.edge.resume(JSON.parse(readFileSync(join(dir, ENROLLED), 'utf8'))) // written below
    return lone
  }

  static async #in(dir: string, concurrency: number, limits: Limits = {}): Promise<LoneWorker> {
    const state = openState(dir)
    if (!state.ok) throw new Error(state.error)
    const lone = new LoneWorker(state.value, await bundledWorker(limits), await freePort())
    await lone.startRedis()
    await lone.edge.start()
    prepareWorker(
      state.value,
      { url: lone.edge.url, redisPort: lone.#redisPort, stack: { concurrency, private_hosts: [] } },
      lone.#secrets,
    )
    return lone
  }

  async #enrol(): Promise<void> {
    const enrolled = await enrolWorker(this.state, this.edge.token)
    if (!enrolled.ok) throw new Error(enrolled.error)
  }

  /**
   * Makes the folder of an enrolled worker, to be copied, with the edge's side of the enrolment.
   */
  static async seed(dir: string): Promise<void> {
    const lone = await LoneWorker.#in(dir, 4)
    await lone.#enrol()
    writeFileSync(join(dir, ENROLLED), JSON.stringify(lone.edge.enrolment()), { mode: 0o600 })
    await lone.start() // the first start fills the compile cache
    await lone.process.stop()
    await lone.#stop()
  }

  /** Changes the worker's configuration, which it reads at its next start. */
  configure(changes: Record<string, unknown>): void {
    const path = join(this.state.worker, 'worker.json')
    writeFileSync(path, JSON.stringify({ ...JSON.parse(readFileSync(path, 'utf8')), ...changes }))
  }

  /** Gives the files that a test has put into a folder to the worker's user. */
  ownByWorker(folder: string): void {
    const { uid, gid } = statSync(this.state.worker)
    for (const name of readdirSync(folder)) chownSync(join(folder, name), uid, gid)
  }

  /**
   * Runs one command of the worker, as its user, to its end. Sends one of `signals` after each line
   * of output.
   */
  command(
    name: string,
    {
      args = [],
      input = '',
      signals = [],
      under = [],
    }: { args?: string[]; input?: string; signals?: NodeJS.Signals[]; under?: string[] } = {},
  ): Promise<Ended> {
    const argv = workerArgv(this.state, this.#program, name, args)
    const [file = '', ...rest] = [...under, ...argv]
    const child = spawn(file, rest, {
      cwd: ROOT,
      env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' },
      timeout: 30_000,
      killSignal: 'SIGKILL',
    })
    let [stdout, stderr] = ['', '']
    child.stdout.on('data', (chunk: Buffer) => {
      stdout += chunk
      const signal = signals[stdout.split('\n').length - 2]
      if (signal !== undefined) child.kill(signal)
    })
    child.stderr.on('data', (chunk: Buffer) => (stderr += chunk))
    child.stdin.on('error', () => undefined) // it may end before it reads
    child.stdin.end(input)
    return new Promise((settle, fail) => {
      child.once('error', fail)
      child.once('close', (status) => settle({ status, stdout, stderr }))
    })
  }

  async start(): Promise<void> {
    const started = await this.process.start()
    if (!started.ok) throw new Error(started.error)
  }

  async startRedis(): Promise<void> {
    const started = await this.redis.start()
    if (!started.ok) throw new Error(started.error)
  }

  /** The content of all files that Redis has written. */
  redisFiles(): string {
    const entries = readdirSync(this.state.redis, { recursive: true, withFileTypes: true }).filter((entry) =>
      entry.isFile(),
    )
    return entries.map(({ parentPath, name }) => readFileSync(join(parentPath, name), 'latin1')).join('\n')
  }

  /** Removes the data of a stopped Redis, so that it starts empty. */
  emptyRedis(): void {
    rmSync(join(this.state.redis, 'appendonlydir'), { recursive: true })
  }

  async end(): Promise<void> {
    await this.#stop()
    rmSync(this.state.dir, { recursive: true, force: true })
  }

  async #stop(): Promise<void> {
    await this.process.kill()
    await this.#queue?.close()
    await this.redis.kill()
    await this.edge.stop()
    removeEmptyCgroups()
  }

  /** Adds any job, as the edge or an attacker with the Redis password can. */
  async ring(data: unknown, name = 'call'): Promise<void> {
    this.#queue ??= this.#openQueue()
    await this.#queue.add(name, data, { removeOnComplete: true, removeOnFail: true })
  }

  #openQueue(name: string = this.edge.pool): Queue {
    const connection = { url: redisUrl('edge', this.#secrets, this.#redisPort), maxRetriesPerRequest: null }
    const queue = new Queue(`doorbell-${this.edge.tenant}.${name}`, { prefix: 'cs', connection })
    queue.on('error', () => undefined) // a test may stop Redis
    return queue
  }

  /** Proposes a call and rings for it. */
  async call(proposal: Proposal): Promise<FakeCall> {
    const call = this.edge.propose(proposal)
    await this.ringFor(call)
    return call
  }

  ringFor({ run, call }: FakeCall): Promise<void> {
    return this.ring({ tenant: this.edge.tenant, run, call })
  }

  /** Rings on the worker's own queue, as the edge does for calls that no other worker can run. */
  async ringOwnQueue({ run, call }: FakeCall): Promise<void> {
    const queue = this.#openQueue(this.edge.worker?.id)
    await queue.add(
      'ring',
      { tenant: this.edge.tenant, run, call },
      { removeOnComplete: true, removeOnFail: true },
    )
    await queue.close()
  }

  /** The number of untaken doorbells in both queues. */
  async waitingDoorbells(): Promise<number> {
    const queues = [this.edge.pool, this.edge.worker?.id].map((name) => this.#openQueue(name))
    const counts = await Promise.all(queues.map((queue) => queue.getWaitingCount()))
    await Promise.all(queues.map((queue) => queue.close()))
    return counts.reduce((sum, count) => sum + count, 0)
  }

  settled(call: FakeCall, within_ms?: number): Promise<NonNullable<FakeCall['settled']>> {
    return eventually(`${call.call} is settled`, () => call.settled, within_ms)
  }

  get log(): LogLine[] {
    const path = join(this.state.log, 'worker.log')
    // The last line may be incomplete.
    const lines = existsSync(path) ? readFileSync(path, 'utf8').split('\n').slice(0, -1) : []
    // Written by worker/host/log.ts.
    return lines.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line) as LogLine)
  }

  /** Waits for the first log line with this message and these fields, starting at line `from`. */
  logged(msg: string, fields: Record<string, unknown> = {}, from = 0): Promise<LogLine> {
    const fits = (line: LogLine): boolean =>
      line.msg === msg && Object.entries(fields).every(([key, value]) => line[key] === value)
    return eventually(`the worker logs \`${msg}\` ${JSON.stringify(fields)}`, () =>
      this.log.slice(from).find(fits),
    )
  }

  get spool(): ReturnType<typeof spoolIn> {
    return spoolIn(this.state.worker)
  }
}
