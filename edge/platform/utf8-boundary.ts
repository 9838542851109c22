// Where text that comes in pieces may be cut. Pure; what the text is, it does not know.

/** How many bytes of a text that is cut somewhere are whole characters of UTF-8. What is no text is taken as it is. */
export function wholeCharacters(bytes: Uint8Array): number {
  const { byteLength } = bytes
  for (let back = 1; back <= Math.min(3, byteLength); back++) {
    const byte = bytes[byteLength - back] ?? 0
    if ((byte & 0xc0) === 0x80) continue
    const needs = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1
    return needs > back ? byteLength - back : byteLength
  }
  return byteLength
}
