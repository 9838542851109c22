// Verifies evidence offline, with only public keys. The checks are those of the edge and of the
// command line: this file bundles shared/evidence and adds none but the expected call.

import { EVIDENCE_BOUNDS, parseJson } from '../../../shared/bytes/json.ts'
import { Bundle, faultIn, verifyBundle } from '../../../shared/evidence/bundle.ts'
import { readKeys } from '../../../shared/evidence/keys.ts'
import type { Statement } from './api.ts'

export type Check = {
  readonly ok: boolean
  readonly name: string
  /** Advice, if there is any. */
  readonly detail?: string
  /** The place of the fault, as a JSON pointer into the statement. */
  readonly at?: string
}
export type Verdict = {
  /** Whether every check holds. Read the statement only then. */
  readonly ok: boolean
  readonly statement?: Statement
  readonly checks: readonly Check[]
}

/**
 * Verifies a bundle, as text, bytes or parsed JSON. `call`: the id of the call that it must be
 * about; without it, a true attestation of another call is verified too.
 */
export function verify(bundle: unknown, keys: unknown, expected: { readonly call?: string } = {}): Verdict {
  const read = Bundle.safeParse(readDocument(bundle))
  const known = readKeys(readDocument(keys))
  if (!known.ok) return refused('the key file is well-formed', known.error.at)
  if (!read.success) return refused('the bundle is well-formed', faultIn(read.error))
  const { ok, checks, statement } = verifyBundle(read.data, known.value)
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
