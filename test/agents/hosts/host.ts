// Each framework is asked to do the same: run an agent whose scripted model wants one tool
// call and then repeats its result, pause where the framework pauses, and continue.

import type { Countersign } from '../../../clients/typescript/src/client.ts'

/** The tool call that the model wants; `id` is the model's own. */
export type Wanted = { readonly id: string; readonly tool: string; readonly args: Record<string, unknown> }

export type Outcome =
  | { readonly kind: 'finished'; readonly read: string }
  | {
      readonly kind: 'paused'
      /** The pause as the framework shows it, as text. */
      readonly shown: string
      /** Continues as after a restart: with another client, and with nothing but what was saved. */
      readonly resume: (agent: Countersign) => Promise<Outcome>
    }

export type Host = {
  readonly name: string
  readonly begin: (agent: Countersign, conversation: string, wanted: Wanted) => Promise<Outcome>
}
