// What a human is shown, and the link that lets one human answer. Pure. The answer itself is the RunObject's to take.

import { createHmac, timingSafeEqual } from 'node:crypto'
import { DECEIVING } from '../shared/deceiving.ts'
import type { Change } from '../shared/explanation.ts'
import { PATTERNS } from '../shared/ids.ts'
import { canonical, sha256 } from '../shared/json.ts'
import { LIMITS } from '../shared/limits.ts'
import { broughtBy, type Plan, type ProcessPlan, type SkillPlan } from '../shared/plan.ts'
import type { Approval, Decision, Tool } from '../shared/wire.ts'
import { interprets, programOf } from './interpreters.ts'
import type { AskRecord } from './lifecycle.ts'
import type { Redaction } from './redaction.ts'
import { inWords, rated, wantsMore } from './risk.ts'

type Asked = {
  id: string
  agent: string
  tool: Tool
  args: Record<string, unknown>
  plan: Plan | null
  decision: Decision
  /** The answers of humans that would allow the call, in the words an operator may read; each one is enough. */
  needs: readonly (readonly Change[])[]
  /** What an answer that stands would cover, and for how long policy lets one stand. */
  standing: NonNullable<Approval['prompt']['standing']> | null
  now: number
  redaction: Redaction
}

export function askRecord({ id, agent, tool, args, plan, decision, needs, standing, now, redaction }: Asked): AskRecord {
  const shown = plan === null ? null : shownPlan(plan, redaction)
  const brought = broughtBy(shown)
  const { risk, ground } = rated(tool, plan, needs)
  return {
    id,
    requestedAt: now,
    expiresAt: now + (tool.approval_ttl_s ?? LIMITS.approval_ttl_s) * 1000,
    answers: [],
    prompt: {
      title: `${agent} wants to run ${tool.name}`,
      agent,
      tool: tool.name,
      tool_version: tool.version,
      risk,
      risk_ground: ground,
      command: plan === null || plan.tier === 'A' ? '' : readable(redaction.ofArgv(plan.executor.argv, args)),
      plan: shown === null ? 'nothing runs' : planInWords(shown),
      arguments: readable(redaction.of(args)),
      ...(brought === undefined ? {} : { files: brought }),
      on_yes: onYes(needs),
      ...(standing === null ? {} : { standing }),
      policies: decision.policies,
      reason: decision.reason,
    },
  }
}

const OUTCOME = 'exactly this call runs once; any change needs a new approval'

/** True for every reader: an approver who is asked may not be one whom policy wants. */
function onYes(needs: readonly (readonly Change[])[]): string {
  return wantsMore(needs) ? `policy wants ${inWords(needs)}; with that, ${OUTCOME}, and any other yes does not let it run` : OUTCOME
}

/** For one approver: the effect that their own yes would have now, and what policy would still want after it. */
export function onYesOf({ effect, reason }: Decision, needs: readonly (readonly Change[])[]): string {
  if (effect === 'allow') return OUTCOME
  if (effect === 'deny') return `policy does not accept your yes given this way: ${reason}`
  return `your yes alone does not let it run: policy still wants ${needs.length === 0 ? 'more than that' : inWords(needs)}; with that, ${OUTCOME}`
}

/** How long a yes may stand, the longest first: that of a session, then those that are offered by the minute. */
export const SPANS: readonly number[] = [LIMITS.standing_s, 3_600, 600, 60]
/** As many by the minute as there is room for, the longest that policy lets stand. */
const offered = (most: number): number[] => SPANS.filter((seconds) => seconds < LIMITS.standing_s && seconds <= most).slice(0, 2)

