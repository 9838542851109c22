// Saying yes to other arguments, on link page and console: the arguments as JSON to change, and then the change, said before it is
// answered. Two steps of plain forms; what is hidden stays hidden, and what runs is what the second step showed, or nothing. The text is
// sent with every answer: a yes beside a text that was changed is no yes to what the agent asked, and shows the change instead.

import type { Failure } from '../shared/failures.ts'
import { failure } from '../shared/failures.ts'
import { canonical, parseJson } from '../shared/json.ts'
import { LIMITS } from '../shared/limits.ts'
import type { Result } from '../shared/result.ts'
import { err, ok } from '../shared/result.ts'
import type { Approval } from '../shared/wire.ts'
import { unambiguous } from './approvals.ts'
import type { Preview } from './argument-changes.ts'
import { Changes, Facts, type Node, Nonce, NotDone, Page, Risk } from './page.tsx'
import { Wholes } from './unfolding.tsx'

/** As much of a text as the page offers; one of more is changed at the command line. */
export function textToChange(editable: Result<{ arguments: Record<string, unknown> }>): string | null {
  if (!editable.ok) return null
  const text = unambiguous(JSON.stringify(editable.value.arguments, null, 2))
  return text.length <= LIMITS.page_edit_chars ? text : null
}

export type Draft = { text: string; refusal?: Failure }

/**
 * Stands within the form that answers, and is sent by one of its own. `over`: who has no more than a link writes nothing that was not
 * there.
 */
export function ChangeFields({ text, refusal, over }: Draft & { over: 'link' | 'console' }) {
  return (
    <details open={refusal !== undefined}>
      <summary>Approve less than this</summary>
      {/* The first button of a form is what Enter does in it: no (T28). */}
      <button type="submit" name="decision" value="deny" hidden>
        Deny
      </button>
      {refusal === undefined ? '' : <NotDone title="This change can’t be made" role="alert" failure={refusal} />}
      {refusal?.errors?.map(({ at, message }) => (
        <p>
          <code>{at}</code>: {message}
        </p>
      ))}
      <div class="field">
        <label for="change-text">The arguments, as JSON</label>
        <span class="quiet" id="change-help">
          {over === 'link' ? 'Here you can leave things out, and spend less.' : 'They may reach no further than the agent’s.'} What is
          hidden stays so where you leave it. You see the change before you answer.
        </span>
        <textarea
          id="change-text"
          class="code"
          name="arguments"
          rows={Math.min(16, text.split('\n').length + 1)}
          spellcheck={false}
          autocapitalize="none"
          autocomplete="off"
          aria-describedby="change-help"
        >
          {text}
        </textarea>
      </div>
      <div class="buttons one">
        <button type="submit" name="step" value="change" class="show">
          Show the change
        </button>
      </div>
    </details>
  )
}

/** `token`: the hidden fields by which the form is known as ours. */
type Shown = { approval: Approval; approver: string; token: Node; text: string; reason: string } & Preview

/** The second step: what would be otherwise, and the call as it would be. No comes first here too (T28). */
export function ChangeStep({ approval, approver, token, text, reason, preview, whole }: Shown) {
  const changed: Approval = { ...approval, digest: preview.becomes, prompt: preview.prompt }
  return (
    <form method="post">
      {token}
      <input type="hidden" name="arguments" value={text} />
      <input type="hidden" name="becomes" value={preview.becomes} />
      <h1>Approve with these changes?</h1>
      <p class="tags">
        <Risk {...preview.prompt} />
      </p>
      <p>
        Nothing is recorded yet. <a href="?">Back to what the agent asked</a>
      </p>
      <h2>What you change</h2>
      <Changes {...preview} />
      {whole.changes === null ? (
        ''
      ) : (
        <details>
          <summary>The whole change</summary>
          <Changes changes={whole.changes} more={0} />
        </details>
      )}
      <h2>The call as it would be</h2>
      <Facts approval={changed} />
      <Wholes whole={ok(whole.texts)} part={0} />
      <div class="field">
        <label for="reason">Reason</label>
        <span class="quiet" id="reason-help">
          Optional. It is kept on record, and a denial’s is told to the agent.
        </span>
        <textarea id="reason" name="reason" rows={2} maxlength={LIMITS.reason_chars} aria-describedby="reason-help">
          {reason}
        </textarea>
      </div>
      <div class="answer">
        <p class="quiet">
          You answer as <strong>{approver}</strong>.{' '}
          {preview.effect === 'ask' ? 'Others are still asked, about the changed call.' : 'The agent is told of the change.'}
        </p>
        <div class="buttons">
          <button type="submit" class="deny" name="decision" value="deny">
            Deny the call
          </button>
          <button type="submit" class="approve" name="decision" value="approve">
            Approve with changes
          </button>
        </div>
      </div>
    </form>
  )
}

export const changePage = ({ nonce, ...shown }: Omit<Shown, 'token'> & { nonce: string }): Node => (
  <Page title="Approve with changes">
    <ChangeStep {...shown} token={<Nonce nonce={nonce} />} />
  </Page>
)

/** What the first step sends. */
export function argumentsIn(text: string): Result<Record<string, unknown>> {
  const read = parseJson(Buffer.from(text))
  if (!read.ok) return read
  const { value } = read
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
  return isObject ? ok(value) : err(failure('invalid_arguments', 'the arguments are to be one JSON object'))
}

/**
 * Whether the change is to be shown, and nothing to be recorded yet: it was asked for, or a yes came with another text than was offered.
 * `offered` is asked for where it matters.
 */
export async function asksForChange(form: URLSearchParams, decision: unknown, offered: () => Promise<string | null>): Promise<boolean> {
  const text = form.get('arguments')
  if (form.get('step') === 'change') return true
  return decision === 'approve' && text !== null && !form.has('becomes') && !saysTheSame(text, await offered())
}

function saysTheSame(text: string, offered: string | null): boolean {
  if (offered === null) return false
  const [one, other] = [argumentsIn(text), argumentsIn(offered)]
  return one.ok && other.ok ? canonical(one.value) === canonical(other.value) : text.replaceAll('\r\n', '\n') === offered
}

/** What the second step sends: only a yes is to it. */
export function changedIn(form: URLSearchParams): Result<{ arguments?: Record<string, unknown>; becomes?: string }> {
  const becomes = form.get('becomes')
  if (becomes === null || form.get('decision') !== 'approve') return ok({})
  const args = argumentsIn(form.get('arguments') ?? '')
  return args.ok ? ok({ arguments: args.value, becomes }) : args
}
