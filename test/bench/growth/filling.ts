// Fills a store as real work would: runs of one, of ten and of a thousand calls by many agents, half of
// them in sessions; calls of a skill and in sandboxes, with output, denied calls, and calls that an
// operator answers. Few calls are in sandboxes, because each takes as long as ten others.

import { randomBytes } from 'node:crypto'
import type { Stack } from '../../../infra/stack.ts'
import type { Call } from '../../../shared/wire/calls.ts'
import { javaScriptSkill } from '../../support/skills/javascript-skill.ts'
import { bytesOf, Connection, FRESH_KEY, type Request, withFreshKey } from '../connection.ts'
import { Maker } from '../skills.ts'
import { doesNothing, done } from '../subjects.ts'

const LANES = 32
const AGENTS = 100
/** `part`: which part of all calls is in runs of `calls` calls. */
const SIZES = [
  { calls: 1_000, part: 0.2 },
  { calls: 10, part: 0.4 },
  { calls: 1, part: 0.4 },
] as const
const ECHO = 'export const run = (tool, input) => JSON.stringify(JSON.parse(input))'
/** About as much as a command prints. It is random, so no compression makes it shorter. */
const OUTPUT_BYTES = 200

type Kind = 'skill' | 'denied' | 'sandboxed' | 'approved' | 'rejected'
/** Of 100 calls: 70 of a skill, 26 denied, 2 in sandboxes, one approved and one rejected. */
function kindOf(n: number): Kind {
  const place = n % 100
  if (place === 25) return 'approved'
  if (place === 75) return 'rejected'
  if (place % 50 === 0) return 'sandboxed'
  return place % 50 < 14 ? 'denied' : 'skill'
}
const STATES: Readonly<Record<Kind, Call['state']>> = {
  skill: 'succeeded',
  denied: 'denied',
  sandboxed: 'succeeded',
  approved: 'succeeded',
  rejected: 'rejected',
}

type Tools = Readonly<Record<Kind, string>>
type Agents = { readonly keys: readonly string[]; readonly operator: string; readonly tools: Tools }
type Job = { readonly nth: number; readonly calls: number }
/** `samples`: requests that each read a call of a different run. */
export type Filled = {
  readonly calls: number
  readonly seconds: number
  readonly samples: readonly Request[]
}

export async function makeAgents({ url, operator, dev }: Stack): Promise<Agents> {
  const maker = await Maker.on({ url, operator } as Stack) // it uses no more of it
  const skill = await maker.enabled('bench_growth', await javaScriptSkill(ECHO))
  const echo = {
    ...doesNothing('C'),
    input_schema: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
    executor: { kind: 'process' as const, tiers: ['C' as const], argv: ['cat'], stdin: { arg: 'text' } },
  }
  done(await operator('putTool', { params: { name: 'bench_echo' }, body: echo }))
  done(
    await operator('putTool', {
      params: { name: 'bench_echo_asked' },
      body: { ...echo, capabilities: ['process_exec'] },
    }),
  )
  const names = { skill, denied: 'process_run', sandboxed: 'bench_echo' }
  const tools = { ...names, approved: 'bench_echo_asked', rejected: 'bench_echo_asked' }
  const body = {
    tools: [skill, 'bench_echo', 'bench_echo_asked'],
    budget: { max_calls_per_run: 10_000, max_denied_per_run: 10_000 },
  }
  const keys: string[] = []
  for (let i = 0; i < AGENTS; i++)
    keys.push(done(await operator('putAgent', { params: { name: `bench-growth-${i}` }, body })).key ?? '')
  return { keys, operator: dev.operator_key, tools }
}

/** Stores `calls` calls. An unexpected answer throws. */
export async function fillStore(
  port: number,
  agents: Agents,
  calls: number,
  say: (text: string) => void,
): Promise<Filled> {
  const jobs = jobsOf(calls)
  const samples: Request[] = []
  const began = performance.now()
  let [next, stored] = [0, 0]
  const lane = async (): Promise<void> => {
    const connection = await Connection.open(port)
    const client = new Client(connection, port, agents)
    for (let job = jobs[next++]; job !== undefined; job = jobs[next++]) {
      const last = await client.work(job)
      if (job.calls === 10) samples.push(client.reading(job, last))
      if (Math.floor((stored + job.calls) / 10_000) > Math.floor(stored / 10_000))
        say(`${stored + job.calls} calls are stored`)
      stored += job.calls
    }
    connection.close()
  }
  await Promise.all(Array.from({ length: LANES }, lane))
  return { calls: stored, seconds: (performance.now() - began) / 1_000, samples }
}

