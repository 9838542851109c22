// `countersign approvals watch`: shows the pending approvals, then each new approval and answer. It
// polls from the last change that it has seen, so a restart of the edge loses nothing.

import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { ListedApproval } from '../../shared/wire/approvals.ts'
import type { CommandContext, Trouble } from '../shell/command.ts'
import { alreadyPrinted, command } from '../shell/command.ts'
import { RetryBackoff } from '../shell/reconnect.ts'
import type { Paint } from '../shell/terminal-text.ts'
import { inline, time } from '../shell/terminal-text.ts'

const WAIT_S = 30

export const watch = command({
  words: ['approvals', 'watch'],
  args: {},
  flags: {},
  does: 'Show the pending approvals, then new approvals and answers as they come, until Ctrl-C; `--json` prints one line each',
  key: 'operator',
  async run({ api, paint, live }) {
    const alive = live()
    const { tell, until } = alive
    const backoff = new RetryBackoff(alive)
    const shown = new Map<string, string>()
    const show = (approval: ListedApproval): void => {
      const { id, status, answers } = approval
      const state = `${status} ${answers.length}`
      if (shown.get(id) === state) return
      if (status === 'pending') shown.set(id, state)
      else shown.delete(id) // the end of an approval is reported once
      tell(approval, lineOf(approval, paint))
    }
    // Read the change position before the list: a change in between appears in both, and `shown`
    // drops it.
    const start = await api('listChanges', { query: {}, signal: until })
    if (!start.ok) return until.aborted ? ENDED : start
    const waiting = await pendingApprovals(api, until)
    if (!waiting.ok) return until.aborted ? ENDED : waiting
    for (const approval of waiting.value) show(approval)
    let after = start.value.latest
    while (!until.aborted) {
      const page = await api('listChanges', { query: { after }, wait: WAIT_S, signal: until })
      if (until.aborted) break
      if (page.ok) {
        backoff.reset()
        for (const { seq, approval } of page.value.items) {
          show(approval)
          after = seq
        }
      } else if (!(await backoff.waitToRetry(page.error))) return page
    }
    return ENDED
  },
})

/** Ctrl-C is the normal end. */
const ENDED = ok(alreadyPrinted(true))

/** The pending approvals, oldest first. */
async function pendingApprovals(
  api: CommandContext['api'],
  signal: AbortSignal,
): Promise<Result<ListedApproval[], Trouble>> {
  const all: ListedApproval[] = []
  for (;;) {
    const after = all.at(-1)?.id
    const page = await api('listApprovals', { query: after === undefined ? {} : { after }, signal })
    if (!page.ok) return err(page.error)
    if (page.value.items.length === 0) return ok(all.reverse())
    all.push(...page.value.items)
  }
}

function lineOf({ id, status, prompt, requested_at, answers, url }: ListedApproval, paint: Paint): string {
  const last = answers.at(-1)
  const brush = status === 'pending' ? paint.warn : status === 'approved' ? paint.good : paint.bad
  const lastAnswer =
    last === undefined
      ? ''
      : `  ${last.decision} by ${last.by} over ${last.channel}${last.reason === '' ? '' : `: ${last.reason}`}`
  const link = url === undefined ? '' : `  ${url}`
  const at = time(last?.at_ms ?? requested_at)
  return `${paint.dim(at)}  ${brush(status)}  ${inline(`${id}  ${prompt.risk}  ${prompt.title}${lastAnswer}${link}`)}\n`
}
