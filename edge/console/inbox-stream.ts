// The live stream of the console's inbox and approval pages, and the script that shows it. Each
// event holds what a reload of the page would show to the same session. It ends with the session.

import { splitId } from '../../shared/ids.ts'
import type { Result } from '../../shared/result.ts'
import type { Env } from '../bindings.ts'
import { runObject } from '../bindings.ts'
import { FOLLOW } from '../pages/page-script.ts'
import { follow } from '../pages/page-stream.ts'
import type { InboxFragment } from './inbox-fragment.tsx'
import type { Session } from './session.ts'

type InboxStream = {
  env: Env
  tenant: string
  whose: string
  /** The approval that the page shows, if it shows one: the stream ends with it. */
  approval: string | null
  /** The number of the last change that the browser has seen. */
  from: number
  /** Called after each change: the session, or `null` if it ended or lost its permission. */
  session: () => Promise<Session | null>
  tell: (session: Session, number: number) => Promise<InboxFragment>
}

/** Sends `inbox` after each change (on an approval's page `waits`), and `over` at the end. */
export function liveInbox({
  env,
  tenant,
  whose,
  approval,
  from,
  session,
  tell,
}: InboxStream): Promise<Result<Response>> {
  const still = async () => {
    const reader = await session()
    return reader !== null && (approval === null || (await isPending(env, tenant, approval))) ? reader : null
  }
  const event = async (reader: Session, number: number) =>
    approval === null
      ? `event: inbox\ndata: ${JSON.stringify(await tell(reader, number))}`
      : 'event: waits\ndata: {}'
  return follow({ env, tenant, whose, approval, from, still, tell: event })
}

async function isPending(env: Env, tenant: string, id: string): Promise<boolean> {
  const { run, n } = splitId(id)
  const approval = await runObject(env, tenant, run).approval(n)
  return approval.ok && approval.value.status === 'pending' && Date.now() < approval.value.expires_at
}

/**
 * Keeps the selection and the focus, and changes the status text only if it differs (screen
 * readers).
 */
export const SCRIPT = `{${FOLLOW}
follow({
  inbox: ({ words: text, list }) => {
    const words = document.getElementById('words')
    const selected = new Set([...watched.querySelectorAll('input:checked')].map((box) => box.id))
    const focus = watched.contains(document.activeElement) ? document.activeElement.id : ''
    watched.innerHTML = list
    for (const box of watched.querySelectorAll('input')) box.checked = selected.has(box.id)
    if (focus !== '') (document.getElementById(focus) ?? words).focus()
    if (words.textContent !== text) words.textContent = text
  },
})
}`
