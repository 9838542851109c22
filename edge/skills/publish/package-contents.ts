// Checks the bill of materials and the provenance of a package, and the digests in its manifest,
// against the component: each must name these exact bytes. Pure. Each fault says what to do about
// it.

import { z } from 'zod'
import { canonical, sha256 } from '../../../shared/bytes/json.ts'
import type { FieldError } from '../../../shared/failures.ts'
import { failure } from '../../../shared/failures.ts'
import { LIMITS } from '../../../shared/limits.ts'
import type { Result } from '../../../shared/result.ts'
import { err, ok } from '../../../shared/result.ts'
import type { SkillContents, SkillPart, SkillPayload } from '../../../shared/wire/skills.ts'

const SPEC_VERSIONS = ['1.4', '1.5', '1.6'] as const
const text = (what: string) => z.string(what).min(1, what).max(LIMITS.skill_told_chars, what)

/** The parts of CycloneDX that we check; other members are kept unread. */
const Bill = z.looseObject({
  bomFormat: z.literal('CycloneDX', 'write the bill of materials in CycloneDX: `"bomFormat": "CycloneDX"`'),
  specVersion: z.enum(SPEC_VERSIONS, `write it in version ${SPEC_VERSIONS.join(', ')} of CycloneDX`),
  metadata: z.looseObject(
    {
      component: z.looseObject(
        {
          hashes: z.array(
            z.looseObject({ alg: z.string(), content: z.string() }),
            'give `metadata.component.hashes` with the SHA-256 of the component',
          ),
          components: z.array(z.unknown()).optional(),
        },
        'describe the skill’s component in `metadata.component`',
      ),
    },
    'describe the skill’s component in `metadata.component`',
  ),
  components: z.array(
    z.unknown(),
    'list what is linked into the component in `components`; if nothing, write `[]`',
  ),
})
const Part = z.looseObject({
  name: text('give each component its `name`'),
  version: text('give each component its `version`'),
  purl: z
    .string()
    .startsWith('pkg:', 'write a `purl` as `pkg:type/name@version`')
    .max(LIMITS.skill_told_chars)
    .optional(),
  components: z.array(z.unknown()).optional(),
})

/** An in-toto statement with SLSA provenance v1. */
const Provenance = z.looseObject({
  _type: z.literal(
    'https://in-toto.io/Statement/v1',
    'write the provenance as an in-toto statement: `"_type": "https://in-toto.io/Statement/v1"`',
  ),
  subject: z
    .array(
      z.looseObject({ digest: z.record(z.string(), z.string()) }, 'give each subject its `digest`'),
      'name the component as `subject`',
    )
    .min(1, 'name the component as `subject`')
    .max(16, 'name the component as `subject`, and no more than 16 in all'),
  predicateType: z.literal(
    'https://slsa.dev/provenance/v1',
    'use `"predicateType": "https://slsa.dev/provenance/v1"`',
  ),
  predicate: z.looseObject({
    buildDefinition: z.looseObject({
      buildType: text('write in `buildDefinition.buildType` how it was built'),
    }),
    runDetails: z.looseObject({
      builder: z.looseObject({ id: text('write in `runDetails.builder.id` what built it') }),
    }),
  }),
})

