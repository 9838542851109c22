// Reads which heads of a log witnesses have cosigned, whether the log that is shown now continues them,
// and whether one of them refuses it.

import type { Check } from '../../shared/evidence/checks.ts'
import { type Cosignature, cosignedBy } from '../../shared/evidence/cosignature.ts'
import type { Keys } from '../../shared/evidence/keys.ts'
import { ok, type Result } from '../../shared/result.ts'
import { type Quorum, quorumCheck } from '../calls/cosignatures.ts'
import type { Trouble } from '../shell/command.ts'
import type { Api } from '../shell/edge-api.ts'
import { time } from '../shell/terminal-text.ts'
import { isContinued, type SignedHead, signedHead } from './checkpoints.ts'
import { edgeLog } from './sources.ts'

type Witnessed = { readonly checks: readonly Check[]; readonly about: Readonly<Record<string, string>> }

/**
 * A busy log is ahead of its witnesses by a second, so an earlier head that they cosigned counts if
 * the log continues it. `quorum`: undefined if no witness was named; then only refusals count.
 */
export async function witnessed(
  api: Api,
  keys: Keys,
  head: SignedHead,
  quorum: Quorum | undefined,
): Promise<Result<Witnessed, Trouble>> {
  const { tenant } = keys
  const states = await api('logWitnesses', { params: { tenant } })
  if (!states.ok) return states
  const { items } = states.value
  const refused = items.find((item) => item.refused !== null)
  const name = 'no witness of this edge refuses the log'
  const refusals: Check[] =
    items.length === 0
      ? []
      : refused?.refused == null
        ? [{ name, ok: true }]
        : [
            {
              name,
              ok: false,
              detail: `${refused.key}, since ${time(refused.refused.since_ms)}: ${refused.refused.detail}`,
            },
          ]
  if (quorum === undefined) return ok({ checks: refusals, about: {} })
  const by: Cosignature[] = []
  const about: Record<string, string> = {}
  const notes = [head.note, ...items.flatMap(({ cosigned }) => cosigned?.note ?? [])]
  for (const key of quorum.keys) {
    for (const note of notes) {
      const before = signedHead(note, keys)
      const [cosignature] = cosignedBy(note, [key])
      if (!before.ok || cosignature === undefined || before.value.origin !== head.origin) continue
      if (before.value.size > head.size) continue
      const continued = await isContinued(before.value, head, edgeLog(api, tenant).readTile)
      if (!continued.ok) return continued
      if (!continued.value) continue
      by.push(cosignature)
      about[`witness ${key.name}`] = `${before.value.size} leaves, at ${time(cosignature.at_ms)}`
      break
    }
  }
  return ok({
    checks: [...refusals, quorumCheck('witnesses have cosigned a head that this log continues', quorum, by)],
    about,
  })
}
