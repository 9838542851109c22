// One request to a witness (C2SP tlog-witness, `add-checkpoint`). Its answer is untrusted: a cosignature
// counts only if it is valid for the note that was sent.

import { readSize } from '../../shared/evidence/checkpoint.ts'
import { cosignedBy } from '../../shared/evidence/cosignature.ts'
import type { WitnessSetting } from '../../shared/evidence/witnesses.ts'
import { LIMITS } from '../../shared/limits.ts'
import {
  beginningOf,
  faultInAddress,
  type Outside,
  type StandIns,
  testOverrideFor,
} from '../platform/outbound-fetch.ts'

export type Network = { readonly outside: Outside; readonly standIns: StandIns | undefined }
export type WitnessAnswer =
  | { readonly kind: 'cosigned'; readonly line: string; readonly at_ms: number }
  /** The head that it cosigned last has another size than the request supposed. */
  | { readonly kind: 'has'; readonly size: number }
  /** The log does not continue the head that it cosigned last. */
  | { readonly kind: 'contradicted'; readonly detail: string }
  | { readonly kind: 'failed'; readonly why: string }

type Submission = { readonly old: number; readonly proof: readonly string[]; readonly note: string }

/** Never throws. The runtime's error would reveal what is behind a name, so it is not repeated. */
export async function submit(
  { outside, standIns }: Network,
  setting: WitnessSetting,
  { old, proof, note }: Submission,
): Promise<WitnessAnswer> {
  const to = `${setting.url.replace(/\/$/, '')}/add-checkpoint`
  const fault = faultInAddress(to, standIns !== undefined)
  if (fault !== undefined) return { kind: 'failed', why: fault }
  const hashes = proof.map((hash) => `${Buffer.from(hash, 'hex').toString('base64')}\n`).join('')
  const signal = AbortSignal.timeout(LIMITS.witness_answer_ms)
  try {
    const answer = await outside.fetch(testOverrideFor(to, standIns ?? {}), {
      method: 'POST',
      redirect: 'manual',
      body: `old ${old}\n${hashes}\n${note}`,
      signal,
    })
    return readAnswer(answer, await beginningOf(answer, LIMITS.witness_answer_bytes), setting, note)
  } catch {
    const why = signal.aborted ? `no answer within ${LIMITS.witness_answer_ms} ms` : 'it can’t be reached'
    return { kind: 'failed', why }
  }
}

function readAnswer(
  { status, headers }: Response,
  text: string,
  { witness }: WitnessSetting,
  note: string,
): WitnessAnswer {
  if (status === 200) {
    for (const line of text.split('\n')) {
      const [cosignature] = cosignedBy(`${note}${line}\n`, [witness])
      if (cosignature !== undefined) return { kind: 'cosigned', line, at_ms: cosignature.at_ms }
    }
    return { kind: 'failed', why: 'its answer has no valid cosignature with its key' }
  }
  const size =
    headers.get('content-type') === 'text/x.tlog.size' && text.endsWith('\n')
      ? readSize(text.slice(0, -1))
      : undefined
  if (status === 409 && size !== undefined) return { kind: 'has', size }
  if (status === 409) return { kind: 'contradicted', detail: 'it has cosigned another root for this size' }
  if (status === 422)
    return { kind: 'contradicted', detail: 'the log does not continue what it has cosigned' }
  return { kind: 'failed', why: `it answered with status ${status}` }
}
