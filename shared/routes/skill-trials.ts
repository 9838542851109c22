// The route on which authors try a skill before it is published.

import { LIMITS } from '../limits.ts'
import { TrialResult, Trials } from '../wire/skill-trials.ts'
import { list, routes } from './route.ts'

export const SKILL_TRIALS = routes({
  trySkill: {
    method: 'POST',
    path: '/v1/skills/trials',
    callers: ['operator'],
    action: 'skill.try',
    summary:
      'Run an unpublished skill in an isolate, on fuel, with the permissions of its manifest; recorded answers of each trial replace hosts and secrets. Nothing is stored, and nothing leaves the edge',
    body: Trials,
    body_bytes: LIMITS.skill_package_bytes,
    status: 200,
    result: list(TrialResult),
    failures: ['invalid_skill', 'invalid_schema', 'invalid_arguments', 'unavailable'],
  },
})
