// One call: where it stands, what was decided of it, and what it has written so far, told apart from its progress. Without a script it is a
// picture of the moment; with one it goes on. What a tool writes is text and nothing else.

import type { CallState } from '../../shared/evidence/statement.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Call } from '../../shared/wire/calls.ts'
import type { LiveState } from '../../shared/wire/output-events.ts'
import { Prose, Time } from '../pages/approval-page.tsx'
import { written } from '../platform/visible-text.ts'
import type { News, Stream } from '../run/output-subscribers.ts'
import { ConsolePage, FormToken } from './frame.tsx'
import type { Session } from './session.ts'

const WORDS: Record<CallState, string> = {
  proposed: 'proposed',
  denied: 'denied by policy',
  awaiting_approval: 'waits for an answer',
  rejected: 'denied by an operator',
  expired: 'expired: nobody answered in time',
  cancelled: 'cancelled',
  granted: 'waits for a worker',
  lapsed: 'lapsed: no worker took it',
  running: 'running',
  succeeded: 'succeeded',
  failed: 'failed',
  timed_out: 'timed out',
  indeterminate: 'unknown: its worker was lost',
}

export const inWords = ({ state, cancel_requested }: LiveState): string =>
  state === 'running' && cancel_requested ? 'cancelling: it runs until its worker stops it' : WORDS[state]

/** Nobody needs to cancel it any more. */
export const isLeaving = ({ state, cancel_requested }: LiveState): boolean =>
  cancel_requested || !OPEN.has(state)
const OPEN: ReadonlySet<CallState> = new Set(['proposed', 'awaiting_approval', 'granted', 'running'])

/** Tabs are what programs align with; all else that would not show as what it is stands as its number. */
export const shownText = (bytes: Uint8Array): string =>
  Buffer.from(bytes).toString('utf8').split('\t').map(written).join('\t')

/** `isRest`: what it wrote before stands on another page. */
type Shown = { session: Session; call: Call; news: News; isRest: boolean; mayCancel: boolean }

export function callPage({ session, call, news, isRest, mayCancel }: Shown) {
  const { heard, pieces } = news
  const { id, tool, state, ended_at_ms } = call
  const look = state === 'succeeded' ? 'low' : ended_at_ms === undefined ? 'medium' : 'high'
  const position = `${heard.attempt}.${heard.stdout}.${heard.stderr}`
  const isOpen = ended_at_ms === undefined
  return (
    <ConsolePage title={tool} session={session} {...(isOpen ? { script: SCRIPT } : {})}>
      <h1>{tool}</h1>
      <p class="tags">
        <span class={`tag ${look}`} role="status" id="state">
          {heard.state === null ? '' : inWords(heard.state)}
        </span>
        <span class="quiet">
          proposed <Time ms={call.created_at_ms} />
        </span>
        {ended_at_ms === undefined ? (
          ''
        ) : (
          <span class="quiet">took {ended_at_ms - call.created_at_ms} ms, waits included</span>
        )}
      </p>
      <p class="alert changed" id="ended" hidden>
        It has ended. <a href={`/console/calls/${id}`}>Look at how</a>
      </p>
      <Ending call={call} />
      {isRest ? (
        <a class="back" href={`/console/calls/${id}`}>
          From the beginning
        </a>
      ) : (
        ''
      )}
      <div {...(isOpen ? { 'data-live': `/console/calls/${id}/output`, 'data-after': position } : {})}>
        <Written name="stdout" title="Output" news={news} />
        <Written name="stderr" title="Progress and complaints" news={news} />
      </div>
      {isOpen || pieces.some(({ stream }) => isFull(news, stream)) ? (
        <p id="further">
          <a class="back" href={`/console/calls/${id}?after=${position}`}>
            What follows
          </a>
        </p>
      ) : (
        ''
      )}
      {mayCancel && heard.state !== null && !isLeaving(heard.state) ? (
        <Cancel session={session} id={id} />
      ) : (
        ''
      )}
      <Known call={call} />
    </ConsolePage>
  )
}

const isFull = ({ pieces }: News, name: Stream): boolean =>
  pieces.some(({ stream, bytes }) => stream === name && bytes.byteLength > LIMITS.output_piece_bytes - 4)

