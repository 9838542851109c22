// Routes for the storage of skills: inspecting its size and clearing it.

import { z } from 'zod'
import { SkillId } from '../fields.ts'
import { LIMITS } from '../limits.ts'
import { Clearing, SkillStorage } from '../wire/skill-storage.ts'
import { routes } from './route.ts'

const named = z.strictObject({ id: SkillId })

export const SKILL_STORAGE = routes({
  readSkillStorage: {
    method: 'GET',
    path: '/v1/skills/{id}/storage',
    callers: ['operator'],
    action: 'storage.read',
    params: named,
    /** `after`: the last key of the previous page. */
    query: z.strictObject({ after: z.string().max(LIMITS.skill_key_chars).optional() }),
    summary:
      'List what a skill (all its versions) stores between calls: keys and sizes, one page at a time; never values',
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
    summary: 'Delete everything that a skill stores, whatever its state; who did it is recorded',
    status: 200,
    result: Clearing,
    failures: [],
  },
})
