// The adapter for each kind of channel.

import type { ChannelSpec } from '../../shared/wire/channels.ts'
import { email } from './email/email.ts'
import type { Medium } from './medium.ts'
import { slack, slackWebhook } from './slack/slack.ts'
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
