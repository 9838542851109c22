// Commands with which operators list, read and answer approvals.

import { err, ok } from '../../shared/result.ts'
import type { Command, CommandContext, CommandResult } from '../shell/command.ts'
import { command, usage } from '../shell/command.ts'
import type { Paint } from '../shell/terminal-text.ts'
import { listing, time } from '../shell/terminal-text.ts'
import { ALIKE, answerIdentical } from './answer-identical.ts'
import { approveEdited, EDIT_FLAGS } from './edit-arguments.ts'
import { showApproval } from './render.ts'
import { STANDING_FLAGS, scopeOf } from './standing.ts'
import { watch } from './watch.ts'

const ID = { APPROVAL: 'the approval’s id' } as const
const REASON = { value: 'TEXT', what: 'why; shown to the agent and kept in the journal' } as const

const DIGEST = {
  value: 'DIGEST',
  what: 'the digest that `approvals show` printed; needed if somebody has changed the arguments',
} as const

const STATUSES = ['pending', 'ended', 'all'] as const
const isStatus = (text: string): text is (typeof STATUSES)[number] =>
  STATUSES.some((status) => status === text)

const list = command({
  words: ['approvals', 'list'],
  args: {},
  flags: {
    status: { value: 'STATUS', what: 'pending, ended or all (default: pending)' },
    each: {
      what: 'one line per approval; without it, identical pending approvals share a line with their number',
    },
  },
  does: 'List approvals, newest first',
  key: 'operator',
  async run({ flags, api, paint }) {
    const status = flags.status ?? 'pending'
    if (!isStatus(status)) return err(usage(`\`--status\` must be one of ${STATUSES.join(', ')}`))
    const alike = status === 'pending' && !flags.each ? 'once' : 'each'
    const page = await api('listApprovals', { query: { status, alike } })
    if (!page.ok) return page
    const rows = page.value.items.map(
      ({ id, status, expires_at, prompt: { risk, agent, title }, alike = 1, url }) => [
        id,
        status,
        risk,
        agent,
        String(alike),
        time(expires_at),
        title,
        url ?? '',
      ],
    )
    const none = status === 'pending' ? 'no pending approvals' : 'no approvals'
    const text = listing(
      paint,
      ['approval', 'status', 'risk', 'agent', 'identical', 'expires', 'call', 'link'],
      rows,
      none,
    )
    return ok({ ok: true, json: page.value.items, text })
  },
})

const show = command({
  words: ['approvals', 'show'],
  args: ID,
  flags: {},
  does: 'Show an approval: what would run, for which agent, and why policy asks',
  key: 'operator',
  async run({ args, api, paint }) {
    const read = await api('readApproval', { params: { id: args.APPROVAL } })
    return read.ok ? ok({ ok: true, json: read.value, text: showApproval(read.value, paint) }) : read
  },
})

const approve = command({
  words: ['approvals', 'approve'],
  args: ID,
  flags: { reason: REASON, digest: DIGEST, alike: ALIKE, ...STANDING_FLAGS, ...EDIT_FLAGS },
  does: 'Approve the call that the approval shows: exactly this call, once, unless flags say otherwise',
  key: 'operator',
  async run({ args, flags, api, paint }) {
    const { arguments: changed } = flags
    if (changed !== undefined)
      return approveEdited(api, paint, args.APPROVAL, { ...flags, arguments: changed })
    return flags['dry-run']
      ? err(usage('`--dry-run` needs `--arguments`'))
      : answer(api, paint, args.APPROVAL, 'approve', flags)
  },
})

const deny = command({
  words: ['approvals', 'deny'],
  args: ID,
  flags: { reason: REASON, alike: ALIKE, ...STANDING_FLAGS },
  does: 'Deny the call that the approval shows',
  key: 'operator',
  run: ({ args, flags, api, paint }) => answer(api, paint, args.APPROVAL, 'deny', flags),
})

const revokeLinks = command({
  words: ['approvals', 'revoke-links'],
  args: ID,
  flags: { of: { value: 'OPERATOR', what: 'revoke only this operator’s link (default: all links)' } },
  does: 'Revoke the links to an approval; it stays pending and can still be answered in other ways',
  key: 'operator',
  async run({ args, flags, api, paint }) {
    const query = flags.of === undefined ? {} : { of: flags.of }
    const done = await api('revokeLinks', { params: { id: args.APPROVAL }, query })
    return done.ok ? ok({ ok: true, json: done.value, text: showApproval(done.value, paint) }) : done
  },
})

type AnswerFlags = {
  reason: string | undefined
  digest?: string | undefined
  alike: string | undefined
  session: boolean
  for: string | undefined
}

async function answer(
  api: CommandContext['api'],
  paint: Paint,
  id: string,
  decision: 'approve' | 'deny',
  flags: AnswerFlags,
): CommandResult {
  const scope = scopeOf(flags)
  if (!scope.ok) return scope
  const shown = flags.digest === undefined ? {} : { digest: flags.digest }
  const body = { decision, reason: flags.reason ?? '', ...shown, ...scope.value }
  if (flags.alike !== undefined) return answerIdentical(api, id, flags.alike, body)
  const answered = await api('answerApproval', { params: { id }, body })
  return answered.ok
    ? ok({ ok: true, json: answered.value, text: showApproval(answered.value, paint) })
    : answered
}

export const APPROVALS: readonly Command[] = [list, show, approve, deny, watch, revokeLinks]
