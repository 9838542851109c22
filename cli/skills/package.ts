// The signed package of a skill: manifest, component, bill of materials (CycloneDX) and provenance
// (in-toto, SLSA), each bound by its digest. It contains no time or place, so that the same skill
// gives the same package, byte for byte.

import { z } from 'zod'
import { BODY_BOUNDS, digestOf, parseJson, sha256 } from '../../shared/bytes/json.ts'
import { payloadBytes, type Signer, seal } from '../../shared/evidence/dsse.ts'
import { Name, Sha256 } from '../../shared/fields.ts'
import { LIMITS } from '../../shared/limits.ts'
import {
  SKILL_TYPE,
  type SkillManifest,
  type SkillPackage,
  type SkillPayload,
  type UnboundManifest,
} from '../../shared/wire/skills.ts'
import type { BuiltComponent, Part, Source } from './compile.ts'

const BUILDER = 'countersign:skill-build'

export function payloadOf(manifest: UnboundManifest, made: BuiltComponent): SkillPayload {
  const component_sha256 = sha256(made.component)
  const sbom = billOfMaterials(manifest, component_sha256, made.parts)
  const provenance = provenanceOf(manifest, component_sha256, made)
  const integrity = { component_sha256, sbom_sha256: digestOf(sbom), provenance_sha256: digestOf(provenance) }
  const bound: SkillManifest = { ...manifest, integrity }
  return { manifest: bound, component: Buffer.from(made.component).toString('base64'), sbom, provenance }
}

export function pack(payload: SkillPayload, signer: Signer): SkillPackage {
  return { ...seal(SKILL_TYPE, payload, signer), payloadType: SKILL_TYPE }
}

const UnverifiedPayload = z.object({
  manifest: z.object({ publisher: Name }),
  provenance: z.unknown(),
})
/** The part of a provenance that `provenanceOf` writes; another builder's may look different. */
const ProvenanceSources = z.object({
  predicate: z.object({
    buildDefinition: z.object({
      resolvedDependencies: z.array(
        z.object({ uri: z.string(), digest: z.object({ sha256: Sha256 }).optional() }),
      ),
    }),
  }),
})
const FILE = 'file:'

/** The unverified payload of a package, or `undefined` if it does not parse. */
function unverifiedPayload(packed: SkillPackage): z.infer<typeof UnverifiedPayload> | undefined {
  const json = parseJson(payloadBytes(packed), { ...BODY_BOUNDS, bytes: LIMITS.skill_package_bytes })
  return json.ok ? UnverifiedPayload.safeParse(json.value).data : undefined
}

export const publisherOf = (packed: SkillPackage): string | undefined =>
  unverifiedPayload(packed)?.manifest.publisher

/** The author's source files that the package names in its provenance. Not verified. */
export function sourcesOf(packed: SkillPackage): Source[] {
  const read = ProvenanceSources.safeParse(unverifiedPayload(packed)?.provenance)
  const all = read.data?.predicate.buildDefinition.resolvedDependencies ?? []
  return all.flatMap(({ uri, digest }) =>
    uri.startsWith(FILE) && digest !== undefined
      ? [{ path: uri.slice(FILE.length), sha256: digest.sha256 }]
      : [],
  )
}

function billOfMaterials(
  manifest: UnboundManifest,
  component: string,
  parts: readonly Part[],
): Record<string, unknown> {
  return {
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    version: 1,
    metadata: {
      component: {
        type: 'application',
        name: manifest.id,
        version: manifest.version,
        description: manifest.description,
        publisher: manifest.publisher,
        hashes: [{ alg: 'SHA-256', content: component }],
      },
    },
    components: parts.map(({ name, version, purl, license, sha256 }) => ({
      type: 'library',
      'bom-ref': purl,
      name,
      version,
      purl,
      ...(license === undefined ? {} : { licenses: [{ expression: license }] }),
      ...(sha256 === undefined ? {} : { hashes: [{ alg: 'SHA-256', content: sha256 }] }),
    })),
  }
}

function provenanceOf(
  manifest: UnboundManifest,
  component: string,
  { sources, parts }: BuiltComponent,
): Record<string, unknown> {
  return {
    _type: 'https://in-toto.io/Statement/v1',
    subject: [{ name: manifest.id, digest: { sha256: component } }],
    predicateType: 'https://slsa.dev/provenance/v1',
    predicate: {
      buildDefinition: {
        buildType: `${BUILDER}/v1`,
        externalParameters: { id: manifest.id, version: manifest.version },
        resolvedDependencies: [
          ...sources.map(({ path, sha256 }) => ({ uri: `${FILE}${path}`, digest: { sha256 } })),
          ...parts.map(({ purl, sha256 }) => ({
            uri: purl,
            ...(sha256 === undefined ? {} : { digest: { sha256 } }),
          })),
        ],
      },
      runDetails: { builder: { id: BUILDER } },
    },
  }
}
