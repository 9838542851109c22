// The files of a run: bytes under their digest, in parts that a row can hold. What no call has named within a day of its coming goes when
// there is a next one. It judges nothing but room.

import { and, asc, eq, lt, sql } from 'drizzle-orm'
import { failure } from '../shared/failures.ts'
import type { FileRef, InputFile } from '../shared/files.ts'
import { sha256 } from '../shared/json.ts'
import { LIMITS } from '../shared/limits.ts'
import type { Result } from '../shared/result.ts'
import { err, ok } from '../shared/result.ts'
import type { Database } from './tables/open.ts'
import { fileParts, files } from './tables/run.ts'

export class FileStore {
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
  }

  /** The same bytes once more are those that are there. */
  put(digest: string, bytes: Uint8Array): Result<{ sha256: string; bytes: number }> {
    if (sha256(bytes) !== digest) return err(failure('digest_mismatch', 'these bytes have another SHA-256 than the path names'))
    const now = Date.now()
    const done = ok({ sha256: digest, bytes: bytes.byteLength })
    if (this.#bytesOf(digest) !== undefined) return done
    this.#dropUnnamed(now - LIMITS.file_unnamed_ms)
    const held = this.#db
      .select({ count: sql<number>`count(*)`, bytes: sql<number>`coalesce(sum(${files.bytes}), 0)` })
      .from(files)
      .get()
    if ((held?.count ?? 0) >= LIMITS.run_files || (held?.bytes ?? 0) + bytes.byteLength > LIMITS.run_files_bytes)
      return err(failure('too_many_files', `a run holds ${LIMITS.run_files} files and ${LIMITS.run_files_bytes} bytes of them at most`))
    this.#db.insert(files).values({ sha256: digest, bytes: bytes.byteLength, at: now, named: false }).run()
    for (let part = 0; part * LIMITS.file_part_bytes < bytes.byteLength; part++) {
      const slice = bytes.subarray(part * LIMITS.file_part_bytes, (part + 1) * LIMITS.file_part_bytes)
      this.#db
        .insert(fileParts)
        .values({ sha256: digest, part, bytes: Buffer.from(slice) })
        .run()
    }
    return done
  }

  /** With their sizes; refused where one is not here. */
  sized(refs: readonly FileRef[]): Result<InputFile[]> {
    const sized: InputFile[] = []
    for (const { path, sha256: digest } of refs) {
      const bytes = this.#bytesOf(digest)
      if (bytes === undefined) return err(failure('no_such_file', `put the bytes of \`${path}\` into the run first`))
      sized.push({ path, sha256: digest, bytes })
    }
    return ok(sized)
  }

  /** A call has named them: they stay as long as the run does. */
  keep(named: readonly FileRef[]): void {
    for (const { sha256: digest } of named) this.#db.update(files).set({ named: true }).where(eq(files.sha256, digest)).run()
  }

  whole(digest: string): Uint8Array {
    const parts = this.#db
      .select({ bytes: fileParts.bytes })
      .from(fileParts)
      .where(eq(fileParts.sha256, digest))
      .orderBy(asc(fileParts.part))
    return Buffer.concat(parts.all().map(({ bytes }) => bytes))
  }

  part(digest: string, part: number): Buffer | undefined {
    const where = and(eq(fileParts.sha256, digest), eq(fileParts.part, part))
    return this.#db.select({ bytes: fileParts.bytes }).from(fileParts).where(where).get()?.bytes
  }

  #bytesOf(digest: string): number | undefined {
    return this.#db.select({ bytes: files.bytes }).from(files).where(eq(files.sha256, digest)).get()?.bytes
  }

  #dropUnnamed(before: number): void {
    const unnamed = and(eq(files.named, false), lt(files.at, before))
    for (const { sha256: digest } of this.#db.select({ sha256: files.sha256 }).from(files).where(unnamed).all()) {
      this.#db.delete(fileParts).where(eq(fileParts.sha256, digest)).run()
      this.#db.delete(files).where(eq(files.sha256, digest)).run()
    }
  }
}
