// Owns which addresses the edge's workerd may write to for its channels (N14): what is public, and neither this host by another address
// of its own nor an address that holds one of IPv4 inside. workerd asks it at each connection, of what a name has resolved to.

import { networkInterfaces } from 'node:os'

/** IPv4 inside of IPv6 (compatible, NAT64, 6to4, Teredo): by these a private address could be written as a public one. */
const EMBEDDED = ['::/96', '64:ff9b::/96', '64:ff9b:1::/48', '2002::/16', '2001::/32'] as const

/** As this host has them now: an address that it gets later is not among them before the next start. */
function ownAddresses(): string[] {
  const all = Object.values(networkInterfaces()).flatMap((addresses = []) => addresses)
  return all
    .filter(({ internal }) => !internal)
    .map(({ address, family }) => `${address}/${family === 'IPv4' ? 32 : 128}`)
}

/** A `network` in workerd's configuration. `loopback`: for tests alone, which stand in for the outside on this host. */
export function outsideNetwork(loopback: boolean): string {
  const list = (items: readonly string[]): string =>
    `[${items.map((item) => JSON.stringify(item)).join(', ')}]`
  const allow = list(['public', ...(loopback ? ['127.0.0.1/32'] : [])])
  return `(allow = ${allow}, deny = ${list([...EMBEDDED, ...ownAddresses()])}, tlsOptions = (trustBrowserCas = true))`
}
