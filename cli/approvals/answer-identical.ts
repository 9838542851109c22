// One answer to all that ask exactly the same: said with their number, so that nobody answers one more than they knew of.

import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Answer as Said } from '../../shared/wire/approvals.ts'
import type { Answer, Given, Trouble } from '../shell/command.ts'
import { trouble, usage } from '../shell/command.ts'
import { inline } from '../shell/terminal-text.ts'

export const ALIKE = {
  value: 'N',
  what: 'answer all N that ask exactly the same, as `approvals list` counts them, each by itself; refused if by now they are more or fewer',
} as const

type Body = Partial<Said> & Pick<Said, 'decision'>

export async function answerAlike(api: Given['api'], id: string, number: string, body: Body): Answer {
  if (!/^[1-9][0-9]{0,4}$/.test(number))
    return err(usage('`--alike` takes their number, as `approvals list` counts them'))
  const found = await thoseThatAsk(api, id)
  if (!found.ok) return found
  const ids = found.value
  if (ids.length !== Number(number))
    return err(
      trouble('conflict', `${ids.length} ask exactly this, not ${number}`, 'look at `approvals list` again'),
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

/** Oldest first. */
async function thoseThatAsk(api: Given['api'], id: string): Promise<Result<string[], Trouble>> {
  const asked = await api('readApproval', { params: { id } })
  if (!asked.ok) return asked
  const { group } = asked.value
  const ids: string[] = []
  for (;;) {
    const after = ids.at(-1)
    const page = await api('listApprovals', { query: { group, ...(after === undefined ? {} : { after }) } })
    if (!page.ok) return page
    if (page.value.items.length === 0) return ok(ids.reverse())
    ids.push(...page.value.items.map((item) => item.id))
  }
}
