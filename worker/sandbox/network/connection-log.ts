// Owns the record of what a call asked of the network, as an attestation tells it: each attempt by itself as long as they are few, and
// sums of the rest. Pure. It judges nothing.

import { CONNECTIONS_TOLD, type Connection } from '../../../shared/plan/plan.ts'

/** Sums by host, port and verdict; whoever asks for more hosts than that gets one sum for each verdict. */
const SUMS = 128

/** What comes after the first is added up, and says of how many it is the sum. Every byte is in it. */
export function folded(entries: readonly Connection[]): readonly Connection[] {
  if (entries.length <= CONNECTIONS_TOLD) return entries
  const sums = new Map<string, Connection>()
  for (const entry of entries.slice(CONNECTIONS_TOLD)) {
    const own = JSON.stringify([entry.host, entry.port, entry.verdict])
    const [key, host, port] =
      sums.has(own) || sums.size < SUMS ? [own, entry.host, entry.port] : [entry.verdict, '', 0]
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
  return [...entries.slice(0, CONNECTIONS_TOLD), ...sums.values()]
}