/** What may be answered; no comes first, and is the default. */
export function optionsFor({ standing }: Approval['prompt']): Approval['options'] {
  const most = standing?.most_s ?? 0
  return [
    { decision: 'deny', scope: 'once', default: true },
    { decision: 'approve', scope: 'once' },
    ...(standing === undefined ? [] : [{ decision: 'deny', scope: 'session' } as const]),
    ...offered(most).map((ttl_s) => ({ decision: 'approve', scope: 'timeboxed', ttl_s }) as const),
    ...(most < LIMITS.standing_s ? [] : [{ decision: 'approve', scope: 'session' } as const]),
  ]
}

/**
 * A plan without secrets in what an agent can name there. Text by text, not as words: what looks like a secret over several would hide what
 * is said between them.
 */
export function shownPlan(plan: Plan, redaction: Redaction): Plan {
  if (plan.tier === 'A') return plan // no agent names anything in it
  const shown = (text: string): string => String(redaction.of(text))
  const { egress, executor, files, credentials } = plan
  return {
    ...plan,
    executor: { ...executor, argv: executor.argv.map(shown) },
    egress: { ...egress, hosts: egress.hosts.map(shown) },
    ...(credentials === undefined ? {} : { credentials: credentials.map((one) => ({ ...one, host: shown(one.host) })) }),
    ...(files === undefined ? {} : { files: files.map((one) => ({ ...one, path: shown(one.path) })) }),
  }
}

function planInWords(plan: Plan): string {
  if (plan.tier === 'A') {
    const { fuel, timeout_ms } = plan.limits
    return `${reachInWords(plan)}, for ${Math.ceil(timeout_ms / 1000)} s and ${fuel.toLocaleString('en')} units of fuel at most`
  }
  const { timeout_ms, net_bytes } = plan.limits
  const relayed = plan.egress.mode === 'strict' && plan.egress.hosts.length > 0 && net_bytes !== undefined
  const traffic = relayed ? ` and ${Math.ceil(net_bytes / 1024 ** 2).toLocaleString('en')} MiB of traffic` : ''
  return `${reachInWords(plan)}${filesInWords(plan)}${plan.outputs === true ? ', keeping the files that it leaves' : ''}, for ${Math.ceil(timeout_ms / 1000)} s${traffic} at most${interpreterInWords(plan)}`
}

/** The command line alone doesn't show what it does: the approver has to read the arguments as a program. */
function interpreterInWords({ executor: { argv } }: ProcessPlan): string {
  const does = interprets(argv)
  return does === undefined ? '' : `. ${quoted(programOf(argv))} is an interpreter: ${does}`
}

/** By name and content: whoever says yes says it to these bytes. */
const filesInWords = ({ files = [] }: ProcessPlan): string =>
  files.length === 0
    ? ''
    : `, with files that the agent brings: ${files.map(({ path, bytes, sha256 }) => `\`${quoted(path)}\` (${bytes} bytes, sha256 ${sha256})`).join(', ')}`

/** Where it runs and what it can touch. */
export function reachInWords(plan: Plan): string {
  if (plan.tier === 'A') return skillInWords(plan)
  const { tier, egress, profile, secrets, credentials = [], workspace } = plan
  const where = tier === 'C' ? 'in an isolated sandbox (tier C)' : 'as a limited process on the worker (tier B)'
  const network =
    egress.mode !== 'strict'
      ? 'with the network of the worker'
      : egress.hosts.length === 0
        ? 'without network'
        : `with network to ${egress.hosts.join(', ')} only`
  const folder = workspace === 'run' ? 'in the folder of its run' : 'in a folder of its own that is thrown away'
  const given = secrets.length === 0 ? '' : `, with the secrets ${secrets.join(', ')}`
  const added = credentials
    .map(
      ({ secret, host, tls }) =>
        `, with the secret ${secret} added to what it asks of ${host}${tls === undefined ? '' : ', whose TLS our proxy reads'}`,
    )
    .join('')
  const seen = profile === undefined ? '' : ` with what the profile ${profile} adds`
  return `${where}${seen}, ${network}${added}${given}, ${folder}`
}

/** By its digest: the name is its publisher's to choose. */
function skillInWords({ executor, egress, secrets, credentials = [] }: SkillPlan): string {
  const { skill, version, digest, tool, capabilities, methods = [], kv = [], channels = [] } = executor
  const plain = capabilities.filter((name) => name === 'log' || name === 'clock' || name === 'random')
  const reach = [
    egress.hosts.length === 0 ? 'without network' : `with requests (${methods.join(', ')}) to ${egress.hosts.join(', ')} only`,
    ...credentials.map(({ secret, host }) => `with the secret ${secret} added to what it asks of ${host}`),
    ...(secrets.length === 0 ? [] : [`with the secrets ${secrets.join(', ')}`]),
    ...(kv.length === 0 ? [] : [`with its storage${kv.includes('') ? '' : ` under ${kv.join(', ')}`}`]),
    ...(channels.length === 0 ? [] : [`posting to ${channels.join(', ')}`]),
    plain.length === 0 ? 'with nothing else of its host' : `with ${plain.join(', ')} of its host`,
  ]
  return `in an isolate of the edge (tier A), \`${tool}\` of the skill \`${skill}\` ${version} (sha256 ${digest}), ${reach.join(', ')}`
}

