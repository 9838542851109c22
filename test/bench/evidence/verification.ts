// Measures the verification of bundles on one core, from the text of a file to the verdict, beside the
// signatures alone. Bundles of a worker's call, a skill's, an upstream's and a denial have 4, 3, 3 and 2.

import { EVIDENCE_BOUNDS, parseJson } from '../../../shared/bytes/json.ts'
import { Bundle, verifyBundle } from '../../../shared/evidence/bundle.ts'
import { isSignedBy } from '../../../shared/evidence/ed25519.ts'
import {
  collude,
  deniedBundle,
  EDGE,
  executedBundle,
  KEYS,
  NOW,
  reexecuted,
  skillBundle,
  upstreamBundle,
  WORKER,
} from '../../shared/evidence.ts'
import { type Figure, figure, ms, table } from '../table.ts'

const KINDS = {
  'a worker’s call': { bundle: executedBundle(), by: [WORKER, EDGE], signatures: 4 },
  'a skill’s call': { bundle: skillBundle(), by: [EDGE], signatures: 3 },
  'an upstream’s call': { bundle: upstreamBundle(), by: [EDGE], signatures: 3 },
  'a denied call': { bundle: deniedBundle(), by: [EDGE], signatures: 2 },
}
type Kind = keyof typeof KINDS
/** Milliseconds for one bundle, and for its signatures alone. */
export type Cost = {
  readonly kind: Kind
  readonly bytes: number
  readonly bundle: number
  readonly floor: number
}

const WANTED = 2_000

/** `count`: different bundles of each kind. The best of `rounds` counts. */
export const timeVerification = (count: number, rounds: number): Cost[] =>
  (Object.keys(KINDS) as Kind[]).map((kind) => costOf(kind, count, rounds)) // `Object.keys` loses the type

function costOf(kind: Kind, count: number, rounds: number): Cost {
  const { bundle, by, signatures } = KINDS[kind]
  const texts = Array.from({ length: count }, (_, i) =>
    Buffer.from(JSON.stringify(collude(bundle, reexecuted(bundle, { ended_at_ms: NOW + 20 + i }), by))),
  )
  const verifyAll = (): void => {
    for (const text of texts) {
      const json = parseJson(text, EVIDENCE_BOUNDS)
      if (!json.ok || !verifyBundle(Bundle.parse(json.value), KEYS).ok)
        throw new Error('a bundle of the bench does not verify')
    }
  }
  const { payload, signatures: signed } = bundle.envelope
  const signature = Buffer.from(signed.at(-1)?.sig ?? '', 'base64')
  const message = Buffer.from(payload, 'base64')
  const checkAll = (): void => {
    for (let i = 0; i < signatures * count; i++) isSignedBy(EDGE.x, message, signature)
  }
  const best = (work: () => void): number => {
    work() // warms the compiler and the cache of keys
    return Math.min(...Array.from({ length: rounds }, () => timeOf(work))) / count
  }
  return { kind, bytes: texts[0]?.byteLength ?? 0, bundle: best(verifyAll), floor: best(checkAll) }
}

/** Processor time in milliseconds, so that other processes change little. */
function timeOf(work: () => void): number {
  const began = process.cpuUsage()
  work()
  const { user, system } = process.cpuUsage(began)
  return (user + system) / 1_000
}

/** How many a second, if each kind is as frequent as the others. */
export const perSecond = (costs: readonly Cost[], of: 'bundle' | 'floor'): number =>
  (1_000 * costs.length) / costs.reduce((sum, cost) => sum + cost[of], 0)

export const verificationTables = (costs: readonly Cost[]): string[] => [
  table(
    ['bundle of', 'bytes', 'ms', 'floor: its signatures, ms'],
    costs.map(({ kind, bytes, bundle, floor }) => [kind, String(bytes), ms(bundle), ms(floor)]),
  ),
]

export const verificationFigures = (costs: readonly Cost[]): Figure[] => {
  const [bundles, floor] = [perSecond(costs, 'bundle'), perSecond(costs, 'floor')]
  const got = `${bundles.toFixed(0)} (signatures alone: ${floor.toFixed(0)})`
  return [figure('bundles a second on one core, as many of each kind', `≥ ${WANTED}`, got, bundles >= WANTED)]
}