/** `component`: the decoded bytes of the payload's component. */
export function checkContents(
  { manifest, sbom, provenance }: SkillPayload,
  component: Uint8Array,
): Result<SkillContents> {
  const [billText, provenanceText] = [canonical(sbom), canonical(provenance)]
  const digest = sha256(component)
  const faults = [
    ...integrityFaults(manifest.integrity, {
      component_sha256: digest,
      sbom_sha256: sha256(billText),
      provenance_sha256: sha256(provenanceText),
    }),
    ...sizeFault('/sbom', billText, LIMITS.skill_sbom_bytes),
    ...sizeFault('/provenance', provenanceText, LIMITS.skill_provenance_bytes),
  ]
  if (faults.length > 0) return refused(faults) // don't parse texts that are unsigned or too long
  const [bill, origin] = [Bill.safeParse(sbom), Provenance.safeParse(provenance)]
  const parts = bill.success
    ? partsIn([bill.data.components, bill.data.metadata.component.components ?? []], '/sbom/components')
    : undefined
  const mismatches = [
    ...(bill.success
      ? hashFaults(bill.data.metadata.component.hashes, digest)
      : faultsOf(bill.error, '/sbom')),
    ...(parts?.faults ?? []),
    ...(origin.success ? subjectFaults(origin.data.subject, digest) : faultsOf(origin.error, '/provenance')),
  ]
  if (mismatches.length > 0 || !origin.success || parts === undefined) return refused(mismatches)
  const { buildDefinition, runDetails } = origin.data.predicate
  return ok({
    sbom: { sha256: sha256(billText), bytes: Buffer.byteLength(billText) },
    provenance: {
      sha256: sha256(provenanceText),
      bytes: Buffer.byteLength(provenanceText),
      builder: runDetails.builder.id,
      build_type: buildDefinition.buildType,
    },
    parts: parts.found,
  })
}

const refused = (faults: readonly FieldError[]) =>
  err(
    failure(
      'invalid_skill',
      'the digests, bill of materials or provenance do not match the component',
      faults.slice(0, LIMITS.skill_faults),
    ),
  )

const faultsOf = ({ issues }: z.ZodError, under: string): FieldError[] =>
  issues.map(({ path, message }) => ({ at: [under, ...path.map(String)].join('/'), message }))

type Digests = SkillPayload['manifest']['integrity']
const integrityFaults = (declared: Digests, actual: Digests): FieldError[] =>
  (Object.keys(actual) as (keyof Digests)[]) // the literal above has no other keys
    .filter((name) => declared[name] !== actual[name])
    .map((name) => ({
      at: `/manifest/integrity/${name}`,
      message: `the actual digest is \`${actual[name]}\`; pack the files that were built, and sign again`,
    }))

const sizeFault = (at: string, { length }: string, most: number): FieldError[] =>
  length > most ? [{ at, message: `it has ${length} characters; shorten it to ${most}` }] : []

const hashFaults = (hashes: readonly { alg: string; content: string }[], digest: string): FieldError[] =>
  hashes.some(({ alg, content }) => alg === 'SHA-256' && content.toLowerCase() === digest)
    ? []
    : [
        {
          at: '/sbom/metadata/component/hashes',
          message: `no hash is the component’s SHA-256, \`${digest}\`; make the bill for the component that was built`,
        },
      ]

const subjectFaults = (
  subjects: readonly { digest: Record<string, string> }[],
  sha256: string,
): FieldError[] =>
  subjects.some(({ digest }) => digest['sha256'] === sha256)
    ? []
    : [
        {
          at: '/provenance/subject',
          message: `no subject has the component’s SHA-256, \`${sha256}\`; use the provenance of this build`,
        },
      ]

/** All components of a bill, including those nested in others. */
function partsIn(
  lists: readonly (readonly unknown[])[],
  at: string,
): { found: SkillPart[]; faults: FieldError[] } {
  const [found, faults]: [SkillPart[], FieldError[]] = [[], []]
  const queue = lists.flat()
  for (
    let next = queue.shift();
    next !== undefined && faults.length <= LIMITS.skill_faults;
    next = queue.shift()
  ) {
    const read = Part.safeParse(next)
    if (!read.success) faults.push(...faultsOf(read.error, at))
    else {
      const { name, version, purl, components = [] } = read.data
      found.push(purl === undefined ? { name, version } : { name, version, purl })
      queue.push(...components)
    }
    if (found.length > LIMITS.skill_parts) {
      faults.push({
        at,
        message: `there are more than ${LIMITS.skill_parts} components; list only those that are linked in`,
      })
      break
    }
  }
  return { found, faults }
}
