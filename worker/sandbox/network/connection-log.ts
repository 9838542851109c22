// Owns the list of a call's connections as its attestation records it: the first attempts one by
// one, the rest as sums. Pure.

import { type Connection, MAX_LISTED_CONNECTIONS, MAX_SUMMED_CONNECTIONS } from '../../../shared/plan/plan.ts'

/**
 * Sums the entries after the first `MAX_LISTED_CONNECTIONS`. `folded` counts them; every byte is
 * included.
 */
export function foldConnections(entries: readonly Connection[]): readonly Connection[] {
  if (entries.length <= MAX_LISTED_CONNECTIONS) return entries
  const sums = new Map<string, Connection>()
  for (const entry of entries.slice(MAX_LISTED_CONNECTIONS)) {
    const own = JSON.stringify([entry.host, entry.port, entry.verdict])
    const [key, host, port] =
      sums.has(own) || sums.size < MAX_SUMMED_CONNECTIONS
        ? [own, entry.host, entry.port]
        : [entry.verdict, '', 0]
    const sum = sums.get(key)
    sums.set(key, {
      host,
      port,
      address: sum === undefined || sum.address === entry.address ? entry.address : '',
      bytes_out: (sum?.bytes_out ?? 0) + entry.bytes_out,
      bytes_in: (sum?.bytes_in ?? 0) + entry.bytes_in,
      verdict: entry.verdict,
      folded: (sum?.folded ?? 0) + 1,
    })
  }
  return [...entries.slice(0, MAX_LISTED_CONNECTIONS), ...sums.values()]
}
