// One call: its state, its decision, and its output so far, stdout and stderr apart. Without its
// script the page is a snapshot; with it, the page follows the call. Output is always plain text.

import type { CallState } from '../../shared/evidence/statement.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Call } from '../../shared/wire/calls.ts'
import type { LiveState } from '../../shared/wire/output-events.ts'
import { actorInWords, viaInWords } from '../approvals/actor-words.ts'
import { AgentSays, Origin, Prose, Time } from '../pages/approval-page.tsx'
import { escapeConfusables } from '../platform/visible-text.ts'
import type { OutputUpdate, Stream } from '../run/output-subscribers.ts'
import { ConsolePage, FormToken } from './frame.tsx'
import type { Session } from './session.ts'

const WORDS: Record<CallState, string> = {
  proposed: 'proposed',
  denied: 'denied by policy',
  awaiting_approval: 'waiting for approval',
  rejected: 'rejected by an operator',
  expired: 'expired: nobody answered in time',
  cancelled: 'cancelled',
  granted: 'waiting for a worker',
  lapsed: 'lapsed: no worker claimed it in time',
  released: 'allowed; the agent’s own program executes it',
  running: 'running',
  succeeded: 'succeeded',
  failed: 'failed',
  timed_out: 'timed out',
  indeterminate: 'unknown: the worker was lost',
}

export const inWords = ({ state, cancel_requested }: LiveState): string =>
  state === 'running' && cancel_requested ? 'cancelling: it runs until its worker stops it' : WORDS[state]

/**
 * Whether the call has ended or its cancellation was requested, so that nobody needs to cancel it.
 */
export const isEnding = ({ state, cancel_requested }: LiveState): boolean =>
  cancel_requested || !OPEN.has(state)
const OPEN: ReadonlySet<CallState> = new Set(['proposed', 'awaiting_approval', 'granted', 'running'])

/**
 * Output as visible text. Tabs stay, because programs align with them; see `written` for the rest.
 */
export const shownText = (bytes: Uint8Array): string =>
  Buffer.from(bytes).toString('utf8').split('\t').map(escapeConfusables).join('\t')

/** `isRest`: the page starts after output that an earlier page showed. */
type CallPageInput = { session: Session; call: Call; news: OutputUpdate; isRest: boolean; mayCancel: boolean }

export function callPage({ session, call, news, isRest, mayCancel }: CallPageInput) {
  const { position: reached, pieces } = news
  const { id, tool, state, ended_at_ms, origin: { reason, actor, via } = {} } = call
  const look =
    state === 'succeeded' || state === 'released' ? 'low' : ended_at_ms === undefined ? 'medium' : 'high'
  const position = `${reached.attempt}.${reached.stdout}.${reached.stderr}`
  const isOpen = ended_at_ms === undefined
  return (
    <ConsolePage title={tool} session={session} {...(isOpen ? { script: SCRIPT } : {})}>
      <h1>{tool}</h1>
      <p class="tags">
        <span class={`tag ${look}`} role="status" id="state">
          {reached.state === null ? '' : inWords(reached.state)}
        </span>
        <span class="quiet">
          proposed <Time ms={call.created_at_ms} />
        </span>
        {ended_at_ms === undefined ? (
          ''
        ) : (
          <span class="quiet">took {ended_at_ms - call.created_at_ms} ms, waiting included</span>
        )}
      </p>
      <p class="alert changed" id="ended" hidden>
        The call has ended. <a href={`/console/calls/${id}`}>See the result</a>
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
        <Output name="stdout" title="Output" news={news} />
        <Output name="stderr" title="Progress and errors (stderr)" news={news} />
      </div>
      {isOpen || pieces.some(({ stream }) => isFull(news, stream)) ? (
        <p id="further">
          <a class="back" href={`/console/calls/${id}?after=${position}`}>
            Continue
          </a>
        </p>
      ) : (
        ''
      )}
      {mayCancel && reached.state !== null && !isEnding(reached.state) ? (
        <CancelForm session={session} id={id} />
      ) : (
        ''
      )}
      {reason === undefined && actor === undefined && via === undefined ? (
        ''
      ) : (
        <dl>
          <Origin
            actor={actor && actorInWords(actor, session.directory.redaction)}
            via={via && viaInWords(via)}
          />
          <AgentSays text={reason && escapeConfusables(reason)} />
        </dl>
      )}
      <Details call={call} />
    </ConsolePage>
  )
}

const isFull = ({ pieces }: OutputUpdate, name: Stream): boolean =>
  pieces.some(({ stream, bytes }) => stream === name && bytes.byteLength > LIMITS.output_piece_bytes - 4)

/** One output stream. It is hidden while empty; the script shows it when the first text arrives. */
function Output({ name, title, news }: { name: Stream; title: string; news: OutputUpdate }) {
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
          <Prose text={escapeConfusables(error.detail)} inside />
        </p>
      )}
      {exit_code === null ? '' : <p class="quiet">Exit code {exit_code}.</p>}
      {truncated ? (
        <p class="alert changed">
          The output is longer than the limit. Its beginning and end were kept; the middle is missing.
        </p>
      ) : (
        ''
      )}
      {files === undefined ? (
        ''
      ) : (
        <p class="quiet">
          {files.files.length} output files. The <code>countersign</code> command line can save them.
        </p>
      )}
    </>
  )
}

function CancelForm({ session, id }: { session: Session; id: string }) {
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

function Details({ call: { id, run, digest, decision, approval, attestation } }: { call: Call }) {
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
          {decision.effect}: <Prose text={escapeConfusables(decision.reason)} inside />
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

/**
 * Appends new output where the page left off, and keeps scrolling if the end was in view. Another
 * attempt of the call clears the output.
 */
export const SCRIPT = `{
const watched = document.querySelector('[data-live]')
const named = (id) => document.getElementById(id)
const streams = ['stdout', 'stderr']
let position = watched.dataset.after
let attempt = Number(position.split('.')[0])
const add = (name, text) => {
  named(name + '-part').hidden = false
  const frame = named(name).parentElement
  const atEnd = frame.scrollHeight - frame.scrollTop - frame.clientHeight < 8
  named(name).append(text)
  if (atEnd) frame.scrollTop = frame.scrollHeight
}
const follow = () => {
  const source = new EventSource(watched.dataset.live + '?after=' + position)
  const on = (name, handle) => source.addEventListener(name, ({ data, lastEventId }) => {
    handle(JSON.parse(data))
    if (lastEventId !== '') position = lastEventId
  })
  on('state', (now) => {
    if (now.attempt > attempt) for (const name of streams) named(name).textContent = ''
    attempt = now.attempt
    if (named('state').textContent.trim() !== now.words) named('state').textContent = now.words
    if (now.leaving) named('cancel')?.remove()
  })
  for (const name of streams) on(name, ({ text }) => add(name, text))
  on('end', () => {
    source.close()
    named('ended').hidden = false
  })
  on('over', () => {
    source.close()
    location.reload()
  })
  source.addEventListener('error', () => { if (source.readyState === EventSource.CLOSED) setTimeout(follow, 20000) })
}
named('further').hidden = true
follow()
}`
