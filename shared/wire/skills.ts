// Skills: the package that a publisher signs, and a version as operators see it.

import { z } from 'zod'
import { Name, Sha256, SkillId, Time, ToolName } from '../fields.ts'
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

/** `toolName` makes the name under which it is registered. */
const SkillTool = z.strictObject({
  name: ToolName,
  description: z.string().min(1).max(2_000),
  input_schema: z.record(z.string(), z.unknown()),
  output_schema: z.record(z.string(), z.unknown()).optional(),
  sensitive: z.boolean().optional(),
  /** The minimum risk shown to approvers. The skill's capabilities may raise it, never lower it. */
  risk: Risk.optional(),
  idempotent: z.boolean().optional(),
})

/**
 * `tls` tells a worker's proxy to terminate TLS. A skill has no proxy: the edge makes its requests.
 */
const SkillCredential = Credential.omit({ tls: true })

/** Imports from the host, each granted by name. */
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
  /** Secrets that it may read. A credential is better, because the skill never sees it. */
  secrets: z.array(Name).min(1).max(16).optional(),
  credentials: z.array(SkillCredential).min(1).max(16).optional(),
  kv: z.array(KeyPrefix).min(1).max(16).optional(),
  channels: z.array(Name).min(1).max(16).optional(),
})

/** A skill's declaration: `skill.toml`, as JSON. */
export const SkillManifest = z.strictObject({
  format: z.literal('countersign-skill/v1'),
  id: SkillId,
  version: SkillVersion,
  publisher: Name,
  description: z.string().min(1).max(2_000),
  tools: z
    .array(SkillTool)
    .min(1)
    .max(LIMITS.skill_tools)
    .refine((tools) => new Set(tools.map(({ name }) => name)).size === tools.length, 'name each tool once'),
  /** Its imports from the host; nothing else is provided. */
  capabilities: Capabilities,
  /**
   * Declares that patterns of `http` or `kv` match hosts or keys that are not listed one by one.
   */
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
/** A manifest that isn't bound to a built component yet. */
export const UnboundManifest = SkillManifest.omit({ integrity: true })
export type UnboundManifest = z.infer<typeof UnboundManifest>

/** A skill and its version. */
export const SkillRef = z.strictObject({ id: SkillId, version: SkillVersion })

/**
 * `from`: the enabled version, if any. If it no longer is, the rollback fails as a conflict, so two
 * operators can't roll back twice.
 */
export const RollBack = z.strictObject({ from: SkillVersion.nullable(), to: SkillVersion })
export type RollBack = z.infer<typeof RollBack>

/** The interfaces of the world that the manifest declares. */
export const declaredCapabilities = ({
  capabilities,
}: Pick<SkillManifest, 'capabilities'>): SkillCapability[] =>
  SkillCapability.options.filter((name) => capabilities[name === 'channel' ? 'channels' : name] !== undefined)

/** The name under which a tool of a skill is registered. */
export const toolName = (skill: string, tool: string): string => `${skill}_${tool}`
export const toolNames = ({ id, tools }: UnboundManifest): string[] =>
  tools.map(({ name }) => toolName(id, name))

const JsonObject = z.record(z.string(), z.unknown())
/**
 * The payload of a package, in canonical JSON. The component is base64, `sbom` is CycloneDX,
 * `provenance` an in-toto statement.
 */
export const SkillPayload = z.strictObject({
  manifest: SkillManifest,
  component: z.string().max(LIMITS.skill_package_bytes),
  sbom: JsonObject,
  provenance: JsonObject,
})
export type SkillPayload = z.infer<typeof SkillPayload>

/** A DSSE envelope. Opening it refuses non-canonical base64. */
export const SkillPackage = z.strictObject({
  payloadType: z.literal(SKILL_TYPE),
  payload: z.string().max(LIMITS.skill_package_bytes),
  signatures: z.array(z.strictObject({ keyid: z.string().max(128), sig: z.string().max(128) })).length(1),
})
export type SkillPackage = z.infer<typeof SkillPackage>

/**
 * `quarantined`: never enabled yet. `disabled`: was enabled and can be again. `revoked`:
 * permanently off.
 */
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

/** Kinds of entries in the journal of skills. */
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

/** A part in a bill of materials. */
const SkillPart = z.strictObject({ name: z.string(), version: z.string(), purl: z.string().optional() })
export type SkillPart = z.infer<typeof SkillPart>
/** `name@version` or a package URL. A `*` at its end matches any rest. */
const DeniedPartSpec = z.strictObject({
  pattern: z
    .string()
    .max(LIMITS.skill_told_chars)
    .regex(
      /^(?:pkg:[!-)+-~]+|[!-)+-~]+@[!-)+-~]*)\*?$/,
      'must be `name@version` or `pkg:type/name@version`, optionally ending in `*`',
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

const DocumentRef = z.strictObject({ sha256: Sha256, bytes: z.int() })
/** The documents of a package about its component, and the parts that they list. */
const SkillContents = z.strictObject({
  sbom: DocumentRef,
  provenance: DocumentRef.extend({ builder: z.string(), build_type: z.string() }),
  parts: z.array(SkillPart),
})
export type SkillContents = z.infer<typeof SkillContents>
/** A warning to the operator who enables the version. */
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

/** One version of a skill, with the findings of its publication. */
export const Skill = z.strictObject({
  id: SkillId,
  version: SkillVersion,
  /** The digest of manifest and component, by which plans name the version. */
  digest: Sha256,
  state: SkillState,
  manifest: SkillManifest,
  component: z.strictObject({ sha256: Sha256, bytes: z.int() }),
  imports: z.array(SkillCapability),
  /** The modules that run: the metered ones and their glue. */
  modules: z.array(z.strictObject({ name: z.string(), sha256: Sha256, bytes: z.int() })),
  contents: SkillContents,
  warnings: z.array(SkillWarning),
  /** Its parts on the current list of denied parts, as sentences: `it contains …`. */
  denied: z.array(z.string()),
  signed_by: Kid,
  signature: z.string(),
  /**
   * The operator who listed the signing key together with this package, if it wasn't listed before.
   */
  pinned_by: Name.optional(),
  published_by: Name,
  published_at_ms: Time,
  /** Latest first. */
  changes: z.array(SkillChange),
})
export type Skill = z.infer<typeof Skill>
