// Copies the files of the objects, copies again those that have changed since, and checks the
// copies.

import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  closeSync,
  constants,
  copyFileSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { root } from '../../shared/evidence/merkle.ts'
import { hashOfEntry } from '../../shared/evidence/tiles.ts'
import { RESTORED_ENTRY } from '../../shared/wire/restore.ts'

/** A file changed within this time before it was copied may have changed once more since. */
const CLOCK_TICK_MS = 100
const CHUNK_BYTES = 1 << 20
const SYNC = '/usr/bin/sync'

export class ObjectCopies {
  readonly #from: string
  readonly #to: string
  /** The identity of each copied file before it was copied; undefined if it may have changed since. */
  readonly #copied = new Map<string, string | undefined>()

  constructor(from: string, to: string) {
    this.#from = from
    this.#to = to
  }

  /**
   * Makes the copies equal to the files, and returns how many copies it changed. If nothing writes
   * the files in the meantime, the copies are as the files were at one moment. Returns undefined if
   * that takes longer than `until`.
   */
  refresh(until = Number.POSITIVE_INFINITY): number | undefined {
    const paths = filesIn(this.#from, COPIED)
    let changed = 0
    for (const path of new Set([...this.#copied.keys(), ...paths])) {
      if (Date.now() > until) return undefined
      if (this.#copy(path)) changed++
    }
    return changed
  }

  #copy(path: string): boolean {
    const now = Date.now()
    const [from, to] = [join(this.#from, path), join(this.#to, path)]
    const stat = statSync(from, { bigint: true, throwIfNoEntry: false })
    if (stat === undefined) {
      rmSync(to, { force: true })
      return this.#copied.delete(path)
    }
    const stamp = [stat.ino, stat.size, stat.mtimeNs, stat.ctimeNs].join()
    if (this.#copied.get(path) === stamp) return false
    mkdirSync(dirname(to), { recursive: true, mode: 0o700 })
    try {
      copyFileSync(from, to, constants.COPYFILE_FICLONE)
      chmodSync(to, 0o600)
    } catch (thrown) {
      if ((thrown as NodeJS.ErrnoException).code !== 'ENOENT') throw thrown // else it was removed in the meantime
    }
    this.#copied.set(path, now - Number(stat.ctimeMs) > CLOCK_TICK_MS ? stamp : undefined)
    return true
  }
}

const DATABASE = /\.sqlite$/
const INSTALLATION = /^countersign-installation\/[0-9a-f]{64}\./
/** Databases with their logs of changes, without the indices in shared memory, which are derived. */
const COPIED = /\.sqlite(?:-wal)?$/

function filesIn(objects: string, names: RegExp): string[] {
  const classes = existsSync(objects) ? readdirSync(objects, { withFileTypes: true }) : []
  return classes
    .filter((entry) => entry.isDirectory())
    .flatMap(({ name }) => readdirSync(join(objects, name)).map((file) => `${name}/${file}`))
    .filter((path) => names.test(path))
}

export const databasesIn = (objects: string): string[] => filesIn(objects, DATABASE).sort()

/** The databases of the transparency logs; `metadata.sqlite` beside them is workerd's. */
export const logsIn = (objects: string): string[] =>
  databasesIn(objects).filter((path) => /^countersign-log\/[0-9a-f]{64}\./.test(path))

/** The times of the restores that the installation's journal has. */
export function journalledRestores(objects: string): ReadonlySet<number> {
  const found = new Set<number>()
  for (const path of filesIn(objects, DATABASE).filter((one) => INSTALLATION.test(one))) {
    const db = new DatabaseSync(join(objects, path))
    try {
      const at = "body ->> '$.restored_at_ms' as at"
      for (const { at: moment } of db.prepare(`select ${at} from journal where kind = ?`).all(RESTORED_ENTRY))
        found.add(Number(moment))
    } finally {
      db.close()
    }
  }
  return found
}

/** Applies the changes in a copy's log, and checks every page. Returns what is wrong with it. */
export function finishCopy(path: string): string | undefined {
  try {
    const db = new DatabaseSync(path)
    try {
      db.exec('pragma wal_checkpoint(truncate)')
      const [{ integrity_check: found } = {}] = db.prepare('pragma integrity_check(1)').all()
      return found === 'ok' ? undefined : String(found)
    } finally {
      db.close() // removes the empty log
    }
  } catch (thrown) {
    return thrown instanceof Error ? thrown.message : String(thrown)
  }
}

export type Head = { readonly size: number; readonly root: string }

/** The head of a tenant's log; with `size`, an earlier one. */
export function headOf(path: string, size?: number): Head {
  const db = new DatabaseSync(path)
  try {
    const isErased = db.prepare("select 1 from sqlite_schema where name = 'leaves'").get() === undefined
    if (isErased) return { size: 0, root: size === undefined || size === 0 ? root(0, () => '') : '' } // its tenant was deleted
    const [{ n } = {}] = db.prepare('select count(*) as n from leaves').all()
    const leaf = db.prepare('select hash from leaves where "index" = ?')
    const node = db.prepare('select hash from nodes where level = ? and "index" = ?')
    const read = (level: number, index: number): string => {
      const hash = String((level === 0 ? leaf.get(index) : node.get(level, index))?.['hash'])
      return level === 0 ? hashOfEntry(hash) : hash
    }
    const at = size ?? Number(n)
    return { size: Number(n), root: at > Number(n) ? '' : root(at, read) }
  } finally {
    db.close()
  }
}

export function summarise(path: string): { readonly bytes: number; readonly sha256: string } {
  const hash = createHash('sha256')
  const chunk = Buffer.alloc(CHUNK_BYTES)
  const file = openSync(path, 'r')
  try {
    let bytes = 0
    for (let read = readSync(file, chunk); read > 0; read = readSync(file, chunk)) {
      hash.update(chunk.subarray(0, read))
      bytes += read
    }
    return { bytes, sha256: hash.digest('hex') }
  } finally {
    closeSync(file)
  }
}

/** Waits until everything on the file system of this folder is on disk. */
export const syncDisk = (folder: string): void =>
  void execFileSync(SYNC, ['--file-system', '--', folder], { env: {} })

/** Writes a private file whole or not at all. */
export function writeDurably(path: string, text: string): void {
  const draft = `${path}.new`
  const file = openSync(draft, 'w', 0o600)
  try {
    writeSync(file, text)
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
  renameSync(draft, path)
  syncDisk(dirname(path))
}
