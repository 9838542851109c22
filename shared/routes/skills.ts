// Routes for skills (publish, read, enable, disable, revoke) and for their publishers.

import { z } from 'zod'
import { PublicKey } from '../evidence/ed25519.ts'
import { JournalEntry } from '../evidence/journal.ts'
import { Name, SkillId } from '../fields.ts'
import { LIMITS } from '../limits.ts'
import { Kid, Publisher, PublisherKeys } from '../wire/publishers.ts'
import { DeniedPart, DeniedPartSpecs, RollBack, Skill, SkillPackage, SkillRef } from '../wire/skills.ts'
import { list, number, routes } from './route.ts'

const named = z.strictObject({ name: Name })
const Reason = z.strictObject({ reason: z.string().max(LIMITS.reason_chars).default('') })

/** The failures of both routes that enable a version. */
const ENABLING = [
  'not_found',
  'conflict',
  'part_denied',
  'skill_conflict',
  'tool_breaks_policies',
  'limit_reached',
  'forbidden',
] as const

export const SKILLS = routes({
  publishSkill: {
    method: 'PUT',
    path: '/v1/skills',
    callers: ['operator'],
    action: 'skill.publish',
    summary:
      'Publish a version of a skill: a DSSE envelope over canonical JSON {manifest, component, sbom, provenance}, signed with one key of a listed publisher. It is transpiled, metered and quarantined. `pin` lists the publisher of a first package with this key, under the action `publisher.pin`',
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
      'storage_full',
      'unavailable',
    ],
  },
  listSkills: {
    method: 'GET',
    path: '/v1/skills',
    callers: ['operator'],
    action: 'skill.read',
    summary:
      'List versions of one skill or of all, by name, one page at a time; `after` names the last version of the previous page, as `skill@1.0.0`',
    query: z.strictObject({
      id: SkillId.optional(),
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
    params: z.strictObject({ id: SkillId }),
    summary: 'Read which version of a skill a rollback would disable now, and which it would enable',
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
      'Read a version of a skill: its manifest, imports, parts, warnings, digests of the modules that run, and who changed its state and why',
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
    summary: 'Read the package of a version as published, to check its signature with the publisher’s key',
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
      'Enable a version instead of the enabled one, and register its tools. The operator who published it needs `skill.enable_own` too',
    body: Reason,
    status: 200,
    result: Skill,
    failures: ENABLING,
  },
  disableSkill: {
    method: 'POST',
    path: '/v1/skills/{id}/{version}/disable',
    callers: ['operator'],
    action: 'skill.disable',
    params: SkillRef,
    summary: 'Disable a version: calls of its tools are denied from then on, including approved ones',
    body: Reason,
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
    summary: 'Revoke a version: disable it permanently',
    body: Reason,
    status: 200,
    result: Skill,
    failures: ['not_found'],
  },
  rollBackSkill: {
    method: 'POST',
    path: '/v1/skills/{id}/rollback',
    callers: ['operator'],
    action: 'skill.enable',
    params: z.strictObject({ id: SkillId }),
    summary:
      'Enable the previously enabled version again; a conflict if `from` and `to` are no longer what was read. The operator who published it needs `skill.enable_own` too',
    body: RollBack.extend(Reason.shape),
    status: 200,
    result: Skill,
    failures: ENABLING,
  },
  readSkillJournal: {
    method: 'GET',
    path: '/v1/skills/journal',
    callers: ['operator'],
    action: 'skill.read',
    query: z.strictObject({ after: number(1e9).default(0) }),
    summary:
      'List the hash-chained events of skills and publishers, one page at a time; each is a leaf of the tenant’s log',
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
      'Replace the list of denied parts: a skill that contains one can’t be published or enabled; an enabled one stays enabled and shows a warning',
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
    summary: 'List the denied parts, which no skill may contain',
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
      'Allow a publisher of skills: set their Ed25519 keys, replacing earlier ones. Versions signed with earlier keys stay',
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
      'Revoke a key permanently: every version that it signed is revoked, and the key can’t be listed again',
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
    summary: 'List the publishers with their keys, and the revoked keys, by whom and why',
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
    summary: 'Remove a publisher from the list; their published versions stay until they are disabled',
    status: 200,
    result: z.strictObject({ done: z.literal(true) }),
    failures: ['not_found'],
  },
})
