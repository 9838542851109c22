// Promise: what a page shows of changed arguments is bounded, and says how much it leaves out.

import { expect, test } from 'vitest'
import { changesOf } from '../../../edge/approvals/argument-edits.ts'
import { textToChange } from '../../../edge/pages/edit-arguments-page.tsx'
import { markerFor, Redaction } from '../../../edge/secrets/redaction.ts'

const REDACTION = new Redaction(markerFor(Buffer.alloc(32), 'default'))
const shown = (before: Record<string, unknown>, after: Record<string, unknown>) =>
  changesOf(before, after, REDACTION)

test('32 changed places of an edit are listed (`edit_changes`), and the rest are counted', () => {
  const all = (count: number, value: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, n) => [`a${n}`, value]))
  const listed = (count: number) => {
    const { changes, more } = shown(all(count, 1), all(count, 2))
    return [changes.length, more]
  }
  expect([listed(32), listed(35)]).toEqual([
    [32, 0],
    [32, 3],
  ])
})

test('a changed value is shown whole up to 400 characters (`edit_chars`), and shortened above', () => {
  const to = (chars: number) => shown({ a: 1 }, { a: 'x'.repeat(chars - 2) }).changes[0]?.to // with its quotes
  expect(to(400)).toBe(`"${'x'.repeat(398)}"`)
  expect(to(401)).toContain('characters more, sha256 of all')
})

test('arguments of 8,000 characters can be edited on a page (`page_edit_chars`), and longer ones can’t', () => {
  // {⏎␣␣"a": "…"⏎} has 13 characters around the value.
  const text = (chars: number) =>
    textToChange({ ok: true, value: { arguments: { a: 'x'.repeat(chars - 13) } } })
  expect([text(8_000)?.length, text(8_001)]).toEqual([8_000, null])
})
