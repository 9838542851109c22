// The files of a run, stored under their digest in parts that fit into a row. A file that no call
// has named expires soon; one that a call has named stays for longer than a call can live. In an
// object of many runs the run's number stands before the digest, so each run holds its own files.

import { and, asc, eq, gte, lt, type SQL, sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/durable-sqlite'
import { sha256 } from '../../shared/bytes/json.ts'
import { failure } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { FileRef, HeldFile, InputFile } from '../../shared/plan/call-files.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Tables } from '../platform/object-tables.ts'
import { fileParts, files } from './tables.ts'

export class FileStore {
  readonly #db
  readonly #tables: Pick<Tables, 'has' | 'add'>

  readonly #number: () => number | null

  /**
   * The tables of files are made with the first file. `number` returns the run's number, or null for
   * all files of the object.
   */
  constructor(
    storage: DurableObjectStorage,
    tables: Pick<Tables, 'has' | 'add'>,
    number: () => number | null,
  ) {
    this.#db = drizzle(storage)
    this.#tables = tables
    this.#number = number
  }

  /** The key of a file. */
  #key(digest: string): string {
    const number = this.#number()
    return number === null ? digest : `${number}.${digest}`
  }

  get #ofRun(): SQL | undefined {
    const number = this.#number()
    return number === null ? undefined : and(gte(files.key, `${number}.`), lt(files.key, `${number}/`))
  }

  get #isEmpty(): boolean {
    return !this.#tables.has('files')
  }

  /** The bytes that the run would hold with this file; refused if the run has no room. */
  fits(digest: string, bytes: Uint8Array): Result<number> {
    if (sha256(bytes) !== digest)
      return err(failure('digest_mismatch', 'the SHA-256 of these bytes differs from the one in the path'))
    const held = this.held()
    if (this.#bytesOf(digest) !== undefined) return ok(held.bytes)
    return held.count < LIMITS.run_files && held.bytes + bytes.byteLength <= LIMITS.run_files_bytes
      ? ok(held.bytes + bytes.byteLength)
      : err(
          failure(
            'too_many_files',
            `a run holds at most ${LIMITS.run_files} files and ${LIMITS.run_files_bytes} bytes`,
          ),
        )
  }

  /** Stores bytes for which `fits` has found room. Storing a file again restarts its lifetime. */
  put(digest: string, bytes: Uint8Array, now: number): { sha256: string; bytes: number } {
    const stored = { sha256: digest, bytes: bytes.byteLength }
    this.#tables.add('files', 'file_parts')
    if (this.#bytesOf(digest) !== undefined) {
      this.#db
        .update(files)
        .set({ at: now })
        .where(eq(files.key, this.#key(digest)))
        .run()
      return stored
    }
    this.#db
      .insert(files)
      .values({ key: this.#key(digest), bytes: bytes.byteLength, at: now, named: false })
      .run()
    for (let part = 0; part * LIMITS.file_part_bytes < bytes.byteLength; part++) {
      const slice = bytes.subarray(part * LIMITS.file_part_bytes, (part + 1) * LIMITS.file_part_bytes)
      this.#db
        .insert(fileParts)
        .values({ key: this.#key(digest), part, bytes: Buffer.from(slice) })
        .run()
    }
    return stored
  }

  held(): { count: number; bytes: number } {
    if (this.#isEmpty) return { count: 0, bytes: 0 }
    const sums = { count: sql<number>`count(*)`, bytes: sql<number>`coalesce(sum(${files.bytes}), 0)` }
    return this.#db.select(sums).from(files).where(this.#ofRun).get() ?? { count: 0, bytes: 0 }
  }

  list(): HeldFile[] {
    if (this.#isEmpty) return []
    const rows = this.#db.select().from(files).where(this.#ofRun).orderBy(asc(files.at), asc(files.key))
    return rows.all().map((row) => ({
      sha256: row.key.slice(row.key.indexOf('.') + 1),
      bytes: row.bytes,
      named: row.named,
      until_ms: expiresAt(row),
    }))
  }

  /** Adds the size of each file; refused if the run lacks one. */
  sized(refs: readonly FileRef[]): Result<InputFile[]> {
    const sized: InputFile[] = []
    for (const { path, sha256: digest } of refs) {
      const bytes = this.#bytesOf(digest)
      if (bytes === undefined)
        return err(failure('no_such_file', `upload the bytes of \`${path}\` to the run first`))
      sized.push({ path, sha256: digest, bytes })
    }
    return ok(sized)
  }

  /** Marks files that a call has named, so that they stay for longer than a call can live. */
  keep(named: readonly FileRef[], now: number): void {
    for (const { sha256: digest } of named)
      this.#db
        .update(files)
        .set({ named: true, at: now })
        .where(eq(files.key, this.#key(digest)))
        .run()
  }

  whole(digest: string): Uint8Array | undefined {
    if (this.#bytesOf(digest) === undefined) return undefined
    const parts = this.#db
      .select({ bytes: fileParts.bytes })
      .from(fileParts)
      .where(eq(fileParts.key, this.#key(digest)))
      .orderBy(asc(fileParts.part))
    return Buffer.concat(parts.all().map(({ bytes }) => bytes))
  }

  part(digest: string, part: number): Buffer | undefined {
    if (this.#isEmpty) return undefined
    const where = and(eq(fileParts.key, this.#key(digest)), eq(fileParts.part, part))
    return this.#db.select({ bytes: fileParts.bytes }).from(fileParts).where(where).get()?.bytes
  }

  #bytesOf(digest: string): number | undefined {
    if (this.#isEmpty) return undefined
    return this.#db
      .select({ bytes: files.bytes })
      .from(files)
      .where(eq(files.key, this.#key(digest)))
      .get()?.bytes
  }

  nextDue(): number | null {
    const times = this.list().map(({ until_ms }) => until_ms)
    return times.length === 0 ? null : Math.min(...times)
  }

  /** The numbers of the runs whose files expire by `until`, in an object of many runs. */
  runsDue(until: number): number[] {
    if (this.#isEmpty) return []
    const due = this.#db
      .select()
      .from(files)
      .all()
      .filter((row) => expiresAt(row) <= until)
    return due.map(({ key }) => Number(key.split('.')[0]))
  }

  /** Removes expired files; returns whether there were any. */
  dropDue(now: number): boolean {
    const due = this.list().filter(({ until_ms }) => until_ms <= now)
    for (const { sha256: digest } of due) {
      this.#db
        .delete(fileParts)
        .where(eq(fileParts.key, this.#key(digest)))
        .run()
      this.#db
        .delete(files)
        .where(eq(files.key, this.#key(digest)))
        .run()
    }
    return due.length > 0
  }
}

const expiresAt = ({ at, named }: { at: number; named: boolean }): number =>
  at + (named ? LIMITS.file_named_ms : LIMITS.file_unnamed_ms)
