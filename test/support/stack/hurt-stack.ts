// A stack that a test damages on purpose: the real stack, with tools that leave marks in files, so
// that executions can be counted without our own records, and with clients that retry while parts
// are down. The product itself is unchanged.

import { execFile } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { existsSync, globSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { Redis } from 'ioredis'
import type { Child } from '../../../infra/child-process.ts'
import { redisUrl } from '../../../infra/redis.ts'
import type { Stack } from '../../../infra/stack.ts'
import { ROOT, readSecrets } from '../../../infra/state.ts'
import { workerArgv } from '../../../infra/worker-process.ts'
import type { Result } from '../../../shared/result.ts'
import { bearer, type Client, client, type Problem } from '../../../shared/routes/client.ts'
import type { Call } from '../../../shared/wire/calls.ts'
import type { ProcessToolSpec as ToolSpec } from '../../../shared/wire/tools.ts'
import { eventually } from '../eventually.ts'
import { unwrap } from '../fixtures.ts'
import { spoolIn } from '../worker/spool.ts'
import { startTestStack, type TestStackOptions } from './stack.ts'

const tool = (
  argv: readonly string[],
  more: Partial<ToolSpec> = {},
  stdin: ToolSpec['executor']['stdin'] = { arg: 'mark' },
): ToolSpec => ({
  description: 'for tests that hurt the stack',
  input_schema: {
    type: 'object',
    properties: { mark: { type: 'string', maxLength: 10_000 }, seconds: { type: 'string', maxLength: 20 } },
    required: ['mark'],
    additionalProperties: false,
  },
  capabilities: [],
  executor: { kind: 'process', tiers: ['C'], argv: [...argv], stdin },
  egress: { mode: 'strict', hosts: [] },
  workspace: 'run',
  limits: { timeout_ms: 60_000 },
  ...more,
})

/**
 * Appends one line with one `write`, so the kernel writes it whole, and no code of ours can add or
 * lose one.
 */
const MARK = ['tee', '-a', '--', 'ran']
const MARK_AND_STAY = ['/bin/sh', '-c', 'tee -a -- ran && sleep "$0"', '{seconds}']
const TALK = ['/bin/sh', '-c', 'i=0; while [ $i -lt 40 ]; do echo line $i; i=$((i+1)); sleep 0.05; done']
/**
 * Until it is stopped: writes lines to stdout, and its progress to stderr, on one line that it
 * overwrites.
 */
const TALK_ON = [
  '/bin/sh',
  '-c',
  'i=0; while :; do echo line $i; printf "\\rat %d" $i >&2; i=$((i+1)); sleep 0.05; done',
]

const TOOLS = {
  mark_quickly: tool(MARK),
  mark_slowly: tool(MARK_AND_STAY),
  mark_again: tool(MARK_AND_STAY, { idempotent: true }),
  mark_asking: tool(MARK, { sensitive: true }),
  mark_relayed: tool(MARK_AND_STAY, { egress: { mode: 'strict', hosts: ['example.com:443'] } }),
  talk_slowly: tool(TALK, {}, 'none'),
  talk_on: tool(TALK_ON, {}, 'none'),
} as const satisfies Record<string, ToolSpec>

/** One line of the worker's log. */
export type Line = { readonly msg: string; readonly level: string; readonly [field: string]: unknown }

export type Wish = { readonly key?: string; readonly run?: string; readonly wait?: number }

export class HurtStack {
  readonly stack: Stack
  readonly agent: Client
  readonly operator: Client

  private constructor(stack: Stack) {
    this.stack = stack
    this.agent = client(stack.url, bearer(stack.dev.agent_key))
    this.operator = stack.operator
  }

  static async start(options: TestStackOptions = {}): Promise<HurtStack> {
    const hurt = new HurtStack(await startTestStack(options))
    try {
      for (const [name, body] of Object.entries(TOOLS))
        unwrap(await hurt.operator('putTool', { params: { name }, body }))
      unwrap(
        await hurt.operator('putAgent', {
          params: { name: 'dev' },
          body: { tools: ['*'], budget: { max_calls_per_run: 10_000 } },
        }),
      )
      return hurt
    } catch (error) {
      await hurt.stop()
      throw error
    }
  }

  stop(): Promise<void> {
    return this.stack.stop()
  }

  async deleteChannels(): Promise<void> {
    for (const { name } of unwrap(await this.operator('listChannels', {})).items)
      unwrap(await this.operator('deleteChannel', { params: { name } }))
  }

  async run(): Promise<string> {
    return unwrap(await this.agent('createRun', { body: {} })).id
  }

  /** Proposes once. */
  async propose(name: string, args: Record<string, unknown>, { key, run, wait }: Wish = {}): Promise<Call> {
    const more = {
      ...(wait === undefined ? {} : { wait }),
      ...(key === undefined ? {} : { headers: { 'idempotency-key': key } }),
    }
    const body = { tool: name, args }
    return unwrap(
      run === undefined
        ? await this.agent('proposeCallInNewRun', { body, ...more })
        : await this.agent('proposeCall', { params: { run }, body, ...more }),
    )
  }

  /** `wait`: how many seconds the edge may wait for its end. */
  async read({ run, id }: Pick<Call, 'run' | 'id'>, wait = 0): Promise<Call> {
    const request = { params: { run, call: id }, ...(wait === 0 ? {} : { wait }) }
    return unwrap(await insist(() => this.agent('readCall', request)))
  }

  /** Polls until the call is in one of these states, and returns it. */
  until(call: Call, states: readonly Call['state'][], within_ms = 20_000): Promise<Call> {
    let last = call.state
    const look = async (): Promise<Call | undefined> => {
      const now = await this.read(call)
      last = now.state
      return states.includes(now.state) ? now : undefined
    }
    return eventually(`call ${call.id} is ${states.join(' or ')}`, look, within_ms).catch((error: Error) => {
      throw new Error(`${error.message}; it is ${last}`, { cause: error })
    })
  }

  ended(call: Call, within_ms?: number): Promise<Call> {
    return this.until(
      call,
      ['succeeded', 'failed', 'timed_out', 'indeterminate', 'cancelled', 'denied', 'expired', 'lapsed'],
      within_ms,
    )
  }

  /** The lines that executions of a run's calls left on this host, read directly as root. */
  marks(run: string): string[] {
    const path = join(this.stack.state.worker, 'runs', run, 'ran')
    return existsSync(path) ? readFileSync(path, 'utf8').split('\n').filter(Boolean) : []
  }

  /** The worker's log from its beginning, each line parsed. */
  /** The files of the stack's state folder that contain these bytes. */
  filesWith(bytes: string): string[] {
    const { dir } = this.stack.state
    return readdirSync(dir, { recursive: true, withFileTypes: true })
      .filter((file) => file.isFile())
      .map((file) => join(file.parentPath, file.name))
      .filter((path) => bytesOf(path).includes(bytes))
      .map((path) => relative(dir, path))
  }

  workerLog(): Line[] {
    const path = join(this.stack.state.log, 'worker.log')
    const lines = readFileSync(path, 'utf8').split('\n')
    return lines.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line) as Line) // worker/log wrote it
  }

  spool(): ReturnType<typeof spoolIn>['settled'] {
    return spoolIn(this.stack.state.worker).settled
  }

  /** Replaces the key of the worker, which is stopped, as an operator of its host does. */
  async rotateWorkerKey(): Promise<void> {
    const [file = '', ...args] = workerArgv(this.stack.state, 'worker/main.ts', 'rotate')
    await promisify(execFile)(file, args, { cwd: ROOT, env: { PATH: '/usr/bin:/bin', HOME: '/' } })
  }

  /** Changes the address at which the worker looks for its edge. */
  async leadWorker(edge_url: string): Promise<void> {
    const path = join(this.stack.state.worker, 'worker.json')
    await this.stack.worker.stop()
    writeFileSync(path, JSON.stringify({ ...JSON.parse(readFileSync(path, 'utf8')), edge_url })) // written in place, so that it still belongs to the worker's user
    await revive(this.stack.worker)
  }

  /**
   * Returns how the call ended, from the tenant's log. Does not query the run, so that only its
   * alarm wakes its object.
   */
  toldByLog({ id }: Call, within_ms: number): Promise<string> {
    const look = async (): Promise<string | undefined> => {
      const { items } = unwrap(await insist(() => this.operator('listEndedCalls', { query: { last: 100 } })))
      return items.find(({ call }) => call === id)?.state
    }
    return eventually(`the log tells the end of ${id}`, look, within_ms)
  }

  /** Waits until the worker has logged that the edge refused its result of this call. */
  dropped({ id }: Call, within_ms = 15_000): Promise<unknown> {
    const look = () =>
      this.workerLog().find(({ msg, call }) => call === id && msg.startsWith('the edge refused a result'))?.[
        'code'
      ]
    return eventually(`the worker drops its result of ${id}`, look, within_ms)
  }

  /** A connection to Redis with the edge's password, as an attacker who stole it would have. */
  redis(): Redis {
    const redis = new Redis(redisUrl('edge', readSecrets(this.stack.state), this.stack.redisPort), {
      maxRetriesPerRequest: null,
    })
    redis.on('error', () => undefined) // a test may stop Redis
    return redis
  }
}

