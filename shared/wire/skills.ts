// Skills as they cross the wire: what a publisher signs, and what an operator is told of it.

import { z } from 'zod'
import { Name, Sha256, Time } from '../fields.ts'
import { LIMITS, MAX_SKILL_LIMITS } from '../limits.ts'
import {
  Credential,
  HostPattern,
  HttpMethod,
  KeyPrefix,
  SkillCapability,
  SkillLimits,
  SkillVersion,
} from '../plan/plan.ts'
import { Kid } from './publishers.ts'
import { Risk } from './tools.ts'

export const SKILL_TYPE = 'application/vnd.countersign.skill+json'

/** The tool `x` of the skill `s` is registered as `s.x`. */
const SkillTool = z.strictObject({
  name: Name,
  description: z.string().min(1).max(2_000),
  input_schema: z.record(z.string(), z.unknown()),
  output_schema: z.record(z.string(), z.unknown()).optional(),
  sensitive: z.boolean().optional(),
  /** The least that approvers are told of: what the skill is given may come to more, never to less. */
  risk: Risk.optional(),
  idempotent: z.boolean().optional(),
})

/** An isolate has no proxy to end TLS for it: the edge itself asks. */
const SkillCredential = Credential.omit({ tls: true })

/** Of its host, each of which is granted by name. */
const Capabilities = z.strictObject({
  log: z.literal(true).optional(),
  clock: z.literal(true).optional(),
  random: z.literal(true).optional(),
  http: z
    .strictObject({
      hosts: z.array(HostPattern).min(1).max(64),
      methods: z.array(HttpMethod).min(1).max(8).default(['GET']),
    })
    .optional(),
  /** It may read these; better is a credential, which it never holds. */
  secrets: z.array(Name).min(1).max(16).optional(),
  credentials: z.array(SkillCredential).min(1).max(16).optional(),
  kv: z.array(KeyPrefix).min(1).max(16).optional(),
  channels: z.array(Name).min(1).max(16).optional(),
})

/** What a skill says of itself: `skill.toml`, as JSON. */
export const SkillManifest = z.strictObject({
  format: z.literal('countersign-skill/v1'),
  id: Name,
  version: SkillVersion,
  publisher: Name,
  description: z.string().min(1).max(2_000),
  tools: z
    .array(SkillTool)
    .min(1)
    .max(LIMITS.skill_tools)
    .refine((tools) => new Set(tools.map(({ name }) => name)).size === tools.length, 'name each tool once'),
  /** What it imports of its host, and no more is given. */
  capabilities: Capabilities,
  /** Where a pattern means hosts or keys that nobody listed, it says so. */
  wildcards: z
    .array(z.enum(['http', 'kv']))
    .max(2)
    .optional(),
  limits: SkillLimits.extend({
    table_elements: z.int().min(1).max(MAX_SKILL_LIMITS.table_elements),
  }).partial(),
  compat: z.strictObject({ world: z.literal('0.1.0') }).optional(),
  integrity: z.strictObject({ component_sha256: Sha256, sbom_sha256: Sha256, provenance_sha256: Sha256 }),
})
export type SkillManifest = z.infer<typeof SkillManifest>
/** Before there is anything to bind it to. */
export const UnboundManifest = SkillManifest.omit({ integrity: true })
export type UnboundManifest = z.infer<typeof UnboundManifest>

/** Which version of which skill. */
export const SkillRef = z.strictObject({ id: Name, version: SkillVersion })

/** `from`: the version that is enabled, if one is. Said, it is done once: whoever was slower is told that it is not so any more. */
export const RollBack = z.strictObject({ from: SkillVersion.nullable(), to: SkillVersion })
export type RollBack = z.infer<typeof RollBack>

/** The interfaces of the world that it says it uses. */
export const capabilitiesIn = ({
  capabilities: said,
}: Pick<SkillManifest, 'capabilities'>): SkillCapability[] =>
  SkillCapability.options.filter((name) => said[name === 'channel' ? 'channels' : name] !== undefined)

/** What its tools are called by. */
export const toolNames = ({ id, tools }: UnboundManifest): string[] =>
  tools.map(({ name }) => `${id}.${name}`)

const Described = z.record(z.string(), z.unknown())
/** What the payload of a package is, in canonical JSON; the component is in base64. `sbom` is CycloneDX, `provenance` an in-toto statement. */
export const SkillPayload = z.strictObject({
  manifest: SkillManifest,
  component: z.string().max(LIMITS.skill_package_bytes),
  sbom: Described,
  provenance: Described,
})
export type SkillPayload = z.infer<typeof SkillPayload>

