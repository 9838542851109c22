// Runs axe in a real browser and returns the accessibility defects of a page.

import axe from 'axe-core'
import type { Page } from 'playwright-core'
import { unfold } from './in-page.ts'

/** The part of `axe.run()`'s result that we read. */
type AxeResult = {
  passes: unknown[]
  violations: {
    id: string
    impact: string | null
    help: string
    nodes: { html: string; failureSummary?: string }[]
  }[]
}

/**
 * All findings of any severity, each with its first element. Needs a page with JavaScript, because
 * axe is a script. Opens folded parts first.
 */
export async function accessibilityDefects(page: Page): Promise<string[]> {
  await page.evaluate(axe.source) // through the debugger, which bypasses the page's CSP
  await page.evaluate(unfold)
  const { passes, violations } = await page.evaluate<AxeResult>('axe.run({ resultTypes: ["violations"] })')
  if (passes.length < 5) return [`only ${passes.length} rules found anything to look at`]
  return violations.map(lineOf)
}

/**
 * The same for a page in the light scheme, and in the dark scheme only what can differ there: the
 * rules about colours. A second whole run would double the time of a page.
 */
export async function defectsInBothSchemes(page: Page): Promise<string[]> {
  const light = await accessibilityDefects(page)
  await page.emulateMedia({ colorScheme: 'dark' })
  const dark = await page.evaluate<AxeResult>(
    'axe.run({ runOnly: ["cat.color"], resultTypes: ["violations"] })',
  )
  await page.emulateMedia({ colorScheme: 'light' })
  if (dark.passes.length === 0) return [...light, 'in the dark scheme no rule about colours found anything']
  return [...light, ...dark.violations.map((violation) => `in the dark scheme ${lineOf(violation)}`)]
}

const lineOf = ({ id, impact, help, nodes: [first] }: AxeResult['violations'][number]): string =>
  `${impact} ${id}: ${help}: ${first?.html.slice(0, 200)}: ${first?.failureSummary}`
