// The tables of a Durable Object: makes those of a new object from one generated schema, and
// migrates those of an older one.

import { drizzle } from 'drizzle-orm/durable-sqlite'
import { migrate } from 'drizzle-orm/durable-sqlite/migrator'

/**
 * The tables of one object class. `schemas` (written by `npm run migrations`) has, for each version
 * in which new objects were made, the statement of each table and index after migration `migration`.
 */
export type Schema = {
  readonly migrations: Parameters<typeof migrate>[1]
  readonly schemas: readonly VersionedSchema[]
}
type VersionedSchema = {
  readonly migration: number
  readonly statements: Readonly<Record<string, string>>
}

/** drizzle's table of applied migrations. Objects made from a schema have it after a migration. */
const MIGRATED = '__drizzle_migrations'
/** An empty view, which takes no page, names the version from which an object was made. */
const MARK = /^schema_at_([0-9]+)$/

/** The part of a Durable Object's state that its tables need. */
export type ObjectState = {
  readonly storage: {
    readonly sql: {
      exec(text: string, ...values: unknown[]): { toArray(): Array<Record<string, unknown>> }
    }
    transactionSync<T>(work: () => T): T
  }
  blockConcurrencyWhile(work: () => Promise<unknown>): Promise<unknown>
}

/** The tables of one object. */
export class Tables {
  readonly #ctx: ObjectState
  readonly #schema: Schema
  readonly #later: ReadonlySet<string>
  /** The tables, indexes and the mark that the object has. Undefined: to be read again. */
  #known: Set<string> | undefined

  /**
   * Brings existing tables to the newest version. `later`: tables and indexes that a new object
   * lacks until `add` makes them, because each takes a page of the file.
   */
  constructor(ctx: ObjectState, schema: Schema, later: Iterable<string> = []) {
    this.#ctx = ctx
    this.#schema = schema
    this.#later = new Set(later)
    if (this.exist) this.#upgrade()
  }

  get exist(): boolean {
    return this.#names.size > 0
  }

  has(name: string): boolean {
    return this.#names.has(name)
  }

  /** Makes the tables of a new object; call it in the transaction of its first write. */
  make(): void {
    if (this.exist) return
    const { migration, statements } = this.#newest
    this.add(...Object.keys(statements).filter((name) => !this.#later.has(name)))
    this.mark(`schema_at_${migration}`)
  }

  /** Runs a transaction that writes. The first one of an object makes its tables. */
  write<T>(work: () => T): T {
    try {
      return this.#ctx.storage.transactionSync(() => {
        this.make()
        return work()
      })
    } catch (thrown) {
      this.forget()
      throw thrown
    }
  }

  /** Makes tables or indexes that are needed from now on, unless the object has them. */
  add(...names: readonly string[]): void {
    for (const name of names) if (!this.has(name)) this.#make(name, this.#newest.statements[name] ?? '')
  }

  /** Remembers a fact about the object as the name of an empty view, which takes no page. */
  mark(name: string): void {
    if (!this.has(name)) this.#make(name, `CREATE VIEW "${name}" AS SELECT 1`)
  }

  /** The newest migration, to which all tables are brought. */
  get migration(): number {
    return this.#newest.migration
  }

  /** Call it if a transaction that may have made tables is rolled back. */
  forget(): void {
    this.#known = undefined
  }

  #make(name: string, statement: string): void {
    this.#ctx.storage.sql.exec(statement)
    this.#names.add(name)
  }

  get #names(): Set<string> {
    this.#known ??= new Set(
      this.#ctx.storage.sql
        .exec("SELECT name FROM sqlite_schema WHERE substr(name, 1, 4) <> '_cf_'")
        .toArray()
        .map(({ name }) => String(name)),
    )
    return this.#known
  }

  get #newest(): VersionedSchema {
    const newest = this.#schema.schemas.at(-1)
    if (newest === undefined) throw new Error('an object class has no schema')
    return newest
  }

  #upgrade(): void {
    if (!this.has(MIGRATED)) {
      const mark = [...this.#names].find((name) => MARK.test(name))
      if (mark === `schema_at_${this.#newest.migration}`) return
      this.#ctx.storage.transactionSync(() => this.#complete(mark))
    }
    // `migrate` works synchronously, so the object can read at once. A failure rejects, which ends
    // the object.
    const migrated = migrate(drizzle(this.#ctx.storage as never), this.#schema.migrations) // it is an object's storage
    void this.#ctx.blockConcurrencyWhile(() => migrated)
    this.forget()
  }

  /** Makes all tables of the version of this object, as if migrations had made it. */
  #complete(mark: string | undefined): void {
    const { sql } = this.#ctx.storage
    const version = Number(MARK.exec(mark ?? '')?.[1])
    const made = this.#schema.schemas.find(({ migration }) => migration === version)
    const entry = this.#schema.migrations.journal.entries.find(({ idx }) => idx === version)
    if (made === undefined || entry === undefined) throw new Error('the tables are of an unknown version')
    for (const [name, statement] of Object.entries(made.statements)) if (!this.has(name)) sql.exec(statement)
    sql.exec(`DROP VIEW ${mark}`)
    sql.exec(`CREATE TABLE ${MIGRATED} (id SERIAL PRIMARY KEY, hash text NOT NULL, created_at numeric)`)
    sql.exec(`INSERT INTO ${MIGRATED} (hash, created_at) VALUES ('', ?)`, entry.when)
  }
}
