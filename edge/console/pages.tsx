// The inbox, and one approval with the form to answer it. Deny comes first: it is what Enter in a field does (T28).

import { LIMITS } from '../../shared/limits.ts'
import type { Approval } from '../../shared/wire.ts'
import type { InboxPage, InboxQuery } from '../inbox-store.ts'
import { After, Answers, Facts, hasAnswered, left, OUTCOME, Prose } from '../page.tsx'
import { ConsolePage, FormToken } from './frame.tsx'
import type { Session } from './session.ts'

type Inbox = { session: Session; asked: InboxQuery; page: InboxPage; mayAnswer: boolean; now: number }

const RISKS = ['low', 'medium', 'high', 'critical'] as const
const plural = (n: number, one: string, many: string): string => `${n} ${n === 1 ? one : many}`

export function inboxPage({ session, asked, page, mayAnswer, now }: Inbox) {
  return (
    <ConsolePage title="Inbox" session={session} place="/console" live>
      <h1>Inbox</h1>
      <Filter asked={asked} />
      <section aria-label="Approvals that wait">
        <p class="quiet" role="status" id="words" tabindex={-1}>
          {inWords(page)}
        </p>
        <form method="post" action="/console/approvals">
          <FormToken session={session} />
          <div data-live={`/console/events?${new URLSearchParams({ ...asked, after: String(page.number) })}`}>
            <InboxList page={page} mayAnswer={mayAnswer} now={now} />
          </div>
          {mayAnswer ? <DenyChosen /> : ''}
        </form>
      </section>
    </ConsolePage>
  )
}

function DenyChosen() {
  return (
    <details class="fold" id="deny-chosen">
      <summary>Deny several at once</summary>
      <div class="field">
        <label for="why">Reason</label>
        <textarea id="why" name="reason" rows={2} maxlength={LIMITS.reason_chars} aria-describedby="why-help"></textarea>
        <span class="quiet" id="why-help">
          Optional. Choose above what is to be denied; each agent is told the reason.
        </span>
      </div>
      <div class="buttons">
        <button type="submit" class="deny">
          Deny those chosen
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
      {filtered ? <a href="/console">Show all that wait</a> : ''}
    </details>
  )
}

/** How many wait, in words: what a screen reader is told when it changes. */
export function inWords({ items, waiting, matching }: InboxPage): string {
  if (waiting === 0) return 'Nothing waits for an answer.'
  const all = plural(waiting, 'approval waits', 'approvals wait')
  const fit = matching === waiting ? all : `${matching} of ${all}`
  return items.length < matching ? `${fit}; these are the first ${items.length}.` : `${fit}.`
}

type Listed = { page: InboxPage; mayAnswer: boolean; now: number }

/** The same for everybody who asks the same: it holds nothing of a session. */
export function InboxList({ page, mayAnswer, now }: Listed) {
  if (page.items.length === 0)
    return <p class="empty">{page.waiting === 0 ? 'All answered.' : 'None of those that wait fits the filter.'}</p>
  return (
    <ul class="cards">
      {page.items.map((approval) => (
        <Card approval={approval} mayAnswer={mayAnswer} now={now} />
      ))}
    </ul>
  )
}

type Shown = { approval: Approval; mayAnswer: boolean; now: number }

function Card({ approval: { id, prompt, expires_at, answers }, mayAnswer, now }: Shown) {
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
            <input type="checkbox" name="id" value={id} id={`choose-${id}`} aria-label={`Choose: ${prompt.title}, ${glimpse(prompt)}`} />
          </label>
        ) : (
          ''
        )}
      </div>
      <pre>{glimpse(prompt)}</pre>
      <p class="tags">
        <span class={`tag ${prompt.risk}`}>{prompt.risk} risk</span>
        <span class="quiet">{now < expires_at ? `${left(expires_at - now)} left` : 'time is up'}</span>
        {answers.length === 0 ? '' : <span class="quiet">{plural(answers.length, 'answer', 'answers')} so far</span>}
      </p>
    </li>
  )
}

const GLIMPSE = 120

