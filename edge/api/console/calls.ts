// Console pages on one call: view it, stream its output, cancel it.

import { ok } from '../../../shared/result.ts'
import { CONSOLE } from '../../../shared/routes/console.ts'
import { callPage, inWords, isEnding, SCRIPT, shownText } from '../../console/call-page.tsx'
import { sessionOf } from '../../console/session.ts'
import { html } from '../../pages/approval-page.tsx'
import { withScript } from '../../pages/page-stream.ts'
import { parsePosition, streamCall } from '../call-event-stream.ts'
import type { Verbs } from '../verb.ts'
import { findTarget, form, page, permitted, seeOther } from './session.ts'

export type CallRouteNames = 'consoleCall' | 'consoleOutput' | 'consoleCancel'

export const consoleCallRoutes: Verbs<CallRouteNames> = {
  consoleCall: page('consoleCall', async ({ env, params, query }, session) => {
    const target = findTarget(env, session, params.id, 'call')
    if (!target.ok) return target
    const { run, n } = target.value
    const [call, news] = await Promise.all([
      run.read(null, n, 0),
      run.nextOutput(null, n, null, parsePosition(query.after), 0),
    ])
    if (!call.ok) return call
    if (!news.ok) return news
    const mayCancel = permitted(session, CONSOLE.consoleCancel.action)
    const shown = html(
      callPage({ session, call: call.value, news: news.value, isRest: query.after !== '0.0.0', mayCancel }),
    )
    return ok(call.value.ended_at_ms === undefined ? withScript(shown, SCRIPT) : shown)
  }),

  consoleOutput: page('consoleOutput', async ({ env, request, params, query, headers }, session) => {
    const target = findTarget(env, session, params.id, 'call')
    if (!target.ok) return target
    const mayRead = async () => {
      const found = await sessionOf(request, env, 'watched')
      return found.ok && permitted(found.value, CONSOLE.consoleOutput.action)
    }
    return streamCall({
      ...target.value,
      agent: null,
      owner: `session ${session.form}`,
      position: headers['last-event-id'] ?? query.after,
      mayRead,
      formatPiece: ({ bytes }) => ({ text: shownText(bytes) }),
      formatState: (state) => ({ words: inWords(state), attempt: state.attempt, leaving: isEnding(state) }),
      lastEvent: 'event: over\ndata: {}',
    })
  }),

  consoleCancel: form('consoleCancel', async ({ env, params }, session) => {
    const target = findTarget(env, session, params.id, 'call')
    if (!target.ok) return target
    const done = await target.value.run.cancel(null, target.value.n, {
      kind: 'operator',
      name: session.principal.name,
    })
    return done.ok ? ok(seeOther(`/console/calls/${params.id}`)) : done
  }),
}
