// `countersign approvals watch`: what waits, and then each question and answer as it comes. What the edge keeps is asked for from where
// we were, so an edge that restarts loses us nothing.

import { setTimeout as sleep } from 'node:timers/promises'
import type { Result } from '../shared/result.ts'
import { err, ok } from '../shared/result.ts'
import type { ListedApproval } from '../shared/wire.ts'
import type { Given, Trouble } from './command.ts'
import { command } from './command.ts'
import type { Paint } from './text.ts'
import { inline, time } from './text.ts'

const WAIT_S = 30
const PAUSES_MS = [250, 1_000, 2_000, 5_000] as const
/** Troubles that pass: the edge restarts, or something before it does. What is refused is not asked again. */
const PASSING: ReadonlySet<string> = new Set(['unreachable', 'timed_out', 'unexpected_answer', 'unavailable', 'internal'])

export const watch = command({
  words: ['approvals', 'watch'],
  args: {},
  flags: {},
  does: 'Show what waits, and then each question and answer as it comes, until Ctrl-C; with `--json` each is a line',
  key: 'operator',
  async run({ api, paint, live }) {
    const { tell, note, until } = live()
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
    for (let tries = 0; !until.aborted; ) {
      const page = await api('listChanges', { query: { after }, wait: WAIT_S, signal: until })
      if (until.aborted) break
      if (page.ok) {
        if (tries > 0) note('the edge answers again')
        tries = 0
        for (const { seq, approval } of page.value.items) {
          show(approval)
          after = seq
        }
        continue
      }
      if (!PASSING.has(page.error.code)) return page
      if (tries === 0) note(`${page.error.detail}; trying again`)
      await sleep(PAUSES_MS[Math.min(tries++, PAUSES_MS.length - 1)], undefined, { signal: until }).catch(() => undefined)
    }
    return ENDED
  },
})

/** All has been told. */
const ENDED = ok({ ok: true, json: null, text: '', raw: new Uint8Array() })

/** Oldest first. */
async function waitingNow(api: Given['api'], signal: AbortSignal): Promise<Result<ListedApproval[], Trouble>> {
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
    last === undefined ? '' : `  ${last.decision} by ${last.by} over ${last.channel}${last.reason === '' ? '' : `: ${last.reason}`}`
  const link = url === undefined ? '' : `  ${url}`
  const at = time(last?.at_ms ?? requested_at)
  return `${paint.dim(at)}  ${brush(status)}  ${inline(`${id}  ${prompt.risk}  ${prompt.title}${said}${link}`)}\n`
}
