// Owns the first words of a TLS client: which server name does it ask for? Pure, over untrusted bytes. It terminates no TLS and reads
// nothing beyond the ClientHello (RFC 8446 §4.1.2, RFC 6066 §3).

/** A ClientHello with post-quantum key shares is under 2 KiB. */
const HELLO_MAX_BYTES = 16 * 1024
const RECORD_HEADER = 5
const HANDSHAKE = 22
const CLIENT_HELLO = 1
const SERVER_NAME = 0
/** Encrypted ClientHello: the real name is inside, so the outer one proves nothing. Refused. */
const ENCRYPTED_CLIENT_HELLO = 0xfe0d

/** more: not all of it is here yet. name: what it asks for, undefined if it names none. */
export type Hello =
  | { readonly kind: 'more' }
  | { readonly kind: 'name'; readonly name: string | undefined }
  | { readonly kind: 'malformed' }

const MORE: Hello = { kind: 'more' }
const MALFORMED: Hello = { kind: 'malformed' }

export function readClientHello(bytes: Buffer): Hello {
  const message = handshakeOf(bytes)
  if (!Buffer.isBuffer(message)) return message
  const reader = new Reader(message)
  reader.skip(4 + 2 + 32) // type and length, legacy_version, random
  reader.skip(reader.uint(1)) // legacy_session_id
  reader.skip(reader.uint(2)) // cipher_suites
  reader.skip(reader.uint(1)) // legacy_compression_methods
  const extensions = reader.part(reader.uint(2))
  let name: string | undefined
  while (extensions.left > 0 && !extensions.overrun) {
    const type = extensions.uint(2)
    const body = extensions.part(extensions.uint(2))
    if (type === ENCRYPTED_CLIENT_HELLO) return MALFORMED
    if (type !== SERVER_NAME) continue
    if (name !== undefined) return MALFORMED
    name = serverName(body)
    if (name === undefined) return MALFORMED
  }
  return reader.overrun || extensions.overrun ? MALFORMED : { kind: 'name', name }
}

/** The handshake message, put together from its records. */
function handshakeOf(bytes: Buffer): Buffer | Hello {
  const fragments: Buffer[] = []
  let have = 0
  for (let at = 0; ; ) {
    if (at >= HELLO_MAX_BYTES) return MALFORMED
    if (bytes.length > at && bytes[at] !== HANDSHAKE) return MALFORMED
    if (bytes.length < at + RECORD_HEADER) return MORE
    const length = bytes.readUInt16BE(at + 3)
    if (bytes[at + 1] !== 3 || length === 0 || length > HELLO_MAX_BYTES) return MALFORMED
    const fragment = bytes.subarray(at + RECORD_HEADER, at + RECORD_HEADER + length)
    fragments.push(fragment)
    have += fragment.length
    const message = Buffer.concat(fragments)
    if (message.length > 0 && message[0] !== CLIENT_HELLO) return MALFORMED
    if (message.length >= 4) {
      const whole = 4 + message.readUIntBE(1, 3)
      if (whole > HELLO_MAX_BYTES) return MALFORMED
      if (have >= whole) return have === whole ? message : MALFORMED
    }
    if (fragment.length < length) return MORE
    at += RECORD_HEADER + length
  }
}

/** One host_name, and nothing else. */
function serverName(body: Reader): string | undefined {
  const list = body.part(body.uint(2))
  const type = list.uint(1)
  const name = list.part(list.uint(2))
  if (type !== 0 || list.left > 0 || body.left > 0 || name.left === 0 || body.overrun || list.overrun || name.overrun) return undefined
  return name.text().toLowerCase()
}

/** Reads forward and never past the end: what is missing is zero, and `overrun` says so. */
class Reader {
  readonly #bytes: Buffer
  #at = 0
  overrun = false

  constructor(bytes: Buffer, overrun = false) {
    this.#bytes = bytes
    this.overrun = overrun
  }

  get left(): number {
    return this.#bytes.length - this.#at
  }

  uint(size: 1 | 2): number {
    const at = this.#at
    this.skip(size)
    return this.overrun ? 0 : this.#bytes.readUIntBE(at, size)
  }

  skip(count: number): void {
    if (count > this.left) this.overrun = true
    this.#at = Math.min(this.#at + count, this.#bytes.length)
  }

  part(count: number): Reader {
    const start = this.#at
    this.skip(count)
    return new Reader(this.#bytes.subarray(start, this.#at), this.overrun)
  }

  text(): string {
    return this.#bytes.toString('latin1', this.#at)
  }
}
