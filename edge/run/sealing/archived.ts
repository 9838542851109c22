// The sealed runs of one object: finds them, loads them into memory, and puts them back into the object.
// A run is stored in the object or sealed; rows in the object win over an entry. A part of an entry is
// put back with all its runs, so either all of them are stored or none.

import { archiveOf } from '../../archive/archive-of.ts'
import {
  damaged,
  type EntryPart,
  type Index,
  mayHave,
  nameOf,
  openIndex,
  openPart,
  type PartRef,
} from '../../archive/entry.ts'
import { archiveObject, type Env } from '../../bindings.ts'
import type { GroupCommit } from '../../platform/group-commit.ts'
import type { ObjectStore } from '../object/object-store.ts'
import { READABLE, SealedRun } from './sealed-rows.ts'

/** The part of an object's runs that this needs. */
type Runs = {
  readonly env: Env
  readonly store: ObjectStore
  readonly commits: GroupCommit
  /** `{tenant}/{name of the object in it}` */
  readonly name: string
  committed(): void
  unsealed(): void
}

/** The most parts in one answer of the archive. */
const MESSAGE_PARTS = 256

export class Archived {
  readonly #runs: Runs
  /** The index of the object's entry; null if it has none, undefined until the archive has answered. */
  #index: Index | null | undefined
  /** The sealed runs that requests use now. */
  readonly #loaded = new Map<string, SealedRun>()
  /** Caches the result of `ids`. Runs that are put back later have the same ids. */
  #ids: ReadonlyMap<number, string> | undefined
  #puttingBack: Promise<unknown> = Promise.resolve()

  constructor(runs: Runs) {
    this.#runs = runs
    if (runs.store.isWhole) this.#index = null
  }

  get tenant(): string {
    return this.#runs.name.slice(0, this.#runs.name.indexOf('/'))
  }

  get object(): string {
    return this.#runs.name.slice(this.#runs.name.indexOf('/') + 1)
  }

