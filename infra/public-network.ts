// Owns the network rules for messages of channels (N14): workerd may connect to public addresses
// only, not to this host's own addresses and not to IPv6 addresses that embed an IPv4 address.
// workerd checks each connection after name resolution.

import { networkInterfaces } from 'node:os'

/**
 * IPv6 ranges that embed IPv4 (compatible, NAT64, 6to4, Teredo) and could disguise a private
 * address as a public one.
 */
const EMBEDDED = ['::/96', '64:ff9b::/96', '64:ff9b:1::/48', '2002::/16', '2001::/32'] as const

/**
 * The host's current addresses. Fails open: an address that it gets later is only denied after the
 * next start.
 */
function ownAddresses(): string[] {
  const all = Object.values(networkInterfaces()).flatMap((addresses = []) => addresses)
  return all
    .filter(({ internal }) => !internal)
    .map(({ address, family }) => `${address}/${family === 'IPv4' ? 32 : 128}`)
}

/**
 * A `network` for workerd's configuration. `loopback` is for tests and the demo only, whose
 * servers are on this host.
 */
export function publicNetwork(loopback: boolean): string {
  const list = (items: readonly string[]): string =>
    `[${items.map((item) => JSON.stringify(item)).join(', ')}]`
  const allow = list(['public', ...(loopback ? ['127.0.0.1/32'] : [])])
  return `(allow = ${allow}, deny = ${list([...EMBEDDED, ...ownAddresses()])}, tlsOptions = (trustBrowserCas = true))`
}
