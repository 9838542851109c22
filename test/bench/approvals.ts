// Measures waiting approvals: the pages of an inbox with 10,000 of them in one tenant, and the time
// until all of 100 open consoles show one more. The same page without the list (session, frame and
// policy) is the floor.

import { get, type IncomingMessage } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Stack } from '../../infra/stack.ts'
import { LIMITS } from '../../shared/limits.ts'
import { bearer, type Client, client } from '../../shared/routes/client.ts'
import type { Request } from './connection.ts'
import type { Load } from './load.ts'
import type { Peer } from './peer.ts'
import { type Extent, median, type Slice } from './slice.ts'
import { done, type SubjectRequests } from './subjects.ts'

export const WAITING = 10_000
export const CONSOLES = 100
/** A console that takes longer to show a number will never show it. */
const SHOWN_MS = 30_000

/**
 * Milliseconds; for pages the p50. `update`: from the proposal until the last console shows it, p50
 * and worst.
 */
export type Approvals = {
  readonly page: number
  readonly empty: number
  readonly last: number
  readonly riskiest: number
  readonly filtered: number
  readonly listed: number
  readonly update: { readonly p50: number; readonly worst: number }
}

export async function timeApprovals(
  { url, operator, dev }: Stack,
  load: Peer<Load, Slice>,
  { extent, updates }: { extent: Extent; updates: number },
): Promise<Approvals> {
  const ask = await asker(url, operator)
  await fill(ask)
  const cookie = await signedIn(url, dev.operator_key)
  const words = `${WAITING} pending approvals`
  await until(async () =>
    (await (await fetch(new URL('/console', url), { headers: { cookie } })).text()).includes(words),
  )
  const port = Number(new URL(url).port)
  const p50 = async (
    path: string,
    contains: string,
    headers: Record<string, string> = { cookie },
  ): Promise<number> => {
    const request: Request = { method: 'GET', path, headers, body: '' }
    const sent: SubjectRequests = { requests: [request], expect: { status: 200, contains: [contains] } }
    const { faults, p50 } = await load.ask({ port, concurrency: 1, extent, ...sent })
    if (faults.length > 0) throw new Error(`${path}: ${faults.join('\n')}`)
    return p50
  }
  const pages = {
    empty: await p50('/console?agent=nobody', 'No pending approval matches'),
    page: await p50('/console', words),
    last: await p50(`/console?past=${await lastButOnePage(operator)}`, words),
    riskiest: await p50('/console?order=riskiest', words),
    filtered: await p50('/console?agent=bench-asker&risk=high', words),
    listed: await p50('/v1/approvals?alike=once', '"items":[{', {
      authorization: `Bearer ${dev.operator_key}`,
    }),
  }
  return { ...pages, update: await timeUpdates(url, dev.operator_key, ask, updates) }
}

type Ask = (n: number) => Promise<void>

/**
 * Each call has other arguments, so that each has its own card; a run holds as many as may wait in
 * one.
 */
async function asker(url: string, operator: Client): Promise<Ask> {
  const tool = {
    description: 'Is asked about.',
    input_schema: { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] },
    capabilities: ['process_exec' as const],
    executor: { kind: 'process' as const, tiers: ['C' as const], argv: ['true'], stdin: 'none' as const },
    egress: { mode: 'strict' as const, hosts: [] },
    workspace: 'call' as const,
    approval_ttl_s: 3_600,
    limits: {},
  }
  done(await operator('putTool', { params: { name: 'bench_asked' }, body: tool }))
  const body = { tools: ['bench_asked'], pool: 'nobody' }
  const { key = '' } = done(await operator('putAgent', { params: { name: 'bench-asker' }, body }))
  const agent = client(url, bearer(key))
  const runs = new Map<number, Promise<string>>()
  return async (n) => {
    const nth = Math.floor(n / LIMITS.pending_approvals_per_run)
    const run = runs.get(nth) ?? agent('createRun', { body: {} }).then((made) => done(made).id)
    runs.set(nth, run)
    const call = done(
      await agent('proposeCall', { params: { run: await run }, body: { tool: 'bench_asked', args: { n } } }),
    )
    if (call.state !== 'awaiting_approval')
      throw new Error(`a call should wait for its approval, but is ${call.state}`)
  }
}