  get archive() {
    return archiveObject(this.#runs.env, this.tenant, archiveOf(this.object))
  }

  /** Call it if the object is about to get its first run, with a random id made for this very request. */
  isNew(): void {
    if (this.#index === undefined && !this.#runs.store.tables.exist) this.#index = null
  }

  /** Call it when the object was sealed with this index, and stores nothing. */
  replaced(index: Index): void {
    this.#index = index
    this.#ids = undefined
    this.#loaded.clear()
    this.#runs.store.removed()
    this.#runs.store.noteArchived(index.next)
  }

  /**
   * Loads the sealed rows of a run, or some of them; undefined if none are missing. Rejects if the
   * archive does not answer or the entry is damaged: a run that looked new could run a call twice (L2).
   */
  missing(id: string): Promise<unknown> | undefined {
    if (this.#index === null || this.#runs.store.numberOf(id) !== undefined) return undefined
    if (this.#index === undefined) return this.index()
    const run = this.#loaded.get(id)
    if (run === undefined) return this.#find(id, this.#index)
    const digests = run.missing
    return digests.length === 0 ? undefined : this.#fetch(digests).then((parts) => run.hold(parts))
  }

  /** A sealed run that is loaded; undefined if the entry does not have it. */
  run(id: string): SealedRun | undefined {
    const run = this.#loaded.get(id)
    return run === undefined || run.refs.length === 0 ? undefined : run
  }

  /** Call it when no request uses the run. */
  forget(id: string): void {
    this.#loaded.delete(id)
  }

  async index(): Promise<Index | null> {
    if (this.#index !== undefined) return this.#index
    const part = await this.archive.index(this.object)
    if (this.#index !== undefined) return this.#index // another request was faster
    if (part === null) {
      if (this.#runs.store.tables.exist) throw damaged(this.object, 'it is missing')
      this.#index = null
      return null
    }
    const opened = openIndex(this.object, part)
    if (!opened.ok) throw damaged(this.object, opened.error)
    if (!READABLE.has(opened.value.migration))
      throw damaged(this.object, `its tables are of migration ${opened.value.migration}`)
    this.#index = opened.value
    this.#runs.store.noteArchived(opened.value.next)
    return opened.value
  }

  async #find(id: string, index: Index): Promise<void> {
    const name = nameOf(id)
    const refs = index.parts.filter(({ names }) => mayHave(names, name))
    const found = new SealedRun(this.object, id, refs)
    found.hold(await this.#fetch(found.missing))
    if (this.#index === index) this.#loaded.set(id, found.found())
  }

  async #fetch(digests: readonly string[]): Promise<EntryPart[]> {
    if (digests.length === 0) return []
    const { archive, object } = this
    const parts: EntryPart[] = []
    for (let i = 0; i < digests.length; i += MESSAGE_PARTS)
      parts.push(...(await archive.parts(object, digests.slice(i, i + MESSAGE_PARTS))))
    if (parts.length < digests.length) throw damaged(object, 'parts of it are missing')
    return parts
  }

  /**
   * Stores a run in the object again, with the others of its part. Each part is one transaction. The
   * run's row comes last: a crash before it leaves rows that nothing reads, and that are put back again.
   */
  putBack(id: string): Promise<void> {
    const put = this.#puttingBack.then(() => this.#putBack(id))
    this.#puttingBack = put.catch(() => undefined)
    return put
  }

  async #putBack(id: string): Promise<void> {
    const { store, commits } = this.#runs
    for (let more = this.missing(id); more !== undefined; more = this.missing(id)) await more
    const run = this.run(id)
    if (run === undefined || store.numberOf(id) !== undefined) return
    const transact = (work: () => void, committed: () => void) =>
      commits.run(() => {
        try {
          work()
        } catch (thrown) {
          store.rolledBack()
          throw thrown
        }
      }, committed)
    for (const ref of run.refs.slice(1))
      await transact(
        () => store.putBack(run.pages(ref)),
        () => this.#runs.committed(),
      )
    const [first] = run.refs
    await transact(
      () => first !== undefined && store.putBack(run.pages(first)),
      () => {
        for (const one of first === undefined ? [] : run.runsIn(first)) store.gotBack(one.id, one.number)
        this.#runs.unsealed()
      },
    )
  }

  /** The ids of the sealed runs, by their numbers. Reads the whole entry, unless it is asked for again. */
  async ids(): Promise<ReadonlyMap<number, string>> {
    if (this.#ids !== undefined) return this.#ids
    const kept = await this.kept()
    const index = this.#index
    const ids = await this.#idsIn(kept)
    if (this.#index === index) this.#ids = ids
    return ids
  }

  /** Call it when nobody needs the ids soon: a shared object has up to 100,000. */
  forgetIds(): void {
    this.#ids = undefined
  }

  async #idsIn(refs: readonly PartRef[]): Promise<Map<number, string>> {
    const ids = new Map<number, string>()
    const digests = refs.map(({ digest }) => digest)
    for (let i = 0; i < digests.length; i += MESSAGE_PARTS)
      for (const part of await this.#fetch(digests.slice(i, i + MESSAGE_PARTS))) {
        const opened = openPart(part)
        if (!opened.ok) throw damaged(this.object, opened.error)
        const rows = opened.value.pages.flatMap((page) => (page.table === 'run' ? page.rows : []))
        for (const { id, record } of rows)
          ids.set(Number(id) - 1, (JSON.parse(String(record)) as { id: string }).id) // the store wrote it
      }
    return ids
  }

  /** The parts of the entry whose runs are not stored in the object. */
  async kept(): Promise<readonly PartRef[]> {
    const index = await this.index()
    const stored = this.#runs.store.numbers
    return index === null ? [] : index.parts.filter(({ first }) => !stored.has(first))
  }
}
