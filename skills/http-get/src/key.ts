// The storage key of a path: paths have characters that keys can't have, and may be longer.

/** FNV-1a and the path's end. Two paths may have the same key, so readers compare the stored path. */
export function keyOf(path: string): string {
  let hash = 0x811c9dc5
  for (const byte of new TextEncoder().encode(path)) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0
  return `read/${hash.toString(16).padStart(8, '0')}-${path.replace(/[^A-Za-z0-9]/g, '-').slice(-60)}`
}
