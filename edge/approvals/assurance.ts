// The assurance of an answer: how strongly its channel authenticates the operator. Pure.

import { Assurance } from '../../shared/wire/approvals.ts'

/** A channel that is not listed counts as a link. */
const OF_CHANNELS: ReadonlyMap<string, Assurance> = new Map([
  ['api', 'key'],
  ['console', 'key'],
  ['slack', 'slack'],
])
/** A channel with the strongest assurance: operators answer with their own key. */
export const STRONGEST_CHANNEL = 'console'

export const assuranceOf = (channel: string): Assurance => OF_CHANNELS.get(channel) ?? 'link'

/** An approval has the assurance of its weakest yes. */
export const weakestAssurance = (channels: readonly string[]): Assurance =>
  Assurance.options.findLast((assurance) => channels.some((channel) => assuranceOf(channel) === assurance)) ??
  'key'

/** The assurances that an approval can still end with once it has an answer of this one. */
export const atMost = (assurance: Assurance): readonly Assurance[] =>
  Assurance.options.slice(Assurance.options.indexOf(assurance))
