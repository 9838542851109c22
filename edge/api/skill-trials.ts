// The trial of a skill before it is published. A trial needs no signature, stores and journals
// nothing, and reaches no network.

import { failure } from '../../shared/failures.ts'
import { err, ok } from '../../shared/result.ts'
import { trialObject } from '../bindings.ts'
import type { Verbs } from './verb.ts'

export const skillTrialRoutes: Verbs<'trySkill'> = {
  async trySkill({ env, caller: { directory, principal }, body: { manifest, component, trials } }) {
    const code = Buffer.from(component, 'base64')
    if (code.toString('base64') !== component)
      return err(failure('invalid_skill', 'the component is not canonical base64'))
    const author = [directory.tenant, `operator ${principal.name}`, manifest.id] as const
    const items = await trialObject(env, directory.tenant).try(author, {
      manifest,
      component: code,
      trials,
    })
    return items.ok ? ok({ items: items.value }) : items
  },
}
