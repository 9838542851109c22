// `countersign approvals watch`: what waits, and then each question and answer as it comes. What the edge keeps is asked for from where
// we were, so an edge that restarts loses us nothing.

import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { ListedApproval } from '../../shared/wire/approvals.ts'
import type { Given, Trouble } from '../shell/command.ts'
import { command, toldAlready } from '../shell/command.ts'
import { Patience } from '../shell/reconnect.ts'
import type { Paint } from '../shell/terminal-text.ts'
import { inline, time } from '../shell/terminal-text.ts'

const WAIT_S = 30

export const watch = command({
  words: ['approvals', 'watch'],
  args: {},
  flags: {},
  does: 'Show what waits, and then each question and answer as it comes, until Ctrl-C; with `--json` each is a line',
  key: 'operator',
  async run({ api, paint, live }) {
    const alive = live()
    const { tell, until } = alive
    const patience = new Patience(alive)
    const shown = new Map<string, string>()
    const show = (approval: ListedApproval): void => {
      const { id, status, answers } = approval
      const state = `${status} ${answers.length}`
      if (shown.get(id) === state) return
      if (status === 'pending') shown.set(id, state)
      else shown.delete(id) // an end comes once
      tell(approval, lineOf(approval, paint))
    }
    // From before the list is read: what changes while it is comes again, and is shown once.
    const start = await api('listChanges', { query: {}, signal: until })
    if (!start.ok) return until.aborted ? ENDED : start
    const waiting = await waitingNow(api, until)
    if (!waiting.ok) return until.aborted ? ENDED : waiting
    for (const approval of waiting.value) show(approval)
    let after = start.value.latest
    while (!until.aborted) {
      const page = await api('listChanges', { query: { after }, wait: WAIT_S, signal: until })
      if (until.aborted) break
      if (page.ok) {
        patience.rewarded()
        for (const { seq, approval } of page.value.items) {
          show(approval)
          after = seq
        }
      } else if (!(await patience.with(page.error))) return page
    }
    return ENDED
  },
})

/** All has been told. */
const ENDED = ok(toldAlready(true))

/** Oldest first. */
async function waitingNow(
  api: Given['api'],
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
  const said =
    last === undefined
      ? ''
      : `  ${last.decision} by ${last.by} over ${last.channel}${last.reason === '' ? '' : `: ${last.reason}`}`
  const link = url === undefined ? '' : `  ${url}`
  const at = time(last?.at_ms ?? requested_at)
  return `${paint.dim(at)}  ${brush(status)}  ${inline(`${id}  ${prompt.risk}  ${prompt.title}${said}${link}`)}\n`
}
