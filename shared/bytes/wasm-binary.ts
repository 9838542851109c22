// Reads and writes the numbers and byte vectors of WebAssembly's binary format, with every bound
// checked. Sections and instructions are left to the callers.

/** A module may be hostile. Code that parses one catches this error and refuses the module. */
export class MalformedBinary extends Error {}

export class BinaryReader {
  readonly #bytes: Uint8Array
  readonly end: number
  at: number

  constructor(bytes: Uint8Array, at = 0, end = bytes.length) {
    this.#bytes = bytes
    this.at = at
    this.end = end
  }

  get done(): boolean {
    return this.at >= this.end
  }

  u8(): number {
    const byte = this.at < this.end ? this.#bytes[this.at++] : undefined
    if (byte === undefined) throw new MalformedBinary(`it ends early, at byte ${this.at}`)
    return byte
  }

  peek(): number {
    const byte = this.u8()
    this.at -= 1
    return byte
  }

  u32(): number {
    let value = 0
    for (let shift = 0; shift < 35; shift += 7) {
      const byte = this.u8()
      if (shift === 28 && byte > 0x0f) break
      value += (byte & 0x7f) * 2 ** shift
      if (byte < 0x80) return value
    }
    throw new MalformedBinary(`the number at byte ${this.at} is too long`)
  }

  /** Skips a signed number of at most that many bits. */
  skipSigned(bits: 32 | 33 | 64): void {
    for (let left = Math.ceil(bits / 7); left > 0; left--) if (this.u8() < 0x80) return
    throw new MalformedBinary(`the number at byte ${this.at} is too long`)
  }

  skip(count: number): void {
    if (count > this.end - this.at) throw new MalformedBinary(`it ends early, at byte ${this.end}`)
    this.at += count
  }

  /** A reader for the next `count` bytes alone. */
  part(count: number): BinaryReader {
    const from = this.at
    this.skip(count)
    return new BinaryReader(this.#bytes, from, this.at)
  }

  slice(from: number, to: number): Uint8Array {
    return this.#bytes.subarray(from, to)
  }

  /** A vector: its announced number of items, each of at least one byte. */
  times(read: (index: number) => void): number {
    const count = this.u32()
    if (count > this.end - this.at) throw new MalformedBinary(`it announces ${count} items and ends early`)
    for (let index = 0; index < count; index++) read(index)
    return count
  }
}

export class BinaryWriter {
  #bytes = new Uint8Array(1024)
  #length = 0

  get length(): number {
    return this.#length
  }

  u8(...bytes: readonly number[]): this {
    return this.raw(bytes)
  }

  raw(bytes: ArrayLike<number>): this {
    const length = this.#length + bytes.length
    if (length > this.#bytes.length) {
      const larger = new Uint8Array(Math.max(length, 2 * this.#bytes.length))
      larger.set(this.#bytes.subarray(0, this.#length))
      this.#bytes = larger
    }
    this.#bytes.set(bytes, this.#length)
    this.#length = length
    return this
  }

  u32(value: number): this {
    return this.raw(leb(value))
  }

  /** Signed LEB128. */
  s64(value: number): this {
    const bytes: number[] = []
    let rest = BigInt(value)
    for (;;) {
      const byte = Number(rest & 0x7fn)
      rest >>= 7n
      const last = (rest === 0n && byte < 0x40) || (rest === -1n && byte >= 0x40)
      bytes.push(last ? byte : byte | 0x80)
      if (last) return this.raw(bytes)
    }
  }

  /** Writes a length prefix and then the part. */
  sized(part: BinaryWriter): this {
    const bytes = part.bytes()
    return this.u32(bytes.length).raw(bytes)
  }

  text(text: string): this {
    return this.sized(new BinaryWriter().raw(new TextEncoder().encode(text)))
  }

  bytes(): Uint8Array {
    return this.#bytes.subarray(0, this.#length)
  }
}

function leb(value: number): number[] {
  const bytes: number[] = []
  for (let rest = value; ; rest = Math.floor(rest / 128)) {
    if (rest < 128) {
      bytes.push(rest)
      return bytes
    }
    bytes.push((rest % 128) | 0x80)
  }
}
