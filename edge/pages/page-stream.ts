// A stream that tells what has changed to whoever has a page open, and the one script that a page may have. It ends when there is nothing
// more to follow, or when whoever follows may not any more; who that is, and what they are told, is the page's own business.

import { createHash, randomUUID } from 'node:crypto'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { ok } from '../../shared/result.ts'
import type { Env } from '../bindings.ts'
import { tenantObject } from '../bindings.ts'
import { headersOf } from '../http/response-headers.ts'

type Followed<T> = {
  env: Env
  tenant: string
  /** Of which link or which session it is, and the approval that it looks at, if at one. */
  whose: string
  approval: string | null
  /** What the browser has seen already, by the number of the last news. */
  from: number
  /** Asked each time: what is followed, if it still is and they still may; else `null`. */
  still: () => Promise<T | null>
  /** An event, without its id. */
  tell: (now: T, number: number) => Promise<string>
}

/** As often as anything changed what `tell` says, then `over`. */
export async function follow<T>({
  env,
  tenant,
  whose,
  approval,
  from,
  still,
  tell,
}: Followed<T>): Promise<Result<Response>> {
  const object = tenantObject(env, tenant)
  const following = { stream: randomUUID(), whose, approval }
  const entered = await object.follow(following)
  if (!entered.ok) return entered
  const text = new TextEncoder()
  let known = from
  const stream = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const send = (lines: string) => controller.enqueue(text.encode(`${lines}\n\n`))
      const number = await object.news(following, known, LIMITS.console_wait_ms)
      const now = await still()
      if (now === null) {
        send('event: over\ndata: {}')
        controller.close()
        return object.unfollow(following.stream)
      }
      if (number === known) return send(': still here') // keeps intermediaries from cutting a quiet stream
      known = number
      send(`id: ${number}\n${await tell(now, number)}`)
      await new Promise((resolve) => setTimeout(resolve, LIMITS.console_pause_ms))
    },
    cancel: () => object.unfollow(following.stream),
  })
  return ok(
    new Response(stream, { headers: { ...headersOf('text/event-stream'), 'x-accel-buffering': 'no' } }),
  )
}

/** The page's rules, with this script let in by its digest, and a stream from our own origin. */
export function withScript(page: Response, script: string): Response {
  const rules = page.headers.get('content-security-policy') ?? ''
  const digest = createHash('sha256').update(script).digest('base64')
  page.headers.set('content-security-policy', `${rules}; script-src 'sha256-${digest}'; connect-src 'self'`)
  return page
}
