// The console in a real browser: on a phone and on a desktop, with and without JavaScript, by
// keyboard, in dark mode.

import type { BrowserContextOptions, Page } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import { LIMITS } from '../../../shared/limits.ts'
import { browserForTests } from '../../support/browser/browser.ts'
import { DESK, PHONE, signedIn, smallControls } from '../../support/browser/console-page.ts'
import { faintTexts, focused, sideways } from '../../support/browser/in-page.ts'
import { Fixtures, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'

const fixtures = new Fixtures('console-pages', sharedStack())
const agent = await fixtures.agent()
const sensitive = await fixtures.echoTool()
const approver = await fixtures.operator(['approver'])

const browser = await browserForTests()

const at = (path: string): string => new URL(path, fixtures.url).href
const askApproval = async (words: unknown = ['hello']) =>
  (await fixtures.proposeForApproval(agent.client, sensitive, { words })).approval.id
const approvalOf = async (id: string) => unwrap(await fixtures.root('readApproval', { params: { id } }))
const mine = `/console?agent=${agent.name}`

const openConsole = (path: string, options: BrowserContextOptions = {}, key = approver.key): Promise<Page> =>
  signedIn(browser, { url: fixtures.url, path, key }, options)

/** Removes the cards of other test files from a page that lists all; returns how many remain. */
const ownCardsAlone = (page: Page): Promise<number> =>
  page.locator('.card').evaluateAll((cards, name) => {
    const own = cards.filter(({ textContent }) => textContent?.includes(name) === true)
    for (const card of cards) if (!own.includes(card)) card.remove()
    return own.length
  }, agent.name)

describe.each([
  ['a phone', PHONE, 'dark'],
  ['a desk', DESK, 'light'],
] as const)('on %s, without JavaScript', (_name, viewport, colorScheme) => {
  test('an operator signs in, approves a pending call, sees it in the history and signs out', async () => {
    const id = await askApproval(['on', colorScheme])
    const page = await openConsole(mine, { viewport, colorScheme })
    await page.locator(`a[href="/console/approvals/${id}"]`).click()
    await page.getByRole('textbox', { name: 'Reason' }).fill('a <b>good</b> one')
    await page.getByRole('button', { name: 'Approve' }).click()
    expect(await page.getByRole('status').textContent()).toMatch(/Approved.*a <b>good<\/b> one/s)
    expect(await page.locator('button[name=decision]').count()).toBe(0)
    expect(await approvalOf(id)).toMatchObject({
      status: 'approved',
      answers: [{ by: approver.name, channel: 'console' }],
    })
    await page.reload()
    expect(await page.getByRole('heading', { level: 1 }).textContent()).toBe('Approved')
    await page.getByRole('link', { name: 'Back to the inbox' }).click()
    expect(await page.locator(`a[href="/console/approvals/${id}"]`).count()).toBe(0)
    await page.getByRole('button', { name: 'Sign out' }).click()
    expect(await page.getByRole('heading', { level: 1 }).textContent()).toBe('Sign in')
    await page.goBack()
    expect(await page.getByRole('heading', { level: 1 }).textContent()).toBe('Sign in') // going back shows no cached page
  })

  test('console pages have enough contrast, don’t scroll sideways and have large enough controls', async () => {
    const id = await askApproval(['x'.repeat(600), 'lorem ipsum '.repeat(300)])
    const run = { session: fixtures.name() }
    const stands = unwrap(
      await agent.client('proposeCallInNewRun', { body: { tool: sensitive, args: { words: [] }, run } }),
    )
    const yes = { decision: 'approve', scope: 'session', reason: 'y'.repeat(600) } as const
    unwrap(await approver.client('answerApproval', { params: { id: stands.approval?.id ?? '' }, body: yes }))
    const page = await openConsole(`/console/approvals/${id}`, {
      viewport,
      colorScheme,
      javaScriptEnabled: true,
    })
    const signIn = await (await browser.newContext({ viewport, colorScheme })).newPage()
    await signIn.goto(at('/console'))
    for (const [name, shown] of [
      ['sign in', signIn],
      ['detail', page],
      ['inbox', page],
      ['standing', page],
      ['history', page],
    ] as const) {
      if (name === 'inbox') await page.goto(at(`${mine}&order=riskiest`))
      if (name === 'standing') await page.goto(at('/console/standing'))
      if (name === 'history') await page.goto(at('/console/history'))
      if (name === 'standing' || name === 'history') expect(await ownCardsAlone(shown)).toBeGreaterThan(0)
      expect([name, await shown.evaluate(faintTexts)]).toEqual([name, []])
      const touched =
        'button, summary, textarea, input:not([type=hidden],[type=checkbox]), select, nav a, .back, .choose, h2 a'
      expect([name, await smallControls(shown, touched)]).toEqual([name, []])
      expect([name, await shown.evaluate(sideways, '200%')]).toEqual([name, 0])
    }
  })
})

test('the console’s approval page works by keyboard, deny comes before approve, and Enter denies', async () => {
  const id = await askApproval()
  const page = await openConsole(`/console/approvals/${id}`)
  const order: string[] = []
  for (let i = 0; i < 14; i++) {
    await page.keyboard.press('Tab')
    const { element, outline } = await page.evaluate(focused)
    expect([element, outline]).toEqual([element, 'solid'])
    order.push(element)
  }
  expect(order).toEqual([
    'A Skip to the content',
    'BUTTON Sign out',
    'A Inbox',
    'A Standing answers',
    'A History',
    'A Workers',
    'A Skills',
    'A Back to the inbox',
    'SUMMARY Details',
    'TEXTAREA',
    'SUMMARY Approve with changed arguments',
    'SUMMARY Answer similar calls too',
    'BUTTON Deny',
    'BUTTON Approve',
  ])
  expect(await page.locator('form[action*=approvals] button').first().textContent()).toBe('Deny')
  await page.keyboard.press('Shift+Tab')
  await page.keyboard.press('Enter')
  await page.getByRole('status').waitFor()
  expect((await approvalOf(id)).status).toBe('denied')
})

test('a console page has one main, one navigation and one heading, and everything has a name', async () => {
  const id = await askApproval()
  const page = await openConsole(mine)
  expect(await page.locator('body').ariaSnapshot()).toMatch(
    /banner[\s\S]*button "Sign out"[\s\S]*navigation "Console"[\s\S]*link "Inbox"[\s\S]*main[\s\S]*heading "Inbox" \[level=1\][\s\S]*region "Pending approvals"[\s\S]*status/,
  )
  await page.goto(at(`/console/approvals/${id}`))
  expect(await page.locator('main').ariaSnapshot()).toMatch(
    /\[level=1\][\s\S]*textbox "Reason"[\s\S]*button "Deny"[\s\S]*button "Approve"/,
  )
  expect([await page.locator('h1').count(), await page.locator('main').count()]).toEqual([1, 1])
})

test('an open inbox updates live, keeps the selection and announces a change once', async () => {
  const [first, second] = [await askApproval(['first']), await askApproval(['second'])]
  const page = await openConsole(mine, { javaScriptEnabled: true })
  const card = (id: string) => page.locator(`#${id}`)
  await page.locator(`#choose-${second}`).check()
  await page.locator(`#choose-${second}`).focus()
  const before = await page.locator('#words').textContent()
  unwrap(await fixtures.root('answerApproval', { params: { id: first }, body: { decision: 'deny' } }))
  await card(first).waitFor({ state: 'detached' })
  const third = await askApproval(['third'])
  await card(third).waitFor()
  expect(await page.locator(`#choose-${second}`).isChecked()).toBe(true)
  expect(await page.locator(`#choose-${second}`).evaluate((box) => box.matches(':focus'))).toBe(true)
  expect(await page.locator('#words').textContent()).toBe(before) // one fewer and one more
})

test('an approval that is answered in another tab shows its outcome in this one', async () => {
  const id = await askApproval()
  const page = await openConsole(`/console/approvals/${id}`, { javaScriptEnabled: true })
  unwrap(
    await fixtures.root('answerApproval', {
      params: { id },
      body: { decision: 'deny', reason: 'in another tab' },
    }),
  )
  await page.getByRole('heading', { name: 'Denied', level: 1 }).waitFor()
  expect(await page.locator('button[name=decision]').count()).toBe(0)
})

test('the text being written stays when a colleague answers first, and the buttons are disabled', async () => {
  const id = await askApproval()
  const page = await openConsole(`/console/approvals/${id}`, { javaScriptEnabled: true })
  await page.getByRole('textbox', { name: 'Reason' }).fill('because I have thought about it')
  unwrap(await fixtures.root('answerApproval', { params: { id }, body: { decision: 'deny' } }))
  await page.getByRole('alert').waitFor()
  expect(await page.getByRole('textbox', { name: 'Reason' }).inputValue()).toBe(
    'because I have thought about it',
  )
  expect(await page.getByRole('button', { name: 'Approve', exact: true }).isDisabled()).toBe(true)
  await page.getByRole('link', { name: 'Reload' }).click()
  await page.getByRole('heading', { name: 'Denied', level: 1 }).waitFor()
})

test('a page that is sending its answer waits for the result instead of reloading', async () => {
  const id = await askApproval()
  const [page, other] = [
    await openConsole(`/console/approvals/${id}`, { javaScriptEnabled: true }),
    await openConsole(`/console/approvals/${id}`, { javaScriptEnabled: true }),
  ]
  const release = Promise.withResolvers<void>()
  const held = Promise.withResolvers<void>()
  await page.route(at(`/console/approvals/${id}`), async (route) => {
    if (route.request().method() === 'POST') {
      held.resolve()
      await release.promise
    }
    await route.continue()
  })
  const answering = page.getByRole('button', { name: 'Approve', exact: true }).click()
  await held.promise
  unwrap(await fixtures.root('answerApproval', { params: { id }, body: { decision: 'deny' } }))
  await other.getByRole('heading', { name: 'Denied', level: 1 }).waitFor()
  release.resolve()
  await answering
  await page.getByRole('heading', { name: 'Nothing was changed', level: 1 }).waitFor()
})

test('a page whose stream was refused with `too_many_streams` retries', async () => {
  const id = await askApproval()
  const page = await openConsole('/console', { javaScriptEnabled: true })
  const refused = Promise.withResolvers<void>()
  await page.clock.install()
  let begun = 0 // a closing route may abort the next request
  await page.route(at(`/console/events?approval=${id}`), async (route) => {
    if (begun++ > 0) return route.continue()
    await route.fulfill({ status: 429, body: '' })
    refused.resolve()
  })
  await page.goto(at(`/console/approvals/${id}`))
  await refused.promise
  const again = page.waitForRequest(/console\/events/)
  for (let asked = false; !asked; ) {
    await page.clock.fastForward(20_000)
    asked = await Promise.race([
      again.then(() => true),
      page
        .locator('h1')
        .waitFor()
        .then(() => false),
    ])
  }
  unwrap(await fixtures.root('answerApproval', { params: { id }, body: { decision: 'deny' } }))
  await page.getByRole('heading', { name: 'Denied', level: 1 }).waitFor()
})

test('an open inbox whose session ends asks to sign in again', async () => {
  const operator = await fixtures.operator(['approver'])
  const page = await openConsole(mine, { javaScriptEnabled: true }, operator.key)
  unwrap(await fixtures.root('deleteOperator', { params: { name: operator.name } }))
  await page.getByLabel('Operator key').waitFor()
})

test('selected approvals are denied together with one reason, and no others', async () => {
  const ids = [await askApproval(['a']), await askApproval(['b']), await askApproval(['c'])]
  const page = await openConsole(mine)
  for (const id of ids.slice(0, 2)) await page.locator(`#choose-${id}`).check()
  await page.locator('#deny-chosen summary').click()
  await page.getByRole('textbox', { name: 'Reason' }).fill('not now')
  unwrap(await fixtures.approve(ids[0] ?? ''))
  await page.getByRole('button', { name: 'Deny selected' }).click()
  expect(await page.getByRole('heading', { level: 1 }).textContent()).toBe('1 of 2 denied')
  const seen = await Promise.all(ids.map(async (id) => (await approvalOf(id)).status))
  expect(seen).toEqual(['approved', 'denied', 'pending'])
  await page.goto(at('/console/history'))
  expect(await page.locator('.card', { has: page.locator(`a[href$="${ids[1]}"]`) }).textContent()).toMatch(
    /denied.*answered by.*console.*not now/s,
  )
})

test('a standing approval in the console says what it covers, and the next call does not ask', async () => {
  const run = unwrap(await agent.client('createRun', { body: {} })).id
  const call = unwrap(
    await agent.client('proposeCall', {
      params: { run },
      body: { tool: sensitive, args: { words: ['one'] } },
    }),
  )
  const page = await openConsole(`/console/approvals/${call.approval?.id}`)
  const more = page.locator('details', { hasText: 'Answer similar calls too' })
  await more.locator('summary').click()
  expect(await more.textContent()).toContain(sensitive)
  await more.getByRole('button', { name: 'Approve for 10 minutes' }).click()
  await page.getByRole('status').waitFor()
  expect(await approvalOf(call.approval?.id ?? '')).toMatchObject({
    status: 'approved',
    answers: [{ scope: 'timeboxed', ttl_s: 600 }],
  })
  const again = unwrap(
    await agent.client('proposeCall', {
      params: { run },
      body: { tool: sensitive, args: { words: ['two'] } },
    }),
  )
  expect(again.state).toBe('granted')
})

test('the console offers only the standing answers that policy allows', async () => {
  const each = await fixtures.tool({ capabilities: ['secrets_read'], input_schema: { type: 'object' } })
  const id = (await fixtures.proposeForApproval(agent.client, each)).approval.id
  const page = await openConsole(`/console/approvals/${id}`)
  const offered = () => page.locator('button[name=standing]').allTextContents()
  expect(await offered()).toEqual(['Deny for the session'])
  await page.getByText('Answer similar calls too').click()
  await page.getByRole('button', { name: 'Deny for the session' }).click()
  await page.getByRole('status').waitFor()
  expect(await approvalOf(id)).toMatchObject({
    status: 'denied',
    answers: [{ decision: 'deny', scope: 'session' }],
  })
  const brief = await fixtures.tool({ capabilities: ['process_exec'], input_schema: { type: 'object' } })
  const rule = `@id("brief") forbid (principal, action == Action::"tool.execute/${brief}", resource) when { context.approval.standing_s > 60 };`
  await fixtures.withPolicies({ brief: rule }, async () => {
    await page.goto(
      at(`/console/approvals/${(await fixtures.proposeForApproval(agent.client, brief)).approval.id}`),
    )
    expect(await offered()).toEqual(['Deny for the session', 'Approve for a minute'])
  })
})

test('a second answer changes nothing and shows the outcome', async () => {
  const id = await askApproval()
  const page = await openConsole(`/console/approvals/${id}`)
  unwrap(
    await fixtures.root('answerApproval', {
      params: { id },
      body: { decision: 'deny', reason: 'by another way' },
    }),
  )
  await page.getByRole('button', { name: 'Approve' }).click()
  expect(await page.getByRole('heading', { level: 1 }).textContent()).toBe('Nothing was changed')
  expect((await approvalOf(id)).status).toBe('denied')
})

test('G09 hostile arguments are plain text in the inbox and on the approval’s page', async () => {
  const text = '</pre><script>document.title="pwned"</script><img src=x onerror=alert(1)>'
  const id = await askApproval([text])
  const page = await openConsole(mine, { javaScriptEnabled: true })
  for (const path of [mine, `/console/approvals/${id}`]) {
    await page.goto(at(path))
    expect(await page.title()).not.toContain('pwned')
    expect(await page.locator('#content img, #content script').count()).toBe(0)
    expect((await page.locator('pre').allTextContents()).join()).toContain('onerror=alert(1)')
  }
  await page.goto(at(mine))
  const live = await askApproval([text, 'once more'])
  await page.locator(`#${live}`).waitFor()
  expect([await page.locator('#content img, #content script').count(), await page.title()]).toEqual([
    0,
    'Inbox · Countersign',
  ])
})

test('the console shows the full text of a shortened card in parts, before and after the answer', async () => {
  const middle = 'in the middle'
  const id = await askApproval([
    `${'A'.repeat(3_000)}${middle}${'B'.repeat(9_000)}`,
    'C'.repeat(LIMITS.page_chars - 1_000),
  ])
  const page = await openConsole(`/console/approvals/${id}`)
  const whole = page.locator('details', { hasText: 'The arguments in full' })
  expect(await page.locator('dl pre').allTextContents()).not.toContainEqual(expect.stringContaining(middle))
  expect(await whole.locator('pre').textContent()).toContain(middle)
  await whole.locator('summary').click()
  await whole.getByRole('link', { name: 'Part 2' }).click()
  expect(await whole.locator('pre').textContent()).toContain('CCCC')
  expect(await whole.getAttribute('open')).not.toBe(null)
  unwrap(await fixtures.root('answerApproval', { params: { id }, body: { decision: 'deny' } }))
  await page.goto(at(`/console/approvals/${id}`))
  expect(await page.getByRole('heading', { level: 1 }).textContent()).toBe('Denied')
  expect(await whole.locator('pre').textContent()).toContain(middle)
})
