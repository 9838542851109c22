// The list that follows what happens, and the little script that shows it. Without the script the page is the same, and is looked at
// again by hand. What the stream tells is what the page would show to the same session now; it ends with the session.

import { split } from '../../shared/ids.ts'
import type { Result } from '../../shared/result.ts'
import type { Env } from '../bindings.ts'
import { runObject } from '../bindings.ts'
import { FOLLOW } from '../pages/page-script.ts'
import { follow } from '../pages/page-stream.ts'
import type { Told } from './inbox-fragment.tsx'
import type { Session } from './session.ts'

type Watch = {
  env: Env
  tenant: string
  whose: string
  /** The approval that is looked at, if one is: the stream ends with it. */
  approval: string | null
  /** What the browser has seen already. */
  from: number
  /** Asked each time: who watches, if they still may. */
  session: () => Promise<Session | null>
  tell: (session: Session, number: number) => Promise<Told>
}

/** `inbox` as often as anything changed, then `over`. */
export function liveInbox({
  env,
  tenant,
  whose,
  approval,
  from,
  session,
  tell,
}: Watch): Promise<Result<Response>> {
  const still = async () => {
    const watching = await session()
    return watching !== null && (approval === null || (await isPending(env, tenant, approval)))
      ? watching
      : null
  }
  const said = async (watching: Session, number: number) =>
    approval === null
      ? `event: inbox\ndata: ${JSON.stringify(await tell(watching, number))}`
      : 'event: waits\ndata: {}'
  return follow({ env, tenant, whose, approval, from, still, tell: said })
}

async function isPending(env: Env, tenant: string, id: string): Promise<boolean> {
  const { run, n } = split(id)
  const approval = await runObject(env, tenant, run).approval(n)
  return approval.ok && approval.value.status === 'pending' && Date.now() < approval.value.expires_at
}

/** What was chosen stays chosen, what had the focus keeps it, and what is said is said once. */
export const SCRIPT = `{${FOLLOW}
follow({
  inbox: ({ words, list }) => {
    const said = document.getElementById('words')
    const chosen = new Set([...watched.querySelectorAll('input:checked')].map((box) => box.id))
    const focus = watched.contains(document.activeElement) ? document.activeElement.id : ''
    watched.innerHTML = list
    for (const box of watched.querySelectorAll('input')) box.checked = chosen.has(box.id)
    if (focus !== '') (document.getElementById(focus) ?? said).focus()
    if (said.textContent !== words) said.textContent = words
  },
})
}`
