// Lists of tools: pages without gaps, and a union of schemas that a pending result fits.

import { expect, test } from 'vitest'
import { pageOf } from '../../../edge/mcp/page.ts'
import { LIMITS } from '../../../shared/limits.ts'

test('pages follow each other without gaps or repetitions, even if the last name was removed', () => {
  const tools = Array.from({ length: 601 }, (_, n) => ({
    name: `tool_${String(n).padStart(4, '0')}`,
    text: String(n),
  }))
  const seen: string[] = []
  for (let after: string | null = null; ; ) {
    const { texts, last } = pageOf(tools, after)
    seen.push(...texts)
    if (last === null) break
    after = last
  }
  expect([LIMITS.mcp_tools_page, pageOf(tools, null).texts.length]).toEqual([250, 250])
  expect(seen).toEqual(tools.map(({ text }) => text))
  expect(pageOf(tools, 'tool_0300x').texts[0]).toBe('301')
  expect(pageOf(tools, 'zzz')).toEqual({ texts: [], last: null })
  expect(pageOf([], null)).toEqual({ texts: [], last: null })
})
