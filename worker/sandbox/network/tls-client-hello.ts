// Owns the parser of a TLS ClientHello: which server name does the client ask for (RFC 8446 §4.1.2,
// RFC 6066 §3)? Pure, over untrusted bytes.

/** A ClientHello with post-quantum key shares is under 2 KiB. */
const HELLO_MAX_BYTES = 16 * 1024
/** Clients send it in one record, a few in two or three. Smaller pieces would only cost us time. */
const RECORDS_MAX = 8
const RECORD_BYTES_MIN = 16
const RECORD_HEADER = 5
const HANDSHAKE = 22
const CLIENT_HELLO = 1
const SERVER_NAME = 0
/** Encrypted ClientHello is refused: the real name is inside, so the outer one proves nothing. */
const ENCRYPTED_CLIENT_HELLO = 0xfe0d

/**
 * more: call again with at least `need` bytes. name: the requested server name, undefined if there
 * is none.
 */
export type Hello =
  | { readonly kind: 'more'; readonly need: number }
  | { readonly kind: 'name'; readonly name: string | undefined }
  | { readonly kind: 'malformed' }

const more = (need: number): Hello => ({ kind: 'more', need })
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

/**
 * Joins the handshake message from its records. A caller that waits for `need` bytes calls at most
 * twice for each record.
 */
function handshakeOf(bytes: Buffer): Buffer | Hello {
  const fragments: Buffer[] = []
  let have = 0
  for (let at = 0; fragments.length < RECORDS_MAX; ) {
    if (bytes.length > at && bytes[at] !== HANDSHAKE) return MALFORMED
    const start = at + RECORD_HEADER
    if (bytes.length < start) return more(start)
    const length = bytes.readUInt16BE(at + 3)
    have += length
    if (bytes[at + 1] !== 3 || length === 0 || have > HELLO_MAX_BYTES) return MALFORMED
    if (have < RECORD_BYTES_MIN) return MALFORMED // the first record must hold the message's length
    at = start + length
    if (bytes.length < at) return more(at)
    fragments.push(bytes.subarray(start, at))
    const [first] = fragments
    if (first?.[0] !== CLIENT_HELLO) return MALFORMED
    const whole = 4 + first.readUIntBE(1, 3)
    if (have === whole) return Buffer.concat(fragments)
    if (have > whole || length < RECORD_BYTES_MIN) return MALFORMED
  }
  return MALFORMED
}

/** Accepts exactly one host_name. */
function serverName(body: Reader): string | undefined {
  const list = body.part(body.uint(2))
  const type = list.uint(1)
  const name = list.part(list.uint(2))
  if (
    type !== 0 ||
    list.left > 0 ||
    body.left > 0 ||
    name.left === 0 ||
    body.overrun ||
    list.overrun ||
    name.overrun
  )
    return undefined
  return name.text().toLowerCase()
}

/** Reads forward and never past the end: missing bytes read as zero and set `overrun`. */
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
