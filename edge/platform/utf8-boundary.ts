// Finds UTF-8 character boundaries in bytes that arrive in pieces. Pure.

/**
 * The number of leading bytes that end with a complete UTF-8 character. Invalid bytes count as
 * complete.
 */
export function completeUtf8Length(bytes: Uint8Array): number {
  const { byteLength } = bytes
  for (let back = 1; back <= Math.min(3, byteLength); back++) {
    const byte = bytes[byteLength - back] ?? 0
    if ((byte & 0xc0) === 0x80) continue
    const needs = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1
    return needs > back ? byteLength - back : byteLength
  }
  return byteLength
}
