// A witness's answer to a checkpoint (C2SP tlog-witness, `add-checkpoint`): it cosigns heads that continue
// the last head of that log which it cosigned, and no others.

import {
  type Checkpoint,
  readCheckpoint,
  readSize,
  verifyCheckpoint,
} from '../../shared/evidence/checkpoint.ts'
import { cosign, verifierKey } from '../../shared/evidence/cosignature.ts'
import { EMPTY_ROOT, verifyConsistency } from '../../shared/evidence/merkle.ts'
import { decodeBase64, type NoteKey } from '../../shared/evidence/note.ts'
import { LIMITS } from '../../shared/limits.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import { time } from '../shell/terminal-text.ts'
import { LogKeys, type WitnessedLog } from './log-keys.ts'
import type { StateFolder } from './state-folder.ts'

/** `untrusted`: the origin of the checkpoint, if no key of the log that is trusted has signed it. */
export type Answer = {
  readonly status: number
  readonly body: string
  readonly type?: string
  readonly untrusted?: string
}

/** The content type of the size of a log in an answer. */
const SIZE_TYPE = 'text/x.tlog.size'
const HASH_BYTES = 32

type Submission = { readonly old: number; readonly proof: readonly string[]; readonly note: string }

const refusal = (status: number, why: string): Answer => ({ status, body: `${why}\n` })

export class Witness {
  readonly #name: string
  readonly #logs: readonly WitnessedLog[]
  readonly #state: StateFolder
  readonly #keys = new Map<WitnessedLog, LogKeys>()

  constructor(name: string, logs: readonly WitnessedLog[], state: StateFolder) {
    this.#name = name
    this.#logs = logs
    this.#state = state
  }

  get key(): NoteKey {
    return { name: this.#name, x: this.#state.signer.x }
  }

  /** Answers a checkpoint. If its key is unknown, the edge's chain of keys is read first. */
  async answer(body: string, now: number): Promise<Answer> {
    const answer = this.addCheckpoint(body, now)
    if (answer.untrusted === undefined) return answer
    const [, tenant = ''] = answer.untrusted.split('/')
    for (const log of this.#logsOf(answer.untrusted))
      if (await this.#keysOf(log).learn(tenant, now)) return this.addCheckpoint(body, now)
    return answer
  }

  /**
   * Runs without a pause from the read of the last head to the write of the new one, so no other
   * request comes between them.
   */
  addCheckpoint(body: string, now: number): Answer {
    const submission = parseSubmission(body)
    if (!submission.ok) return refusal(400, submission.error)
    const { old, proof, note } = submission.value
    const head = readCheckpoint(note)
    if (!head.ok) return refusal(400, head.error)
    const { origin, size, root } = head.value
    const logs = this.#logsOf(origin)
    if (logs.length === 0) return refusal(404, 'this witness does not know the log')
    const keys = logs.flatMap((log) => this.#keysOf(log).trusted)
    if (!keys.some((x) => verifyCheckpoint(note, origin, x).ok)) {
      const why = 'no key of the log that this witness trusts has signed the checkpoint'
      return { ...refusal(403, why), untrusted: origin }
    }
    if (old > size) return refusal(400, 'the old size is greater than the size of the checkpoint')
    const last: Checkpoint = this.#state.head(origin) ?? { origin, size: 0, root: EMPTY_ROOT }
    if (old !== last.size) return { status: 409, body: `${last.size}\n`, type: SIZE_TYPE }
    if (size === old && root !== last.root)
      return refusal(409, 'this witness has cosigned another root for this size')
    if (!verifyConsistency({ m: old, rootM: last.root, n: size, rootN: root, proof }))
      return refusal(422, 'the proof does not show that the log continues the head of the old size')
    if (size > old) {
      if (old === 0 && this.#state.count >= LIMITS.witness_logs)
        return refusal(507, 'this witness already follows as many logs as it may')
      this.#state.keep(origin, note, now)
    }
    const text = note.slice(0, note.lastIndexOf('\n\n') + 1)
    return { status: 200, body: cosign(text, this.#name, this.#state.signer, now) }
  }

  /** For people: the key by which verifiers know this witness, and the heads that it has seen. */
  page(): string {
    const heads = this.#state
      .latest()
      .map(({ origin, size, root, at_ms }) => `${origin}  ${size} leaves  root ${root}  at ${time(at_ms)}\n`)
    return `A witness of transparency logs (C2SP tlog-witness). Its key:\n\n${verifierKey(this.key)}\n\n${
      heads.length === 0 ? 'It has cosigned no checkpoint yet.\n' : `The latest heads:\n\n${heads.join('')}`
    }`
  }

  #logsOf(origin: string): WitnessedLog[] {
    return this.#logs.filter((log) =>
      log.origin.endsWith('/') ? origin.startsWith(log.origin) : origin === log.origin,
    )
  }

  #keysOf(log: WitnessedLog): LogKeys {
    const known = this.#keys.get(log) ?? new LogKeys(log, this.#state)
    this.#keys.set(log, known)
    return known
  }
}

/** Reads `old N`, the lines of the proof, an empty line and the note. */
function parseSubmission(body: string): Result<Submission, string> {
  const end = body.indexOf('\n\n')
  if (end < 0) return err('the body has no empty line before the checkpoint')
  const [first = '', ...lines] = body.slice(0, end).split('\n')
  const old = first.startsWith('old ') ? readSize(first.slice(4)) : undefined
  if (old === undefined) return err('the first line is not `old` and a size')
  if (lines.length > LIMITS.witness_proof_lines)
    return err(`the proof has more than ${LIMITS.witness_proof_lines} lines`)
  const proof = lines.map((line) => decodeBase64(line, HASH_BYTES)?.toString('hex'))
  if (!proof.every((hash) => hash !== undefined)) return err('a line of the proof is not a hash in base64')
  return ok({ old, proof, note: body.slice(end + 2) })
}
