// Builds the exact command line of a tier C call without hosts, for code that starts the same
// sandbox without the worker: the bench, as its floor, and tests that remove one defence. It starts
// nothing.

import type { ProcessPlan as Plan } from '../../../shared/plan/plan.ts'
import type { Equipment } from '../../../worker/sandbox/equipment.ts'
import { INIT } from '../../../worker/sandbox/kernel/init.ts'
import { admit, type Command, commandFor, FD, OUR_INIT } from '../../../worker/sandbox/plan/argv.ts'

export type BareCommand = {
  readonly program: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly cwd: string
  /**
   * Descriptors that bubblewrap reads; it writes to `status`; the sandbox ends when the other end
   * of `lifeline` is closed.
   */
  readonly reads: Readonly<Record<number, Buffer>>
  readonly status: number
  readonly lifeline: number
}

export function bareCommand(
  { host, filters, profiles, init }: Equipment,
  plan: Plan,
  runFolder?: string,
): BareCommand {
  const admitted = admit(plan, profiles)
  if (!admitted.ok) throw new Error(admitted.error.detail)
  const { program, args, env, cwd, bwrap } = commandFor(
    admitted.value,
    host,
    runFolder === undefined ? {} : { folder: runFolder },
  )
  if (bwrap === undefined || filters === undefined || init === undefined)
    throw new Error('only tier C has a bare form')
  const reads = {
    [FD.args]: bwrap.options,
    [FD.seccomp]: filters[bwrap.sockets].bytes,
    [FD.init]: init.bytes,
  }
  return { program, args, env, cwd, reads, status: FD.status, lifeline: FD.lifeline }
}

/**
 * The same command with bubblewrap's own init, which needs neither our program nor our lifeline.
 */
export function withoutOurInit(command: Command): Command {
  if (command.bwrap === undefined) return command
  const [before, after] = command.bwrap.options.toString().split(`${OUR_INIT.join('\0')}\0`)
  if (after === undefined) throw new Error('the command has no init of ours')
  const args = command.args.filter((arg) => arg !== INIT)
  return { ...command, args, bwrap: { ...command.bwrap, options: Buffer.from(`${before}${after}`) } }
}
