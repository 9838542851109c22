// The serving worker process: checks what must hold before it serves, starts its parts in order,
// pauses doorbells, and shuts down in order. A condition that it can't serve without ends the
// process with an explanation.

import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { LIMITS } from '../shared/limits.ts'
import { err, ok, type Result } from '../shared/result.ts'
import { type CallContext, executeCall } from './calls/call.ts'
import { startHeartbeat } from './calls/heartbeat.ts'
import { CallsInFlight } from './calls/in-flight.ts'
import { OutputStreams } from './calls/output-stream.ts'
import { RunFolders } from './calls/run-folders.ts'
import { SettlementSender } from './calls/settlements.ts'
import { Spool, type SpooledSettlement } from './calls/spool.ts'
import type { Config, Refusal } from './config.ts'
import { errorReport } from './host/error-report.ts'
import { holdHome } from './host/home-lock.ts'
import type { Log } from './host/log.ts'
import { type EdgeLink, openEdgeLink } from './link/client.ts'
import { EdgeKeys } from './link/edge-keys.ts'
import { type Identity, makeHome } from './link/identity.ts'
import { presentIdentity } from './link/key-rotation.ts'
import { type ProvenSandbox, prove, signedProof, withEquipment } from './proof/proof.ts'
import { ProofSchedule } from './proof/schedule.ts'
import { DoorbellIntake } from './queue/doorbell-intake.ts'
import { type Doorbell, type DoorbellQueue, openDoorbellQueue } from './queue/doorbells.ts'
import { WarmStock } from './sandbox/warm-stock.ts'

const SPOOL_WATCH_MS = 1_000
/** Time limits for killing, collecting and settling after the drain. */
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
  const identity = await presentIdentity(config)
  if (!identity.ok) return identity
  const spool = new Spool(join(config.home, 'spool'))
  const left = spool.open(Date.now())
  if (!left.ok) return left
  const { lost, unreadable, settled } = left.value
  if (lost.length > 0) log.warn(LOST, { calls: lost.length, first: lost.slice(0, LOST_NAMED) })
  if (unreadable !== undefined)
    log.warn('unreadable lines of the spool were moved to another file', { file: unreadable })
  return withEquipment(config, async (equipment) => {
    const prepared = new WarmStock(equipment)
    const proveAgain = () => logFailedChecks(prove(equipment, config.tiers, prepared), log)
    const begun = { config, identity: identity.value, spool, left: settled, proveAgain, log, stop }
    try {
      return await workIfProven(begun, await proveAgain())
    } finally {
      await Promise.race([prepared.close(), pause(LEAVE_HOST_WITHIN_MS)])
    }
  })
}

const LOST =
  'calls were lost when their worker process died; the edge ends each as indeterminate, or grants it again if its tool is idempotent'
const LOST_NAMED = 10

async function workIfProven(
  begun: Omit<Begun, 'proven'>,
  proven: ProvenSandbox,
): Promise<Result<void, Refusal>> {
  // A failed canary disables its tier until a later probe succeeds. A missing program will not
  // appear by itself, so it refuses the start (S48).
  if (proven.lacking.length > 0)
    return err(`${proven.lacking.join('; ')}; or list in \`tiers\` only the tiers that this host should run`)
  if (proven.tiers.length === 0)
    return err('no tier is proven on this host, so it may run nothing; fix the failed checks above')
  return work({ ...begun, proven })
}

type Begun = {
  readonly config: Config
  readonly identity: Identity
  readonly spool: Spool
  readonly left: readonly SpooledSettlement[]
  readonly proven: ProvenSandbox
  readonly proveAgain: () => Promise<ProvenSandbox>
  readonly log: Log
  readonly stop: AbortSignal
}

/**
 * Waits for an edge and a Redis that are not up yet; refuses only an edge without the pinned key.
 * Returns once `stop` is aborted and the calls are drained.
 */
async function work(begun: Begun): Promise<Result<void, Refusal>> {
  const refused = new AbortController()
  const stop = AbortSignal.any([begun.stop, refused.signal])
  const parts = startParts(begun, stop)
  const { settling, heartbeat } = parts
  settling.adopt(begun.left) // results of an earlier process go before new calls
  const edge = (await before(stop, heartbeat.first))
    ? await isPinnedEdge(parts, begun.identity, stop)
    : ok(undefined)
  if (!edge.ok) refused.abort()
  if (!stop.aborted) await parts.proofs.send(parts.proving.proven)
  const queue = (await before(stop, settling.whenOffered()))
    ? await takeDoorbells(begun, parts, stop)
    : undefined
  await before(stop, new Promise<void>(() => undefined))
  await end(begun, parts, queue)
  return edge
}

