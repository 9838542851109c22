// Sends the newest head of a log to the witnesses of the installation, and stores their cosignatures.
// No call waits for it: it runs in the object's alarm, and a witness that fails is asked again later.

import { type Checkpoint, signCheckpoint } from '../../shared/evidence/checkpoint.ts'
import { cosignedBy } from '../../shared/evidence/cosignature.ts'
import type { Signer } from '../../shared/evidence/dsse.ts'
import type { WitnessRefusal, WitnessSetting, WitnessState } from '../../shared/evidence/witnesses.ts'
import { LIMITS } from '../../shared/limits.ts'
import { Alarm } from '../platform/alarm.ts'
import { logError } from '../platform/error-log.ts'
import type { LogTree } from './tree-store.ts'
import { type Network, submit, type WitnessAnswer } from './witness-client.ts'
import type { WitnessRow, WitnessStore } from './witness-store.ts'

type SignedHead = Checkpoint & { readonly note: string }
type Cosigned = { readonly line: string; readonly at: number }
type Log = {
  readonly storage: DurableObjectStorage
  readonly store: WitnessStore
  readonly tree: LogTree
  readonly origin: string
  readonly signer: Signer
  readonly settings: readonly WitnessSetting[]
  readonly network: Network
}

const FIRST_PAUSE_MS = 1_000

export class Witnessing {
  readonly #log: Log
  readonly #alarm: Alarm
  /** Witnesses that have answered since this object was started. */
  readonly #answered = new Set<string>()
  #isOver = false

  constructor(log: Log) {
    this.#log = log
    this.#alarm = new Alarm(log.storage, () => this.#nextDue())
    // The storage may be that of yesterday, so a log that wakes is shown although it did not grow.
    if (log.tree.size > 0) this.#arm()
  }

  /** Call it when the log has grown. A witness that fails is then asked sooner, once. */
  grown(): void {
    const soon = Date.now() + LIMITS.witness_pause_grown_ms
    for (const { key } of this.#log.settings) {
      const row = this.#log.store.row(key)
      if (row !== undefined && row.due > soon) this.#log.store.put(key, { due: soon })
    }
    this.#arm()
  }

  /** The storage is being erased. */
  end(): void {
    this.#isOver = true
    this.#alarm.removed()
  }

