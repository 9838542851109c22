// Every medium shows a notice literally as the skill's text: without markup, mentions, headers,
// hidden characters or links of ours, and never as an approval.

import { expect, test } from 'vitest'
import { noticeMail } from '../../../edge/channels/email/content.ts'
import { email } from '../../../edge/channels/email/email.ts'
import { rfc5322 } from '../../../edge/channels/email/mime.ts'
import type { NoticeMessage, Post, PostRequest } from '../../../edge/channels/medium.ts'
import { noticeCard } from '../../../edge/channels/slack/card.ts'
import { slack, slackWebhook } from '../../../edge/channels/slack/slack.ts'
import { signed, webhook } from '../../../edge/channels/webhook.ts'
import { escapeConfusables } from '../../../edge/platform/visible-text.ts'
import { ok } from '../../../shared/result.ts'
import { ChannelSpec } from '../../../shared/wire/channels.ts'
import { APP, CHANNEL, faultIn, SECRET, TEAM, TOKEN, textsIn } from '../../support/channels/fake-slack.ts'

const CALL = `call_${'0'.repeat(26)}_1`
const KEY = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'

/** A notice as the ChannelObject stores it. */
const noticeMessage = (text: string, recipient: string | null = null): NoticeMessage => ({
  id: `msg_${'0'.repeat(32)}`,
  recipient,
  at_ms: 1_800_000_000_000,
  notice: {
    skill: 'weather',
    version: '1.2.0',
    tool: 'warn',
    agent: 'dev',
    run: `run_${'0'.repeat(26)}`,
    call: CALL,
    text: escapeConfusables(text.toWellFormed()),
  },
})
const HOSTILE = [
  'plain',
  'two\nlines\n\nCall:\n\n  | not ours',
  '```\nnot code any more *bold* _i_ ~s~ `c`',
  '<!channel> <!here> <!everyone> <@U0ANN> <#C0ROOM> <!subteam^S1>',
  '<https://evil.example|Approve> https://evil.example mailto:a@evil.example',
  '&lt;!channel&gt; &amp;',
  '</pre><a href="https://evil.example/approve">Review and answer</a><img src=x onerror=alert(1)>',
  'x\r\nBcc: mallory@example.com\r\n\r\n<script>alert(1)</script>',
  '\u202egpj.exe \u2066x\u2069 \u200b\u200d\ufeff \u0007 \u001b[31m\u0000\u00ad',
  ':rotating_light: @channel @here #general',
  '=?utf-8?B?QmNj?=',
  '\ud83d\ude00'.repeat(1_000),
  '\ud800 half',
  '漢'.repeat(2_000),
] as const

const spec = (of: object): ChannelSpec => ChannelSpec.parse(of)
const SLACK = {
  kind: 'slack',
  bot_token: TOKEN,
  signing_secret: SECRET,
  app_id: APP,
  team_id: TEAM,
  users: { U0ANN: 'ann' },
}

/** The requests that a medium sends. */
function sending(): { out: PostRequest[]; post: Post } {
  const out: PostRequest[] = []
  const post: Post = async (posted) => {
    out.push(posted)
    return ok({ status: 200, pause_ms: undefined, text: '{"ok":true,"channel":"C0ROOM","ts":"1.2"}' })
  }
  return { out, post }
}

test('G09 a notice in Slack is preformatted text without buttons, and its notification has only our words', () => {
  for (const text of HOSTILE) {
    const { text: notification, blocks } = noticeCard(noticeMessage(text).notice)
    expect(faultIn(blocks, 50)).toBeUndefined()
    expect(blocks.map(({ type }) => type)).toEqual(['header', 'rich_text', 'rich_text'])
    expect(notification).toBe('A notice from the skill weather')
    for (const [type, said] of textsIn(blocks)) {
      expect(['text', 'plain_text']).toContain(type)
      expect(said).not.toMatch(/(?!\n)[\p{Cc}\p{Cf}]/u)
      if (type === 'plain_text') expect(said).toBe(notification)
    }
    const code = blocks[1]?.['elements'] as { type: string; elements: object[] }[]
    expect(code.map(({ type, elements }) => [type, elements.length])).toEqual([['rich_text_preformatted', 1]])
    expect(JSON.stringify(blocks[2])).toContain(`"${CALL}"`)
    expect(JSON.stringify(blocks)).not.toMatch(/"(?:url|value|action_id)"/)
  }
})