/** What would run, and on what, in a few lines; what does not fit says so. */
function glimpse({ command, arguments: args }: Approval['prompt']): string {
  const lines = [command, args.replace(/\n */g, ' ')].filter((line) => line !== '' && line !== '{}')
  return lines
    .map((line) => (line.length <= GLIMPSE ? line : `${line.slice(0, GLIMPSE)} … and ${line.length - GLIMPSE} characters more`))
    .join('\n')
}

type Detail = { session: Session; approval: Approval; mayAnswer: boolean; now: number }

export function detailPage({ session, approval, mayAnswer, now }: Detail) {
  const { prompt, expires_at } = approval
  const status = approval.status === 'pending' && now >= expires_at ? 'expired' : approval.status
  const open = status === 'pending' && !hasAnswered(approval, session.principal.name)
  return (
    <ConsolePage title={open ? prompt.title : OUTCOME[status]} session={session} live={open}>
      <a class="back" href="/console">
        Back to the inbox
      </a>
      {open ? <Open session={session} approval={approval} mayAnswer={mayAnswer} now={now} /> : <Over approval={{ ...approval, status }} />}
    </ConsolePage>
  )
}

/** The form holds all that is answered, so that the buttons stay in sight however long that is. */
function Open({ session, approval, mayAnswer, now }: Detail) {
  const { id, prompt, answers, expires_at } = approval
  return (
    <form method="post" action={`/console/approvals/${id}`} data-live={`/console/events?approval=${id}`}>
      <h1>{prompt.title}</h1>
      <p class="tags">
        <span class={`tag ${prompt.risk}`}>{prompt.risk} risk</span>
        <span class="quiet">Answer within {left(expires_at - now)}; no answer is a denial.</span>
      </p>
      <Answers answers={answers} />
      <Facts approval={approval} />
      {mayAnswer ? <Answering session={session} approval={approval} /> : <p class="alert">You may read approvals, and not answer them.</p>}
    </form>
  )
}

function Over({ approval }: { approval: Approval }) {
  const { status, prompt, answers } = approval
  return (
    <>
      <section class={`outcome ${status}`} role="status">
        <h1>{OUTCOME[status]}</h1>
        <Answers answers={answers} />
        <p>
          <After approval={approval} />
        </p>
      </section>
      <h2>{prompt.title}</h2>
      <Facts approval={approval} />
    </>
  )
}

const SPANS = {
  'timeboxed 900': [900, '15 minutes'],
  'timeboxed 3600': [3_600, 'an hour'],
  session: [LIMITS.standing_s, 'the rest of its session'],
} as const

/** How far an answer reaches: what policy lets stand is offered, with what it would cover. */
function Reach({ standing }: Pick<Approval['prompt'], 'standing'>) {
  const spans = Object.entries(SPANS).filter(([, [seconds]]) => seconds <= (standing?.most_s ?? 0))
  if (standing === undefined || spans.length === 0) return <p class="quiet">The answer is for this call alone.</p>
  return (
    <div class="field">
      <label for="scope">The answer is for</label>
      <select id="scope" name="scope" aria-describedby="scope-help">
        <option value="once">this call alone</option>
        {spans.map(([scope, [, words]]) => (
          <option value={scope}>all of its kind, for {words}</option>
        ))}
      </select>
      <p class="quiet" id="scope-help">
        All of its kind: <Prose text={standing.covers} />.
      </p>
    </div>
  )
}

function Answering({ session, approval: { digest, prompt } }: { session: Session; approval: Approval }) {
  return (
    <>
      <FormToken session={session} />
      <input type="hidden" name="digest" value={digest} />
      <div class="field">
        <label for="why">Reason</label>
        <textarea id="why" name="reason" rows={2} maxlength={LIMITS.reason_chars} aria-describedby="why-help"></textarea>
        <span class="quiet" id="why-help">
          Optional. It is kept on record, and a denial’s is told to the agent.
        </span>
      </div>
      <Reach standing={prompt.standing} />
      <div class="answer buttons">
        <button type="submit" class="deny" name="decision" value="deny">
          Deny
        </button>
        <button type="submit" class="approve" name="decision" value="approve">
          Approve
        </button>
      </div>
    </>
  )
}
