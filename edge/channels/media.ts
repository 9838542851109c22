// Which kinds of channels there are.

import type { ChannelSpec } from '../../shared/channels.ts'
import { email } from './email.ts'
import type { Medium } from './port.ts'
import { slack, slackWebhook } from './slack.ts'
import { webhook } from './webhook.ts'

export function mediumOf(spec: ChannelSpec): Medium {
  switch (spec.kind) {
    case 'webhook':
      return webhook(spec)
    case 'email':
      return email(spec)
    case 'slack':
      return slack(spec)
    case 'slack-webhook':
      return slackWebhook(spec)
  }
}
