// The part of Node's `Buffer` that shared/evidence uses, for runtimes without it.
// infra/clients/package.ts puts it in place of the global when it bundles `verify`. The texts were
// matched against the pattern of their encoding before, so that nothing here has to be lenient.

type Encoding = 'utf8' | 'hex' | 'base64' | 'base64url'

const utf8 = new TextEncoder()
const decoder = new TextDecoder()

export class Buffer extends Uint8Array {
  /**
   * Bytes of a text in its encoding, or a copy of bytes. The other parameters are those of
   * `Uint8Array.from`.
   */
  static override from(source: string | ArrayLike<unknown> | Iterable<unknown>, encoding?: unknown): Buffer {
    const bytes = typeof source === 'string' ? bytesOf(source, encoding as Encoding | undefined) : source // our callers name one
    return new Buffer(bytes as Uint8Array) // our callers pass bytes
  }

  static byteLength(text: string): number {
    return utf8.encode(text).length
  }

  static concat(parts: readonly Uint8Array[]): Buffer {
    const whole = new Buffer(parts.reduce((sum, { length }) => sum + length, 0))
    let at = 0
    for (const part of parts) {
      whole.set(part, at)
      at += part.length
    }
    return whole
  }

  override toString(encoding: Encoding = 'utf8'): string {
    if (encoding === 'utf8') return decoder.decode(this)
    if (encoding === 'hex') return Array.from(this, (byte) => byte.toString(16).padStart(2, '0')).join('')
    let binary = ''
    for (const byte of this) binary += String.fromCharCode(byte)
    const base64 = btoa(binary)
    return encoding === 'base64'
      ? base64
      : base64.replace(/[+/=]/g, (char) => ({ '+': '-', '/': '_' })[char] ?? '')
  }
}

function bytesOf(text: string, encoding: Encoding = 'utf8'): Uint8Array {
  if (encoding === 'utf8') return utf8.encode(text)
  if (encoding === 'hex') return Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16))
  const standard = text.replace(/[-_]/g, (char) => (char === '-' ? '+' : '/')).replace(/=+$/, '')
  // A text of an impossible length is neither a signature nor a key.
  if (standard.length % 4 === 1 || /[^A-Za-z0-9+/]/.test(standard)) return new Uint8Array()
  return Uint8Array.from(atob(standard), (char) => char.charCodeAt(0))
}
