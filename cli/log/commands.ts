// `countersign log checkpoint|prove|consistency`: what anybody can ask a tenant's log to prove.

import type { Check } from '../../shared/evidence/checks.ts'
import { entryHash, type JournalEntry } from '../../shared/evidence/journal.ts'
import type { Keys } from '../../shared/evidence/keys.ts'
import { verifyInclusion } from '../../shared/evidence/merkle.ts'
import { hashOfEntry } from '../../shared/evidence/tiles.ts'
import { PATTERNS, splitId } from '../../shared/ids.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import { type Quorum, quorumOf, WITNESS_FLAGS } from '../calls/cosignatures.ts'
import { KEY_FILES, trustedKeys, verdict } from '../calls/verify.ts'
import { type Command, command, type Trouble, usage } from '../shell/command.ts'
import type { Api } from '../shell/edge-api.ts'
import { writeText } from '../shell/files.ts'
import {
  aboutSeen,
  continuity,
  isContinued,
  keepHead,
  keptHead,
  SIGNED,
  type SignedHead,
  seenHeads,
  signedHead,
} from './checkpoints.ts'
import { edgeLog, type LogSource, readNote } from './sources.ts'
import { exportLog, verifyLog } from './verify.ts'
import { refusalChecks, type Witnessed, witnessed } from './witnesses.ts'

/** The checks of a head, and the head if it is signed. */
type Examined = {
  readonly checks: readonly Check[]
  readonly head?: SignedHead
  readonly about: Readonly<Record<string, string>>
}

/** Checks a note, and compares it with the one that was seen before. */
async function examine(note: string, keys: Keys, source: LogSource): Promise<Result<Examined, Trouble>> {
  const head = signedHead(note, keys)
  if (!head.ok) return ok({ checks: [{ name: SIGNED, ok: false, detail: head.error }], about: {} })
  const seen = seenHeads(head.value.origin, source.address, keys)
  if (!seen.ok) return seen
  const continued = await continuity(seen.value, head.value, source.readTile)
  if (!continued.ok) return continued
  const checks = [{ name: SIGNED, ok: true }, ...continued.value]
  if (checks.every((check) => check.ok)) {
    const kept = keepHead(head.value, source.address)
    if (!kept.ok) return kept
  }
  const { origin, size, root } = head.value
  const about = { log: origin, leaves: String(size), root, ...aboutSeen(seen.value) }
  return ok({ checks, head: head.value, about })
}

/** Whether witnesses have cosigned the head, and whether one refuses it, as the edge itself says. */
async function witnessedHead(
  api: Api,
  source: LogSource,
  keys: Keys,
  head: SignedHead,
  quorum: Quorum | undefined,
): Promise<Result<Witnessed, Trouble>> {
  const refusals = await refusalChecks(api, keys.tenant)
  if (!refusals.ok) return refusals
  const shown = await witnessed(source, keys, head, quorum)
  return shown.ok
    ? ok({ checks: [...refusals.value, ...shown.value.checks], about: shown.value.about })
    : shown
}

const checkpoint = command({
  words: ['log', 'checkpoint'],
  args: {},
  flags: {
    ...KEY_FILES,
    ...WITNESS_FLAGS,
    output: { value: 'FILE', short: 'o', what: 'also write the signed checkpoint to a file' },
  },
  does: 'Check the signed head of the tenant’s log, and that the log continues the head that you saw before',
  key: 'none',
  exits: '0 it is signed and continues the earlier head; 1 it does not, or the edge can’t be asked',
  examples: ['countersign log checkpoint --keys keys.json -o monday.checkpoint'],
  async run({ flags, api, connection, paint }) {
    const quorum = quorumOf(flags)
    if (!quorum.ok) return quorum
    const keys = trustedKeys(flags, paint)
    if (!keys.ok) return keys.error
    const source = edgeLog(api, keys.value.tenant, connection().url)
    const note = await source.checkpoint()
    if (!note.ok) return note
    const examined = await examine(note.value, keys.value, source)
    if (!examined.ok) return examined
    const { checks, head, about } = examined.value
    if (flags.output !== undefined) {
      const written = writeText(flags.output, note.value)
      if (!written.ok) return written
    }
    if (head === undefined) return verdict(checks, {}, paint)
    const shown = await witnessedHead(api, source, keys.value, head, quorum.value)
    if (!shown.ok) return shown
    return verdict([...checks, ...shown.value.checks], { ...about, ...shown.value.about }, paint)
  },
})

