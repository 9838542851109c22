// The rows of a small table in memory, by name, in the order of the table. Pure: its caller reads and
// writes the table.

export class CachedRows<Row extends { readonly name: string }> {
  readonly #readAll: () => readonly Row[]
  readonly #read: (name: string) => Row | undefined
  #rows: Map<string, Row> | undefined
  readonly #written = new Set<string>()

  constructor(readAll: () => readonly Row[], read: (name: string) => Row | undefined) {
    this.#readAll = readAll
    this.#read = read
  }

  /** Don't call it between a write and its commit: the write may be undone. */
  get all(): ReadonlyMap<string, Row> {
    this.#rows ??= new Map(this.#readAll().map((row) => [row.name, row]))
    for (const name of this.#written) {
      const row = this.#read(name)
      if (row === undefined) this.#rows.delete(name)
      else this.#rows.set(name, row)
    }
    this.#written.clear()
    return this.#rows
  }

  /** Call it with each write: the next reader reads this row again, whether the write was kept or undone. */
  written(name: string): void {
    this.#written.add(name)
  }

  /** The next reader reads all rows again. */
  forget(): void {
    this.#rows = undefined
  }
}
