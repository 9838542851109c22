// What operators may do about what skills keep: look how much it is, and clear it.

import { z } from 'zod'
import { Name } from '../fields.ts'
import { LIMITS } from '../limits.ts'
import { Clearing, SkillStorage } from '../wire/skill-storage.ts'
import { routes } from './route.ts'

const named = z.strictObject({ id: Name })

export const SKILL_STORAGE = routes({
  readSkillStorage: {
    method: 'GET',
    path: '/v1/skills/{id}/storage',
    callers: ['operator'],
    action: 'storage.read',
    params: named,
    /** `after`: the last key of the page before. */
    query: z.strictObject({ after: z.string().max(LIMITS.skill_key_chars).optional() }),
    summary:
      'What a skill keeps from call to call, in all its versions: keys and sizes, a page at a time; never the values',
    status: 200,
    result: SkillStorage,
    failures: [],
  },
  clearSkillStorage: {
    method: 'DELETE',
    path: '/v1/skills/{id}/storage',
    callers: ['operator'],
    action: 'storage.clear',
    params: named,
    summary: 'Delete all that a skill keeps, whatever its state; who did it stays on record',
    status: 200,
    result: Clearing,
    failures: [],
  },
})
