// Measures the verification of bundles on one core, from the text of a file to the verdict, beside the
// signatures alone.

import { EVIDENCE_BOUNDS, parseJson } from '../../../shared/bytes/json.ts'
import { Bundle, verifyBundle } from '../../../shared/evidence/bundle.ts'
import { isSignedBy } from '../../../shared/evidence/ed25519.ts'
import { collude, EDGE, executedBundle, KEYS, NOW, reexecuted } from '../../shared/evidence.ts'
import { type Figure, figure, table } from '../table.ts'

/** Verdicts in a second. */
export type Verification = { readonly bundles: number; readonly signatures: number; readonly bytes: number }

const WANTED = 2_000
/** Signatures of a bundle: of worker and edge on the statement, of the edge on grant and checkpoint. */
const SIGNATURES = 4

export function timeVerification(count: number, rounds: number): Verification {
  const whole = executedBundle()
  const texts = Array.from({ length: count }, (_, i) =>
    Buffer.from(JSON.stringify(collude(whole, reexecuted(whole, { ended_at_ms: NOW + 20 + i })))),
  )
  const { sig } = whole.envelope.signatures[1] ?? { sig: '' }
  const [signature, message] = [Buffer.from(sig, 'base64'), Buffer.from(whole.envelope.payload, 'base64')]
  const verifyAll = (): void => {
    for (const text of texts) {
      const json = parseJson(text, EVIDENCE_BOUNDS)
      if (!json.ok || !verifyBundle(Bundle.parse(json.value), KEYS).ok)
        throw new Error('a bundle of the bench does not verify')
    }
  }
  const checkAll = (): void => {
    for (let i = 0; i < SIGNATURES * count; i++) isSignedBy(EDGE.x, message, signature)
  }
  const [bundles, signatures] = [verifyAll, checkAll].map((work) => {
    work() // warms the compiler and the cache of keys
    const best = Math.min(...Array.from({ length: rounds }, () => timeOf(work)))
    return (count / best) * 1_000
  })
  return { bundles: bundles ?? 0, signatures: signatures ?? 0, bytes: texts[0]?.byteLength ?? 0 }
}

function timeOf(work: () => void): number {
  const began = performance.now()
  work()
  return performance.now() - began
}

export const verificationTables = ({ bundles, signatures, bytes }: Verification): string[] => [
  table(
    ['verified on one core', 'a second', 'µs each'],
    [
      [`floor: ${SIGNATURES} Ed25519 signatures`, signatures.toFixed(0), (1e6 / signatures).toFixed(0)],
      [`a bundle of ${bytes} bytes`, bundles.toFixed(0), (1e6 / bundles).toFixed(0)],
    ],
  ),
]

export const verificationFigures = ({ bundles }: Verification): Figure[] => [
  figure('bundles verified in a second', `≥ ${WANTED}`, bundles.toFixed(0), bundles >= WANTED),
]
