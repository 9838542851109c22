// One approval in the console, with the form to answer it. "Deny" is the form's first button,
// because Enter in a field presses that one.

import type { Result } from '../../shared/result.ts'
import type { Approval } from '../../shared/wire/approvals.ts'
import type { Preview } from '../approvals/argument-edits.ts'
import type { FullText } from '../approvals/card.ts'
import { OUTCOME } from '../approvals/outcome-words.ts'
import {
  Answers,
  Consequence,
  Facts,
  hasAnswered,
  Risk,
  remainingTime,
  StandingAnswers,
} from '../pages/approval-page.tsx'
import { ChangeFields, ChangeStep, type Draft } from '../pages/edit-arguments-page.tsx'
import { FullTexts } from '../pages/full-text.tsx'
import { IdenticalApprovals } from './bulk-deny-page.tsx'
import { ConsolePage, FormToken, OutOfDate } from './frame.tsx'
import { SCRIPT } from './inbox-stream.ts'
import { ReasonField } from './reason-field.tsx'
import type { Session } from './session.ts'

type DetailInput = {
  session: Session
  approval: Approval
  alike: readonly Approval[]
  mayAnswer: boolean
  /** Whether this operator may read the call's input files. */
  mayRead: boolean
  /** The arguments as text; `null` if they can't be changed here. */
  draft: Draft | null
  /** The texts that the card shortens, and the part of them to show. */
  whole: Result<readonly FullText[]>
  part: number
  now: number
}

export function detailPage({
  session,
  approval,
  alike,
  mayAnswer,
  mayRead,
  draft,
  whole,
  part,
  now,
}: DetailInput) {
  const { prompt, expires_at } = approval
  const status = approval.status === 'pending' && now >= expires_at ? 'expired' : approval.status
  const open = status === 'pending' && !hasAnswered(approval, session.principal.name)
  const facts = (
    <>
      <Facts approval={approval} files={mayRead ? `/console/approvals/${approval.id}/files` : null} />
      <FullTexts whole={whole} part={part} />
    </>
  )
  return (
    <ConsolePage
      title={open ? prompt.title : OUTCOME[status]}
      session={session}
      {...(open ? { script: SCRIPT } : {})}
    >
      <a class="back" href="/console">
        Back to the inbox
      </a>
      {open ? (
        <OpenApproval
          session={session}
          approval={approval}
          mayAnswer={mayAnswer}
          draft={draft}
          facts={facts}
          now={now}
        />
      ) : (
        <EndedApproval approval={{ ...approval, status }} facts={facts} />
      )}
      {open && mayAnswer && alike.length > 1 ? (
        <IdenticalApprovals session={session} approval={approval} alike={alike} />
      ) : (
        ''
      )}
    </ConsolePage>
  )
}

/** The form encloses the whole approval, so that its buttons stay in view however long that is. */
function OpenApproval({
  session,
  approval,
  mayAnswer,
  draft,
  facts,
  now,
}: Omit<DetailInput, 'alike' | 'whole' | 'part' | 'mayRead'> & { facts: unknown }) {
  const { id, prompt, answers, expires_at } = approval
  return (
    <form method="post" action={`/console/approvals/${id}`} data-live={`/console/events?approval=${id}`}>
      <h1>{prompt.title}</h1>
      <p class="tags">
        <Risk {...prompt} />
        <span class="quiet">
          Answer within {remainingTime(expires_at - now)}; no answer counts as a denial.
        </span>
      </p>
      <Answers answers={answers} />
      {facts as string}
      {mayAnswer ? (
        <AnswerFields session={session} approval={approval} draft={draft} />
      ) : (
        <p class="alert">You may read approvals but not answer them.</p>
      )}
    </form>
  )
}

function EndedApproval({ approval, facts }: { approval: Approval; facts: unknown }) {
  const { status, prompt, answers } = approval
  return (
    <>
      <section class={`outcome ${status}`} role="status">
        <h1>{OUTCOME[status]}</h1>
        <Answers answers={answers} />
        <p>
          <Consequence approval={approval} />
        </p>
        {status === 'approved' ? (
          <a class="back" href={`/console/calls/${approval.call}`}>
            Watch the call
          </a>
        ) : (
          ''
        )}
      </section>
      <h2>{prompt.title}</h2>
      {facts as string}
    </>
  )
}

type FormInput = { session: Session; approval: Approval }

/** Proves that the form was shown to this session, and for which digest. */
function Token({ session, approval: { digest } }: FormInput) {
  return (
    <>
      <FormToken session={session} />
      <input type="hidden" name="digest" value={digest} />
    </>
  )
}

type ChangeInput = FormInput & { text: string; reason: string } & Preview

export function changePage({ session, approval, ...change }: ChangeInput) {
  const token = <Token session={session} approval={approval} />
  return (
    <ConsolePage title="Approve with changes" session={session}>
      <ChangeStep approval={approval} approver={session.principal.name} token={token} {...change} />
    </ConsolePage>
  )
}

function AnswerFields({ session, approval, draft }: FormInput & Pick<DetailInput, 'draft'>) {
  const { prompt } = approval
  return (
    <>
      <Token session={session} approval={approval} />
      <ReasonField help="Optional. It is kept on record. The agent is shown the reason for a denial." />
      {draft === null ? '' : <ChangeFields {...draft} over="console" />}
      {prompt.standing === undefined ? (
        ''
      ) : (
        <StandingAnswers {...prompt.standing} options={approval.options} />
      )}
      <div class="answer">
        <OutOfDate here={`/console/approvals/${approval.id}`} />
        <div class="buttons">
          <button type="submit" class="deny" name="decision" value="deny">
            Deny
          </button>
          <button type="submit" class="approve" name="decision" value="approve">
            Approve
          </button>
        </div>
      </div>
    </>
  )
}