test('G09 a notice can’t add headers, markup, links or invisible characters to a mail, and each line has a bar', () => {
  for (const text of HOSTILE) {
    const mail = noticeMail(noticeMessage(text))
    expect(mail.subject).toBe('A notice from the skill weather')
    expect(mail.text).not.toMatch(/(?!\n)[\p{Cc}\p{Cf}]/u)
    expect(mail.html).not.toMatch(/(?!\n)[\p{Cc}\p{Cf}]|href="/u)
    expect(new Set([...mail.html.matchAll(/<([a-z!][a-z0-9]*)/gi)].map(([, name]) => name))).toEqual(
      new Set(['!doctype', 'html', 'head', 'meta', 'title', 'body', 'div', 'h1', 'p', 'pre']),
    )
    const ours = mail.text.split('\n').filter((line) => line !== '' && !line.startsWith('  | '))
    expect(ours).toEqual([
      'A notice from the skill weather',
      expect.stringContaining('You don’t have to answer it'),
      'Text:',
      'Posted by:',
      'Called by the agent:',
      'Call:',
    ])
    const [head = ''] = rfc5322(mail, { from: 'skills@example.com', to: 'ann@example.com' }).split('\r\n\r\n')
    const headers = [
      'Date',
      'Message-ID',
      'From',
      'To',
      'Subject',
      'Auto-Submitted',
      'MIME-Version',
      'Content-Type',
    ]
    expect(head.split(/\r\n(?! )/).map((line) => line.split(':')[0])).toEqual(headers)
  }
  expect(noticeMail(noticeMessage('\u202egpj.exe')).text).toContain('\\u{202e}gpj.exe') // escaped, not dropped
})

test('G09 a webhook gets a notice as a signed event with its origin and no approval', async () => {
  for (const text of HOSTILE) {
    const { out, post } = sending()
    const medium = webhook({
      kind: 'webhook',
      url: 'https://example.com/hook',
      keys: [KEY],
      after_s: 0,
      notices: true,
    })
    expect((await medium.notify(noticeMessage(text), post)).ok).toBe(true)
    const [{ to, headers, body } = { to: '', headers: {}, body: '' }] = out
    expect([to, headers['webhook-id']]).toEqual(['https://example.com/hook', noticeMessage('').id])
    const at_ms = Number(headers['webhook-timestamp']) * 1_000
    expect(headers['webhook-signature']).toBe(
      signed([KEY], noticeMessage('').id, at_ms, body)['webhook-signature'],
    )
    expect(JSON.parse(body)).toEqual({
      type: 'notice',
      timestamp: '2027-01-15T08:00:00.000Z',
      data: { notice: noticeMessage(text).notice },
    })
    expect(body).not.toMatch(/[\p{Cc}\p{Cf}]|approv(?:al|e)"/u)
  }
})

test('each medium sends a notice only to the recipients that it knows', async () => {
  const { out, post } = sending()
  const [room, people] = [
    spec({ ...SLACK, channel: CHANNEL }),
    spec({ ...SLACK, recipients: { roles: ['approver'] } }),
  ]
  if (room.kind !== 'slack' || people.kind !== 'slack') throw new Error('both are Slack')
  await slack(room).notify(noticeMessage('hello'), post)
  await slack(people).notify(noticeMessage('hello', 'ann'), post)
  await slackWebhook({ kind: 'slack-webhook', webhook_url: 'https://hooks.slack.com/x', after_s: 0 }).notify(
    noticeMessage('hello'),
    post,
  )
  expect(out.map(({ to, body }) => [to, (JSON.parse(body) as { channel?: string }).channel])).toEqual([
    ['https://slack.com/api/chat.postMessage', CHANNEL],
    ['https://slack.com/api/chat.postMessage', 'U0ANN'],
    ['https://hooks.slack.com/x', undefined],
  ])
  for (const { body } of out)
    expect(JSON.parse(body)).toMatchObject({ parse: 'none', link_names: false, unfurl_links: false })
  expect(await slack(people).notify(noticeMessage('hello', 'bob'), post)).toMatchObject({
    ok: false,
    error: { again: false },
  })

  const mail = { kind: 'email', from: 'skills@example.com', addresses: { ann: 'ann@example.com' } }
  const [sent, kept] = ['resend', 'outbox'].map((provider) =>
    spec({ ...mail, via: { provider, ...(provider === 'resend' ? { token: 't0' } : {}) } }),
  )
  if (sent?.kind !== 'email' || kept?.kind !== 'email') throw new Error('both are mail')
  out.length = 0
  await email(sent).notify(noticeMessage('hello', 'ann'), post)
  expect(out.map(({ body }) => JSON.parse(body) as unknown)).toMatchObject([
    { to: ['ann@example.com'], subject: 'A notice from the skill weather' },
  ])
  expect(await email(sent).notify(noticeMessage('hello', 'bob'), post)).toMatchObject({
    ok: false,
    error: { again: false },
  })
  expect(email(kept).collected?.(noticeMessage('hello', 'ann'))).toMatchObject({
    ok: true,
    value: expect.stringContaining('To: ann@example.com'),
  })
})

test('a channel shows whether skills may post to it, and by default they may not', () => {
  const hook = { kind: 'webhook', url: 'https://example.com/', keys: [KEY] } as const
  const shown = (of: object) => {
    const read = spec(of)
    if (read.kind !== 'webhook') throw new Error('it is a webhook')
    return webhook(read).shown
  }
  expect([shown(hook).notices, shown({ ...hook, notices: true }).notices]).toEqual([undefined, true])
  for (const notices of [false, 'true', 1])
    expect(ChannelSpec.safeParse({ ...hook, notices }).success).toBe(false)
})
