// A published package, from a stranger's bytes to what was signed and by whom: the one place that knows its format. It trusts keys on the
// tenant's list alone, and each publisher with their own name; one that is to be pinned it takes as it is given.

import { BODY, canonical, parseJson, sha256 } from '../../../shared/bytes/json.ts'
import { kidOf, signedByExactly } from '../../../shared/evidence/dsse.ts'
import { failure } from '../../../shared/failures.ts'
import { LIMITS } from '../../../shared/limits.ts'
import type { Result } from '../../../shared/result.ts'
import { err, ok } from '../../../shared/result.ts'
import {
  SKILL_TYPE,
  type SkillContents,
  type SkillManifest,
  type SkillPackage,
  SkillPayload,
} from '../../../shared/wire/skills.ts'
import { checkContents } from './package-contents.ts'

export type Opened = {
  readonly manifest: SkillManifest
  readonly component: Uint8Array
  /** What else is in it, and holds. */
  readonly contents: SkillContents
  /** All that was signed, and its digest. */
  readonly payload: Uint8Array
  readonly digest: string
  /** The public key that signed it, and how. */
  readonly key: string
  readonly sig: string
}

const refused = (why: string) => err(failure('invalid_skill', why))

type Publishers = ReadonlyMap<string, readonly string[]>

/** `pin`: the key of a publisher whom nobody knows yet. */
export function open(
  packed: SkillPackage,
  publishers: Publishers,
  pin: string | null = null,
): Result<Opened> {
  const bytes = Buffer.from(packed.payload, 'base64')
  const parsed = parseJson(bytes, { ...BODY, bytes: bytes.byteLength })
  if (!parsed.ok) return refused(`the payload is not JSON: ${parsed.error.detail}`)
  const read = SkillPayload.safeParse(parsed.value)
  if (!read.success) {
    const errors = read.error.issues
      .slice(0, 16)
      .map(({ path, message }) => ({ at: `/${path.map(String).join('/')}`, message }))
    return err(failure('invalid_skill', 'the manifest does not fit', errors))
  }
  const { manifest, component } = read.data
  const [signature] = packed.signatures
  const keys = publishers.get(manifest.publisher) ?? (pin === null ? [] : [pin])
  const key = keys.find((x) => kidOf(x) === signature?.keyid)
  if (key === undefined || signature === undefined)
    return err(
      failure(
        'publisher_unknown',
        `no listed key of the publisher \`${manifest.publisher}\` signed this`,
      ),
    )
  if (!signedByExactly(packed, SKILL_TYPE, new Map([[signature.keyid, key]])))
    return refused('the signature does not fit what was signed')
  if (canonical(parsed.value) !== bytes.toString()) return refused('the payload is not canonical JSON')
  if (canonical(manifest).length > LIMITS.skill_manifest_bytes)
    return refused(
      `the manifest is longer than ${LIMITS.skill_manifest_bytes} characters; say less in descriptions and schemas`,
    )
  const code = Buffer.from(component, 'base64')
  if (code.toString('base64') !== component) return refused('the component is not base64 in its one spelling')
  const contents = checkContents(read.data, code)
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
