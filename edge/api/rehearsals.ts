// What operators may try policies on without enforcing them.

import { ok } from '../../shared/result.ts'
import type { Verbs } from '../app.ts'
import { candidateOf } from '../candidate.ts'
import { rehearse } from '../rehearsal/log.ts'

export const rehearsalRoutes: Verbs<'rehearsePolicyVersion'> = {
  async rehearsePolicyVersion({ env, caller: { directory }, params: { version }, body }) {
    const candidate = await candidateOf(env, directory, version)
    return candidate.ok ? ok(await rehearse(env, directory, { version, ...body })) : candidate
  },
}
