// Owns what may not leave a sandbox: the values of the secrets that its call was given, in each form that we know (V01). A stream passes
// through it and comes out with a name where a value stood, also where the value came in pieces. What it lets through is all that anyone
// after it sees: kept, digested, sent. Compressed or encrypted values it does not know.

import { formsOf } from '../../shared/secrets.ts'

type Secrets = Readonly<Record<string, string>>
type Needle = { readonly bytes: Buffer; readonly mark: Buffer }
type Find = { from: number; to: number; readonly mark: Buffer }

export class Veil {
  readonly #needles: readonly Needle[]

  constructor(secrets: Secrets = {}) {
    this.#needles = Object.entries(secrets).flatMap(([name, value]) => {
      const mark = Buffer.from(`«secret ${name}»`)
      return formsOf(value).map((form) => ({ bytes: Buffer.from(form), mark }))
    })
  }

  /** For one stream. */
  stream(): VeiledStream {
    return new VeiledStream(this.#needles)
  }

  text(text: string): string {
    const stream = this.stream()
    return this.#needles.length === 0 ? text : Buffer.concat([stream.take(Buffer.from(text)), stream.end()]).toString('utf8')
  }
}

export class VeiledStream {
  readonly #needles: readonly Needle[]
  /** What may be the beginning of a value, and so is not let through yet: less than the longest of them. */
  #held: Buffer = Buffer.alloc(0)
  /** So many of its bytes belong to a value that a name stands for already. */
  #covered = 0

  constructor(needles: readonly Needle[]) {
    this.#needles = needles
  }

  take(chunk: Buffer): Buffer {
    if (this.#needles.length === 0) return chunk
    const all = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk])
    return this.#upTo(all, this.#beginning(all))
  }

  /** The rest: no more comes. */
  end(): Buffer {
    return this.#upTo(this.#held, this.#held.length)
  }

  #upTo(all: Buffer, end: number): Buffer {
    const out: Buffer[] = []
    let [at, covered] = [this.#covered, 0]
    for (const { from, to, mark } of this.#found(all)) {
      if (from >= end) break
      if (from >= at) out.push(all.subarray(at, from), mark)
      at = Math.max(at, Math.min(to, end))
      covered = Math.max(covered, to - end)
    }
    if (at < end) out.push(all.subarray(at, end))
    this.#covered = Math.max(covered, at - end, 0)
    this.#held = Buffer.from(all.subarray(end)) // a copy: the chunk is not ours to keep
    return out.length === 1 && out[0] !== undefined ? out[0] : Buffer.concat(out)
  }

  /** All values that stand there whole, in order; of those that lie over each other, one. */
  #found(all: Buffer): Find[] {
    const finds: Find[] = []
    for (const { bytes, mark } of this.#needles)
      for (let from = all.indexOf(bytes); from !== -1; from = all.indexOf(bytes, from + 1))
        finds.push({ from, to: from + bytes.length, mark })
    finds.sort((a, b) => a.from - b.from || b.to - a.to)
    const joined: Find[] = []
    for (const find of finds) {
      const last = joined.at(-1)
      if (last !== undefined && find.from < last.to) last.to = Math.max(last.to, find.to)
      else joined.push(find)
    }
    return joined
  }

  /** Where the first value may begin of which only a part is there. */
  #beginning(all: Buffer): number {
    let first = all.length
    for (const { bytes } of this.#needles) {
      const [start = 0] = bytes
      for (
        let at = all.indexOf(start, Math.max(0, all.length - bytes.length + 1));
        at !== -1 && at < first;
        at = all.indexOf(start, at + 1)
      )
        if (all.compare(bytes, 0, all.length - at, at) === 0) first = at
    }
    return first
  }
}
