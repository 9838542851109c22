// What operators do with skills: publish, look, enable, disable, revoke; and say whose signature counts.

import { z } from 'zod'
import { PublicKey } from '../evidence/ed25519.ts'
import { JournalEntry } from '../evidence/journal.ts'
import { Name } from '../fields.ts'
import { LIMITS } from '../limits.ts'
import { Kid, Publisher, PublisherKeys } from '../wire/publishers.ts'
import { DeniedPart, DeniedPartSpecs, RollBack, Skill, SkillPackage, SkillRef } from '../wire/skills.ts'
import { list, number, routes } from './route.ts'

const named = z.strictObject({ name: Name })
const Why = z.strictObject({ reason: z.string().max(LIMITS.reason_chars).default('') })

export const SKILLS = routes({
  publishSkill: {
    method: 'PUT',
    path: '/v1/skills',
    callers: ['operator'],
    action: 'skill.publish',
    summary:
      'Publish a version of a skill: a DSSE envelope over canonical JSON {manifest, component, sbom, provenance}, signed by one key of a publisher on the list. It is transpiled, metered and kept in quarantine. `pin` puts the publisher of a first package on the list with this key, under the action `publisher.pin`',
    query: z.strictObject({ pin: PublicKey.optional() }),
    body: SkillPackage,
    body_bytes: LIMITS.skill_package_bytes,
    status: 200,
    result: Skill,
    failures: [
      'invalid_skill',
      'invalid_schema',
      'publisher_unknown',
      'key_revoked',
      'skill_conflict',
      'conflict',
      'limit_reached',
      'unavailable',
    ],
  },
  listSkills: {
    method: 'GET',
    path: '/v1/skills',
    callers: ['operator'],
    action: 'skill.read',
    summary:
      'Versions of skills, by name, a page at a time: of one skill, or of all; `after` names the last of the page before, `skill@1.0.0`',
    query: z.strictObject({
      id: Name.optional(),
      after: z
        .string()
        .max(128)
        .regex(/^[^@]+@[^@]+$/)
        .optional(),
    }),
    status: 200,
    result: list(Skill.omit({ manifest: true, modules: true, changes: true, contents: true })),
    failures: [],
  },
  readRollBack: {
    method: 'GET',
    path: '/v1/skills/{id}/rollback',
    callers: ['operator'],
    action: 'skill.read',
    params: z.strictObject({ id: Name }),
    summary: 'From which version of a skill to which a rollback would go now',
    status: 200,
    result: RollBack,
    failures: ['not_found', 'conflict'],
  },
  readSkill: {
    method: 'GET',
    path: '/v1/skills/{id}/{version}',
    callers: ['operator'],
    action: 'skill.read',
    params: SkillRef,
    summary:
      'One version of a skill: its manifest, what it imports and is made of, what is warned of, the digests of what runs, who changed its state and why',
    status: 200,
    result: Skill,
    failures: ['not_found'],
  },
  readSkillPackage: {
    method: 'GET',
    path: '/v1/skills/{id}/{version}/package',
    callers: ['operator'],
    action: 'skill.read',
    params: SkillRef,
    summary:
      'The package of a version, as it was published: whoever has the publisher’s key sees for themselves what was signed',
    status: 200,
    result: SkillPackage,
    failures: ['not_found'],
  },
  enableSkill: {
    method: 'POST',
    path: '/v1/skills/{id}/{version}/enable',
    callers: ['operator'],
    action: 'skill.enable',
    params: SkillRef,
    summary:
      'Enable a version in place of the one that is enabled, and register its tools. Who published it needs `skill.enable_own` too',
    body: Why,
    status: 200,
    result: Skill,
    failures: [
      'not_found',
      'conflict',
      'part_denied',
      'skill_conflict',
      'tool_breaks_policies',
      'limit_reached',
      'forbidden',
    ],
  },
  disableSkill: {
    method: 'POST',
    path: '/v1/skills/{id}/{version}/disable',
    callers: ['operator'],
    action: 'skill.disable',
    params: SkillRef,
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
    params: SkillRef,
    summary: 'Revoke a version: disabled, for good',
    body: Why,
    status: 200,
    result: Skill,
    failures: ['not_found'],
  },
  rollBackSkill: {
    method: 'POST',
    path: '/v1/skills/{id}/rollback',
    callers: ['operator'],
    action: 'skill.enable',
    params: z.strictObject({ id: Name }),
    summary:
      'Enable the version again that was enabled before the one that is: from the one to the other, as they were read, or a conflict. Who published it needs `skill.enable_own` too',
    body: RollBack.extend(Why.shape),
    status: 200,
    result: Skill,
    failures: [
      'not_found',
      'conflict',
      'part_denied',
      'skill_conflict',
      'tool_breaks_policies',
      'limit_reached',
      'forbidden',
    ],
  },
  readSkillJournal: {
    method: 'GET',
    path: '/v1/skills/journal',
    callers: ['operator'],
    action: 'skill.read',
    query: z.strictObject({ after: number(1e9).default(0) }),
    summary:
      'The hash-chained events of skills and publishers, a page at a time: each is a leaf of the tenant’s log',
    status: 200,
    result: list(JournalEntry),
    failures: [],
  },
  putDeniedParts: {
    method: 'PUT',
    path: '/v1/skills/denied-parts',
    callers: ['operator'],
    action: 'publisher.write',
    summary:
      'Parts that no skill is to be made of, in the place of those that were: what holds one is not published or enabled any more; what is enabled goes on, and says so',
    body: z.strictObject({ items: DeniedPartSpecs }),
    status: 200,
    result: list(DeniedPart),
    failures: [],
  },
  listDeniedParts: {
    method: 'GET',
    path: '/v1/skills/denied-parts',
    callers: ['operator'],
    action: 'skill.read',
    summary: 'Parts that no skill is to be made of',
    status: 200,
    result: list(DeniedPart),
    failures: [],
  },
  putPublisher: {
    method: 'PUT',
    path: '/v1/publishers/{name}',
    callers: ['operator'],
    action: 'publisher.write',
    params: named,
    summary:
      'Let somebody publish skills: their Ed25519 keys, in the place of those that they had. What was signed with others stays',
    body: z.strictObject({ keys: PublisherKeys }),
    status: 200,
    result: Publisher,
    failures: ['limit_reached', 'conflict', 'key_revoked'],
  },
  revokePublisherKey: {
    method: 'POST',
    path: '/v1/publishers/{name}/keys/{kid}/revoke',
    callers: ['operator'],
    action: 'publisher.write',
    params: named.extend({ kid: Kid }),
    summary:
      'Revoke a key for good: every version that it signed is revoked with it, and it is never put on the list again',
    body: z.strictObject({ reason: z.string().min(1).max(LIMITS.reason_chars) }),
    status: 200,
    result: Publisher,
    failures: ['not_found'],
  },
  listPublishers: {
    method: 'GET',
    path: '/v1/publishers',
    callers: ['operator'],
    action: 'skill.read',
    summary: 'Who may publish skills, by their keys; and which keys were revoked, by whom and why',
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
