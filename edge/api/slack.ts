// Interactions from Slack. The sender is a stranger until the tenant's channel object, which has
// the secret, has verified the signature. So nothing is parsed here, and the body is read only if
// the headers are plausible and the tenant uses Slack.

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
    const signed = {
      timestamp: headers['x-slack-request-timestamp'],
      signature: headers['x-slack-signature'],
    }
    if (!looksSigned(signed, Date.now())) return FORGED
    const channels = channelObject(env, tenant)
    if (!(await channels.hasSlack())) return FORGED
    const bytes = await readBody(request, LIMITS.slack_body_bytes)
    if (!bytes.ok) return bytes
    // Invalid UTF-8 decodes to other bytes than were signed, so the signature check refuses it.
    const answered = await channels.slackInteraction(tenant, { ...signed, body: utf8.decode(bytes.value) })
    return answered.ok
      ? ok(new Response(answered.value, { headers: headersOf('application/json') }))
      : answered
  },
}