const consistency = command({
  words: ['log', 'consistency'],
  args: {
    OLD: 'an earlier checkpoint, from `countersign log checkpoint -o`',
    'NEW?': 'a later one (default: the log’s checkpoint now)',
  },
  flags: { ...KEY_FILES },
  does: 'Check that the log of one checkpoint is the beginning of the log of another',
  key: 'none',
  exits: '0 it is; 1 it is not, or the log can’t be read',
  examples: ['countersign log consistency monday.checkpoint --keys keys.json'],
  async run({ args, flags, api, connection, paint }) {
    const keys = trustedKeys(flags, paint)
    if (!keys.ok) return keys.error
    const source = edgeLog(api, keys.value.tenant, connection().url)
    const notes = [
      { note: readNote(args.OLD), read: keptHead },
      { note: args.NEW === undefined ? await source.checkpoint() : readNote(args.NEW), read: signedHead },
    ]
    const heads: SignedHead[] = []
    for (const { note, read } of notes) {
      if (!note.ok) return note
      const head = read(note.value, keys.value)
      if (!head.ok) return verdict([{ name: SIGNED, ok: false, detail: head.error }], {}, paint)
      heads.push(head.value)
    }
    const [old, now] = heads as [SignedHead, SignedHead] // two notes
    const signed = { name: 'the edge signed both checkpoints', ok: true }
    const ordered = {
      name: 'both are of the same log, the earlier one first',
      ok: old.origin === now.origin && old.size <= now.size,
    }
    if (!ordered.ok) return verdict([signed, ordered], {}, paint)
    const continued = await isContinued(old, now, source.readTile)
    if (!continued.ok) return continued
    const checks = [
      signed,
      ordered,
      { name: 'the log of the later one begins with the log of the earlier one', ok: continued.value },
    ]
    return verdict(checks, { log: now.origin, leaves: `${old.size}, then ${now.size}` }, paint)
  },
})

const prove = command({
  words: ['log', 'prove'],
  args: { CALL: 'the id of an ended call' },
  flags: { ...KEY_FILES, ...WITNESS_FLAGS },
  does: 'Check that the end of a call, as its run’s journal has it, is in the tenant’s log',
  key: 'either',
  exits: '0 it is; 1 it is not, or not yet',
  examples: ['countersign log prove call_01ABC…_1 --keys keys.json'],
  async run({ args: { CALL: call }, flags, api, connection, paint }) {
    if (!PATTERNS.call.test(call))
      return err(usage('`CALL` is not the id of a call; those look like call_01ABC…_1'))
    const quorum = quorumOf(flags)
    if (!quorum.ok) return quorum
    const keys = trustedKeys(flags, paint)
    if (!keys.ok) return keys.error
    const { tenant } = keys.value
    const proven = await api('logProof', { params: { tenant, call } })
    if (!proven.ok) return proven
    const { index, hash, proof, checkpoint: note } = proven.value
    const source = edgeLog(api, tenant, connection().url)
    const examined = await examine(note, keys.value, source)
    if (!examined.ok) return examined
    const { head } = examined.value
    const end = await endOf(api, call)
    if (!end.ok) return end
    const isEnd = end.value !== undefined && end.value.hash === hash && entryHash(end.value) === hash
    const checks = [
      ...examined.value.checks,
      { name: 'the leaf is the journal entry that ends the call', ok: isEnd },
      {
        name: 'the leaf is in the log under this checkpoint',
        ok: head !== undefined && verifyInclusion({ leaf: hashOfEntry(hash), index, proof, ...head }),
      },
    ]
    if (head === undefined) return verdict(checks, {}, paint)
    const shown = await witnessedHead(api, source, keys.value, head, quorum.value)
    if (!shown.ok) return shown
    const about = { call, leaf: String(index), entry: hash, ...examined.value.about, ...shown.value.about }
    return verdict([...checks, ...shown.value.checks], about, paint)
  },
})

/** The journal entry that ends a call. */
async function endOf(api: Api, call: string): Promise<Result<JournalEntry | undefined, Trouble>> {
  const params = { run: splitId(call).run }
  for (let after = 0; ; ) {
    const page = await api('readJournal', { params, query: { after } })
    if (!page.ok) return page
    const end = page.value.items.find(
      (entry) => entry.call === call && entry.body['attestation'] !== undefined,
    )
    const last = page.value.items.at(-1)
    if (end !== undefined || last === undefined) return ok(end)
    after = last.seq
  }
}

export const LOG: readonly Command[] = [checkpoint, prove, consistency, exportLog, verifyLog]