/**
 * Repeats a request until the edge answers it, as a client does while the edge is down. A refusal
 * is an answer. The pause grows, because a crowd of clients would slow the start of the edge.
 */
export async function insist<T>(
  ask: () => Promise<Result<T, Problem>>,
  within_ms = 60_000,
): Promise<Result<T, Problem>> {
  const until = Date.now() + within_ms
  for (let pause = 50; ; pause = Math.min(pause * 1.5, 400)) {
    try {
      const answer = await ask()
      if (answer.ok || answer.error.status < 500 || Date.now() > until) return answer
    } catch (error) {
      if (Date.now() > until) throw error
    }
    await sleep(pause)
  }
}

/** Sends SIGKILL to this process only. The kernel ends its children. */
export async function strike(part: Child): Promise<void> {
  if (part.pid === undefined) throw new Error(`${part.name} does not run`)
  process.kill(part.pid, 'SIGKILL')
  await eventually(`${part.name} is dead`, () => !part.running)
}

export async function revive(part: Child): Promise<void> {
  const started = await part.start()
  if (!started.ok) throw new Error(started.error)
}

/** Ends the part with SIGKILL, changes its files, and starts it again. */
export async function whileDead(part: Child, change: () => void): Promise<void> {
  await strike(part)
  change()
  await revive(part)
}

