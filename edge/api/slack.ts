// What Slack sends: the bytes that it signed go to the tenant's channels, where the secret is. Nothing of them is looked at before that,
// and none is read where the headers, or a tenant without Slack, already say no: whoever sends them is a stranger.

import { failure } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import { err, ok } from '../../shared/result.ts'
import { channelObject } from '../bindings.ts'
import { FORGED, looksSigned } from '../channels/slack/request.ts'
import { readBody } from '../http/intake.ts'
import { isTenant } from '../http/known-tenants.ts'
import { headersOf } from '../http/response-headers.ts'
import type { Verbs } from './verb.ts'

const utf8 = new TextDecoder('utf-8', { fatal: false, ignoreBOM: true })

export const slackRoutes: Verbs<'slackInteraction'> = {
  async slackInteraction({ env, request, query: { tenant }, headers }) {
    if (!(await isTenant(env, tenant))) return err(failure('slack_refused', 'no such tenant'))
    const said = { timestamp: headers['x-slack-request-timestamp'], signature: headers['x-slack-signature'] }
    if (!looksSigned(said, Date.now())) return FORGED
    const channels = channelObject(env, tenant)
    if (!(await channels.hasSlack())) return FORGED
    const bytes = await readBody(request, LIMITS.slack_body_bytes)
    if (!bytes.ok) return bytes
    // Bytes that are no UTF-8 come out as others than were signed, and are refused for that.
    const answered = await channels.slackInteraction(tenant, { ...said, body: utf8.decode(bytes.value) })
    return answered.ok
      ? ok(new Response(answered.value, { headers: headersOf('application/json') }))
      : answered
  },
}