  /** Call it when the alarm fires. At most one request to each witness is under way. */
  async ring(): Promise<void> {
    this.#alarm.rang()
    const now = Date.now()
    const due = this.#log.settings.filter((setting) => (this.#dueAt(setting) ?? now + 1) <= now)
    const head = this.#head()
    await Promise.all(due.map((setting) => this.#show(setting, head)))
    if (!this.#isOver) this.#arm()
  }

  #arm(): void {
    const due = this.#nextDue()
    if (due !== null) this.#alarm.arm(due)
  }

  /** The newest head with the cosignatures that it has. */
  note(): string {
    const { note } = this.#head()
    return this.#withCosignatures(note)
  }

  /**
   * The head with the most cosignatures among those that have the leaf `index`, the largest of them;
   * the newest head if none is cosigned.
   */
  cosignedHead(index: number): { readonly size: number; readonly note: string } {
    const { settings } = this.#log
    const newest = this.#head()
    const older = settings.flatMap(({ key }) => this.#cosignedHead(this.#log.store.row(key)) ?? [])
    const heads = [newest, ...older.filter(({ size }) => index < size && size < newest.size)]
    const keys = settings.map(({ witness }) => witness)
    const candidates = heads.map((head) => {
      const note = this.#withCosignatures(this.#sign(head))
      return { size: head.size, note, by: cosignedBy(note, keys).length }
    })
    return candidates.reduce((best, one) =>
      one.by > best.by || (one.by === best.by && one.size > best.size) ? one : best,
    )
  }

  states(): WitnessState[] {
    return this.#log.settings.map(({ key }) => {
      const row = this.#log.store.row(key)
      const head = this.#cosignedHead(row)
      return {
        key,
        cosigned:
          head === undefined
            ? null
            : { note: `${this.#sign(head)}${head.line}\n`, size: head.size, at_ms: head.at },
        refused:
          row?.refusal == null || row.refusedAt === null
            ? null
            : { reason: row.refusal, detail: row.detail ?? '', since_ms: row.refusedAt },
        failing: row?.failing ?? null,
      }
    })
  }

  #sign(head: Checkpoint): string {
    return signCheckpoint(head, this.#log.signer)
  }

  #head(): SignedHead {
    const { origin, tree } = this.#log
    const head = { origin, size: tree.size, root: tree.root() }
    return { ...head, note: this.#sign(head) }
  }

  #withCosignatures(note: string): string {
    const lines = this.#log.settings.flatMap(({ key, witness }) => {
      const line = this.#log.store.row(key)?.line
      return line != null && cosignedBy(`${note}${line}\n`, [witness]).length > 0 ? [`${line}\n`] : []
    })
    return `${note}${lines.join('')}`
  }

  /** The head that a witness cosigned last, if it is of this log under its present name. */
  #cosignedHead(row: WitnessRow | undefined): (Checkpoint & Cosigned) | undefined {
    const { origin, size, root, line, at } = row ?? {}
    if (origin !== this.#log.origin || size == null || root == null || line == null || at == null)
      return undefined
    return { origin, size, root, line, at }
  }

  /** When the witness is to be shown the log; null if it knows the newest head. */
  #dueAt({ key }: WitnessSetting): number | null {
    const row = this.#log.store.row(key)
    if (row === undefined) return this.#log.tree.size === 0 ? null : 0
    const isNews = this.#cosignedHead(row)?.size !== this.#log.tree.size || row.refusal !== null
    const isStale = !this.#answered.has(key) && (row.at ?? 0) < Date.now() - LIMITS.witness_fresh_ms
    return isNews || isStale ? row.due : null
  }

  #nextDue(): number | null {
    const dues = this.#log.settings.flatMap((setting) => this.#dueAt(setting) ?? [])
    return dues.length === 0 ? null : Math.max(Math.min(...dues), Date.now() + LIMITS.witness_delay_ms)
  }

  async #show(setting: WitnessSetting, head: SignedHead): Promise<void> {
    const known = this.#cosignedHead(this.#log.store.row(setting.key))
    let answer = await this.#submit(setting, head, Math.min(known?.size ?? 0, head.size))
    if (answer.kind === 'has' && answer.size <= head.size)
      answer = await this.#submit(setting, head, answer.size)
    this.#store(setting, head, answer)
  }

  async #submit(setting: WitnessSetting, { size, note }: SignedHead, old: number): Promise<WitnessAnswer> {
    const proof = this.#log.tree.consistency(old, size) ?? []
    return submit(this.#log.network, setting, { old, proof, note })
  }

  #store({ key, witness }: WitnessSetting, head: SignedHead, answer: WitnessAnswer): void {
    if (this.#isOver) return
    const before = this.#log.store.row(key)
    const now = Date.now()
    if (answer.kind !== 'failed') this.#answered.add(key)
    if (answer.kind === 'cosigned') {
      if (before?.refusal != null) this.#report(witness.name, 'it accepts the log again')
      this.#log.store.put(key, {
        origin: head.origin,
        size: head.size,
        root: head.root,
        line: answer.line,
        at: answer.at_ms,
        refusal: null,
        refusedAt: null,
        detail: null,
        failing: null,
        tries: 0,
        due: now,
      })
      return
    }
    const tries = (before?.tries ?? 0) + 1
    const due = now + Math.min(FIRST_PAUSE_MS * 2 ** Math.min(tries, 20), LIMITS.witness_pause_max_ms)
    const refused = refusalIn(answer, this.#log.tree.size)
    if (refused === undefined) {
      const failing = answer.kind === 'failed' ? answer.why : 'it has another size than it said'
      this.#log.store.put(key, { failing, tries, due })
      return
    }
    if (before?.refusal !== refused.reason) this.#report(witness.name, refused.detail)
    const since = before?.refusal == null ? now : (before.refusedAt ?? now)
    const { reason: refusal, detail } = refused
    this.#log.store.put(key, { refusal, detail, refusedAt: since, failing: null, tries, due })
  }

  #report(name: string, detail: string): void {
    logError(new Error(`witness ${name} of the log ${this.#log.origin}: ${detail}`))
  }
}

/** Whether the answer shows that the log is not the one that the witness has seen. */
function refusalIn(
  answer: WitnessAnswer,
  size: number,
): { readonly reason: WitnessRefusal; readonly detail: string } | undefined {
  if (answer.kind === 'contradicted')
    return { reason: 'forked', detail: `the log was forked: ${answer.detail}` }
  if (answer.kind === 'has' && answer.size > size)
    return {
      reason: 'rolled_back',
      detail: `the log was rolled back: it has ${size} leaves, and the witness has cosigned ${answer.size}`,
    }
  return undefined
}
