// One answer to all identical approvals. The operator gives their number, so that nobody answers
// more approvals than they saw in the list.

import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Answer as ApprovalAnswer } from '../../shared/wire/approvals.ts'
import type { CommandContext, CommandResult, Trouble } from '../shell/command.ts'
import { trouble, usage } from '../shell/command.ts'
import { inline } from '../shell/terminal-text.ts'

export const ALIKE = {
  value: 'N',
  what: 'answer all N identical approvals, N as shown by `approvals list`; refused if their number has changed',
} as const

type Body = Partial<ApprovalAnswer> & Pick<ApprovalAnswer, 'decision'>

export async function answerIdentical(
  api: CommandContext['api'],
  id: string,
  number: string,
  body: Body,
): CommandResult {
  if (!/^[1-9][0-9]{0,4}$/.test(number))
    return err(usage('`--alike` takes the number of identical approvals that `approvals list` shows'))
  const found = await identicalApprovals(api, id)
  if (!found.ok) return found
  const ids = found.value
  if (ids.length !== Number(number))
    return err(
      trouble(
        'conflict',
        `there are now ${ids.length} identical approvals, not ${number}, so none was answered`,
        'run `approvals list` again',
      ),
    )
  const answered: { approval: string; status: string; detail?: string }[] = []
  for (const approval of ids) {
    const done = await api('answerApproval', { params: { id: approval }, body })
    answered.push(
      done.ok
        ? { approval, status: done.value.status }
        : { approval, status: done.error.code, detail: done.error.detail },
    )
  }
  const lines = answered.map(
    ({ approval, status, detail }) =>
      `${approval} ${status}${detail === undefined ? '' : `: ${inline(detail)}`}\n`,
  )
  return ok({
    ok: answered.every(({ detail }) => detail === undefined),
    json: answered,
    text: lines.join(''),
  })
}

/** The ids of the pending approvals that are identical to this one, oldest first. */
async function identicalApprovals(
  api: CommandContext['api'],
  id: string,
): Promise<Result<string[], Trouble>> {
  const approval = await api('readApproval', { params: { id } })
  if (!approval.ok) return approval
  const { group } = approval.value
  const ids: string[] = []
  for (;;) {
    const after = ids.at(-1)
    const page = await api('listApprovals', { query: { group, ...(after === undefined ? {} : { after }) } })
    if (!page.ok) return page
    if (page.value.items.length === 0) return ok(ids.reverse())
    ids.push(...page.value.items.map((item) => item.id))
  }
}
