// What operators do in a browser about one call: look at it, follow it while it goes on, ask for its end. Behind the doors, one verb → a
// page or a stream.

import { ok } from '../../shared/result.ts'
import { CONSOLE } from '../../shared/routes/console.ts'
import { callPage, inWords, isLeaving, SCRIPT, shownText } from '../console/call-page.tsx'
import { sessionOf } from '../console/session.ts'
import { html } from '../pages/approval-page.tsx'
import { withScript } from '../pages/page-stream.ts'
import { heardAt, outputStream } from './call-event-stream.ts'
import { form, page, permitted, placeOf, seeOther } from './console-session.ts'
import type { Verbs } from './verb.ts'

export type CallNames = 'consoleCall' | 'consoleOutput' | 'consoleCancel'

export const consoleCallRoutes: Verbs<CallNames> = {
  consoleCall: page('consoleCall', async ({ env, params, query }, session) => {
    const place = placeOf(env, session, params.id, 'call')
    if (!place.ok) return place
    const { run, n } = place.value
    const [call, news] = await Promise.all([
      run.read(null, n, 0),
      run.hear(null, n, null, heardAt(query.after), 0),
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
    const place = placeOf(env, session, params.id, 'call')
    if (!place.ok) return place
    const still = async () => {
      const found = await sessionOf(request, env, 'watched')
      return found.ok && permitted(found.value, CONSOLE.consoleOutput.action)
    }
    return outputStream({
      ...place.value,
      agent: null,
      whose: `session ${session.form}`,
      position: headers['last-event-id'] ?? query.after,
      still,
      piece: ({ bytes }) => ({ text: shownText(bytes) }),
      state: (state) => ({ words: inWords(state), attempt: state.attempt, leaving: isLeaving(state) }),
      farewell: 'event: over\ndata: {}',
    })
  }),

  consoleCancel: form('consoleCancel', async ({ env, params }, session) => {
    const place = placeOf(env, session, params.id, 'call')
    if (!place.ok) return place
    const done = await place.value.run.cancel(null, place.value.n, {
      kind: 'operator',
      name: session.principal.name,
    })
    return done.ok ? ok(seeOther(`/console/calls/${params.id}`)) : done
  }),
}
