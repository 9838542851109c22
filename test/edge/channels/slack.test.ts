// Slack shows an agent's text literally and within its limits, and its requests count only with a
// valid signature.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { optionsFor } from '../../../edge/approvals/card.ts'
import type { Message, Post } from '../../../edge/channels/medium.ts'
import {
  askedCard,
  endedCard,
  escaped,
  form,
  parseChoice,
  readersCard,
} from '../../../edge/channels/slack/card.ts'
import { isFresh, readInteraction, signatureHolds, signers } from '../../../edge/channels/slack/request.ts'
import { slack, slackWebhook } from '../../../edge/channels/slack/slack.ts'
import { testApproval } from '../../../edge/channels/test-approval.ts'
import { readableJson } from '../../../edge/platform/visible-text.ts'
import { ROOT } from '../../../infra/state.ts'
import { LIMITS } from '../../../shared/limits.ts'
import { ok } from '../../../shared/result.ts'
import { ROUTES } from '../../../shared/routes/all.ts'
import type { Approval } from '../../../shared/wire/approvals.ts'
import { ChannelSpec } from '../../../shared/wire/channels.ts'
import {
  APP,
  type Block,
  buttonsOf,
  CHANNEL,
  faultIn,
  press,
  SECRET,
  send,
  TEAM,
  TOKEN,
  textsIn,
} from '../../support/channels/fake-slack.ts'

/** The example of Slack's documentation: an app's secret, a request and its signature. */
const DOCUMENTED = {
  secret: '8f742231b10e8888abcd99yyyzzz85a5',
  timestamp: '1531420618',
  body: 'token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c',
  signature: 'v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503',
}

test('P10 Slack’s documented example signature is valid, and invalid if anything is changed', () => {
  const { secret, ...signed } = DOCUMENTED
  expect(signatureHolds(secret, signed)).toBe(true)
  expect(signatureHolds(`${secret}0`, signed)).toBe(false)
  expect(signatureHolds(secret, { ...signed, body: `${signed.body} ` })).toBe(false)
  expect(signatureHolds(secret, { ...signed, timestamp: '1531420619' })).toBe(false)
  for (let i = 0; i < signed.signature.length; i++) {
    const other = signed.signature[i] === '0' ? '1' : '0'
    expect(
      signatureHolds(secret, {
        ...signed,
        signature: signed.signature.slice(0, i) + other + signed.signature.slice(i + 1),
      }),
    ).toBe(false)
  }
  for (const signature of [
    '',
    'v0=',
    signed.signature.slice(3),
    signed.signature.toUpperCase(),
    `${signed.signature}0`,
    `v1${signed.signature.slice(2)}`,
  ])
    expect(signatureHolds(secret, { ...signed, signature })).toBe(false)
})

test('P10 only Slack apps whose secret signed a request are considered', () => {
  const { secret, ...signed } = DOCUMENTED
  expect([...signers([`${secret}0`, secret, secret], signed)]).toEqual([secret])
  expect([...signers([`${secret}0`], signed)]).toEqual([])
})

test('P10 a Slack timestamp is accepted within five minutes (`slack_age_s`), as a whole number of seconds', () => {
  const at = 1_531_420_618
  const fresh = (timestamp: string, now: number): boolean => isFresh({ timestamp }, now * 1000)
  for (const now of [at, at + 299, at + 300, at - 300]) expect(fresh(String(at), now)).toBe(true)
  for (const now of [at + 301, at - 301, at + 86_400]) expect(fresh(String(at), now)).toBe(false)
  for (const timestamp of [
    '',
    'NaN',
    '1e9',
    ' 1531420618',
    '1531420618.5',
    '0x5b47b58a',
    '-1531420618',
    'Infinity',
  ])
    expect(fresh(timestamp, at)).toBe(false)
})

// ── Cards ──

const HOSTILE = [
  'plain',
  '```\nnot code any more *bold* _i_ ~s~ `c`',
  '<!channel> <!here> <!everyone> <@U0ANN> <#C0ROOM> <!subteam^S1>',
  '<https://evil.example|Approve> https://evil.example mailto:a@evil.example',
  '&lt;!channel&gt; &amp;',
  '\u202egpj.exe \u2066x\u2069 \u200b\u200d\ufeff \u0007 \u001b[31m',
  ':rotating_light: @channel @here #general',
  '\ud83d\ude00'.repeat(5_000),
  'x'.repeat(100_000),
  '\n'.repeat(5_000),
  '漢'.repeat(50_000),
  `${'<'.repeat(4_000)}${'&'.repeat(4_000)}`,
] as const

