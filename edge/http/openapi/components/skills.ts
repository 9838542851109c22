// Skills and their publishers.

import { SKILLS as SKILLS_ROUTES } from '../../../../shared/routes/skills.ts'
import { Publisher } from '../../../../shared/wire/publishers.ts'
import { Clearing, SkillStorage } from '../../../../shared/wire/skill-storage.ts'
import { TrialResult, Trials } from '../../../../shared/wire/skill-trials.ts'
import {
  DeniedPart,
  RollBack,
  Skill,
  SkillManifest,
  SkillPackage,
  UnboundManifest,
} from '../../../../shared/wire/skills.ts'
import { type Component, object, opaque, outlined } from './component.ts'

export const SKILLS: Readonly<Record<string, Component>> = {
  Skill: outlined(
    object(Skill, 'One version of a skill, with the findings of its publication.', {
      id: 'The name of the skill.',
      version: 'The version, such as `1.0.0`.',
      digest: 'The digest of manifest and component, by which plans name the version.',
      state:
        '`quarantined`: never enabled yet. `disabled`: can be enabled again. `revoked`: permanently off.',
      manifest: '',
      component: 'The digest and size of its component.',
      imports: 'What it imports from its host.',
      modules: 'The modules that run.',
      contents: 'Its bill of materials and provenance.',
      warnings: 'What to know before enabling it.',
      denied: 'Its parts on the list of denied parts, as sentences.',
      signed_by: 'The id of the key that signed the package.',
      signature: 'The signature.',
      pinned_by: 'The operator who listed the key together with this package.',
      published_by: '',
      published_at_ms: 'When it was published.',
      changes: 'Changes of its state, latest first.',
    }),
    'modules',
    'contents',
    'changes',
  ),
  ListedSkill: opaque(
    SKILLS_ROUTES.listSkills.result.shape.items.element,
    'A `Skill` without `manifest`, `modules`, `contents` and `changes`.',
  ),
  SkillManifest: outlined(
    object(SkillManifest, 'What a skill declares: `skill.toml`, as JSON.', {
      format: 'The format of this document.',
      id: 'The name of the skill.',
      version: 'The version, such as `1.0.0`.',
      publisher: '',
      description: 'What it does.',
      tools: 'The tools that it brings.',
      capabilities: 'What it imports from its host; nothing else is provided.',
      wildcards: 'Declares that patterns match hosts or keys that are not listed one by one.',
      limits: 'The most that one call may use.',
      compat: 'The version of the world that it was built for.',
      integrity: 'Digests of component, bill of materials and provenance.',
    }),
    'tools',
    'capabilities',
    'limits',
  ),
  SkillPackage: object(SkillPackage, 'A DSSE envelope over manifest, component and documents.', {
    payloadType: 'The type of the payload.',
    payload: 'The payload, in base64.',
    signatures: 'One Ed25519 signature of a listed publisher.',
  }),
  RollBack: object(RollBack, 'The versions of a rollback.', {
    from: 'The enabled version, if there is one.',
    to: 'The version that would be enabled.',
  }),
  DeniedPart: object(DeniedPart, 'A part that no skill may contain.', {
    pattern: '`name@version` or a package URL; a `*` at its end matches any rest.',
    reason: 'Why.',
    by: '',
    at_ms: 'When.',
  }),
  Publisher: outlined(
    object(Publisher, 'A publisher of skills.', {
      name: '',
      keys: 'The keys whose signatures count.',
      revoked: 'Permanently revoked keys.',
    }),
    'keys',
    'revoked',
  ),
  SkillStorage: outlined(
    object(SkillStorage, 'What a skill stores between calls; no values.', {
      keys: 'The number of keys.',
      bytes: 'Bytes of keys and values.',
      items: 'One page, in the order of the keys.',
      clearings: 'When it was cleared, latest first.',
    }),
    'items',
  ),
  Clearing: object(Clearing, 'One clearing of a skill’s storage.', {
    by: '',
    at_ms: 'When.',
    keys: 'The keys that were deleted.',
    bytes: 'The bytes that were deleted.',
  }),
  UnboundManifest: opaque(UnboundManifest, 'A `SkillManifest` without `integrity`.'),
  Trials: outlined(
    object(Trials, 'An unpublished skill, and calls to try.', {
      manifest: '',
      component: 'Its component, in base64.',
      trials: 'The calls, each with the recorded answers of its host.',
    }),
    'trials',
  ),
  TrialResult: outlined(
    object(TrialResult, 'The result of one trial.', {
      outcome: '',
      output: 'Its output.',
      log: 'What it logged.',
      fuel_used: 'The fuel that it used.',
      memory_bytes: 'The memory that it used.',
      host_calls: 'How often it called each function of its host.',
      requests: 'Its requests to permitted hosts. `answered`: the trial had a recorded answer.',
      kv: 'Its storage after the call.',
      posts: 'The notices that it posted.',
    }),
    'requests',
    'posts',
  ),
}
