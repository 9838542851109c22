// What authors of skills do before anybody publishes them: try.

import { LIMITS } from '../limits.ts'
import { Trials, Tried } from '../wire/skill-trials.ts'
import { list, routes } from './route.ts'

export const SKILL_TRIALS = routes({
  trySkill: {
    method: 'POST',
    path: '/v1/skills/trials',
    callers: ['operator'],
    action: 'skill.try',
    summary:
      'Run a skill that nobody has published: in an isolate, on fuel, as its manifest would let it, with answers that each trial has recorded in the place of hosts and secrets. Nothing is kept, and nothing leaves the edge',
    body: Trials,
    body_bytes: LIMITS.skill_package_bytes,
    status: 200,
    result: list(Tried),
    failures: ['invalid_skill', 'invalid_schema', 'invalid_arguments', 'unavailable'],
  },
})
