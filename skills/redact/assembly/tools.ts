// One tool: it replaces addresses, card numbers and secrets in a text.

import { Json } from './json'
import { cardAt } from './card'
import { emailAt } from './email'
import { failed, Result, returned } from './skill'
import { secretAt } from './secret'

/** A finder returns the end of what begins at a position, or 0 if nothing does. */
function redact(text: string): string {
  const out: string[] = []
  let kept = 0
  let emails = 0
  let cards = 0
  let secrets = 0
  for (let at = 0; at < text.length; ) {
    let word = ''
    let end = secretAt(text, at)
    if (end > 0) {
      word = '[secret]'
      secrets++
    } else if ((end = cardAt(text, at)) > 0) {
      word = '[card]'
      cards++
    } else if ((end = emailAt(text, at)) > 0) {
      word = '[email]'
      emails++
    } else {
      at++
      continue
    }
    out.push(text.substring(kept, at))
    out.push(word)
    at = end
    kept = end
  }
  out.push(text.substring(kept))
  const output = Json.object()
  output.set('text', Json.of(out.join('')))
  output.set('emails', Json.count(emails))
  output.set('cards', Json.count(cards))
  output.set('secrets', Json.count(secrets))
  return output.toString()
}

export function run(tool: string, input: string): Result {
  const parsed = Json.parse(input)
  if (parsed == null) return failed('the input is not JSON')
  if (tool == 'redact') return returned(redact(parsed.text('text')))
  return failed('there is no tool ' + tool)
}
