// The list that follows what happens, and the little script that shows it. Without the script the page is the same, and is looked at again by
// hand. What the stream tells is what the page would show to the same session now; it ends with the session.

import { createHash } from 'node:crypto'
import { split } from '../../shared/ids.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Env } from '../env.ts'
import { runObject, tenantObject } from '../env.ts'
import { headersOf } from '../headers.ts'
import type { Session } from './session.ts'
import type { Told } from './telling.tsx'

type Watch = {
  env: Env
  tenant: string
  /** The approval that is looked at, if one is: the stream ends with it. */
  approval: string | null
  /** What the browser has seen already. */
  from: number
  /** Asked each time: who watches, if they still may. */
  session: () => Promise<Session | null>
  tell: (session: Session, number: number) => Promise<Told>
}

/** `inbox` as often as anything changed, then `over`. */
export function liveInbox({ env, tenant, approval, from, session, tell }: Watch): Response {
  const text = new TextEncoder()
  let known = from
  const stream = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const send = (lines: string) => controller.enqueue(text.encode(`${lines}\n\n`))
      const number = await tenantObject(env, tenant).news(known, LIMITS.console_wait_ms)
      const watching = await session()
      if (watching === null || (approval !== null && !(await isPending(env, tenant, approval)))) {
        send('event: over\ndata: {}')
        return controller.close()
      }
      if (number === known) return send(': still here') // keeps intermediaries from cutting a quiet stream
      known = number
      if (approval === null) send(`id: ${number}\nevent: inbox\ndata: ${JSON.stringify(await tell(watching, number))}`)
      else send(`id: ${number}\nevent: waits\ndata: {}`)
      await new Promise((resolve) => setTimeout(resolve, LIMITS.console_pause_ms))
    },
  })
  return new Response(stream, { headers: { ...headersOf('text/event-stream'), 'x-accel-buffering': 'no' } })
}

async function isPending(env: Env, tenant: string, id: string): Promise<boolean> {
  const { run, n } = split(id)
  const approval = await runObject(env, tenant, run).approval(n)
  return approval.ok && approval.value.status === 'pending' && Date.now() < approval.value.expires_at
}

/** What was chosen stays chosen, what had the focus keeps it, and what is said is said once. */
export const SCRIPT = `{
const watched = document.querySelector('[data-live]')
const source = new EventSource(watched.dataset.live)
source.addEventListener('inbox', ({ data }) => {
  const { words, list } = JSON.parse(data)
  const said = document.getElementById('words')
  const chosen = new Set([...watched.querySelectorAll('input:checked')].map((box) => box.value))
  const focus = watched.contains(document.activeElement) ? document.activeElement.id : ''
  watched.innerHTML = list
  for (const box of watched.querySelectorAll('input')) box.checked = chosen.has(box.value)
  if (focus !== '') (document.getElementById(focus) ?? said).focus()
  if (said.textContent !== words) said.textContent = words
})
source.addEventListener('over', () => { source.close(); location.reload() })
}`

const HASH = createHash('sha256').update(SCRIPT).digest('base64')

/** The page's rules, with this script let in by its digest, and the stream from our own origin. */
export function withScript(page: Response): Response {
  const rules = page.headers.get('content-security-policy') ?? ''
  page.headers.set('content-security-policy', `${rules}; script-src 'sha256-${HASH}'; connect-src 'self'`)
  return page
}
