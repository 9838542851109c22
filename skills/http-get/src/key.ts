// What something is kept under: paths hold characters that keys do not, and may be longer.

/** FNV-1a and the path's end. Two paths may meet, so whoever reads under a key looks whose it is. */
export function keyOf(path: string): string {
  let hash = 0x811c9dc5
  for (const byte of new TextEncoder().encode(path)) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0
  return `read/${hash.toString(16).padStart(8, '0')}-${path.replace(/[^A-Za-z0-9]/g, '-').slice(-60)}`
}
