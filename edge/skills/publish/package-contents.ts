// What a package tells of its component beside the code, held against the code: the digests of its manifest, the bill of materials, where it
// was built. Pure. That something is there proves nothing: each has to be about these very bytes, and what differs is said with what to do.

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

/** Of CycloneDX, what we go by; it says more, which is kept as it is. */
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
        'say in `metadata.component` what this is the bill of',
      ),
    },
    'say in `metadata.component` what this is the bill of',
  ),
  components: z.array(z.unknown(), 'list what the component is made of in `components`; none is `[]`'),
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

/** An in-toto statement with SLSA's provenance of today. */
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
      buildType: text('say how it was built in `buildDefinition.buildType`'),
    }),
    runDetails: z.looseObject({
      builder: z.looseObject({ id: text('say what built it in `runDetails.builder.id`') }),
    }),
  }),
})

/** The payload has the shape of one; `component` is its bytes. */
export function checkContents(
  { manifest, sbom, provenance }: SkillPayload,
  component: Uint8Array,
): Result<SkillContents> {
  const [billText, toldText] = [canonical(sbom), canonical(provenance)]
  const of = sha256(component)
  const faults = [
    ...bound(manifest.integrity, {
      component_sha256: of,
      sbom_sha256: sha256(billText),
      provenance_sha256: sha256(toldText),
    }),
    ...tooLong('/sbom', billText, LIMITS.skill_sbom_bytes),
    ...tooLong('/provenance', toldText, LIMITS.skill_provenance_bytes),
  ]
  if (faults.length > 0) return refused(faults) // what is not what was bound, or too long, is not read
  const [bill, told] = [Bill.safeParse(sbom), Provenance.safeParse(provenance)]
  const parts = bill.success
    ? partsIn([bill.data.components, bill.data.metadata.component.components ?? []], '/sbom/components')
    : undefined
  const mismatches = [
    ...(bill.success ? differs(bill.data.metadata.component.hashes, of) : faultsOf(bill.error, '/sbom')),
    ...(parts?.faults ?? []),
    ...(told.success ? strays(told.data.subject, of) : faultsOf(told.error, '/provenance')),
  ]
  if (mismatches.length > 0 || !told.success || parts === undefined) return refused(mismatches)
  const { buildDefinition, runDetails } = told.data.predicate
  return ok({
    sbom: { sha256: sha256(billText), bytes: Buffer.byteLength(billText) },
    provenance: {
      sha256: sha256(toldText),
      bytes: Buffer.byteLength(toldText),
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
      'what the package tells of its component does not hold',
      faults.slice(0, LIMITS.skill_faults),
    ),
  )

const faultsOf = ({ issues }: z.ZodError, under: string): FieldError[] =>
  issues.map(({ path, message }) => ({ at: [under, ...path.map(String)].join('/'), message }))

type Digests = SkillPayload['manifest']['integrity']
const bound = (said: Digests, is: Digests): FieldError[] =>
  (Object.keys(is) as (keyof Digests)[]) // its own
    .filter((name) => said[name] !== is[name])
    .map((name) => ({
      at: `/manifest/integrity/${name}`,
      message: `it is \`${is[name]}\`; pack what was built, and sign anew`,
    }))

const tooLong = (at: string, { length }: string, most: number): FieldError[] =>
  length > most ? [{ at, message: `it has ${length} characters; say it in ${most}` }] : []

const differs = (hashes: readonly { alg: string; content: string }[], of: string): FieldError[] =>
  hashes.some(({ alg, content }) => alg === 'SHA-256' && content.toLowerCase() === of)
    ? []
    : [
        {
          at: '/sbom/metadata/component/hashes',
          message: `none is the component’s SHA-256, \`${of}\`; make the bill from what was built`,
        },
      ]

const strays = (subjects: readonly { digest: Record<string, string> }[], of: string): FieldError[] =>
  subjects.some(({ digest }) => digest['sha256'] === of)
    ? []
    : [
        {
          at: '/provenance/subject',
          message: `none has the component’s SHA-256, \`${of}\`; take the provenance of this very build`,
        },
      ]

/** Components hold components; what is listed is all of them. */
function partsIn(
  lists: readonly (readonly unknown[])[],
  at: string,
): { found: SkillPart[]; faults: FieldError[] } {
  const [found, faults]: [SkillPart[], FieldError[]] = [[], []]
  const waiting = lists.flat()
  for (
    let one = waiting.shift();
    one !== undefined && faults.length <= LIMITS.skill_faults;
    one = waiting.shift()
  ) {
    const read = Part.safeParse(one)
    if (!read.success) faults.push(...faultsOf(read.error, at))
    else {
      const { name, version, purl, components = [] } = read.data
      found.push(purl === undefined ? { name, version } : { name, version, purl })
      waiting.push(...components)
    }
    if (found.length > LIMITS.skill_parts) {
      faults.push({
        at,
        message: `there are more than ${LIMITS.skill_parts} components; list what is linked in`,
      })
      break
    }
  }
  return { found, faults }
}