/** This many seconds with a random fraction, by which the test finds the process. */
export const about = (seconds: number): string => `${seconds}.${randomInt(100_000, 1_000_000)}`

const alive = (): string[] =>
  globSync('/proc/[0-9]*').filter(
    (path) => path !== `/proc/${process.pid}` && !/^State:\s+[ZX]/m.test(told(join(path, 'status'))),
  )

const told = (path: string): string => {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return '' // the process has ended
  }
}

/**
 * Processes that refer to the folder in their command line, environment, working directory or
 * mounts.
 */
export function boundTo(dir: string): string[] {
  const below = (path: string): boolean => {
    try {
      return readlinkSync(join(path, 'cwd')).startsWith(dir)
    } catch {
      return false
    }
  }
  const names = (path: string, file: string): boolean => told(join(path, file)).includes(dir)
  return alive().filter(
    (path) => names(path, 'cmdline') || names(path, 'environ') || names(path, 'mountinfo') || below(path),
  )
}

/** Processes, except zombies, whose command line contains this text. */
export const processesWith = (text: string): number[] =>
  alive().flatMap((path) =>
    told(join(path, 'cmdline')).includes(text) ? [Number(path.slice('/proc/'.length))] : [],
  )

/** An idle database may be closed between listing and reading, which removes its side files. */
export function bytesOf(path: string): Buffer {
  try {
    return readFileSync(path)
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === 'ENOENT') return Buffer.alloc(0) // any other error is rethrown
    throw thrown
  }
}
