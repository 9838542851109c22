// The live stream of an open page (server-sent events), and the CSP for its one script. The stream
// ends when there is nothing left to follow or the reader may no longer read it. The page decides
// who may read and what each event contains.

import { createHash, randomUUID } from 'node:crypto'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { ok } from '../../shared/result.ts'
import type { Env } from '../bindings.ts'
import { tenantObject } from '../bindings.ts'
import { streamHeaders } from '../http/response-headers.ts'

type PageStream<T> = {
  env: Env
  tenant: string
  /** The link or session that the stream belongs to: it has a limited number of streams. */
  whose: string
  /** The approval that the page shows, if it shows one. */
  approval: string | null
  /** The number of the last change that the browser has seen. */
  from: number
  /**
   * Called after each change: what is followed, or `null` if it ended or the reader lost access.
   */
  still: () => Promise<T | null>
  /** Renders an event, without its id. */
  tell: (now: T, number: number) => Promise<string>
}

/** Sends an event after each change, and `over` at the end. */
export async function follow<T>({
  env,
  tenant,
  whose,
  approval,
  from,
  still,
  tell,
}: PageStream<T>): Promise<Result<Response>> {
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
  return ok(new Response(stream, { headers: streamHeaders() }))
}

/** Extends the page's CSP to allow this script, by its digest, and streams from our own origin. */
export function withScript(page: Response, script: string): Response {
  const rules = page.headers.get('content-security-policy') ?? ''
  const digest = createHash('sha256').update(script).digest('base64')
  page.headers.set('content-security-policy', `${rules}; script-src 'sha256-${digest}'; connect-src 'self'`)
  return page
}
