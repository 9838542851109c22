// Verifies exported runs, object by object, and collects what the objects prove together. One file and the
// journals of one object are in memory at a time.

import { readdirSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import type { Check } from '../../shared/evidence/checks.ts'
import type { Keys } from '../../shared/evidence/keys.ts'
import { LIMITS } from '../../shared/limits.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import type { Trouble } from '../shell/command.ts'
import { readBytes } from '../shell/files.ts'
import { EXPORT_CHECKS, type ObjectVerdict, PARTS, VerifiedObject } from './verify-object.ts'
import { type Verifying, VerifyingThreads } from './verifying-threads.ts'

/** `name`: the object's folder and the file, as `exportName` makes it, or a path that ends so. */
export type PartFile = { readonly name: string; readonly bytes: Result<Uint8Array, string> }

/** The verdicts on all objects together. */
export class VerifiedExport {
  readonly #faults: Check[] = []
  readonly #rules = new Set<number>()
  /** The hash of each journal entry that ended a call, and the call. */
  readonly ends = new Map<string, string>()
  #files = 0
  #calls = 0
  #entries = 0
  #removed = 0

  add({ faults, ends, files, calls, entries, removed }: ObjectVerdict): void {
    this.#faults.push(...faults)
    for (const [hash, call] of ends) this.ends.set(hash, call)
    this.#files += files
    this.#calls += calls
    this.#entries += entries
    this.#removed += removed.length
    for (const rule of removed) this.#rules.add(rule)
  }

  checks(): Check[] {
    return listed(this.#faults, EXPORT_CHECKS)
  }

  about(): Record<string, string> {
    const gone = `the evidence of ${this.#removed} calls, by retention rule ${[...this.#rules].join(', ')}`
    return {
      files: String(this.#files),
      calls: String(this.#calls),
      entries: String(this.#entries),
      ...(this.#removed === 0 ? {} : { removed: gone }),
    }
  }
}

/** `path`: a file, or a folder with the files of any number of objects. May throw what `fs` throws. */
export async function verifyExport(path: string, keys: Keys): Promise<Result<VerifiedExport, Trouble>> {
  const verified = await verifyParts(partsAt(path), keys)
  const none = { name: PARTS, ok: false, detail: `${path}: there is no exported file` }
  if (verified.ok && verified.value.about()['files'] === '0')
    verified.value.add({ faults: [none], ends: [], files: 0, calls: 0, entries: 0, removed: [] })
  return verified
}

/** After this many bytes, threads verify the rest: starting them takes as long as a thousand calls. */
const ALONE_BYTES = 16 * 1024 * 1024

/**
 * `parts`: the files of an object come one after the other, in the order of their positions. `alone`: for
 * how many bytes no thread is started.
 */
export async function verifyParts(
  parts: AsyncIterable<Result<PartFile, Trouble>>,
  keys: Keys,
  alone = ALONE_BYTES,
): Promise<Result<VerifiedExport, Trouble>> {
  const all = new VerifiedExport()
  const threads = new VerifyingThreads(keys)
  const finished: Promise<void>[] = []
  let [object, read] = ['', 0]
  let verifying: Verifying = new VerifiedObject(keys)
  const finish = async (own: Verifying): Promise<void> => all.add(await own.finished())
  try {
    for await (const part of parts) {
      if (!part.ok) return part
      const { name, bytes } = part.value
      if (objectOf(name) !== object) {
        finished.push(finish(verifying))
        object = objectOf(name)
        verifying = read < alone ? new VerifiedObject(keys) : await threads.idle()
      }
      read += bytes.ok ? bytes.value.byteLength : 0
      await verifying.add(name, bytes)
    }
    await Promise.all([...finished, finish(verifying)])
    return ok(all)
  } finally {
    threads.end()
  }
}

const objectOf = (name: string): string => basename(dirname(name))

/** The exported files at a path, object by object, each one's in the order of their positions. */
export async function* partsAt(path: string): AsyncIterable<Result<PartFile, Trouble>> {
  for (const name of filesAt(path)) {
    const read = readBytes(name, 2 * LIMITS.evidence_bytes)
    yield ok({ name, bytes: read.ok ? read : err(read.error.detail) })
  }
}

const filesAt = (path: string): string[] =>
  statSync(path).isDirectory()
    ? readdirSync(path, { recursive: true, encoding: 'utf8' })
        .filter((name) => name.endsWith('.jsonl'))
        .map((name) => join(path, name))
        .sort(byPosition)
    : [path]

/** By the object, and by the position in their names, which `readPart` checks. */
function byPosition(a: string, b: string): number {
  const [one, other] = [objectOf(a), objectOf(b)]
  if (one !== other) return one < other ? -1 : 1
  const [left, right] = [a, b].map((path) => basename(path).split(/[.-]/, POSITION_PARTS).map(Number))
  const at = left?.findIndex((number, i) => number !== right?.[i]) ?? -1
  return at < 0 ? 0 : (left?.[at] ?? 0) - (right?.[at] ?? 0)
}
const POSITION_PARTS = 3

/** The most faults that are listed for each check. */
const MOST_FAULTS = 16

/** The faults of each check, or one line that it holds. */
export const listed = (faults: readonly Check[], names: readonly string[]): Check[] =>
  names.flatMap((name) => {
    const own = faults.filter((fault) => fault.name === name).slice(0, MOST_FAULTS)
    return own.length === 0 ? [{ name, ok: true }] : own
  })