async function fill(ask: Ask): Promise<void> {
  let next = 0
  const lane = async (): Promise<void> => {
    while (next < WAITING) await ask(next++)
  }
  await Promise.all(Array.from({ length: 16 }, lane))
}

async function signedIn(url: string, key: string): Promise<string> {
  const { origin } = new URL(url)
  const body = new URLSearchParams({ key })
  const answer = await fetch(new URL('/console/sign-in', url), {
    method: 'POST',
    redirect: 'manual',
    body,
    headers: { origin },
  })
  return (answer.headers.get('set-cookie') ?? '').split(';')[0] ?? ''
}

/** The position of the last page; the API lists the newest first. */
async function lastButOnePage(operator: Client): Promise<string> {
  const { items } = done(await operator('listApprovals', { query: {} }))
  return items.at(-1)?.id ?? ''
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  for (const end = Date.now() + 60_000; !(await holds()); await sleep(20))
    if (Date.now() > end) throw new Error('the inbox did not fill')
}

// ── Open consoles ──

async function timeUpdates(
  url: string,
  key: string,
  ask: Ask,
  updates: number,
): Promise<Approvals['update']> {
  const sessions = Array.from({ length: Math.ceil(CONSOLES / LIMITS.streams_each) }, () => signedIn(url, key))
  const cookies = (await Promise.all(sessions))
    .flatMap((cookie) => Array<string>(LIMITS.streams_each).fill(cookie))
    .slice(0, CONSOLES)
  const consoles = await Promise.all(
    cookies.map((cookie) => OpenConsole.open(new URL('/console/events', url), cookie)),
  )
  const took: number[] = []
  try {
    await Promise.all(consoles.map((one) => one.shows(WAITING)))
    for (let i = 0; i < updates; i++) {
      await sleep(2 * LIMITS.console_pause_ms) // the console may update again
      const began = performance.now()
      await ask(WAITING + i)
      await Promise.all(consoles.map((one) => one.shows(WAITING + i + 1)))
      took.push(performance.now() - began)
    }
  } finally {
    for (const one of consoles) one.close()
  }
  return { p50: median(took), worst: Math.max(...took) }
}

/** Reads the number of waiting approvals from a console's event stream, from whole events only. */
class OpenConsole {
  readonly #answer: IncomingMessage
  #rest = ''
  #waiting = -1
  #wanted: { n: number; settle: () => void } | undefined

  private constructor(answer: IncomingMessage) {
    this.#answer = answer
    answer.setEncoding('utf8')
    answer.on('data', (chunk: string) => this.#take(chunk))
    answer.on('error', () => undefined) // closed by us
  }

  static open(url: URL, cookie: string): Promise<OpenConsole> {
    return new Promise((settle, refuse) => {
      get(url, { headers: { cookie }, agent: false }, (answer) => settle(new OpenConsole(answer))).on(
        'error',
        refuse,
      )
    })
  }

  #take(chunk: string): void {
    this.#rest += chunk
    for (let end = this.#rest.indexOf('\n\n'); end >= 0; end = this.#rest.indexOf('\n\n')) {
      const count = /"words":"([0-9]+) pending approvals/.exec(this.#rest.slice(0, 200))?.[1]
      this.#rest = this.#rest.slice(end + 2)
      if (count !== undefined) this.#waiting = Number(count)
    }
    if (this.#wanted !== undefined && this.#waiting === this.#wanted.n) this.#wanted.settle()
  }

  shows(n: number): Promise<void> {
    return new Promise((settle, refuse) => {
      const late = () => refuse(new Error(`a console showed ${this.#waiting} pending approvals, not ${n}`))
      const timer = setTimeout(late, SHOWN_MS)
      const settleOnce = () => {
        clearTimeout(timer)
        settle()
      }
      this.#wanted = { n, settle: settleOnce }
      if (this.#waiting === n) settleOnce()
    })
  }

  close(): void {
    this.#answer.destroy()
  }
}
