// The console's page of a call: live output as plain text, state, end and cancelling; a snapshot
// without JavaScript.

import { expect, test } from 'vitest'
import { LIMITS } from '../../../shared/limits.ts'
import { browserForTests } from '../../support/browser/browser.ts'
import { DESK, signedIn } from '../../support/browser/console-page.ts'
import { ConsoleSession } from '../../support/browser/console-session.ts'
import { Fixtures, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'
import { PeerWorker } from '../../support/worker/peer-worker.ts'

const fixtures = new Fixtures('console-calls', sharedStack())
const agent = await fixtures.agent()
const tool = await fixtures.tool({ limits: { output_bytes: LIMITS.output_bytes } })
const [admin, auditor] = [await fixtures.operator(['admin']), await fixtures.operator(['auditor'])]
const peer = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)
const browser = await browserForTests()

const HOSTILE = '</pre><script>document.title = "taken"</script>\u001b[2J\u202etxt.exe\ta\n'
const SHOWN = '</pre><script>document.title = "taken"</script>\\u{1b}[2J\\u{202e}txt.exe\ta\n'

const at = (id: string): string => `/console/calls/${id}`
async function running() {
  const call = unwrap(await agent.client('proposeCallInNewRun', { body: { tool, args: {} } }))
  return { ...call, claim: unwrap(await peer.claim(call.id)) }
}
const write = async (id: string, stream: 'stdout' | 'stderr', offset: number, text: string) =>
  unwrap(
    await peer.client('output', {
      params: { call: id },
      body: { fence: 1, stream, offset, data: Buffer.from(text).toString('base64') },
    }),
  )
const visit = (path: string, key: string, javaScriptEnabled: boolean) =>
  signedIn(browser, { url: fixtures.url, path, key }, { viewport: DESK, javaScriptEnabled })

test('the page of a running call shows output live across a broken stream, then the cancellation and the end', async () => {
  const { id, run, claim } = await running()
  const page = await visit('/console', admin.key, true)
  const [output, progress, state] = [page.locator('#stdout'), page.locator('#stderr'), page.locator('#state')]
  const second = 'second <b>line</b>\n'
  const position = `1.${Buffer.byteLength(HOSTILE + second)}.0`
  // The stream breaks after an event: the browser reconnects with its id, and the event is not
  // repeated.
  const body = `retry: 10\n\nid: ${position}\nevent: stdout\ndata: ${JSON.stringify({ text: second })}\n\n`
  let begun = 0 // a closing route may abort the next request
  await page.route(/\/output\?after=/, (route) =>
    begun++ === 0 ? route.fulfill({ contentType: 'text/event-stream', body }) : route.continue(),
  )
  await write(id, 'stdout', 0, HOSTILE)
  await page.goto(new URL(at(id), fixtures.url).href)
  await write(id, 'stdout', Buffer.byteLength(HOSTILE), second)
  await output.getByText(second.trim()).waitFor()
  expect([await progress.isVisible(), (await state.textContent())?.trim()]).toEqual([false, 'running'])
  await write(id, 'stderr', 0, '50 %\n')
  await progress.getByText('50 %').waitFor()
  expect(await output.textContent()).toBe(`${SHOWN}second <b>line</b>\n`)
  unwrap(await agent.client('cancelCall', { params: { run, call: id } }))
  await page.getByText('cancelling: it runs until its worker stops it').waitFor()
  expect(await page.getByRole('button', { name: 'Cancel this call' }).count()).toBe(0)
  await peer.settle(claim, {
    outcome: { kind: 'cancelled' },
    stdout: `${HOSTILE}second <b>line</b>\n`,
    stderr: '50 %\n',
  })
  await page.getByText('The call has ended').waitFor()
  expect([await state.textContent(), await page.title()]).toEqual(['cancelled', `${tool} · Countersign`])
  await page.getByRole('link', { name: 'See the result' }).click()
  await page.locator('main script').waitFor({ state: 'detached' }) // the page of an ended call has no script
  expect(await state.textContent()).toBe('cancelled')
  expect(await output.textContent()).toBe(`${SHOWN}second <b>line</b>\n`)
})

test('without JavaScript the page of a call shows its output so far, a link to the rest, and a button to cancel', async () => {
  const { id, claim } = await running()
  const lines = Array.from({ length: 20_000 }, (_, i) => `line ${i}\n`).join('')
  for (let from = 0; from < lines.length; from += LIMITS.output_chunk_bytes)
    await write(id, 'stdout', from, lines.slice(from, from + LIMITS.output_chunk_bytes))
  const page = await visit(at(id), admin.key, false)
  let shown = ''
  while (shown.length < lines.length) {
    const part = (await page.locator('#stdout').textContent()) ?? ''
    expect(part.length).toBeGreaterThan(0)
    shown += part
    await page.getByRole('link', { name: 'Continue' }).click()
  }
  expect(shown).toBe(lines)
  await page.getByRole('button', { name: 'Cancel this call' }).click()
  await page.getByText('cancelling: it runs until its worker stops it').waitFor()
  await peer.settle(claim, { outcome: { kind: 'cancelled' } })
  await page.reload()
  await page.getByText('cancelled', { exact: true }).first().waitFor()
  expect(await page.getByRole('button', { name: 'Cancel this call' }).count()).toBe(0)
})

test('the page of a call needs permission to read, and cancelling needs permission to cancel', async () => {
  const { id, run } = await running()
  await write(id, 'stdout', 0, 'kept from strangers\n')
  const [reader, nobody] = [
    await ConsoleSession.open(fixtures.url, auditor.key),
    await ConsoleSession.open(fixtures.url, (await fixtures.operator([])).key),
  ]
  const text = await (await reader.get(at(id))).text()
  expect([text.includes('kept from strangers'), text.includes('Cancel this call')]).toEqual([true, false])
  const answers = [
    await reader.post(at(id), await reader.fields(at(id))),
    await nobody.get(at(id)),
    await nobody.get(`${at(id)}/output`),
    await reader.get(at(id.replace(/.{5}_1$/, '00000_1'))),
    await reader.get(`${at(id)}?after=x`),
    await fetch(new URL(`${at(id)}/output`, fixtures.url)),
  ]
  expect(answers.map(({ status }) => status)).toEqual([403, 403, 403, 404, 400, 401])
  for (const answer of answers) expect(await answer.text()).not.toContain('kept from strangers')
  const own = await ConsoleSession.open(fixtures.url, admin.key)
  expect((await own.post(at(id), { ...(await own.fields(at(id))), form: 'x' })).status).toBe(403)
  expect(unwrap(await agent.client('readCall', { params: { run, call: id } })).state).toBe('running')
})

test('an open call page whose session ends asks to sign in again', async () => {
  const { id } = await running()
  const operator = await fixtures.operator(['admin'])
  const page = await visit(at(id), operator.key, true)
  unwrap(await fixtures.root('deleteOperator', { params: { name: operator.name } }))
  await write(id, 'stdout', 0, 'after\n')
  await page.getByLabel('Operator key').waitFor()
})
