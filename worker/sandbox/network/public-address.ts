// Owns which IP addresses are public and which are internal. Pure; it resolves no names. Unknown
// forms, reserved ranges and tunnels that hide another address count as internal (N01, N02, N03,
// N04).

import { BlockList, isIPv4 } from 'node:net'

/** The IANA special-purpose registry, and services of clouds that have public addresses. */
const NOT_PUBLIC_V4: readonly (readonly [network: string, bits: number])[] = [
  ['0.0.0.0', 8], // this network
  ['10.0.0.0', 8], // private
  ['100.64.0.0', 10], // carrier-grade NAT; a cloud's metadata at 100.100.100.200
  ['127.0.0.0', 8], // loopback
  ['168.63.129.16', 32], // a cloud's host agent, reachable from any of its machines
  ['169.254.0.0', 16], // link-local; metadata at 169.254.169.254
  ['172.16.0.0', 12], // private
  ['192.0.0.0', 24], // protocol assignments; metadata at 192.0.0.192
  ['192.0.2.0', 24], // documentation
  ['192.88.99.0', 24], // 6to4 relays
  ['192.168.0.0', 16], // private
  ['198.18.0.0', 15], // benchmarks
  ['198.51.100.0', 24], // documentation
  ['203.0.113.0', 24], // documentation
  ['224.0.0.0', 4], // multicast
  ['240.0.0.0', 4], // reserved, broadcast
]

/**
 * Parts of 2000::/3 that are not global unicast. Everything outside 2000::/3 is refused without a
 * list, fd00:ec2::254 included.
 */
const NOT_PUBLIC_V6: readonly (readonly [network: string, bits: number])[] = [
  ['2001::', 23], // protocol assignments: Teredo (which hides an IPv4 address), ORCHID, benchmarks
  ['2001:db8::', 32], // documentation
  ['2002::', 16], // 6to4 hides an IPv4 address
  ['3fff::', 20], // documentation
]

const listOf = (ranges: readonly (readonly [string, number])[], family: 'ipv4' | 'ipv6'): BlockList => {
  const list = new BlockList()
  for (const [network, bits] of ranges) list.addSubnet(network, bits, family)
  return list
}
const refusedV4 = listOf(NOT_PUBLIC_V4, 'ipv4')
const refusedV6 = listOf(NOT_PUBLIC_V6, 'ipv6')

/**
 * The eight groups of an IPv6 address in any notation; undefined for anything else, a zone
 * (`%eth0`) included.
 */
function groupsOf(text: string): number[] | undefined {
  if (!URL.canParse(`http://[${text}]/`)) return undefined
  // WHATWG writes an embedded IPv4 address as two groups.
  const canonical = new URL(`http://[${text}]/`).hostname.slice(1, -1)
  const [head = '', tail] = canonical.split('::')
  const parse = (part: string): number[] =>
    part === '' ? [] : part.split(':').map((group) => Number.parseInt(group, 16))
  const [front, back] = [parse(head), parse(tail ?? '')]
  return tail === undefined
    ? front
    : [...front, ...new Array<number>(8 - front.length - back.length).fill(0), ...back]
}

const dotted = (high: number, low: number): string => `${high >> 8}.${high & 0xff}.${low >> 8}.${low & 0xff}`

export function isPublic(address: string): boolean {
  if (isIPv4(address)) return !refusedV4.check(address, 'ipv4')
  const groups = groupsOf(address)
  if (groups === undefined) return false
  const [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, high = 0, low = 0] = groups
  const zeroes = c === 0 && d === 0 && e === 0
  if (a === 0 && b === 0 && zeroes && f === 0xffff) return isPublic(dotted(high, low)) // IPv4-mapped: the kernel connects to the IPv4
  if (a === 0x64 && b === 0xff9b && zeroes && f === 0) return isPublic(dotted(high, low)) // NAT64 of an IPv6-only host
  return (a & 0xe000) === 0x2000 && !refusedV6.check(address, 'ipv6')
}
