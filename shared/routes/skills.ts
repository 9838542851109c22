// What operators do with skills: publish, look, enable, disable, revoke; and say whose signature counts.

import { z } from 'zod'
import { LIMITS } from '../limits.ts'
import { SkillVersion } from '../plan.ts'
import { Publisher, Skill, SkillPackage } from '../skills.ts'
import { Name } from '../wire.ts'
import { list, routes } from './route.ts'

const named = z.strictObject({ name: Name })
const versioned = z.strictObject({ id: Name, version: SkillVersion })
const Why = z.strictObject({ reason: z.string().max(LIMITS.reason_chars).default('') })

export const SKILLS = routes({
  publishSkill: {
    method: 'PUT',
    path: '/v1/skills',
    callers: ['operator'],
    action: 'skill.publish',
    summary:
      'Publish a version of a skill: a DSSE envelope over canonical JSON {manifest, component}, signed by one key of a publisher on the list. It is transpiled, metered and kept in quarantine',
    body: SkillPackage,
    body_bytes: LIMITS.skill_package_bytes,
    status: 200,
    result: Skill,
    failures: ['invalid_skill', 'invalid_schema', 'publisher_unknown', 'skill_conflict', 'limit_reached', 'unavailable'],
  },
  listSkills: {
    method: 'GET',
    path: '/v1/skills',
    callers: ['operator'],
    action: 'skill.read',
    summary: 'All versions of all skills',
    status: 200,
    result: list(Skill.omit({ manifest: true, modules: true, changes: true })),
    failures: [],
  },
  readSkill: {
    method: 'GET',
    path: '/v1/skills/{id}/{version}',
    callers: ['operator'],
    action: 'skill.read',
    params: versioned,
    summary: 'One version of a skill: its manifest, what it imports, the digests of what runs, who changed its state and why',
    status: 200,
    result: Skill,
    failures: ['not_found'],
  },
  enableSkill: {
    method: 'POST',
    path: '/v1/skills/{id}/{version}/enable',
    callers: ['operator'],
    action: 'skill.enable',
    params: versioned,
    summary: 'Enable a version in place of the one that is enabled, and register its tools. Who published it needs `skill.enable_own` too',
    body: Why,
    status: 200,
    result: Skill,
    failures: ['not_found', 'conflict', 'skill_conflict', 'tool_breaks_policies', 'limit_reached', 'forbidden'],
  },
  disableSkill: {
    method: 'POST',
    path: '/v1/skills/{id}/{version}/disable',
    callers: ['operator'],
    action: 'skill.disable',
    params: versioned,
    summary: 'Disable a version: calls of its tools are denied from then on, those that were approved too',
    body: Why,
    status: 200,
    result: Skill,
    failures: ['not_found', 'conflict'],
  },
  revokeSkill: {
    method: 'POST',
    path: '/v1/skills/{id}/{version}/revoke',
    callers: ['operator'],
    action: 'skill.disable',
    params: versioned,
    summary: 'Revoke a version: disabled, for good',
    body: Why,
    status: 200,
    result: Skill,
    failures: ['not_found'],
  },
  putPublisher: {
    method: 'PUT',
    path: '/v1/publishers/{name}',
    callers: ['operator'],
    action: 'publisher.write',
    params: named,
    summary: 'Let somebody publish skills: their Ed25519 keys. What was signed with others stays published',
    body: Publisher.omit({ name: true }),
    status: 200,
    result: Publisher,
    failures: ['limit_reached'],
  },
  listPublishers: {
    method: 'GET',
    path: '/v1/publishers',
    callers: ['operator'],
    action: 'skill.read',
    summary: 'Who may publish skills, by their keys',
    status: 200,
    result: list(Publisher),
    failures: [],
  },
  deletePublisher: {
    method: 'DELETE',
    path: '/v1/publishers/{name}',
    callers: ['operator'],
    action: 'publisher.write',
    params: named,
    summary: 'Take a publisher from the list; what they published stays, until it is disabled',
    status: 200,
    result: z.strictObject({ done: z.literal(true) }),
    failures: ['not_found'],
  },
})
