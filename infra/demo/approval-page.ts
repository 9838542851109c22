// Sends the requests of a browser in which an operator opens an approval's link and presses a button.

import { check, dim, echo, match, print } from './terminal.ts'

const HTTP_MS = 10_000

export async function answerOnPage(url: string): Promise<void> {
  echo(`> GET ${url}`)
  const shown = await fetch(url, { signal: AbortSignal.timeout(HTTP_MS) })
  const page = await shown.text()
  const heading = match(page, /<h1>([^<]+)<\/h1>/, 'a page with a heading')
  const buttons = [
    ...page.matchAll(/<button(?![^>]* (?:hidden|tabindex))[^>]*name="decision"[^>]*>\s*([^<]+?)\s*</g),
  ].map(([, label]) => `[${label}]`)
  print(`${shown.status} ${heading}\n${buttons.join(' ')}`)
  check(shown.ok && buttons.length === 2, 'a page with two buttons')

  const form = new URLSearchParams({
    decision: 'approve',
    reason: 'the demo says so',
    nonce: match(page, /name="nonce" value="([^"]+)"/, 'a nonce in the form'),
  })
  const { origin } = new URL(url)
  echo(`> POST ${url}`)
  print(dim(`origin: ${origin}\n${form}`))
  const answered = await fetch(url, {
    method: 'POST',
    body: form,
    headers: { origin, 'sec-fetch-site': 'same-origin' },
    signal: AbortSignal.timeout(HTTP_MS),
  })
  const outcome = await answered.text()
  const how = match(outcome, /role="status"><h1>([^<]+)/, 'a page that shows the answer')
  print(
    `${answered.status} ${how} · ${match(outcome, /by <strong>([^<]+)/, 'a page that shows who answered')}`,
  )
  check(answered.ok, 'an accepted answer')
}