type Parts = ReturnType<typeof startParts>

/**
 * Everything that runs beside the calls: heartbeat, probes, streams, settlements, the spool watch.
 */
function startParts({ config, identity, spool, proven, proveAgain, log }: Begun, stop: AbortSignal) {
  const link = openEdgeLink(config.edge_url, identity)
  const edgeKeys = new EdgeKeys(identity, link, log)
  const running = new CallsInFlight()
  const settling = new SettlementSender(link, spool, identity.signer, log)
  const runFolders = openRunFolders(config, proven, log)
  const streaming = new OutputStreams(link, log)
  const intake = new DoorbellIntake()
  const proofs = new ProofSender(link, identity, stop, log)
  const changed = (now: ProvenSandbox): void => {
    intake.closeIf('unproven', now.tiers.length === 0)
    log.say('the probe has run again', { tiers: now.tiers })
    void proofs
      .send(now)
      .catch((bug) =>
        log.warn('a proof could not be sent because of a bug in the worker', { ...errorReport(bug) }),
      )
  }
  const proving = new ProofSchedule({ first: proven, prove: proveAgain, changed, log })
  const processId = randomBytes(16).toString('base64url')
  const heartbeat = startHeartbeat({ process: processId, link, running, settling, proving, intake, log })
  const unwatch = [watchSpool(spool, intake, log), proveOnHangup(proving)]
  return {
    link,
    edgeKeys,
    process: processId,
    running,
    settling,
    runFolders,
    streaming,
    intake,
    proofs,
    proving,
    heartbeat,
    unwatch,
  }
}

/**
 * Probes again on SIGHUP, for an operator who has just fixed the host. Returns a function that
 * stops it.
 */
function proveOnHangup(proving: ProofSchedule): () => void {
  const prove = (): void => proving.probeNow()
  process.on('SIGHUP', prove)
  return () => void process.off('SIGHUP', prove)
}

/** Sends this worker's proofs. A later proof replaces one that still waits for the edge. */
class ProofSender {
  readonly #link: EdgeLink
  readonly #identity: Identity
  readonly #stop: AbortSignal
  readonly #log: Log
  #earlier = new AbortController()

  constructor(link: EdgeLink, identity: Identity, stop: AbortSignal, log: Log) {
    this.#link = link
    this.#identity = identity
    this.#stop = stop
    this.#log = log
  }