/** Hidden while there is nothing of it, and there for what comes. */
function Written({ name, title, news }: { name: Stream; title: string; news: News }) {
  const piece = news.pieces.find(({ stream }) => stream === name)
  return (
    <div id={`${name}-part`} hidden={piece === undefined}>
      <h2 id={`${name}-title`}>{title}</h2>
      <section class="written" tabindex={0} aria-labelledby={`${name}-title`}>
        <pre id={name}>{piece === undefined ? '' : shownText(piece.bytes)}</pre>
      </section>
    </div>
  )
}

function Ending({ call: { state, result } }: { call: Call }) {
  if (result === undefined) return null
  const { error, exit_code, truncated, files } = result
  return (
    <>
      {error === undefined || state === 'succeeded' ? (
        ''
      ) : (
        <p>
          <code>{error.code}</code>
          {error.detail === '' ? '' : ': '}
          <Prose text={written(error.detail)} inside />
        </p>
      )}
      {exit_code === null ? '' : <p class="quiet">Exit code {exit_code}.</p>}
      {truncated ? (
        <p class="alert changed">
          It wrote more than is kept: beginning and end are here, what was between is not.
        </p>
      ) : (
        ''
      )}
      {files === undefined ? (
        ''
      ) : (
        <p class="quiet">It left {files.files.length} files; the command line saves them.</p>
      )}
    </>
  )
}

function Cancel({ session, id }: { session: Session; id: string }) {
  return (
    <form method="post" action={`/console/calls/${id}`} id="cancel">
      <FormToken session={session} />
      <div class="buttons one">
        <button type="submit" class="deny">
          Cancel this call
        </button>
      </div>
    </form>
  )
}

function Known({ call: { id, run, digest, decision, approval, attestation } }: { call: Call }) {
  return (
    <details>
      <summary>Details</summary>
      <dl>
        <dt>Call</dt>
        <dd>
          <code>{id}</code>, of <code>{run}</code>
        </dd>
        <dt>Decided</dt>
        <dd>
          {decision.effect}: <Prose text={written(decision.reason)} inside />
          {decision.policies.length === 0 ? '' : <span class="quiet"> ({decision.policies.join(', ')})</span>}
        </dd>
        {approval === undefined ? (
          ''
        ) : (
          <>
            <dt>Approval</dt>
            <dd>
              <a href={`/console/approvals/${approval.id}`}>{approval.status}</a>
            </dd>
          </>
        )}
        <dt>Digest of exactly this call</dt>
        <dd>
          <code>{digest}</code>
        </dd>
        {attestation === undefined ? (
          ''
        ) : (
          <>
            <dt>Attested</dt>
            <dd>
              <code>{attestation.id}</code> by {attestation.executor}
            </dd>
          </>
        )}
      </dl>
    </details>
  )
}

/** Adds what comes, from where it was, and keeps the end in sight for who looks at it. Another attempt begins anew. */
export const SCRIPT = `{
const watched = document.querySelector('[data-live]')
const named = (id) => document.getElementById(id)
const streams = ['stdout', 'stderr']
let heard = watched.dataset.after
let attempt = Number(heard.split('.')[0])
const add = (name, text) => {
  named(name + '-part').hidden = false
  const frame = named(name).parentElement
  const atEnd = frame.scrollHeight - frame.scrollTop - frame.clientHeight < 8
  named(name).append(text)
  if (atEnd) frame.scrollTop = frame.scrollHeight
}
const follow = () => {
  const source = new EventSource(watched.dataset.live + '?after=' + heard)
  const hear = (name, tell) => source.addEventListener(name, ({ data, lastEventId }) => {
    tell(JSON.parse(data))
    if (lastEventId !== '') heard = lastEventId
  })
  hear('state', (now) => {
    if (now.attempt > attempt) for (const name of streams) named(name).textContent = ''
    attempt = now.attempt
    if (named('state').textContent.trim() !== now.words) named('state').textContent = now.words
    if (now.leaving) named('cancel')?.remove()
  })
  for (const name of streams) hear(name, ({ text }) => add(name, text))
  hear('end', () => {
    source.close()
    named('ended').hidden = false
  })
  hear('over', () => {
    source.close()
    location.reload()
  })
  source.addEventListener('error', () => { if (source.readyState === EventSource.CLOSED) setTimeout(follow, 20000) })
}
named('further').hidden = true
follow()
}`
