// Approving a call with changed arguments: prints the arguments to start from, previews the change,
// and sends an answer that is bound to that preview.

import { err, ok } from '../../shared/result.ts'
import type { Command, CommandContext, CommandResult } from '../shell/command.ts'
import { command, trouble, usage } from '../shell/command.ts'
import { ARGUMENTS, readArguments } from '../shell/json-input.ts'
import type { Paint } from '../shell/terminal-text.ts'
import { json } from '../shell/terminal-text.ts'
import { renderChanges, showApproval } from './render.ts'

/** For `approve`. */
export const EDIT_FLAGS = {
  arguments: {
    value: ARGUMENTS.value,
    what: 'approve with these arguments instead; start from the output of `approvals arguments`',
  },
  'dry-run': { what: 'with `--arguments`: show what would change and record nothing' },
} as const

type EditFlags = {
  arguments: string
  'dry-run': boolean
  reason: string | undefined
  digest: string | undefined
  alike: string | undefined
  session: boolean
  for: string | undefined
}

/**
 * The answer names the digests of the preview; if anything has changed since, the edge records
 * nothing.
 */
export async function approveEdited(
  api: CommandContext['api'],
  paint: Paint,
  id: string,
  flags: EditFlags,
): CommandResult {
  if (flags.session || flags.for !== undefined)
    return err(
      usage('changed arguments can be approved for this call only: leave out `--session` and `--for`'),
    )
  if (flags.alike !== undefined)
    return err(usage('changed arguments can be approved for this call only: leave out `--alike`'))
  const read = readArguments(flags.arguments, '--arguments')
  if (!read.ok) return read
  const preview = await api('previewAnswer', { params: { id }, body: { arguments: read.value } })
  if (!preview.ok) return preview
  const { digest, becomes, effect } = preview.value
  if (flags.digest !== undefined && flags.digest !== digest)
    return err(
      trouble(
        'outdated',
        `the call has changed since you were shown it; its digest is now \`${digest}\``,
        'run `approvals show` again',
      ),
    )
  const diff = `${paint.dim('changes:')}\n${renderChanges(preview.value, paint)}`
  const then =
    effect === 'ask'
      ? 'after your approval, others must approve too\n'
      : 'after your approval, the call runs\n'
  if (flags['dry-run']) return ok({ ok: true, json: preview.value, text: `${diff}${then}` })
  const body = {
    decision: 'approve' as const,
    reason: flags.reason ?? '',
    arguments: read.value,
    digest,
    becomes,
  }
  const answered = await api('answerApproval', { params: { id }, body })
  return answered.ok
    ? ok({ ok: true, json: answered.value, text: `${diff}${showApproval(answered.value, paint)}` })
    : answered
}

const printArguments = command({
  words: ['approvals', 'arguments'],
  args: { APPROVAL: 'the approval’s id' },
  flags: {},
  does: 'Print the arguments of an approval as JSON, for you to change; a masked value that you leave as printed is kept',
  key: 'operator',
  async run({ args, api }) {
    const read = await api('readArguments', { params: { id: args.APPROVAL } })
    return read.ok ? ok({ ok: true, json: read.value, text: json(read.value.arguments) }) : read
  },
})

export const EDITS: readonly Command[] = [printArguments]
