// What a human is shown, and the link that lets one human answer. Pure. The answer itself is the RunObject's to take.

import { createHmac, timingSafeEqual } from 'node:crypto'
import { PATTERNS } from '../shared/ids.ts'
import { canonical, sha256 } from '../shared/json.ts'
import { LIMITS } from '../shared/limits.ts'
import type { Plan } from '../shared/plan.ts'
import type { Approval, Decision, Tool } from '../shared/wire.ts'
import type { AskRecord } from './lifecycle.ts'

type Asked = { id: string; agent: string; tool: Tool; args: Record<string, unknown>; plan: Plan | null; decision: Decision; now: number }

export function askRecord({ id, agent, tool, args, plan, decision, now }: Asked): AskRecord {
  return {
    id,
    requestedAt: now,
    expiresAt: now + LIMITS.approval_ttl_s * 1000,
    answers: [],
    prompt: {
      title: `${agent} wants to run ${tool.name}`,
      agent,
      tool: tool.name,
      tool_version: tool.version,
      risk: riskOf(tool),
      plan: plan === null ? 'nothing runs' : planInWords(plan),
      arguments: readable(redact(args)),
      on_yes: 'exactly this call runs once; any change needs a new approval',
      policies: decision.policies,
      reason: decision.reason,
    },
  }
}

function riskOf({ capabilities }: Tool): Approval['prompt']['risk'] {
  if (capabilities.includes('secrets_read')) return 'critical'
  if (capabilities.includes('process_exec') || capabilities.includes('filesystem_write')) return 'high'
  return capabilities.includes('network') ? 'medium' : 'low'
}

function planInWords({ tier, executor, egress, workspace, limits }: Plan): string {
  const where = tier === 'C' ? 'in an isolated sandbox (tier C)' : 'as a limited process on the worker (tier B)'
  const network =
    egress.mode !== 'strict'
      ? 'with the network of the worker'
      : egress.hosts.length === 0
        ? 'without network'
        : `with network to ${egress.hosts.join(', ')} only`
  const folder = workspace === 'run' ? 'in the folder of its run' : 'in a folder of its own that is thrown away'
  return `${readable(redact(executor.argv))} ${where}, ${network}, ${folder}, for ${Math.ceil(limits.timeout_ms / 1000)} s at most`
}

const SECRET_KEY = /pass(?:word|wd|phrase)?|secret|token|api[_-]?key|authorization|cookie|credential|private[_-]?key/i
const SECRET_SHAPE =
  /(?:cs_(?:agent|operator|enrol)_[a-z0-9-]+_[0-9A-Z_]{20,}|xox[abeprs]-[\w-]{10,}|gh[opsu]_\w{20,}|github_pat_\w{20,}|sk-[\w-]{16,}|AKIA[0-9A-Z]{16}|AIza[\w-]{30,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)|\b(?:Bearer|Basic) [\w+/=.~-]{8,})/g

/** Secrets by the name of their member and by their shape, at any depth. What is hidden shows as its digest's beginning. */
export function redact(value: unknown, key = ''): unknown {
  if (SECRET_KEY.test(key) && value !== null && typeof value !== 'boolean')
    return hidden(typeof value === 'string' ? value : canonical(value))
  if (typeof value === 'string') return value.replace(SECRET_SHAPE, hidden)
  if (Array.isArray(value)) return value.map((item) => redact(item))
  if (typeof value === 'object' && value !== null)
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, redact(item, name)]))
  return value
}
const hidden = (secret: string): string => `«redacted, sha256 ${sha256(secret).slice(0, 12)}»`

const LONG = 2_000
/** Characters that make a text look like another: bidirectional controls, zero-width and invisible ones. */
const DECEIVING = /[\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e007f}]/gu

/** JSON for human eyes: nothing hidden at the end, nothing that renders as something else. */
function readable(value: unknown): string {
  const shortened = (item: unknown): unknown => {
    if (typeof item === 'string' && item.length > LONG) {
      return `${item.slice(0, LONG / 2)} … ${item.length - LONG} characters, sha256 of all ${sha256(item).slice(0, 16)} … ${item.slice(-LONG / 2)}`
    }
    if (Array.isArray(item)) return item.map(shortened)
    if (typeof item === 'object' && item !== null)
      return Object.fromEntries(Object.entries(item).map(([name, inner]) => [name, shortened(inner)]))
    return item
  }
  const text = JSON.stringify(shortened(value), null, Array.isArray(value) ? undefined : 2)
  return text.replace(DECEIVING, (char) => `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`)
}

// ── Links ─────────────────────────────────────────────────────────────────────────────────────────────────────────
//
// `<tenant>.<approval>.<approver>.<expiry>.<mac>`: useless for another approval, another approver or after expiry (P06,
// P07); the MAC covers the digest too, which the link does not show. Single use follows from the approval's own life.

export type Link = { tenant: string; approval: string; approver: string; expiresAt: number; mac: string }
type Bound = Omit<Link, 'mac'> & { digest: string }

const macOf = (key: Buffer, use: string, { tenant, approval, approver, expiresAt, digest }: Bound): Buffer =>
  createHmac('sha256', key).update(canonical({ use, tenant, approval, approver, expiresAt, digest })).digest()

export const linkFor = (key: Buffer, bound: Bound): string =>
  `${bound.tenant}.${bound.approval}.${bound.approver}.${bound.expiresAt.toString(36)}.${macOf(key, 'link', bound).toString('base64url')}`

/** The form's nonce: only who was shown the page has it. */
export const nonceFor = (key: Buffer, bound: Bound): string => macOf(key, 'form', bound).toString('base64url')

const LINK = /^([a-z0-9-]{1,32})\.(apr_[0-9A-Z]{26}_[0-9]{1,7})\.([a-z0-9_-]{1,64})\.([0-9a-z]{1,10})\.([A-Za-z0-9_-]{43})$/

/** Reads a link's parts; nothing is proven yet. */
export function readLink(text: string): Link | undefined {
  const match = LINK.exec(text)
  if (match === null) return undefined
  const [, tenant = '', approval = '', approver = '', expiry = '', mac = ''] = match
  return PATTERNS.tenant.test(tenant) && PATTERNS.approval.test(approval)
    ? { tenant, approval, approver, expiresAt: Number.parseInt(expiry, 36), mac }
    : undefined
}

export function macHolds(key: Buffer, use: 'link' | 'form', link: Link, digest: string, mac: string): boolean {
  const given = Buffer.from(mac, 'base64url')
  const expected = macOf(key, use, { ...link, digest })
  return given.byteLength === expected.byteLength && timingSafeEqual(given, expected) && expected.toString('base64url') === mac
}
