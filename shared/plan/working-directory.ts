// The rule for the folder of a workspace in which a call may begin, for both the edge, which plans
// it, and the worker, which enters it. It checks the text only, not the disk.

import { type Failure, failure } from '../failures.ts'
import { LIMITS } from '../limits.ts'

/** The kernel's limit for one file name. */
const NAME_BYTES = 255

export function cwdFault(cwd: string): Failure | undefined {
  const names = cwd.split('/')
  if (cwd.startsWith('/') || names.includes('..'))
    return failure(
      'workspace_scope_denied',
      'the folder must lie inside the workspace: relative, without `..`',
    )
  if (cwd.includes('\0')) return failure('invalid_arguments', 'the folder’s name must not contain NUL')
  if (Buffer.byteLength(cwd) > LIMITS.cwd_bytes || names.some((name) => Buffer.byteLength(name) > NAME_BYTES))
    return failure(
      'invalid_arguments',
      `the folder’s path must have at most ${LIMITS.cwd_bytes} bytes, and each name in it ${NAME_BYTES}`,
    )
  return undefined
}