const EACH_DECEIVING = new RegExp(DECEIVING, 'gu')

/** How long one text of the arguments may be on a card; the first under which the whole fits is taken. */
const LENGTHS = [2_000, 400, 80]

/** Whether a card's text was shortened, or may have been: an agent can write what a shortened one says. */
const isShortened = (text: string): boolean => text.includes(' characters more, sha256 of all ')
export const needsUnfolding = ({ command, arguments: args }: Approval['prompt']): boolean => [command, args].some(isShortened)

/** One of a card's texts with nothing left out but secrets, in parts that a page can hold. */
export type Unfolded = { readonly title: string; readonly characters: number; readonly parts: readonly string[] }

/** What was shortened on the card, whole: made of the stored call, as the card was. */
export function unfolded(prompt: Approval['prompt'], args: Record<string, unknown>, plan: Plan | null, redaction: Redaction): Unfolded[] {
  const texts: (readonly [title: string, shown: string, value: unknown])[] = [
    ['The whole command line', prompt.command, plan === null || plan.tier === 'A' ? [] : redaction.ofArgv(plan.executor.argv, args)],
    ['The whole arguments', prompt.arguments, redaction.of(args)],
  ]
  return texts
    .filter(([, shown]) => isShortened(shown))
    .map(([title, , value]) => {
      const text = written(JSON.stringify(value, null, 2))
      const parts = text.match(new RegExp(`[\\s\\S]{1,${LIMITS.page_chars}}`, 'gu')) ?? []
      return { title, characters: text.length, parts }
    })
}

/** JSON in which everything shows as what it is, and that means the same. */
export const unambiguous = (json: string): string =>
  json.replace(EACH_DECEIVING, (char) =>
    Array.from({ length: char.length }, (_, i) => `\\u${char.charCodeAt(i).toString(16).padStart(4, '0')}`).join(''),
  )

/** Whatever would not show as what it is, as its number. */
export const written = (text: string): string => text.replace(EACH_DECEIVING, (char) => `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`)

/** JSON for human eyes: nothing renders as something else, and what is left out says how much and what it digests to. */
export function readable(value: unknown): string {
  const indent = Array.isArray(value) ? undefined : 2
  const whole = JSON.stringify(value, null, indent)
  const texts = whole.length <= LIMITS.card_chars ? LENGTHS.slice(0, 1) : LENGTHS
  const fitting = texts
    .map((length) => JSON.stringify(shortened(value, length), null, indent))
    .find(({ length }) => length <= LIMITS.card_chars)
  return written(fitting ?? cut(whole, LIMITS.card_chars))
}

/** A text inside of our words: it ends where its quotes do, and no mark of ours is in it. */
export const quoted = (text: string): string => unticked(readable(text))
export const unticked = (text: string): string => text.replaceAll('`', '\\u{60}')

