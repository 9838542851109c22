// Measures the verification of bundles on one core, from the text of a file to the verdict, beside the
// signatures alone, and of exported calls on all cores, as `countersign log verify` makes it. Bundles of a worker's call, a skill's, an upstream's and a denial have 4, 3, 3 and 2.

import { verifyParts } from '../../../cli/calls/verify-export.ts'
import { EVIDENCE_BOUNDS, parseJson, sha256 } from '../../../shared/bytes/json.ts'
import { Bundle, verifyBundle } from '../../../shared/evidence/bundle.ts'
import { isSignedBy } from '../../../shared/evidence/ed25519.ts'
import { ok } from '../../../shared/result.ts'
import { EXPORT_START, exportName } from '../../../shared/wire/exports.ts'
import {
  collude,
  deniedBundle,
  EDGE,
  executedBundle,
  exportedRun,
  exportFile,
  KEYS,
  NOW,
  reexecuted,
  skillBundle,
  statementIn,
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

/** Milliseconds for each of `count` exported calls, as many of each kind, each in an object of its own. */
export async function timeExports(count: number): Promise<number> {
  const kinds = Object.values(KINDS)
  const texts = Array.from({ length: count }, (_, i) => {
    const bundle = kinds[i % kinds.length]?.bundle ?? deniedBundle()
    const { stdout } = statementIn(bundle).predicate.execution
    const output = stdout === null ? '' : stdout.bytes === 2 ? '4\n' : '"found"'
    return Buffer.from(exportFile(`object-${i}`, exportedRun(bundle, output)))
  })
  async function* parts() {
    for (const [i, bytes] of texts.entries())
      yield ok({ name: exportName(`object-${i}`, EXPORT_START, sha256(bytes)), bytes: ok(bytes) })
  }
  const began = performance.now()
  const verified = await verifyParts(parts(), KEYS, 0)
  const took = performance.now() - began
  if (!verified.ok || verified.value.checks().some((check) => !check.ok))
    throw new Error('an export of the bench does not verify')
  return took / count
}

/** Processor time in milliseconds, so that other processes change little. */
function timeOf(work: () => void): number {
  const began = process.cpuUsage()
  work()
  const { user, system } = process.cpuUsage(began)
  return (user + system) / 1_000
}

/** How many a second, if each kind is as frequent as the others. */
const perSecond = (costs: readonly Cost[], of: 'bundle' | 'floor'): number =>
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
