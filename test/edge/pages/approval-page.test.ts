// The approval page in a real browser: on a phone, by keyboard, in dark mode, without JavaScript,
// and with hostile arguments.

import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { BrowserContextOptions, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { PAGE_SCRIPT } from '../../../edge/pages/page-script.ts'
import { browserForTests } from '../../support/browser/browser.ts'
import { PHONE } from '../../support/browser/console-page.ts'
import { aboveAnswers, faintTexts, focused, sideways } from '../../support/browser/in-page.ts'
import { expectNoControls, openPage } from '../../support/browser/link-page.ts'
import { Fixtures, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'

const fixtures = new Fixtures('approval-page', sharedStack())
const agent = await fixtures.agent()
const anything = { type: 'object' }
const sensitive = await fixtures.echoTool()

const browser = await browserForTests()

const openLink = (url: string, options: BrowserContextOptions = {}): Promise<Page> =>
  openPage(browser, url, options)
async function askApproval(args: Record<string, unknown> = { words: ['hello'] }, tool = sensitive) {
  const { approval } = await fixtures.proposeForApproval(agent.client, tool, args)
  return { id: approval.id, link: await fixtures.link(fixtures.root, approval.id) }
}
const approvalOf = async (id: string) => unwrap(await fixtures.root('readApproval', { params: { id } }))

describe.each(['light', 'dark'] as const)('in the %s', (colorScheme) => {
  test('after an approval on a phone without JavaScript, the page can’t answer again', async () => {
    const { id, link } = await askApproval()
    const page = await openLink(link, { colorScheme, hasTouch: true, isMobile: true })
    expect(await page.title()).toBe(`${agent.name} wants to run ${sensitive} · Countersign`)
    const approve = page.getByRole('button', { name: 'Approve once' })
    expect(await approve.isVisible()).toBe(true)
    await approve.tap()
    expect(await page.getByRole('status').textContent()).toMatch(
      /Approved[\s\S]*Exactly this call may run once\./,
    )
    expect(await page.title()).toBe('Approved · Countersign')
    await expectNoControls(page)
    expect(await approvalOf(id)).toMatchObject({
      status: 'approved',
      answers: [{ by: 'root', channel: 'link' }],
    })
    await page.goto(link)
    expect(await page.getByRole('heading', { level: 1 }).textContent()).toBe('Approved')
    await expectNoControls(page)
  })

  test('an approver can deny with a reason on a phone', async () => {
    const { id, link } = await askApproval()
    const page = await openLink(link, { colorScheme })
    await page.getByRole('textbox', { name: 'Reason' }).fill('not <b>today</b>')
    await page.getByRole('button', { name: 'Deny' }).click()
    expect(await page.getByRole('status').textContent()).toMatch(/Denied.*by root.*not <b>today<\/b>/s)
    await expectNoControls(page)
    expect(await approvalOf(id)).toMatchObject({
      status: 'denied',
      answers: [{ reason: 'not <b>today</b>' }],
    })
  })

  test('every text of the approval page has a contrast of at least 4.5:1', async () => {
    const { link } = await askApproval({ words: ['a'], note: 'b' })
    const over = await askApproval()
    const pages = [link, `${link}x`, new URL('/docs', fixtures.url).href]
    for (const url of pages) {
      const page = await openLink(url, { colorScheme, javaScriptEnabled: true })
      expect([url, await page.evaluate(faintTexts)]).toEqual([url, []])
    }
    for (const decision of ['Approve once', 'Deny']) {
      const page = await openLink((decision === 'Deny' ? await askApproval() : over).link, {
        colorScheme,
        javaScriptEnabled: true,
      })
      await page.getByRole('button', { name: decision }).click()
      expect([decision, await page.evaluate(faintTexts)]).toEqual([decision, []])
    }
  })
})

test('the approval page works by keyboard in reading order, deny before approve', async () => {
  const { id, link } = await askApproval()
  const page = await openLink(link)
  const order: string[] = []
  for (let i = 0; i < 6; i++) {
    await page.keyboard.press('Tab')
    const { element, outline } = await page.evaluate(focused)
    expect([element, outline]).toEqual([element, 'solid'])
    order.push(element)
  }
  expect(order).toEqual([
    'SUMMARY Details',
    'SUMMARY Approve with changed arguments',
    'TEXTAREA',
    'SUMMARY Answer similar calls too',
    'BUTTON Deny',
    'BUTTON Approve once',
  ])
  await page.keyboard.press('Enter')
  await page.getByRole('status').waitFor()
  expect((await approvalOf(id)).status).toBe('approved')
})

test('the focused element is not hidden behind the sticky buttons', async () => {
  const { link } = await askApproval({ words: Array.from({ length: 60 }, (_, i) => `word ${i}`) })
  const page = await openLink(link, { javaScriptEnabled: true })
  for (const name of ['SUMMARY', 'SUMMARY', 'TEXTAREA']) {
    await page.keyboard.press('Tab')
    expect([name, (await page.evaluate(aboveAnswers)) >= 0]).toEqual([name, true])
  }
})

test('every control of the approval page is at least 44 pixels high and wide and has a name', async () => {
  const { link } = await askApproval()
  for (const viewport of [PHONE, { width: 320, height: 568 }, { width: 1280, height: 900 }]) {
    const page = await openLink(link, { viewport })
    for (const summary of await page.locator('summary').all()) await summary.click()
    for (const control of await page.locator('button:visible, textarea, summary').all()) {
      const box = await control.boundingBox()
      expect([
        Math.min(box?.width ?? 0, box?.height ?? 0) >= 44,
        await control.evaluate(({ tagName }) => tagName),
      ]).toEqual([true, expect.any(String)])
    }
  }
  const page = await openLink(link)
  expect(await page.locator('main').ariaSnapshot()).toMatch(
    /heading "\S+ wants to run \S+" \[level=1\][\s\S]*textbox "Reason"[\s\S]*button "Deny"[\s\S]*button "Approve once"/,
  )
  expect(await page.locator('html').getAttribute('lang')).toBe('en')
  expect(await page.locator('h1').count()).toBe(1)
})

test('the approval page never scrolls sideways: on the smallest phone, with double text size, with unbroken words', async () => {
  const { link } = await askApproval({
    words: ['x'.repeat(1_000)],
    [`key${'y'.repeat(300)}`]: 'z'.repeat(1_000),
  })
  for (const size of ['100%', '200%']) {
    const page = await openLink(link, { viewport: { width: 320, height: 568 }, javaScriptEnabled: true })
    expect([size, await page.evaluate(sideways, size)]).toEqual([size, 0])
  }
})

const HOSTILE: Readonly<Record<string, string>> = {
  'a script': '</pre><script>document.title="pwned"</script>',
  'an image': '<img src=x onerror=alert(1)>',
  'a form': '"><form action=https://evil.example><button name=decision value=approve>Approve</button></form>',
  'a style': '</style><style>.deny{display:none}</style>',
  'a mention': '<!channel> <@U123> <https://evil.example|click>',
  'an entity': '&lt;b&gt; &#x202e; &nbsp;',
  'a template': `$${'{alert(1)}'} {{constructor.constructor("alert(1)")()}}`,
  markdown: '**Approved** [here](javascript:alert(1))',
  'a comment': '<!-- --> ]]>',
  'line breaks': 'a\n\n\nApproved by root\n\n',
}

test('G09 hostile arguments are shown as plain text', async () => {
  const { link } = await askApproval({ words: Object.values(HOSTILE), ...HOSTILE })
  const context = await browser.newContext({ viewport: PHONE, javaScriptEnabled: true })
  const page = await context.newPage()
  const requested: string[] = []
  const complaints: string[] = []
  page.on('request', (request) => requested.push(new URL(request.url()).pathname))
  page.on('dialog', (dialog) => complaints.push(dialog.message()))
  page.on('pageerror', (error) => complaints.push(error.message))
  await page.goto(link)
  const { pathname } = new URL(link)
  expect(
    requested.filter((path) => ![pathname, `${pathname}/events`, '/favicon.ico'].includes(path)),
  ).toEqual([])
  expect(complaints).toEqual([])
  expect(await page.title()).toContain('wants to run')
  expect(await page.locator('script').allTextContents()).toEqual([PAGE_SCRIPT])
  expect(await page.locator('img, iframe, object, embed, svg, a:visible, b, link').count()).toBe(0)
  expect([
    await page.locator('form').count(),
    await page.locator('button').count(),
    await page.locator('style').count(),
  ]).toEqual([1, 8, 1])
  expect(await page.getByRole('button', { name: 'Deny' }).isVisible()).toBe(true)
  const shown = await page.locator('pre').allTextContents()
  for (const text of Object.values(HOSTILE)) {
    for (const block of shown) expect(block).toContain(JSON.stringify(text))
  }
})

test('G09 bidirectional, invisible and blank-like characters are escaped', async () => {
  const { link } = await askApproval({ words: ['\u202egnp.exe', 'pay\u200bpal', 'a\u00a0b'] })
  const text = (await (await openLink(link)).locator('pre').allTextContents()).join('\n')
  expect(text).not.toMatch(/[\u202e\u200b\u00a0]/)
  for (const written of ['\\u{202e}gnp.exe', 'pay\\u{200b}pal', 'a\\u{a0}b']) expect(text).toContain(written)
})

test('G10 an approval with an argument of a hundred kilobytes can be read and answered', async () => {
  const tool = await fixtures.tool({ capabilities: ['process_exec'], input_schema: anything })
  const { id, link } = await askApproval({ text: `BEGIN ${'lorem ipsum '.repeat(9_000)} END` }, tool)
  const page = await openLink(link)
  const text = (await page.locator('pre').allTextContents()).join('\n')
  expect(text).toMatch(/BEGIN lorem[\s\S]*characters more, sha256 of all [0-9a-f]{16}[\s\S]*ipsum {2}END/)
  // The omitted part is on the page too, folded.
  const whole = page.locator('details', { hasText: 'The arguments in full' })
  expect(await whole.locator('pre').isVisible()).toBe(false)
  await whole.locator('summary').click()
  expect(await whole.locator('pre').textContent()).toContain('lorem ipsum '.repeat(9_000))
  await page.getByRole('button', { name: 'Deny' }).click()
  expect((await approvalOf(id)).status).toBe('denied')
})

test('G10 an argument of five thousand lines is shown in parts, and each page can answer', async () => {
  const tool = await fixtures.tool({ capabilities: ['process_exec'], input_schema: anything })
  const lines = Array.from({ length: 5_000 }, (_, i) => `line ${i} ${'x'.repeat(60)}`)
  const { id, link } = await askApproval({ text: lines.join('\n'), token: 'hunter2-hunter2' }, tool)
  const page = await openLink(link)
  const whole = page.locator('details', { hasText: 'The arguments in full' })
  const shown: string[] = []
  await whole.locator('summary').click()
  for (let part = 1; ; part++) {
    shown.push((await whole.locator('pre').textContent()) ?? '')
    const next = page.getByRole('link', { name: `Part ${part + 1}`, exact: true })
    if ((await next.count()) === 0) break
    await next.click()
  }
  expect(shown.length).toBe(3)
  expect(JSON.parse(shown.join(''))).toEqual({
    text: lines.join('\n'),
    token: expect.stringMatching(/^«redacted/),
  })
  await page.getByRole('button', { name: 'Approve once' }).click()
  expect((await approvalOf(id)).status).toBe('approved')
})

test('P05 an expired, a broken and an already answered link say so and offer no buttons', async () => {
  const { id, link } = await askApproval()
  const page = await openLink(link)
  unwrap(
    await fixtures.root('answerApproval', {
      params: { id },
      body: { decision: 'deny', reason: 'by another way' },
    }),
  )
  await page.getByRole('button', { name: 'Approve once' }).click()
  expect(await page.getByRole('status').textContent()).toMatch(/Denied.*by another way/s)
  await expectNoControls(page)
  const broken = await openLink(`${link.slice(0, -1)}`)
  expect(await broken.getByRole('status').textContent()).toMatch(/can’t be answered.*What to do/s)
  await expectNoControls(broken)
})

test('a standing approval through a link says what it covers before it is given, without JavaScript', async () => {
  const { id, link } = await askApproval()
  const page = await openLink(link)
  const more = page.locator('details', { hasText: 'Answer similar calls too' })
  expect(await page.getByRole('button').count()).toBe(2)
  await more.locator('summary').click()
  expect(await more.textContent()).toContain(
    `every call of ${sensitive} version 1 by agent ${agent.name} in session`,
  )
  expect(await more.getByRole('button').allTextContents()).toEqual([
    'Deny for the session',
    'Approve for 60 minutes',
    'Approve for 10 minutes',
    'Approve for the session',
  ])
  await more.getByRole('button', { name: 'Approve for 10 minutes' }).click()
  const outcome = await page.getByRole('status').textContent()
  expect(outcome).toMatch(
    /Approved[\s\S]*The same answer applies to every call of[\s\S]*Similar calls may run without asking/,
  )
  expect(outcome).not.toContain('Exactly this call')
  await expectNoControls(page)
  expect((await approvalOf(id)).answers).toMatchObject([
    { by: 'root', channel: 'link', scope: 'timeboxed', ttl_s: 600 },
  ])
  const { items } = unwrap(await fixtures.root('listStanding', {}))
  expect(items.find(({ approval }) => approval === id)).toMatchObject({ assurance: 'link', live: true })
})

test('where policy requires an approval for each call, the page offers no standing approval', async () => {
  const { link } = await askApproval({}, await fixtures.tool({ capabilities: ['secrets_read'] }))
  const page = await openLink(link)
  await page.getByText('Answer similar calls too').click()
  expect(await page.getByText('Policy requires an approval for each call').isVisible()).toBe(true)
  expect(await page.getByRole('button').allTextContents()).toEqual(
    ['Deny for the session', 'Deny', 'Approve once'].map((t) => expect.stringContaining(t)),
  )
})

// ── From another site ──

let evil: Server
let evilPage = ''
beforeAll(async () => {
  evil = createServer((_, response) => response.setHeader('content-type', 'text/html').end(evilPage))
  await new Promise<void>((done) => evil.listen(0, '127.0.0.1', done))
})
afterAll(() => evil?.close())
/** Another name for loopback, which a browser treats as another site. */
const evilUrl = (): string => `http://localhost:${(evil.address() as AddressInfo).port}/` // the address of a TCP server

test('P03 another site can’t frame the approval page', async () => {
  const { link } = await askApproval()
  evilPage = `<iframe src="${link}" width=300 height=600></iframe>`
  const page = await openLink(evilUrl(), { javaScriptEnabled: true })
  const frame = page.frames().find((one) => one !== page.mainFrame())
  expect(frame).toBeDefined()
  expect(await frame?.locator('button, form').count()).toBe(0)
})

test('P03 a form on another site decides nothing, even with the right nonce in it', async () => {
  const { id, link } = await askApproval()
  const nonce = await (await openLink(link)).locator('input[name=nonce]').first().getAttribute('value')
  evilPage = `<form method=post action="${link}"><input name=nonce value="${nonce}"><button name=decision value=approve>Win a prize</button></form>`
  const page = await openLink(evilUrl())
  await page.getByRole('button').click()
  expect(await page.getByRole('status').textContent()).toContain('did not come from the page itself')
  expect((await approvalOf(id)).status).toBe('pending')
})

test('P02 a browser that prefetches the page or goes back to it decides nothing', async () => {
  const { id, link } = await askApproval()
  evilPage = `<link rel=prefetch href="${link}"><a href="${link}">go</a>`
  const page = await openLink(evilUrl(), { javaScriptEnabled: true })
  await page.goto(link)
  await page.goBack()
  await page.goForward()
  await page.reload()
  expect((await approvalOf(id)).status).toBe('pending')
})
