// Whether a request makes the run that it names. Such a run can't be sealed, so nobody asks its archive.

import { bornAt } from '../../archive/archive-of.ts'

/**
 * True only for a random id, which was made for this very request. Its time proves nothing: a clock may be
 * set back. The object of a key, or of several runs, may have been sealed long ago (L2); `bornAt` reads no
 * time from either id.
 */
export function isNewRun(run: string, method: string, [input]: readonly unknown[]): boolean {
  const given = input as { id?: unknown; create?: { id: unknown } | null } | undefined // of `RunRequests`
  const created = method === 'create' ? given?.id : method === 'propose' ? given?.create?.id : undefined
  return created === run && bornAt(run) !== null
}
