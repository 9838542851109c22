// Ends the calls that a restored backup has without an end, before the run answers anything (L2). A
// call names the number of restores that the installation had when it last changed, so a call of
// the backup is known without a clock.

import { ok } from '../../../shared/result.ts'
import type { RunContext } from '../context.ts'

export async function endCallsOfBackup(run: RunContext, restores: number): Promise<void> {
  if (run.row === undefined) return // a new object has no tables yet
  const ofBackup = run.store.live().filter(({ proposal }) => (proposal.restores ?? 0) !== restores)
  if (ofBackup.length === 0) return
  await run.transact((tx) => {
    for (const record of ofBackup) tx.apply(record, { kind: 'restored' })
    return ok(true)
  })
}