  async send(proven: ProvenSandbox): Promise<void> {
    this.#earlier.abort()
    this.#earlier = new AbortController()
    const signal = AbortSignal.any([this.#stop, this.#earlier.signal])
    const body = { envelope: signedProof(proven, this.#identity, this.#link.clock.now()) }
    const sent = await this.#link.requestUntilFinal(
      'prove',
      { body },
      { patience_ms: LIMITS.proof_every_ms, signal },
    )
    if (!sent.ok && !signal.aborted)
      this.#log.warn('the edge does not accept this worker’s proof', {
        code: sent.error.code,
        detail: sent.error.detail,
      })
  }
}

/**
 * Closes the intake while the spool is full or not writable. Returns a function that stops the
 * watch.
 */
function watchSpool(spool: Spool, intake: DoorbellIntake, log: Log): () => void {
  spool.watch((refused) => {
    if (refused === undefined) log.say('the spool is writable again')
    else
      log.warn('the spool is not writable; running calls continue, and no new ones start until it is', {
        reason: refused,
      })
    intake.closeIf('spool unwritable', refused !== undefined)
  })
  intake.closeIf('spool full', spool.full)
  const timer = setInterval(() => {
    intake.closeIf('spool full', spool.full)
    if (spool.refused) spool.prepare()
  }, SPOOL_WATCH_MS)
  return () => clearInterval(timer)
}

async function takeDoorbells(
  { config, identity, spool, log }: Begun,
  parts: Parts,
  stop: AbortSignal,
): Promise<DoorbellQueue> {
  const { redis_url, tenant, pool, concurrency } = config
  const { proving, intake } = parts
  const proven = () => proving.proven
  const station: CallContext = {
    ...parts,
    identity,
    spool,
    log,
    proven,
    ceilings: config.limits,
    draining: stop,
  }
  const ring = (doorbell: Doorbell) => executeCall(doorbell, station)
  const queue = openDoorbellQueue({
    redis_url,
    tenant,
    pool,
    worker: identity.worker,
    concurrency,
    log,
    ring,
  })
  intake.govern(queue)
  if (await before(stop, queue.listening))
    log.say('ready', { worker: identity.worker, pool, tiers: proving.proven.tiers })
  return queue
}

/** No call starts from here on. */
async function end({ config, log }: Begun, parts: Parts, queue: DoorbellQueue | undefined): Promise<void> {
  const { running, settling, heartbeat, runFolders, proving, link, unwatch } = parts
  await Promise.race([queue?.stopReceiving(), pause(LEAVE_REDIS_WITHIN_MS)])
  await drain(config.drain_ms, running, settling, log)
  await Promise.race([queue?.close(), pause(LEAVE_REDIS_WITHIN_MS)])
  await Promise.race([heartbeat.stop(), pause(LEAVE_EDGE_WITHIN_MS)])
  runFolders.close()
  for (const stop of unwatch) stop()
  proving.stop()
  link.close()
}

/** Opens the run folders, except those in which a sandbox of a dead worker was still running. */
function openRunFolders(
  { home, runs_bytes, free_bytes }: Config,
  { sandbox }: ProvenSandbox,
  log: Log,
): RunFolders {
  const { found, folders } = sandbox.equipment.orphans
  if (found > 0) log.warn('sandboxes of a dead worker were still running and were ended', { found })
  return new RunFolders(join(home, 'runs'), { bytes: runs_bytes, free_bytes }, folders)
}

/**
 * Refuses an edge without the pinned key: no grant of it would be valid, and it should learn
 * nothing from us.
 */
async function isPinnedEdge(
  { link, edgeKeys }: Pick<Parts, 'link' | 'edgeKeys'>,
  identity: Identity,
  stop: AbortSignal,
): Promise<Result<void, Refusal>> {
  const input = { query: { tenant: identity.tenant } }
  const keys = await link.requestUntilFinal('keys', input, {
    patience_ms: Number.POSITIVE_INFINITY,
    signal: stop,
  })
  if (!keys.ok)
    return stop.aborted ? ok(undefined) : err(`the edge does not return its keys: ${keys.error.detail}`)
  const followed = edgeKeys.follow(keys.value)
  if (followed.ok) return followed
  return err(
    `the edge does not continue the key \`${identity.edge.kid}\` that this worker pinned (${followed.error}); correct \`edge_url\`, or remove the key file and enrol again if this is a new installation`,
  )
}

/**
 * Waits up to `drain_ms` for running calls, then ends them. Unsent results stay in the spool for
 * the next process.
 */
async function drain(
  drain_ms: number,
  running: CallsInFlight,
  settling: SettlementSender,
  log: Log,
): Promise<void> {
  log.say('stopping', { running: running.size, waiting: settling.waiting })
  await Promise.race([running.whenEmpty(), pause(drain_ms)])
  running.stopAll('shutdown')
  await Promise.race([running.whenEmpty(), pause(KILL_WITHIN_MS)])
  await Promise.race([settling.whenFlushed(), pause(FLUSH_WITHIN_MS)])
  settling.end()
  log.say('stopped', { running: running.size, waiting: settling.waiting })
}

/** Logs each failed check; its detail says how to fix it. */
async function logFailedChecks(proving: Promise<ProvenSandbox>, log: Log): Promise<ProvenSandbox> {
  const proven = await proving
  for (const { check, ok: held, found } of proven.findings)
    if (!held) log.warn('a check of the sandbox failed', { check, found })
  return proven
}

/** Whether `awaited` resolved before `stop` was aborted. */
const before = (stop: AbortSignal, awaited: Promise<unknown>): Promise<boolean> =>
  new Promise((settle) => {
    if (stop.aborted) settle(false)
    stop.addEventListener('abort', () => settle(false), { once: true })
    void awaited.then(() => settle(true))
  })

/**
 * The first signal starts a drain; the second one ends the process at once, and its sandboxes die
 * with it.
 */
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
