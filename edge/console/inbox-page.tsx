// The inbox: pending approvals, filtered, one page at a time, identical ones on one card. Several
// can be denied here at once; approving needs the approval's page, which shows all of it.

import type { Approval } from '../../shared/wire/approvals.ts'
import { remainingTime } from '../pages/approval-page.tsx'
import type { InboxPage, InboxQuery, Waiting } from '../tenant/inbox-store.ts'
import { ConsolePage, FormToken, OutOfDate } from './frame.tsx'
import { SCRIPT } from './inbox-stream.ts'
import { ReasonField } from './reason-field.tsx'
import type { Session } from './session.ts'

/** How a form names all identical approvals, up to the newest one that the operator was shown. */
export const groupUpTo = (group: string, newest: string): string => `${group}~${newest}`

type Inbox = { session: Session; asked: InboxQuery; page: InboxPage; mayAnswer: boolean; now: number }

const RISKS = ['low', 'medium', 'high', 'critical'] as const
const plural = (n: number, one: string, many: string): string => `${n} ${n === 1 ? one : many}`

export function inboxPage({ session, asked, page, mayAnswer, now }: Inbox) {
  return (
    <ConsolePage title="Inbox" session={session} place="/console" script={SCRIPT}>
      <h1>Inbox</h1>
      <Filter asked={asked} />
      <section aria-label="Pending approvals">
        <p class="quiet" role="status" id="words" tabindex={-1}>
          {inWords(page)}
        </p>
        <form method="post" action="/console/approvals">
          <FormToken session={session} />
          <div data-live={`/console/events?${new URLSearchParams({ ...asked, after: String(page.number) })}`}>
            <InboxList asked={asked} page={page} mayAnswer={mayAnswer} now={now} />
          </div>
          <OutOfDate here={`/console?${new URLSearchParams(asked)}`} />
          {mayAnswer ? <DenySelected /> : ''}
        </form>
      </section>
    </ConsolePage>
  )
}

function DenySelected() {
  return (
    <details class="fold" id="deny-chosen">
      <summary>Deny several at once</summary>
      <ReasonField help="Optional. Select the approvals above first. Each agent is shown the reason." />
      <div class="buttons one">
        <button type="submit" class="deny" name="decision" value="deny">
          Deny selected
        </button>
      </div>
    </details>
  )
}

function Filter({ asked }: { asked: InboxQuery }) {
  const { agent, tool, risk, text, order } = asked
  const filtered = [agent, tool, risk, text].some((value) => value !== '')
  return (
    <details class="fold" open={filtered || order !== 'oldest'}>
      <summary>Filter and order</summary>
      <search>
        <form method="get" action="/console" class="filter" aria-label="Filter the inbox">
          <label>
            Text
            <input type="search" name="text" value={text} maxlength={200} />
          </label>
          <label>
            Agent
            <input name="agent" value={agent} maxlength={64} autocapitalize="none" />
          </label>
          <label>
            Tool
            <input name="tool" value={tool} maxlength={64} autocapitalize="none" />
          </label>
          <label>
            Risk
            <select name="risk">
              <option value="">any</option>
              {RISKS.map((one) => (
                <option value={one} selected={one === risk}>
                  {one}
                </option>
              ))}
            </select>
          </label>
          <label>
            Order
            <select name="order">
              <option value="oldest">oldest first</option>
              <option value="riskiest" selected={order === 'riskiest'}>
                riskiest first
              </option>
            </select>
          </label>
          <button type="submit" class="plain">
            Show
          </button>
        </form>
      </search>
      {filtered ? <a href="/console">Clear the filter</a> : ''}
    </details>
  )
}

/** The number of pending approvals in words, which a screen reader announces when it changes. */
export function inWords({ items, waiting, matching }: InboxPage): string {
  if (waiting === 0) return 'No pending approvals.'
  const all = plural(waiting, 'pending approval', 'pending approvals')
  const found = matching === waiting ? all : `${matching} of ${all}`
  const here = items.reduce((sum, { alike }) => sum + alike, 0)
  return here < matching ? `${found}, ${here} on this page.` : `${found}.`
}

type ListInput = { asked: InboxQuery; page: InboxPage; mayAnswer: boolean; now: number }

/** Depends on nothing of a session, so it is shared by all sessions with the same query. */
export function InboxList({ asked, page, mayAnswer, now }: ListInput) {
  const last = page.items.at(-1)
  if (last === undefined)
    return (
      <p class="empty">{page.waiting === 0 ? 'Everything is answered.' : 'No pending approval matches.'}</p>
    )
  return (
    <>
      <ul class="cards">
        {page.items.map((waiting) => (
          <Card {...waiting} mayAnswer={mayAnswer} now={now} />
        ))}
      </ul>
      <p>
        {asked.past === '' ? (
          ''
        ) : (
          <a href={`/console?${new URLSearchParams({ ...asked, past: '' })}`}>First page</a>
        )}{' '}
        {page.more ? (
          <a href={`/console?${new URLSearchParams({ ...asked, past: last.approval.id })}`}>Next page</a>
        ) : (
          ''
        )}
      </p>
    </>
  )
}

type CardInput = Waiting & { mayAnswer: boolean; now: number }

function Card({
  approval: { id, group, prompt, expires_at, answers },
  alike,
  newest,
  mayAnswer,
  now,
}: CardInput) {
  return (
    <li class={`card ${prompt.risk}`}>
      <div class="head">
        <h2>
          <a id={id} href={`/console/approvals/${id}`}>
            {prompt.title}
          </a>
        </h2>
        {mayAnswer ? (
          <label class="choose">
            <input
              type="checkbox"
              name="id"
              value={alike === 1 ? id : groupUpTo(group, newest)}
              id={`choose-${id}`}
              aria-label={`Select${alike === 1 ? '' : ` all ${alike}`}: ${prompt.title}, ${callSummary(prompt)}`}
            />
          </label>
        ) : (
          ''
        )}
      </div>
      <pre>{callSummary(prompt)}</pre>
      <p class="tags">
        <span class={`tag ${prompt.risk}`}>{prompt.risk} risk</span>
        {alike === 1 ? '' : <span class="tag many">{alike} identical requests</span>}
        <span class="quiet">{now < expires_at ? `${remainingTime(expires_at - now)} left` : 'expired'}</span>
        {answers.length === 0 ? (
          ''
        ) : (
          <span class="quiet">{plural(answers.length, 'answer', 'answers')} so far</span>
        )}
      </p>
    </li>
  )
}

const LINE_CHARS = 120

/** The command and the arguments in two lines at most; a shortened line says so. */
export function callSummary({ command, arguments: args }: Approval['prompt']): string {
  const lines = [command, args.replace(/\n */g, ' ')].filter((line) => line !== '' && line !== '{}')
  return lines
    .map((line) =>
      line.length <= LINE_CHARS
        ? line
        : `${line.slice(0, LINE_CHARS)} … and ${line.length - LINE_CHARS} more characters`,
    )
    .join('\n')
}
