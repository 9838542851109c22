// Checks what an operator says about a server that a worker starts. Pure.

import { failure } from '../../shared/failures.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { StdioUpstream } from '../../shared/wire/upstreams.ts'
import { covers } from '../tools/planner.ts'

/** Refuses what no call could use, before an operator accepts any tool. */
export function checkServer({
  hosts = [],
  secrets = [],
  credentials = [],
  workspace,
}: StdioUpstream): Result<true> {
  const idle = credentials.find(({ host }) => !hosts.some((pattern) => covers(pattern, host)))
  if (idle !== undefined)
    return err(failure('invalid_request', `/credentials: \`${idle.host}\` is not one of the server’s hosts`))
  return workspace === 'run' && secrets.length > 0
    ? err(
        failure(
          'invalid_request',
          '/secrets: other calls of a run could read what the server leaves in their folder; use the workspace `call`, or `credentials`, which only the proxy receives',
        ),
      )
    : ok(true)
}
