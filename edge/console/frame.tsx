// What every page of the console stands in: where one is, who one is, the way out. And the pages for who is not let in.

import { raw } from 'hono/html'
import type { Failure } from '../../shared/failures.ts'
import { adviceOf } from '../../shared/failures.ts'
import { NotDone, Page, Prose } from '../pages/approval-page.tsx'
import type { Session } from './session.ts'
import { consoleStyle } from './style.ts'

const PLACES = {
  '/console': 'Inbox',
  '/console/standing': 'Standing',
  '/console/history': 'History',
  '/console/workers': 'Workers',
  '/console/skills': 'Skills',
} as const
export type Place = keyof typeof PLACES

/** `script`: the one that the page's rules let in (edge/pages/page-stream.ts). */
type Frame = { title: string; session: Session; place?: Place; script?: string; children?: unknown }

export function ConsolePage({ title, session, place, script, children }: Frame) {
  const top = (
    <>
      <a class="skip" href="#content">
        Skip to the content
      </a>
      <form method="post" action="/console/sign-out" class="who">
        <FormToken session={session} />
        <span>{session.principal.name}</span>
        <button type="submit" class="plain">
          Sign out
        </button>
      </form>
      <nav aria-label="Console">
        {Object.entries(PLACES).map(([path, name]) => (
          <a href={path} aria-current={path === place ? 'page' : undefined}>
            {name}
          </a>
        ))}
      </nav>
    </>
  )
  return (
    <Page title={title} top={top} sheet={consoleStyle}>
      <div id="content" tabindex={-1}>
        {children as string}
      </div>
      {script === undefined ? '' : <script>{raw(script)}</script>}
    </Page>
  )
}

/** Hidden until the page follows nothing more while somebody writes there: what they have written stays (edge/pages/page-script.ts). */
export function IsOver({ here }: { here: string }) {
  return (
    <p class="alert" role="alert" id="over" hidden>
      Nothing can be answered from this page any more: it was decided meanwhile, or your session has ended.{' '}
      <a href={here}>Look again</a>
    </p>
  )
}

/** What proves that a form was shown to this session. */
export function FormToken({ session }: { session: Session }) {
  return <input type="hidden" name="form" value={session.form} />
}

/** `back`: what was asked for before anybody was signed in. */
export function signInPage(back: string, refused?: Failure) {
  return (
    <Page title="Sign in" sheet={consoleStyle}>
      <form method="post" action="/console/sign-in" class="narrow">
        <h1>Sign in</h1>
        {refused === undefined ? '' : <Refusal failure={refused} />}
        <input type="hidden" name="back" value={back} />
        <label for="key">Operator key</label>
        <input
          id="key"
          name="key"
          type="password"
          required
          autofocus
          autocomplete="current-password"
          autocapitalize="none"
          spellcheck={false}
          aria-describedby="key-help"
        />
        <p class="quiet" id="key-help">
          The key you were given as an operator; it begins with <code>cs_operator_</code>. It goes to this
          server alone.
        </p>
        <button type="submit" class="main">
          Sign in
        </button>
      </form>
    </Page>
  )
}

function Refusal({ failure }: { failure: Failure }) {
  const { code, detail } = failure
  const todo =
    code === 'unauthenticated' ? 'check the key; it may have been replaced or revoked' : adviceOf(failure)
  return (
    <p class="alert" role="alert">
      <Prose text={detail} />. <Prose text={todo} />.
    </p>
  )
}

export function refusedPage(session: Session, failure: Failure) {
  return (
    <ConsolePage title="Not done" session={session}>
      <NotDone title="That was not done" role="alert" failure={failure} />
      <a class="back" href="/console">
        Back to the inbox
      </a>
    </ConsolePage>
  )
}