/** A DSSE envelope; its base64 is held against its one spelling where it is opened. */
export const SkillPackage = z.strictObject({
  payloadType: z.literal(SKILL_TYPE),
  payload: z.string().max(LIMITS.skill_package_bytes),
  signatures: z.array(z.strictObject({ keyid: z.string().max(128), sig: z.string().max(128) })).length(1),
})
export type SkillPackage = z.infer<typeof SkillPackage>

/** quarantined: nothing runs until somebody enables it. disabled: it was, and can be again. revoked: never again. */
export const SkillState = z.enum(['quarantined', 'enabled', 'disabled', 'revoked'])
export type SkillState = z.infer<typeof SkillState>

export const SkillChange = z.strictObject({
  from: SkillState,
  to: SkillState,
  by: Name,
  at_ms: Time,
  reason: z.string(),
})
export type SkillChange = z.infer<typeof SkillChange>

/** What the journal of skills tells. */
export type SkillEntry =
  | 'skill.published'
  | 'skill.enabled'
  | 'skill.disabled'
  | 'skill.revoked'
  | 'skill.cleared'
  | 'publisher.put'
  | 'publisher.pinned'
  | 'publisher.removed'
  | 'publisher.key_revoked'
  | 'parts.denied'

/** Of a bill of materials. */
const SkillPart = z.strictObject({ name: z.string(), version: z.string(), purl: z.string().optional() })
export type SkillPart = z.infer<typeof SkillPart>
/** `name@version` or a package URL; with `*` at its end, whatever follows. */
const DeniedPartSpec = z.strictObject({
  pattern: z
    .string()
    .max(LIMITS.skill_told_chars)
    .regex(
      /^(?:pkg:[!-)+-~]+|[!-)+-~]+@[!-)+-~]*)\*?$/,
      'write `name@version` or `pkg:type/name@version`, with `*` at its end for whatever follows',
    ),
  reason: z.string().min(1).max(LIMITS.reason_chars),
})
export type DeniedPartSpec = z.infer<typeof DeniedPartSpec>
export const DeniedPart = DeniedPartSpec.extend({ by: Name, at_ms: Time })
export type DeniedPart = z.infer<typeof DeniedPart>
export const DeniedPartSpecs = z
  .array(DeniedPartSpec)
  .max(LIMITS.denied_parts)
  .refine((all) => new Set(all.map(({ pattern }) => pattern)).size === all.length, 'name each pattern once')

const Told = z.strictObject({ sha256: Sha256, bytes: z.int() })
/** What the package tells of its component, and holds. */
const SkillContents = z.strictObject({
  sbom: Told,
  provenance: Told.extend({ builder: z.string(), build_type: z.string() }),
  parts: z.array(SkillPart),
})
export type SkillContents = z.infer<typeof SkillContents>
/** For whoever enables it. */
const SkillWarning = z.strictObject({
  code: z.enum([
    'unused_capability',
    'wildcard_host',
    'wildcard_kv',
    'wildcard_idle',
    'reads_secret',
    'untyped_output',
    'high_limit',
    'empty_sbom',
  ]),
  detail: z.string(),
})
export type SkillWarning = z.infer<typeof SkillWarning>

/** One version of a skill, and what was found when it was published. */
export const Skill = z.strictObject({
  id: Name,
  version: SkillVersion,
  /** Of manifest and component, as the publisher signed them: what plans name. */
  digest: Sha256,
  state: SkillState,
  manifest: SkillManifest,
  component: z.strictObject({ sha256: Sha256, bytes: z.int() }),
  imports: z.array(SkillCapability),
  /** What runs: metered, and what joins it. */
  modules: z.array(z.strictObject({ name: z.string(), sha256: Sha256, bytes: z.int() })),
  contents: SkillContents,
  warnings: z.array(SkillWarning),
  /** What of it operators do not want in any skill, by the list of now: `it contains …`. */
  denied: z.array(z.string()),
  signed_by: Kid,
  signature: z.string(),
  /** Who had the key that signed it put on the list with it, where it was not there. */
  pinned_by: Name.optional(),
  published_by: Name,
  published_at_ms: Time,
  /** The latest first. */
  changes: z.array(SkillChange),
})
export type Skill = z.infer<typeof Skill>