/** Long runs come first, because one lane makes all calls of a run; then short runs and single calls. */
function jobsOf(calls: number): Job[] {
  const sizes = SIZES.map(({ calls: size, part }) => {
    const all = Math.round(calls * part)
    const each = Math.min(size, all)
    return Array.from({ length: Math.round(all / each) }, () => each)
  })
  const [long = [], ...short] = sizes
  const mixed = short
    .flatMap((jobs) => jobs.map((size, i) => ({ size, at: i / jobs.length })))
    .toSorted((a, b) => a.at - b.at)
  return [...long, ...mixed.map(({ size }) => size)].map((size, nth) => ({ nth, calls: size }))
}

/** The agents and the operator, on one connection. */
class Client {
  readonly #connection: Connection
  readonly #port: number
  readonly #agents: Agents

  constructor(connection: Connection, port: number, agents: Agents) {
    this.#connection = connection
    this.#port = port
    this.#agents = agents
  }

  #keyOf({ nth }: Job): string {
    return this.#agents.keys[nth % this.#agents.keys.length] ?? ''
  }

  reading(job: Job, { run, id }: Call): Request {
    const headers = { authorization: `Bearer ${this.#keyOf(job)}` }
    return { method: 'GET', path: `/v1/runs/${run}/calls/${id}`, headers, body: '' }
  }

  /** Makes the calls of one run, and returns the last. */
  async work(job: Job): Promise<Call> {
    const key = this.#keyOf(job)
    const settings = job.nth % 2 === 0 ? {} : { session: `session-${job.nth % 6}` }
    const own = job.calls === 1
    const run = own ? undefined : (await this.#send<{ id: string }>(key, '/v1/runs', settings)).id
    let last: Call | undefined
    for (let i = 0; i < job.calls; i++) last = await this.#call(key, run, kindOf(job.nth * 7 + i))
    if (last === undefined) throw new Error('a run without a call')
    return last
  }

  async #call(key: string, run: string | undefined, kind: Kind): Promise<Call> {
    const text = randomBytes((OUTPUT_BYTES * 3) / 4).toString('base64')
    const body = {
      tool: this.#agents.tools[kind],
      args: kind === 'denied' ? { command: 'rm', args: ['-r', 'build'] } : { text },
    }
    const isAsked = kind === 'approved' || kind === 'rejected'
    const headers = {
      ...(isAsked ? {} : WAIT),
      ...(run === undefined ? { 'idempotency-key': FRESH_KEY } : {}),
    }
    const path = run === undefined ? '/v1/calls' : `/v1/runs/${run}/calls`
    const call = await this.#send<Call>(key, path, body, headers)
    const ended = isAsked ? await this.#answer(key, call, kind === 'approved' ? 'approve' : 'deny') : call
    if (ended.state !== STATES[kind]) throw new Error(`a call to be ${kind} ended ${JSON.stringify(ended)}`)
    return ended
  }

  async #answer(key: string, { run, id, approval }: Call, decision: 'approve' | 'deny'): Promise<Call> {
    await this.#send(this.#agents.operator, `/v1/approvals/${approval?.id}/decision`, { decision })
    return this.#exchange({
      method: 'GET',
      path: `/v1/runs/${run}/calls/${id}`,
      headers: { authorization: `Bearer ${key}`, ...WAIT },
      body: '',
    })
  }

  #send<T>(key: string, path: string, body: object, more: Record<string, string> = {}): Promise<T> {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...more }
    return this.#exchange({ method: 'POST', path, headers, body: JSON.stringify(body) })
  }

  async #exchange<T>(request: Request): Promise<T> {
    const { status, body } = await this.#connection.exchange(withFreshKey(bytesOf(request, this.#port)))
    if (status >= 300) throw new Error(`${request.method} ${request.path}: ${status} ${body.slice(0, 500)}`)
    return JSON.parse(body) as T // our own edge's answer
  }
}

const WAIT = { prefer: 'wait=30' }
