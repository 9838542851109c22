// Matches hosts with the egress patterns of a plan. The proxy uses it before it connects, and the
// check of a statement uses it again, on hosts in which secrets are masked.

import { SIGNED_TEXT_CHARS } from '../bytes/signable-text.ts'

export type Destination = { readonly host: string; readonly port: number }

/** The ports of a pattern without a port. */
const WEB_PORTS: readonly number[] = [80, 443]
/** An IP address, as a URL parser prints it. */
const ADDRESS = /^[0-9.]+$|:/

/**
 * `host[:port]` matches that host; `.suffix[:port]` matches all names below it, but not the suffix.
 * It is compared label by label (N07), and never matches an IP address.
 */
export function matchesHost(pattern: string, { host, port }: Destination): boolean {
  const [name = '', only] = pattern.split(':')
  if (only === undefined ? !WEB_PORTS.includes(port) : Number(only) !== port) return false
  return name.startsWith('.')
    ? !ADDRESS.test(host) && host.endsWith(name) && host.length > name.length
    : host === name
}

export const isListed = (patterns: readonly string[], to: Destination): boolean =>
  patterns.some((pattern) => matchesHost(pattern, to))

/** Whether a host of a plan, `host[:port]` or a pattern, is within these patterns. */
export function isWithin(patterns: readonly string[], wanted: string): boolean {
  const [host = '', port] = wanted.split(':')
  const ports = port === undefined ? WEB_PORTS : [Number(port)]
  return patterns.some(
    (pattern) => pattern === wanted || ports.every((port) => matchesHost(pattern, { host, port })),
  )
}

/**
 * The host as a statement names it: secrets are masked, except in the part that the plan itself
 * names. So a masked host can still be compared with the plan.
 */
export function maskedHost(
  patterns: readonly string[],
  to: Destination,
  mask: (text: string) => string,
): string {
  const [named = ''] = patterns.find((pattern) => matchesHost(pattern, to))?.split(':') ?? []
  if (named === to.host) return named
  const text = mask(to.host)
  const whole = text.endsWith(named) ? text : `${text.slice(0, text.lastIndexOf('»') + 1)}${named}`
  return whole.length > SIGNED_TEXT_CHARS.host ? `«…»${named}` : whole
}
