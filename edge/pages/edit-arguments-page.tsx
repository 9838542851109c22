// Approving with changed arguments, on the link page and in the console, in two steps of plain
// forms: edit the arguments as JSON, then review the change and answer. Only the call that the
// second step showed can run. The browser sends the text with every answer, so a yes beside an
// edited text never approves the original call: it leads to the second step.

import { canonical, parseJson } from '../../shared/bytes/json.ts'
import type { Failure } from '../../shared/failures.ts'
import { failure } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Approval } from '../../shared/wire/approvals.ts'
import type { Preview } from '../approvals/argument-edits.ts'
import { escapeConfusablesInJson } from '../platform/visible-text.ts'
import { Changes, Facts, type Node, Nonce, Page, Refusal, Risk } from './approval-page.tsx'
import { FullTexts } from './full-text.tsx'

/** The arguments as text; `null` if they are too long to edit on a page (the command line can). */
export function textToChange(editable: Result<{ arguments: Record<string, unknown> }>): string | null {
  if (!editable.ok) return null
  const text = escapeConfusablesInJson(JSON.stringify(editable.value.arguments, null, 2))
  return text.length <= LIMITS.page_edit_chars ? text : null
}

export type Draft = { text: string; refusal?: Failure }

/**
 * The first step, inside the answering form. `over`: through a link, arguments can only be removed
 * or lowered, never added.
 */
export function ChangeFields({ text, refusal, over }: Draft & { over: 'link' | 'console' }) {
  return (
    <details open={refusal !== undefined}>
      <summary>Approve with changed arguments</summary>
      {/* Enter in a field presses the form's first button, so that has to be "deny". */}
      <button type="submit" name="decision" value="deny" hidden>
        Deny
      </button>
      {refusal === undefined ? (
        ''
      ) : (
        <Refusal title="This change can’t be made" role="alert" failure={refusal} />
      )}
      {refusal?.errors?.map(({ at, message }) => (
        <p>
          <code>{at}</code>: {message}
        </p>
      ))}
      <div class="field">
        <label for="change-text">Arguments (JSON)</label>
        <span class="quiet" id="change-help">
          {over === 'link'
            ? 'Here you can only remove arguments, or lower an amount that is spent.'
            : 'The changed call may not reach further than the one that the agent proposed.'}{' '}
          Leave the marks of hidden values as they are. You review the change before you answer.
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
          Review the change
        </button>
      </div>
    </details>
  )
}

/** `token`: the hidden fields that prove where the form comes from. */
type StepInput = {
  approval: Approval
  approver: string
  token: Node
  text: string
  reason: string
} & Preview

/** The second step: the changes, and the call with them. "Deny" comes first here too. */
export function ChangeStep({ approval, approver, token, text, reason, preview, whole }: StepInput) {
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
        Nothing is recorded yet. <a href="?">Back to the original request</a>
      </p>
      <h2>Your changes</h2>
      <Changes {...preview} />
      {whole.changes === null ? (
        ''
      ) : (
        <details>
          <summary>The changes in full</summary>
          <Changes changes={whole.changes} more={0} />
        </details>
      )}
      <h2>The changed call</h2>
      <Facts approval={changed} />
      <FullTexts whole={ok(whole.texts)} part={0} />
      <div class="field">
        <label for="reason">Reason</label>
        <span class="quiet" id="reason-help">
          Optional. It is kept on record. The agent is shown the reason for a denial.
        </span>
        <textarea
          id="reason"
          name="reason"
          rows={2}
          maxlength={LIMITS.reason_chars}
          aria-describedby="reason-help"
        >
          {reason}
        </textarea>
      </div>
      <div class="answer">
        <p class="quiet">
          You answer as <strong>{approver}</strong>.{' '}
          {preview.effect === 'ask'
            ? 'Others still have to approve the changed call.'
            : 'The agent will see the change.'}
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

export const changePage = ({ nonce, ...step }: Omit<StepInput, 'token'> & { nonce: string }): Node => (
  <Page title="Approve with changes">
    <ChangeStep {...step} token={<Nonce nonce={nonce} />} />
  </Page>
)

/** Parses the text of the first step. */
export function argumentsIn(text: string): Result<Record<string, unknown>> {
  const read = parseJson(Buffer.from(text))
  if (!read.ok) return read
  const { value } = read
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
  return isObject ? ok(value) : err(failure('invalid_arguments', 'the arguments have to be one JSON object'))
}

/**
 * Whether to show the second step instead of recording an answer: the approver pressed "Review the
 * change", or approved beside an edited text. `offered`, the original text, is read only if needed.
 */
export async function shouldReviewChange(
  form: URLSearchParams,
  decision: unknown,
  offered: () => Promise<string | null>,
): Promise<boolean> {
  const text = form.get('arguments')
  if (form.get('step') === 'change') return true
  return decision === 'approve' && text !== null && !form.has('becomes') && !isSameText(text, await offered())
}

function isSameText(text: string, offered: string | null): boolean {
  if (offered === null) return false
  const [one, other] = [argumentsIn(text), argumentsIn(offered)]
  return one.ok && other.ok
    ? canonical(one.value) === canonical(other.value)
    : text.replaceAll('\r\n', '\n') === offered
}

/** The change that a yes in the second step approves; empty for any other answer. */
export function approvedChange(
  form: URLSearchParams,
): Result<{ arguments?: Record<string, unknown>; becomes?: string }> {
  const becomes = form.get('becomes')
  if (becomes === null || form.get('decision') !== 'approve') return ok({})
  const args = argumentsIn(form.get('arguments') ?? '')
  return args.ok ? ok({ arguments: args.value, becomes }) : args
}
