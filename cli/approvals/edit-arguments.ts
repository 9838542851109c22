// Saying yes to other arguments than the agent's: what an operator starts from, what a change would come to, and the answer that binds it.

import { err, ok } from '../../shared/result.ts'
import type { Answer, Command, Given } from '../shell/command.ts'
import { command, trouble, usage } from '../shell/command.ts'
import { ARGUMENTS, readArguments } from '../shell/json-input.ts'
import type { Paint } from '../shell/terminal-text.ts'
import { json } from '../shell/terminal-text.ts'
import { changesInWords, showApproval } from './render.ts'

/** For `approve`. */
export const EDIT_FLAGS = {
  arguments: {
    value: ARGUMENTS.value,
    what: 'yes to these arguments instead, whole; start from `approvals arguments`',
  },
  'dry-run': { what: 'with `--arguments`: show what would change, and record nothing' },
} as const

type Changing = {
  arguments: string
  'dry-run': boolean
  reason: string | undefined
  digest: string | undefined
  alike: string | undefined
  session: boolean
  for: string | undefined
}

/** The answer is to what the preview told: if anything is otherwise by then, nothing is recorded. */
export async function approveChanged(api: Given['api'], paint: Paint, id: string, flags: Changing): Answer {
  if (flags.session || flags.for !== undefined)
    return err(usage('a yes to changed arguments is for that call alone'))
  if (flags.alike !== undefined)
    return err(usage('changed arguments are of one call: `--alike` does not go with `--arguments`'))
  const read = readArguments(flags.arguments, '--arguments')
  if (!read.ok) return read
  const preview = await api('previewAnswer', { params: { id }, body: { arguments: read.value } })
  if (!preview.ok) return preview
  const { digest, becomes, effect } = preview.value
  if (flags.digest !== undefined && flags.digest !== digest)
    return err(
      trouble(
        'outdated',
        `this is not the call that you were shown: its digest is \`${digest}\``,
        'look at `approvals show` again',
      ),
    )
  const diff = `${paint.dim('changes:')}\n${changesInWords(preview.value, paint)}`
  const then = effect === 'ask' ? 'with your yes others are still asked\n' : 'with your yes it runs\n'
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
  does: 'Print an approval’s arguments as JSON, to change them; what is hidden stands as it is shown, and may stay so',
  key: 'operator',
  async run({ args, api }) {
    const read = await api('readArguments', { params: { id: args.APPROVAL } })
    return read.ok ? ok({ ok: true, json: read.value, text: json(read.value.arguments) }) : read
  },
})

export const EDITS: readonly Command[] = [printArguments]