/** Head and tail: what matters is often put last. Well-formed: half a character is none, and not every receiver takes one. */
export function cut(text: string, length: number): string {
  if (text.length <= length) return text
  const half = Math.floor(length / 2)
  const [head, tail] = [text.slice(0, half).toWellFormed(), text.slice(-half).toWellFormed()]
  return `${head} … ${text.length - 2 * half} characters more, sha256 of all ${sha256(text).slice(0, 16)} … ${tail}`
}

function shortened(value: unknown, length: number): unknown {
  if (typeof value === 'string') return cut(value, length)
  if (Array.isArray(value)) return value.map((item) => shortened(item, length))
  if (typeof value === 'object' && value !== null)
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [cut(name, length), shortened(item, length)]))
  return value
}

// ── Links ─────────────────────────────────────────────────────────────────────────────────────────────────────────
//
// `<tenant>.<approval>.<approver>.<expiry>.<mac>`: useless for another approval, another approver or after expiry (P06,
// P07); the MAC covers the digest too, and the hash of the approver's key, which the link does not show: whoever has another key, or the
// name anew, has none of its links. Single use follows from the approval's own life.

export type Link = { tenant: string; approval: string; approver: string; expiresAt: number; mac: string }
type Unseen = { digest: string; approverKey: string }
type Bound = Omit<Link, 'mac'> & Unseen

const macOf = (key: Buffer, use: string, { tenant, approval, approver, approverKey, expiresAt, digest }: Bound): Buffer =>
  createHmac('sha256', key)
    .update(canonical({ use, tenant, approval, approver, approver_key: approverKey, expiresAt, digest }))
    .digest()

export const linkFor = (key: Buffer, bound: Bound): string =>
  `${bound.tenant}.${bound.approval}.${bound.approver}.${bound.expiresAt.toString(36)}.${macOf(key, 'link', bound).toString('base64url')}`

/** The form's nonce: only who was shown the page has it. */
export const nonceFor = (key: Buffer, bound: Bound): string => macOf(key, 'form', bound).toString('base64url')

/** What a channel gets back with a button of its own: of this channel, where a link names its approver. */
export const sealFor = (
  key: Buffer,
  use: string,
  { channel, ...bound }: Omit<Bound, 'approver' | 'approverKey'> & { channel: string },
): string => macOf(key, `channel ${use}`, { ...bound, approver: channel, approverKey: '' }).toString('base64url')

const LINK = /^([a-z0-9-]{1,32})\.(apr_[0-9A-Z]{26}_[0-9]{1,7})\.([a-z][a-z0-9_.-]{0,63})\.([0-9a-z]{1,10})\.([A-Za-z0-9_-]{43})$/

/** Whether this approver's link was taken back. What is not shown to whoever holds it now, they do not learn. */
export const isRevoked = ({ links_revoked = [] }: Pick<Approval, 'links_revoked'>, approver: string): boolean =>
  links_revoked === 'all' || links_revoked.includes(approver)

/** Reads a link's parts; nothing is proven yet. */
export function readLink(text: string): Link | undefined {
  const match = LINK.exec(text)
  if (match === null) return undefined
  const [, tenant = '', approval = '', approver = '', expiry = '', mac = ''] = match
  return PATTERNS.tenant.test(tenant) && PATTERNS.approval.test(approval)
    ? { tenant, approval, approver, expiresAt: Number.parseInt(expiry, 36), mac }
    : undefined
}

export const macHolds = (key: Buffer, use: 'link' | 'form', link: Link, unseen: Unseen, mac: string): boolean =>
  sameText(macOf(key, use, { ...link, ...unseen }).toString('base64url'), mac)

/** In a time that tells nothing of where they differ. */
export function sameText(expected: string, given: string): boolean {
  const [left, right] = [Buffer.from(expected), Buffer.from(given)]
  return left.byteLength === right.byteLength && timingSafeEqual(left, right)
}
