// `--witness` and `--witnesses`: which witnesses must have cosigned a checkpoint.

import type { Check } from '../../shared/evidence/checks.ts'
import { type Cosignature, cosignedBy, parseVerifierKey } from '../../shared/evidence/cosignature.ts'
import type { NoteKey } from '../../shared/evidence/note.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import { type Trouble, usage } from '../shell/command.ts'
import { time } from '../shell/terminal-text.ts'

export const WITNESS_FLAGS = {
  witness: {
    value: 'VKEY',
    many: true,
    what: 'the key of a witness that must have cosigned the checkpoint, as the witness prints it; repeat the flag for more witnesses',
  },
  witnesses: { value: 'N', what: 'how many of these witnesses are enough (default: all)' },
} as const

type WitnessFlags = { readonly witness: readonly string[]; readonly witnesses: string | undefined }
export type Quorum = { readonly keys: readonly NoteKey[]; readonly needed: number }

/** Undefined if no witness was named. */
export function quorumOf({ witness, witnesses }: WitnessFlags): Result<Quorum | undefined, Trouble> {
  const keys: NoteKey[] = []
  for (const text of witness) {
    const key = parseVerifierKey(text)
    if (!key.ok) return err(usage(`\`--witness ${text}\`: ${key.error}`))
    if (keys.some(({ x }) => x === key.value.x)) return err(usage(`\`--witness ${text}\` is given twice`))
    keys.push(key.value)
  }
  const needed = witnesses === undefined ? keys.length : Number(witnesses)
  if (witnesses !== undefined && (!/^[1-9]\d?$/.test(witnesses) || needed > keys.length))
    return err(
      usage(`\`--witnesses\` must be a number from 1 to ${keys.length}, the number of \`--witness\` flags`),
    )
  return ok(keys.length === 0 ? undefined : { keys, needed })
}

/** The check that a note has enough cosignatures. */
export const cosignatureChecks = (note: string, quorum: Quorum | undefined): Check[] =>
  quorum === undefined
    ? []
    : [quorumCheck('witnesses have cosigned the checkpoint', quorum, cosignedBy(note, quorum.keys))]

export function quorumCheck(what: string, { keys, needed }: Quorum, by: readonly Cosignature[]): Check {
  const name = `at least ${needed} of ${keys.length} ${what}`
  const detail = by.length === 0 ? 'none has' : `only ${cosignersText(by)}`
  return by.length >= needed ? { name, ok: true } : { name, ok: false, detail }
}

export const cosignersText = (by: readonly Cosignature[]): string =>
  by.map(({ name, at_ms }) => `${name} at ${time(at_ms)}`).join(', ')
