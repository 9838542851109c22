// What shuts people out of a page, as axe finds it in a real browser: what a screen reader, a keyboard or tired eyes would stumble over.

import axe from 'axe-core'
import type { Page } from 'playwright-core'
import { unfold } from './in-page.ts'

/** What the page's global `axe.run()` answers, as far as it is read here. */
type Found = {
  passes: unknown[]
  violations: {
    id: string
    impact: string | null
    help: string
    nodes: { html: string; failureSummary?: string }[]
  }[]
}

/**
 * Every finding, grave or not, with the first place where it is. The page needs JavaScript: axe is some. Folded parts are unfolded
 * first.
 */
export async function barriers(page: Page): Promise<string[]> {
  await page.evaluate(axe.source) // by the debugger, which no content security policy holds back
  await page.evaluate(unfold)
  const { passes, violations } = await page.evaluate<Found>('axe.run({ resultTypes: ["violations"] })')
  if (passes.length < 5) return [`only ${passes.length} rules found anything to look at`]
  return violations.map(
    ({ id, impact, help, nodes: [first] }) =>
      `${impact} ${id}: ${help}: ${first?.html.slice(0, 200)}: ${first?.failureSummary}`,
  )
}
