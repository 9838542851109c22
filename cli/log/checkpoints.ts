// Signed heads of logs: whether the edge signed one, and whether it continues the last one that this
// user has seen. The edge's operator could otherwise show different logs to different people, or the
// log of yesterday to everybody.

import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { sha256 } from '../../shared/bytes/json.ts'
import { type Checkpoint, verifyCheckpoint } from '../../shared/evidence/checkpoint.ts'
import type { Check } from '../../shared/evidence/checks.ts'
import { type KeyEntry, type Keys, undatedEdgeKeys } from '../../shared/evidence/keys.ts'
import { consistency, verifyConsistency } from '../../shared/evidence/merkle.ts'
import { overTiles, type ReadTile } from '../../shared/evidence/tiles.ts'
import { Time } from '../../shared/fields.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import { type Trouble, trouble } from '../shell/command.ts'
import { checkpointsFolder } from '../shell/config.ts'
import { readJson, saveBytes } from '../shell/files.ts'
import { time } from '../shell/terminal-text.ts'

/** A head with the note that signs it. */
export type SignedHead = Checkpoint & { readonly note: string }

export const SIGNED = 'the edge signed the checkpoint of the tenant’s log'
export const CONTINUES = 'the log continues the checkpoint that you saw before'

/** Reads a note as the head of the log of the keys' tenant. */
export const signedHead = (note: string, keys: Keys): Result<SignedHead, string> =>
  headSignedBy(undatedEdgeKeys(keys), note, keys)

/**
 * Reads a note that was accepted before. It stays the one to compare with if its key is distrusted now:
 * the log must continue it all the more, and no new head is trusted because of it.
 */
export const keptHead = (note: string, keys: Keys): Result<SignedHead, string> =>
  headSignedBy(
    keys.keys.filter(({ role }) => role === 'edge'),
    note,
    keys,
  )

function headSignedBy(signers: readonly KeyEntry[], note: string, keys: Keys): Result<SignedHead, string> {
  const [origin = ''] = note.split('\n', 1)
  if (origin.slice(origin.indexOf('/') + 1) !== keys.tenant)
    return err(`it is not a checkpoint of the log of \`${keys.tenant}\``)
  let fault = 'the key file has no key of the edge that is still trusted'
  for (const { x } of signers) {
    const head = verifyCheckpoint(note, origin, x)
    if (head.ok) return ok({ ...head.value, note })
    fault = head.error
  }
  return err(fault)
}

const Seen = z.strictObject({ note: z.string(), at_ms: Time })
export type SeenHead = SignedHead & { readonly at_ms: number; readonly file: string }

/**
 * The files of this log's heads: by its name, and by the address that was asked for it. So neither a log
 * that was renamed nor one that is read at another address counts as new. `address`: undefined offline.
 */
function filesOf(origin: string, address: string | undefined): string[] {
  const tenant = origin.slice(origin.indexOf('/') + 1)
  const names = new Set([origin, ...(address === undefined ? [] : [`${address}/${tenant}`])])
  return [...names].map((name) => `${sha256(name)}.json`)
}

/**
 * The heads of this log that this user saw last, the largest first. If there is none, those of the same
 * edge's log for this tenant under another name, which the edge could take to hide a fork.
 */
export function seenHeads(
  origin: string,
  address: string | undefined,
  keys: Keys,
): Result<SeenHead[], Trouble> {
  const folder = checkpointsFolder()
  const heads: SeenHead[] = []
  for (const name of filesOf(origin, address)) {
    const file = join(folder, name)
    if (!existsSync(file)) continue
    const seen = readSeen(file, keys)
    if (!seen.ok) return seen
    if (heads.every(({ note }) => note !== seen.value.note)) heads.push(seen.value)
  }
  if (heads.length > 0) return ok(heads.sort((a, b) => b.size - a.size))
  for (const name of existsSync(folder) ? readdirSync(folder) : []) {
    const seen = readSeen(join(folder, name), keys)
    if (seen.ok) heads.push(seen.value)
  }
  return ok(heads)
}

function readSeen(file: string, keys: Keys): Result<SeenHead, Trouble> {
  const json = readJson(file)
  if (!json.ok) return json
  const seen = Seen.safeParse(json.value)
  const head = seen.success ? keptHead(seen.data.note, keys) : err('it is not a checkpoint of ours')
  return seen.success && head.ok
    ? ok({ ...head.value, at_ms: seen.data.at_ms, file })
    : err(
        trouble(
          'unreadable',
          `\`${file}\`, the checkpoint that you saw before, is not signed by these keys`,
          `check that the key file is the right one; if the edge was set up again with other keys, and you believe its operator, remove \`${file}\``,
        ),
      )
}

/** Keeps a head that has been compared with those before. */
export function keepHead({ origin, note }: SignedHead, address: string | undefined): Result<true, Trouble> {
  const text = Buffer.from(JSON.stringify({ note, at_ms: Date.now() } satisfies z.infer<typeof Seen>))
  for (const name of filesOf(origin, address)) {
    const saved = saveBytes(checkpointsFolder(), name, text, true)
    if (!saved.ok) return saved
  }
  return ok(true)
}

/** The sentence for a head that contradicts one that was seen before. Both notes are evidence. */
export function contradiction(seen: SeenHead, head: SignedHead): string {
  const before = `you saw ${seen.size} leaves at ${time(seen.at_ms)}`
  const kept = `that checkpoint is in ${seen.file}`
  if (head.origin !== seen.origin)
    return `the log was renamed: you saw \`${seen.origin}\` with ${seen.size} leaves at ${time(seen.at_ms)}, and now it is \`${head.origin}\`. A fork can hide behind another name; ${kept}, which you can remove if you know that the edge has a new address`
  if (head.size < seen.size)
    return `the log was rolled back: ${before}, and now it has ${head.size}. Either leaves were removed, or the edge runs on an older state; ${kept}`
  return `the log was forked: ${before}, and the log of ${head.size} leaves does not begin with them. Its past was rewritten, or you are shown another log than before; ${kept}`
}

/** Whether `head` continues all that was seen before, as the log's tiles prove. */
export async function continuity(
  seen: readonly SeenHead[],
  head: SignedHead,
  readTile: ReadTile<Trouble>,
): Promise<Result<Check[], Trouble>> {
  for (const one of seen) {
    const isOther = head.origin !== one.origin || head.size < one.size
    const proven = isOther ? ok(false) : await isContinued(one, head, readTile)
    if (!proven.ok) return proven
    if (!proven.value) return ok([{ name: CONTINUES, ok: false, detail: contradiction(one, head) }])
  }
  return ok(seen.length === 0 ? [] : [{ name: CONTINUES, ok: true }])
}

/** Describes the largest head that was seen before. */
export const aboutSeen = ([seen]: readonly SeenHead[]): Record<string, string> => ({
  'seen before': seen === undefined ? 'nothing' : `${seen.size} leaves, at ${time(seen.at_ms)}`,
})

/** Whether tiles prove that the log of `from` is the beginning of the log of `to`. */
export async function isContinued(
  from: Checkpoint,
  to: Checkpoint,
  readTile: ReadTile<Trouble>,
): Promise<Result<boolean, Trouble>> {
  const [m, n] = [from.size, to.size]
  const proof = await overTiles(n, readTile, (read) => consistency(m, n, read))
  return proof.ok
    ? ok(verifyConsistency({ m, rootM: from.root, n, rootN: to.root, proof: proof.value }))
    : proof
}
