// Opens a skill package: from untrusted bytes to the signed contents and the key that signed them
// (W14, W15). The only file that knows the package format. It accepts the keys that the tenant
// lists for the manifest's publisher, or the key to pin if the publisher is unknown.

import { BODY_BOUNDS, canonical, parseJson, sha256 } from '../../../shared/bytes/json.ts'
import { kidOf, signedByExactly } from '../../../shared/evidence/dsse.ts'
import { failure } from '../../../shared/failures.ts'
import { LIMITS } from '../../../shared/limits.ts'
import type { Result } from '../../../shared/result.ts'
import { err, ok } from '../../../shared/result.ts'
import { readAs } from '../../../shared/schema/field-errors.ts'
import {
  SKILL_TYPE,
  type SkillContents,
  type SkillManifest,
  type SkillPackage,
  SkillPayload,
} from '../../../shared/wire/skills.ts'
import { checkContents } from './package-contents.ts'

export type OpenedPackage = {
  readonly manifest: SkillManifest
  readonly component: Uint8Array
  /** The bill of materials and the provenance, checked against the component. */
  readonly contents: SkillContents
  /** The signed bytes, and their digest. */
  readonly payload: Uint8Array
  readonly digest: string
  /** The public key that signed it, and the signature. */
  readonly key: string
  readonly sig: string
}

const refused = (why: string) => err(failure('invalid_skill', why))

type Publishers = ReadonlyMap<string, readonly string[]>

/** `pin`: a key to accept if the publisher is not on the list. */
export function openPackage(
  packed: SkillPackage,
  publishers: Publishers,
  pin: string | null = null,
): Result<OpenedPackage> {
  const bytes = Buffer.from(packed.payload, 'base64')
  const parsed = parseJson(bytes, { ...BODY_BOUNDS, bytes: bytes.byteLength })
  if (!parsed.ok) return refused(`the payload is not JSON: ${parsed.error.detail}`)
  const read = readAs(SkillPayload, parsed.value)
  if (!read.ok) return err(failure('invalid_skill', 'the manifest does not fit its schema', read.error))
  const { manifest, component } = read.value
  const [signature] = packed.signatures
  const keys = publishers.get(manifest.publisher) ?? (pin === null ? [] : [pin])
  const key = keys.find((x) => kidOf(x) === signature?.keyid)
  if (key === undefined || signature === undefined)
    return err(
      failure(
        'publisher_unknown',
        `none of the listed keys of the publisher \`${manifest.publisher}\` signed this package`,
      ),
    )
  if (!signedByExactly(packed, SKILL_TYPE, new Map([[signature.keyid, key]])))
    return refused('the signature does not match the package')
  if (canonical(parsed.value) !== bytes.toString()) return refused('the payload is not canonical JSON')
  if (canonical(manifest).length > LIMITS.skill_manifest_bytes)
    return refused(
      `the manifest is longer than ${LIMITS.skill_manifest_bytes} characters; shorten descriptions and schemas`,
    )
  const code = Buffer.from(component, 'base64')
  if (code.toString('base64') !== component) return refused('the component is not canonical base64')
  const contents = checkContents(read.value, code)
  return contents.ok
    ? ok({
        manifest,
        component: code,
        contents: contents.value,
        payload: bytes,
        digest: sha256(bytes),
        key,
        sig: signature.sig,
      })
    : contents
}