const approvalWith = (value: string, change: Partial<Approval['prompt']> = {}): Approval => ({
  ...testApproval(0),
  status: 'pending',
  prompt: {
    ...testApproval(0).prompt,
    command: readableJson(['echo', value]),
    arguments: readableJson({ value }),
    plan: `runs \`${value}\``,
    reason: value,
    agent_says: value,
    ...change,
  },
})
const seal = () => 's'.repeat(43)
const about = (approval: Approval): Message => ({
  id: 'msg_1',
  kind: 'asked',
  approval,
  recipient: null,
  link: null,
  page: 'https://edge/console',
  seal,
  at_ms: 0,
})

test('G09 a text of an agent stays literal in its Slack block: no mark-up, mention, link or text direction', () => {
  for (const value of HOSTILE) {
    const approval = approvalWith(value)
    const answers: Approval['answers'] = [
      {
        by: 'ann',
        decision: 'approve',
        channel: 'slack',
        assurance: 'slack',
        scope: 'session',
        reason: value,
        at_ms: 0,
      },
    ]
    const ended: Approval = { ...approval, status: 'approved', answers }
    const shown = [askedCard(about(approval)), readersCard(about(approval)), endedCard(ended)]
    for (const { text, blocks } of [
      ...shown,
      { text: '', blocks: (form(approval, 'x') as Block)['blocks'] as Block[] },
    ]) {
      expect(faultIn(blocks, 50)).toBeUndefined()
      expect(text).not.toMatch(/[<>]/)
      // There are two kinds of text: rich text elements, and our own plain text. Neither is mrkdwn.
      for (const [type, said] of textsIn(blocks)) {
        expect(['text', 'plain_text']).toContain(type)
        expect(said).not.toMatch(/[\u202a-\u202e\u2066-\u2069\u200b-\u200f\ufeff\u0000-\u0009\u000b-\u001f]/)
        if (type === 'plain_text') expect(said).not.toMatch(/[<>&`*@#]/)
      }
    }
  }
  expect(JSON.stringify(askedCard(about(approvalWith('```\n<!channel>'))).blocks)).toContain(
    'rich_text_preformatted',
  )
  expect(escaped('<!channel> & <@U1>')).toBe('&lt;!channel&gt; &amp; &lt;@U1&gt;')
})

test('Slack shows the agent’s reason as its own words in a block of literal text, in questions, outcomes and the form', () => {
  const approval = approvalWith('x', { agent_says: '*bold* <!channel>' })
  const ended: Approval = { ...approval, status: 'approved' }
  const shown = [askedCard(about(approval)), readersCard(about(approval)), endedCard(ended)]
  const modal = (form(approval, 'x') as Block)['blocks'] as Block[]
  for (const blocks of [...shown.map((card) => card.blocks), modal]) {
    const label = blocks.findIndex((block) => JSON.stringify(block).includes('The agent says (not verified)'))
    expect(blocks[label + 1]).toEqual({
      type: 'rich_text',
      elements: [{ type: 'rich_text_preformatted', elements: [{ type: 'text', text: '*bold* <!channel>' }] }],
    })
  }
  const { agent_says: _, ...silent } = approval.prompt
  expect(JSON.stringify(askedCard(about({ ...approval, prompt: silent })))).not.toContain('The agent says')
})

test('a text longer than `slack_chars` says how much is missing and the digest of the whole', () => {
  const { blocks } = askedCard(about(approvalWith('x'.repeat(100_000))))
  const said = textsIn(blocks).map(([, text]) => text)
  expect(
    said.filter((text) => /characters more, sha256 of all [0-9a-f]{16}/.test(text)).length,
  ).toBeGreaterThanOrEqual(2)
  expect(Math.max(...said.map((text) => text.length))).toBeLessThanOrEqual(3_000)
})

test('approving a critical call in Slack asks for confirmation; outcomes and tests have no answering buttons', () => {
  const buttons = (approval: Approval) => buttonsOf({ blocks: askedCard(about(approval)).blocks as Block[] })
  expect([...buttons(approvalWith('x')).keys()]).toEqual(['approve', 'deny', 'more', 'page'])
  expect(buttons(approvalWith('x')).get('approve')?.['confirm']).toBeUndefined()
  expect(buttons(approvalWith('x', { risk: 'critical' })).get('approve')?.['confirm']).toBeDefined()
  expect([...buttonsOf({ blocks: readersCard(about(approvalWith('x'))).blocks as Block[] }).keys()]).toEqual([
    'page',
  ])
  expect([...buttonsOf({ blocks: endedCard(approvalWith('x')).blocks as Block[] }).keys()]).toEqual([])
})

test('the Slack form offers the standing answers that policy allows and parses only those', () => {
  const offered = (standing?: NonNullable<Approval['prompt']['standing']>) => {
    const { prompt, ...approval } = approvalWith('x', standing === undefined ? {} : { standing })
    const view = form({ ...approval, prompt, options: optionsFor(prompt) }, 'state') as Block
    const elements = (view['blocks'] as Block[]).flatMap(({ element }) =>
      element === undefined ? [] : [element as { options?: { value: string }[] }],
    )
    return {
      view: JSON.stringify(view),
      said: elements.flatMap(({ options = [] }) => options.map(({ value }) => value)),
    }
  }
  expect(offered().said).toEqual(['deny', 'approve'])
  expect(offered({ covers: 'all of it', most_s: 0 }).said).toEqual(['deny', 'approve', 'deny session'])
  expect(offered({ covers: 'all of it', most_s: 600 }).said).toEqual([
    'deny',
    'approve',
    'deny session',
    'approve 600',
    'approve 60',
  ])
  const all = offered({ covers: 'every call of `x`', most_s: LIMITS.standing_s })
  expect(all.said).toContain('approve session')
  expect(all.view).toContain('very call of ')
  expect(all.said.map(parseChoice)).not.toContain(undefined)
  expect(parseChoice('approve 600')).toEqual({ decision: 'approve', scope: 'timeboxed', ttl_s: 600 })
  for (const said of [
    '',
    'more',
    'approve ',
    'approve  session',
    'approve -1',
    'approve 1e3',
    'approve 999999',
    'Approve',
    'approve session 60',
    'approve\n',
  ])
    expect([said, parseChoice(said)]).toEqual([said, undefined])
})

// ── Payloads ──

const bodyOf = (payload: unknown): string =>
  new URLSearchParams({ payload: JSON.stringify(payload) }).toString()
const card = askedCard(about(approvalWith('x')))
const message = { channel: CHANNEL, ts: '1.2', text: card.text, blocks: card.blocks as Block[], edits: 0 }

test('button presses and forms of Slack are parsed, opened links ignored, and other payloads refused', () => {
  const id = approvalWith('x').id
  expect(readInteraction(bodyOf(press(message, 'approve')))).toMatchObject({
    ok: true,
    value: {
      kind: 'pressed',
      app: APP,
      team: TEAM,
      user: 'U0ANN',
      about: { approval: id, use: 'approve', seal: seal() },
    },
  })
  expect(readInteraction(bodyOf(press(message, 'page')))).toMatchObject({
    ok: true,
    value: { kind: 'other' },
  })
  const view = { private_metadata: `${id}.form.${seal()}` }
  expect(readInteraction(bodyOf(send(view, 'deny', null)))).toMatchObject({
    ok: true,
    value: { kind: 'sent', answer: 'deny', reason: '' },
  })
  // The seal of a button is not valid for a form.
  expect(
    readInteraction(bodyOf(send({ private_metadata: `${id}.approve.${seal()}` }, 'approve', null))).ok,
  ).toBe(false)
  const pressed = press(message, 'deny')
  for (const body of [
    '',
    'payload=',
    'payload=%7B',
    'payload=null',
    'x=1',
    bodyOf([]),
    bodyOf({ type: 'url_verification' }),
    bodyOf({ ...pressed, type: 'message_action' }),
    bodyOf({ ...pressed, team: null }),
    bodyOf({ ...pressed, user: 'U0ANN' }),
    bodyOf({ ...pressed, actions: [] }),
    bodyOf({ ...pressed, actions: [{ action_id: 'deny', value: 1 }] }),
    bodyOf(send(view, 'deny', 'x'.repeat(LIMITS.reason_chars + 1))),
    `${bodyOf(pressed)}&${bodyOf(press(message, 'approve'))}`,
    'payload=%7B%22type%22%3A%22block_actions%22%2C%22type%22%3A%22view_submission%22%7D',
  ])
    expect([body.slice(0, 60), readInteraction(body).ok]).toEqual([body.slice(0, 60), false])
})

test('P10 a user from another workspace in a shared channel is not accepted', () => {
  expect(readInteraction(bodyOf(press(message, 'deny', { home: 'T0OTHER' })))).toMatchObject({
    ok: true,
    value: { team: '' },
  })
})

// ── Channels ──

const SPEC = {
  kind: 'slack',
  bot_token: TOKEN,
  signing_secret: SECRET,
  app_id: APP,
  team_id: TEAM,
  channel: CHANNEL,
  users: { U0ANN: 'ann' },
  after_s: 0,
} as const

test('V02 a shown Slack channel has no secrets', () => {
  const shown = JSON.stringify([
    slack(SPEC).shown,
    slackWebhook({
      kind: 'slack-webhook',
      webhook_url: 'https://hooks.slack.com/services/CANARY',
      after_s: 0,
    }).shown,
  ])
  expect(shown).not.toContain('CANARY')
  expect(shown).toContain('hooks.slack.com')
  expect(shown).toContain(TEAM)
})

test('a Slack channel posts to a conversation or to recipients, shows Slack’s error names, and retries what may recover', async () => {
  const { channel: _, ...nowhere } = SPEC
  expect(slack(SPEC).fault(false)).toBeUndefined()
  expect(slack(nowhere).fault(false)).toMatch(/name either/)
  const recipients = { roles: [], operators: ['ann', 'bob'] }
  expect(slack({ ...SPEC, recipients }).fault(false)).toMatch(/name either/)
  expect(slack({ ...nowhere, recipients }).fault(false)).toBeUndefined()
  expect(
    slackWebhook({ kind: 'slack-webhook', webhook_url: 'http://127.0.0.1/', after_s: 0 }).fault(false),
  ).toMatch(/https/)

  const answering =
    (text: string, status = 200, pause_ms?: number): Post =>
    async () =>
      ok({ status, pause_ms, text })
  const told = async (post: Post) => slack(SPEC).deliver(about(approvalWith('x')), post)
  expect(await told(answering('{"ok":true,"channel":"C1","ts":"1.5","message":{}}'))).toEqual({
    ok: true,
    value: { ref: 'C1 1.5' },
  })
  expect(await told(answering('{"ok":false,"error":"not_in_channel"}'))).toMatchObject({
    error: { again: true, why: 'Slack refused it: `not_in_channel`' },
  })
  expect(await told(answering('{"ok":false,"error":"invalid_blocks"}'))).toMatchObject({
    error: { again: false },
  })
  expect(await told(answering(`{"ok":false,"error":"<b> ${TOKEN}"}`))).toMatchObject({
    error: { again: true, why: 'the response is not one that Slack sends' },
  })
  expect(await told(answering('<html>', 200))).toMatchObject({ error: { again: true } })
  expect(await told(answering('', 429, 30_000))).toMatchObject({ error: { again: true, pause_ms: 30_000 } })
  const toBob = await slack({ ...nowhere, recipients }).deliver(
    { ...about(approvalWith('x')), recipient: 'bob' },
    answering(''),
  )
  expect(toBob).toEqual({ ok: false, error: { again: false, why: 'the recipient is not in `users`' } })
})

test('the example channels in the documents and in the command line’s help are valid', () => {
  const texts = ['docs/approvals-and-channels.md', 'docs/slack.md', 'cli/channels/channels.ts']
    .map((path) => readFileSync(join(ROOT, path), 'utf8'))
    .join('\n')
  const written = [...texts.matchAll(/echo '(\{"kind"[\s\S]*?\})'\s/g)].map(([, json = '']) =>
    json.replace(
      /'"\$(\w+)"'/g,
      (_, name: string) =>
        ({ BOT_TOKEN: TOKEN, SIGNING_SECRET: SECRET, WEBHOOK_KEY: `whsec_${'A'.repeat(32)}` })[name] ??
        'https://hooks.slack.com/services/x',
    ),
  )
  expect(written).toHaveLength(8)
  for (const json of written)
    expect([json, ChannelSpec.safeParse(JSON.parse(json)).success]).toEqual([json, true])
})

test('the Slack app manifest in infra requests the scopes and the route that the channel uses', () => {
  const manifest = JSON.parse(readFileSync(join(ROOT, 'infra/slack-manifest.json'), 'utf8')) as {
    oauth_config: { scopes: { bot: string[] } }
    settings: { interactivity: { is_enabled: boolean; request_url: string } }
  } // our own file
  const { is_enabled, request_url } = manifest.settings.interactivity
  expect([is_enabled, new URL(request_url).pathname]).toEqual([true, ROUTES.slackInteraction.path])
  expect(manifest.oauth_config.scopes.bot).toEqual(['chat:write'])
})

test('an invalid Slack channel is refused with a readable reason', () => {
  const spec = { ...SPEC, users: {} }
  const said = (change: object) =>
    ChannelSpec.safeParse({ ...spec, ...change }).error?.issues.map(({ message }) => message)
  expect(said({})).toBeUndefined()
  expect(said({ channel: '#room' })).toEqual([
    'is not a Slack id such as `C0123456789` or `G0123456789` or `D0123456789`; send the id, not the name',
  ])
  expect(said({ bot_token: 'xoxp-1' })).toEqual(['is not the token of a Slack bot (`xoxb-…`)'])
})
