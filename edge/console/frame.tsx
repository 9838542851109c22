// The frame of every console page (navigation, operator, sign-out), the sign-in page and the
// refusal page.

import { raw } from 'hono/html'
import type { Failure } from '../../shared/failures.ts'
import { adviceOf } from '../../shared/failures.ts'
import { Page, Prose, Refusal } from '../pages/approval-page.tsx'
import type { Session } from './session.ts'
import { consoleStyle } from './style.ts'

const SECTIONS = {
  '/console': 'Inbox',
  '/console/standing': 'Standing answers',
  '/console/history': 'History',
  '/console/workers': 'Workers',
  '/console/skills': 'Skills',
} as const
export type Section = keyof typeof SECTIONS

/** `script`: the one script that the page's CSP allows (edge/pages/page-stream.ts). */
type Frame = { title: string; session: Session; place?: Section; script?: string; children?: unknown }

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
        {Object.entries(SECTIONS).map(([path, name]) => (
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

/**
 * Hidden until the page's stream ends while somebody is writing: the script then shows this instead
 * of reloading, so that their text stays (edge/pages/page-script.ts).
 */
export function OutOfDate({ here }: { here: string }) {
  return (
    <p class="alert" role="alert" id="over" hidden>
      This page is out of date: the request was decided, or your session has ended. <a href={here}>Reload</a>
    </p>
  )
}

/** Proves that the form was shown to this session. */
export function FormToken({ session }: { session: Session }) {
  return <input type="hidden" name="form" value={session.form} />
}

/** `back`: the path to return to after signing in. */
export function signInPage(back: string, refused?: Failure) {
  return (
    <Page title="Sign in" sheet={consoleStyle}>
      <form method="post" action="/console/sign-in" class="narrow">
        <h1>Sign in</h1>
        {refused === undefined ? '' : <SignInRefusal failure={refused} />}
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
          Your operator key. It begins with <code>cs_operator_</code> and is sent to this server only.
        </p>
        <button type="submit" class="main">
          Sign in
        </button>
      </form>
    </Page>
  )
}

function SignInRefusal({ failure }: { failure: Failure }) {
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
    <ConsolePage title="Nothing was changed" session={session}>
      <Refusal title="Nothing was changed" role="alert" failure={failure} />
      <a class="back" href="/console">
        Back to the inbox
      </a>
    </ConsolePage>
  )
}
