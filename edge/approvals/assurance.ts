// How surely it was they who answered: by the way on which they did. Pure.

import { Assurance } from '../../shared/wire/approvals.ts'

/** A way that is not listed is as good as a link. */
const OF_WAYS: ReadonlyMap<string, Assurance> = new Map([
  ['api', 'key'],
  ['console', 'key'],
  ['slack', 'slack'],
])
/** With an operator's own key. */
export const SUREST_WAY = 'console'

export const assuranceOf = (way: string): Assurance => OF_WAYS.get(way) ?? 'link'

/** An approval is as sure as the least sure yes in it. */
export const leastSure = (ways: readonly string[]): Assurance =>
  Assurance.options.findLast((assurance) => ways.some((way) => assuranceOf(way) === assurance)) ?? 'key'

/** What an approval with these answers in it may still come to. */
export const noSurerThan = (assurance: Assurance): readonly Assurance[] =>
  Assurance.options.slice(Assurance.options.indexOf(assurance))
