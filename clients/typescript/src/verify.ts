// Verifies evidence offline, with only public keys. The checks are those of the edge and of the
// command line: this file bundles shared/evidence and adds none but the expected call.

import { EVIDENCE_BOUNDS, parseJson } from '../../../shared/bytes/json.ts'
import { Bundle, faultIn, Keys, verifyBundle } from '../../../shared/evidence/bundle.ts'
import type { Statement } from './api.ts'

/** `at`: where the fault is, as a JSON pointer into the statement. `detail`: what to do. */
export type Check = {
  readonly name: string
  readonly ok: boolean
  readonly at?: string
  readonly detail?: string
}
/** `ok` only if every check holds. Read the statement only then. */
export type Verdict = {
  readonly ok: boolean
  readonly checks: readonly Check[]
  readonly statement?: Statement
}

/**
 * Verifies a bundle, as text, bytes or parsed JSON. `call`: the id of the call that it must be
 * about; without it, a true attestation of another call is verified too.
 */
export function verify(bundle: unknown, keys: unknown, expected: { readonly call?: string } = {}): Verdict {
  const read = Bundle.safeParse(readDocument(bundle))
  const known = Keys.safeParse(readDocument(keys))
  if (!known.success) return refused('the key file is well-formed', faultIn(known.error))
  if (!read.success) return refused('the bundle is well-formed', faultIn(read.error))
  const { ok, checks, statement } = verifyBundle(read.data, known.data)
  const facts = statement?.predicate.facts
  const about = expected.call === undefined || facts?.call === expected.call
  return {
    ok: ok && about,
    checks: [
      ...checks,
      ...(expected.call === undefined ? [] : [{ name: 'the bundle is about the expected call', ok: about }]),
    ],
    ...(statement === undefined ? {} : { statement: statement as Statement }), // zod allows `undefined` in optional fields
  }
}

const refused = (name: string, at: string): Verdict => ({ ok: false, checks: [{ name, ok: false, at }] })

/** Text is parsed strictly: two parsers could read one text with duplicate names differently. */
function readDocument(document: unknown): unknown {
  const bytes = typeof document === 'string' ? new TextEncoder().encode(document) : document
  if (!(bytes instanceof Uint8Array)) return document
  const parsed = parseJson(bytes, EVIDENCE_BOUNDS)
  return parsed.ok ? parsed.value : undefined
}
