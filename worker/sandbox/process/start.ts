// Owns the one start of a tool's processes: from a command to a child with its descriptors. execa is imported here and nowhere else.
//
// To be called from the main thread: the kernel ends a sandbox when the thread that started it ends.

import { execa } from 'execa'
import type { Command } from '../plan/argv.ts'
import type { PipeStock } from './pipes.ts'
import type { End, Spawned, Spawner } from './spawner.ts'
import { type Inlets, type OpenFiles, type Wiring, wire } from './stdio.ts'

/** What a start takes from the worker's equipment. */
export type StartSupplies = OpenFiles & {
  readonly pipes: PipeStock
  /** Undefined where the worker starts sandboxes itself. */
  readonly spawner: Spawner | undefined
}

export type Started = {
  readonly command: Command
  readonly wired: Wiring
  /** Undefined if it could not be started. */
  readonly pid: number | undefined
  readonly ended: Promise<End>
}

/** Throws what the system said when it has no descriptors left; nothing stays open then. */
export async function start(supplies: StartSupplies, command: Command, inlets: Inlets): Promise<Started> {
  const wired = wire(supplies, command, await supplies.pipes.take(pipesFor(command, inlets)), inlets)
  try {
    const spawned = (await supplies.spawner?.spawn(command, wired.stdio)) ?? spawn(command, wired)
    wired.handedOver()
    return { command, wired, ...spawned }
  } catch (error) {
    wired.close()
    throw error
  }
}

/** The two output streams, the lifeline of the sandbox, and the release of a prepared one. */
const pipesFor = ({ bwrap }: Command, { gated }: Inlets): number =>
  2 + (bwrap === undefined ? 0 : 1) + (gated ? 1 : 0)

function spawn({ program, args, cwd, env }: Command, wiring: Wiring): Spawned {
  const child = execa(program, args, {
    cwd,
    env,
    extendEnv: false,
    stdio: Array.from(wiring.stdio, (lent) => lent?.fd ?? 'ignore') as [3, 3, 3, ...3[]], // execa's types stop at descriptor 9, its code does not
    detached: true, // a session of its own: no terminal of ours (S01), and one group to end
    cleanup: false, // the kernel sees to it
    buffer: false,
    reject: false,
    stripFinalNewline: false,
  })
  return { pid: child.pid, ended: child }
}
