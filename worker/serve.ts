// Owns the worker's life: what must hold before it serves, the order in which its parts start, when it takes no doorbells, and how it ends.
// It decides nothing about a call (execution.ts does). Whatever it can't go on without ends the process with a sentence.

import { randomBytes } from 'node:crypto'
import { statSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { LIMITS } from '../shared/limits.ts'
import { err, ok, type Result } from '../shared/result.ts'
import { execute, type Station } from './calls/call.ts'
import { startHeartbeat } from './calls/heartbeat.ts'
import { Running } from './calls/in-flight.ts'
import { Streaming } from './calls/output-stream.ts'
import { RunFolders } from './calls/run-folders.ts'
import { Settling } from './calls/settlements.ts'
import { Spool, type Spooled } from './calls/spool.ts'
import type { Config, Refusal } from './config.ts'
import { faultOf } from './host/error-report.ts'
import type { Log } from './host/log.ts'
import { type Link, openLink } from './link/client.ts'
import { type Identity, makeHome, pins, readIdentity } from './link/identity.ts'
import { type Proven, prove, signedProof, withEquipment } from './proof/proof.ts'
import { Proving } from './proof/schedule.ts'
import { openQueue, type Queue } from './queue/doorbells.ts'
import { PreparedStock } from './sandbox/warm-stock.ts'

const SPOOL_WATCH_MS = 1_000
/** What killing, collecting and settling may take once the drain is over. */
const KILL_WITHIN_MS = 3_000
const FLUSH_WITHIN_MS = 3_000
const LEAVE_REDIS_WITHIN_MS = 1_000
const LEAVE_EDGE_WITHIN_MS = 1_000
const LEAVE_HOST_WITHIN_MS = 1_000

export async function serve(config: Config, log: Log): Promise<Result<void, Refusal>> {
  const stop = onStopSignal(log)
  const home = makeHome(config.home)
  if (!home.ok) return home
  const alone = await holdHome(config.home)
  if (!alone.ok) return alone
  const identity = readIdentity(config)
  if (!identity.ok) return identity
  const spool = new Spool(join(config.home, 'spool'))
  const left = spool.open(Date.now())
  if (!left.ok) return left
  const { lost, unreadable, settled } = left.value
  if (lost.length > 0) log.warn(LOST, { calls: lost.length, first: lost.slice(0, LOST_NAMED) })
  if (unreadable !== undefined)
    log.warn('lines of the spool could not be read; they were put aside', { file: unreadable })
  return withEquipment(config, async (equipment) => {
    const prepared = new PreparedStock(equipment)
    const proveAgain = () => tell(prove(equipment, config.tiers, prepared), log)
    const begun = { config, identity: identity.value, spool, left: settled, proveAgain, log, stop }
    try {
      return await workIfProven(begun, await proveAgain())
    } finally {
      await Promise.race([prepared.close(), pause(LEAVE_HOST_WITHIN_MS)])
    }
  })
}

const LOST =
  'calls ended with the worker that ran them; the edge ends each as indeterminate, or grants it again if its tool is idempotent'
const LOST_NAMED = 10

async function workIfProven(begun: Omit<Begun, 'proven'>, proven: Proven): Promise<Result<void, Refusal>> {
  // A canary that fails takes its tier out, and is tried again; what the host lacks nobody will have installed by then (S48).
  if (proven.lacking.length > 0)
    return err(`${proven.lacking.join('; ')}; or name in \`tiers\` only those that this host is to take`)
  if (proven.tiers.length === 0)
    return err(
      'no tier is proven on this host, so there is nothing that it may run; mend what is named above',
    )
  return work({ ...begun, proven })
}

type Begun = {
  readonly config: Config
  readonly identity: Identity
  readonly spool: Spool
  readonly left: readonly Spooled[]
  readonly proven: Proven
  readonly proveAgain: () => Promise<Proven>
  readonly log: Log
  readonly stop: AbortSignal
}

/** What is away is waited for; only another edge than ours is refused. Ends when `stop` says so and all is drained. */
async function work({
  config,
  identity,
  spool,
  left,
  proven: first,
  proveAgain,
  log,
  stop: asked,
}: Begun): Promise<Result<void, Refusal>> {
  const refusal = new AbortController()
  const stop = AbortSignal.any([asked, refusal.signal])
  const link = openLink(config.edge_url, identity)
  const running = new Running()
  const settling = new Settling(link, spool, identity.signer, log)
  const runFolders = openRunFolders(config, first, log)
  const intake = new Intake()
  let older = new AbortController()
  const sayProof = async (): Promise<void> => {
    older.abort() // what waits for the edge to be back must not come after this
    older = new AbortController()
    const signal = AbortSignal.any([stop, older.signal])
    const body = { envelope: signedProof(proving.proven, identity, link.clock.now()) }
    const said = await link.insist('prove', { body }, { patience_ms: LIMITS.proof_every_ms, signal })
    if (!said.ok && !signal.aborted)
      log.warn('the edge does not take this worker’s proof', {
        code: said.error.code,
        detail: said.error.detail,
      })
  }
  const changed = ({ tiers }: Proven): void => {
    intake.close('unproven', tiers.length === 0)
    log.say('proven anew', { tiers })
    void sayProof().catch((bug) => log.warn('a proof was not told by a fault of ours', { ...faultOf(bug) }))
  }
  const proving = new Proving({ first, prove: proveAgain, changed, log })
  const parts = {
    identity,
    process: randomBytes(16).toString('base64url'),
    link,
    spool,
    settling,
    running,
    runFolders,
    streaming: new Streaming(link, log),
    proven: () => proving.proven,
    log,
  }
  const station: Station = { ...parts, ceilings: config.limits, draining: stop }
  const heartbeat = startHeartbeat({
    ...parts,
    tiers: () => proving.proven.tiers,
    changed: (pulse) => {
      if (pulse === 'well') settling.wake()
      intake.close('unwelcome', pulse === 'unwelcome' || pulse === 'refused') // nobody would speak for what it claims
    },
    disowned: () => running.stopAll('disowned'), // a revoked worker does no more work
  })
  const anew = (): void => proving.anew()
  process.on('SIGHUP', anew) // whoever mended the host need not wait
  spool.watch((refused) => {
    if (refused === undefined) log.say('the spool can be written again')
    else
      log.warn('the spool can’t be written; running calls go on, and nothing new is taken until it can', {
        reason: refused,
      })
    intake.close('spool unwritable', refused !== undefined)
  })
  const watching = setInterval(() => {
    intake.close('spool full', spool.full)
    if (spool.refused) spool.prepare()
  }, SPOOL_WATCH_MS)

  // What waits in the spool goes first; doorbells are heard once the edge has had it.
  settling.adopt(left)
  intake.close('spool full', spool.full)
  let queue: Queue | undefined
  const ours = (await before(stop, heartbeat.first))
    ? await isPinnedEdge(link, identity, stop)
    : ok(undefined)
  if (!ours.ok) refusal.abort()
  if (!stop.aborted) await sayProof()
  if (await before(stop, settling.offered())) {
    const { redis_url, tenant, pool, concurrency } = config
    queue = openQueue({
      redis_url,
      tenant,
      pool,
      worker: identity.worker,
      concurrency,
      log,
      ring: (doorbell) => execute(doorbell, station),
    })
    intake.govern(queue)
    if (await before(stop, queue.listening))
      log.say('ready', { worker: identity.worker, pool, tiers: proving.proven.tiers })
  }
  await before(stop, new Promise<void>(() => undefined))

  // Only what is in hand by now is waited for.
  await Promise.race([queue?.hush(), pause(LEAVE_REDIS_WITHIN_MS)])
  await drain(config.drain_ms, running, settling, log)
  await Promise.race([queue?.close(), pause(LEAVE_REDIS_WITHIN_MS)])
  await Promise.race([heartbeat.stop(), pause(LEAVE_EDGE_WITHIN_MS)])
  runFolders.close()
  clearInterval(watching)
  proving.stop()
  process.off('SIGHUP', anew)
  link.close()
  return ours
}

/** Excludes folders in which a sandbox of a dead worker was still running. */
function openRunFolders({ home, runs_bytes, free_bytes }: Config, { sandbox }: Proven, log: Log): RunFolders {
  const { found, folders } = sandbox.equipment.orphans
  if (found > 0) log.warn('sandboxes of a dead worker were still running and were ended', { found })
  return new RunFolders(join(home, 'runs'), { bytes: runs_bytes, free_bytes }, folders)
}

/** What answers there has to have the key that we pinned: it could grant us nothing, and should be shown nothing. */
async function isPinnedEdge(
  link: Link,
  identity: Identity,
  stop: AbortSignal,
): Promise<Result<void, Refusal>> {
  const input = { query: { tenant: identity.tenant } }
  const keys = await link.insist('keys', input, { patience_ms: Number.POSITIVE_INFINITY, signal: stop })
  if (!keys.ok)
    return stop.aborted ? ok(undefined) : err(`the edge does not tell its keys: ${keys.error.detail}`)
  if (pins(identity, keys.value)) return ok(undefined)
  return err(
    `the edge does not have the key \`${identity.edge.kid}\` that this worker pinned; mend \`edge_url\`, or remove the key file and enrol anew if the key was changed on purpose`,
  )
}

/** Running calls may end by themselves, then they are ended; what they leave is settled, or stays in the spool for the next life. */
async function drain(drain_ms: number, running: Running, settling: Settling, log: Log): Promise<void> {
  log.say('stopping', { running: running.size, waiting: settling.waiting })
  await Promise.race([running.empty(), pause(drain_ms)])
  running.stopAll('shutdown')
  await Promise.race([running.empty(), pause(KILL_WITHIN_MS)])
  await Promise.race([settling.flushed(), pause(FLUSH_WITHIN_MS)])
  settling.end()
  log.say('stopped', { running: running.size, waiting: settling.waiting })
}

/** Doorbells are taken while no reason stands against it. Those not taken stay in Redis, for another worker of the pool or for later. */
class Intake {
  readonly #reasons = new Set<string>()
  #queue: Queue | undefined

  govern(queue: Queue): void {
    this.#queue = queue
    if (this.#reasons.size > 0) queue.pause()
  }

  close(reason: string, stands: boolean): void {
    const before = this.#reasons.size > 0
    if (stands) this.#reasons.add(reason)
    else this.#reasons.delete(reason)
    const now = this.#reasons.size > 0
    if (before === now) return
    if (now) this.#queue?.pause()
    else this.#queue?.resume()
  }
}

/** What failed is named; each detail says how to mend it. */
async function tell(proving: Promise<Proven>, log: Log): Promise<Proven> {
  const proven = await proving
  for (const { check, ok: held, found } of proven.findings)
    if (!held) log.warn('a check of the sandbox failed', { check, found })
  return proven
}

/** Whether `awaited` came before the end was asked for. */
const before = (stop: AbortSignal, awaited: Promise<unknown>): Promise<boolean> =>
  new Promise((settle) => {
    if (stop.aborted) settle(false)
    stop.addEventListener('abort', () => settle(false), { once: true })
    void awaited.then(() => settle(true))
  })

/** The first signal lets what runs come to its end; the second does not wait, and the sandboxes die with us. */
function onStopSignal(log: Log): AbortSignal {
  const stop = new AbortController()
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, () => {
      if (stop.signal.aborted) {
        log.warn('killed by a second signal', { signal })
        process.exit(1)
      }
      stop.abort()
    })
  }
  return stop.signal
}

/**
 * One worker per home: two under one name would each have the other's calls taken for lost. The kernel lets go of an abstract socket when
 * we die, however that happens. It is named by the folder's identity, because the same folder may be seen under several paths.
 */
function holdHome(home: string): Promise<Result<void, Refusal>> {
  const { dev, ino } = statSync(home)
  return new Promise((settle) => {
    const server = createServer((socket) => socket.destroy())
    server.once('error', () =>
      settle(err(`another worker runs on \`${home}\`; stop it, or give this one a home of its own`)),
    )
    server.listen(`\0countersign-worker-${dev}-${ino}`, () => settle(ok(undefined)))
    server.unref()
  })
}
