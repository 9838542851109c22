// The input of every method of the endpoint: the admitted request, its caller, and a way to check
// the caller again while a request is held.

import type { CallOrigin } from '../../shared/evidence/origin.ts'
import type { Env } from '../bindings.ts'
import type { AgentPrincipal, LoadedDirectory } from '../directory/loaded-directory.ts'
import type { AcceptedTypes } from './headers.ts'

export type Caller = {
  readonly directory: LoadedDirectory
  readonly agent: AgentPrincipal
  /** The actor behind the agent, if its token names one. */
  readonly origin: CallOrigin
}

export type McpContext = Caller & {
  readonly env: Env
  readonly request: Request
  readonly publicUrl: string
  readonly accepted: AcceptedTypes
  /** The session that the path names. */
  readonly path: string | null
  /**
   * Checks the caller again, with the keys and policies of this moment; null if it may no longer
   * read its runs. A held request outlives the checks that admitted it (M07).
   */
  readonly stillCaller: () => Promise<Caller | null>
}
