// Starts a tool's process: from a command to a child with its descriptors. The only file that
// imports execa for tools.
//
// Call it from the main thread: the kernel ends a sandbox when the thread that started it ends.

import { execa } from 'execa'
import type { Command } from '../plan/argv.ts'
import type { PipeStock } from './pipes.ts'
import type { ProcessEnd, Spawned, Spawner } from './spawner.ts'
import { type OpenFiles, type Stdio, type StdioInputs, wire } from './stdio.ts'

/** The parts of the worker's equipment that a start needs. */
export type StartSupplies = OpenFiles & {
  readonly pipes: PipeStock
  /** Undefined if the worker starts sandboxes itself. */
  readonly spawner: Spawner | undefined
}

export type StartedProcess = {
  readonly command: Command
  readonly wired: Stdio
  /** Undefined if it could not be started. */
  readonly pid: number | undefined
  readonly ended: Promise<ProcessEnd>
}

/** Throws the system's error if descriptors run out, and then leaves none open. */
export async function start(
  supplies: StartSupplies,
  command: Command,
  inlets: StdioInputs,
): Promise<StartedProcess> {
  const wired = wire(supplies, command, await supplies.pipes.take(pipesFor(command, inlets)), inlets)
  try {
    const spawned = (await supplies.spawner?.spawn(command, wired.stdio)) ?? spawn(command, wired)
    wired.closeChildEnds()
    return { command, wired, ...spawned }
  } catch (error) {
    wired.close()
    throw error
  }
}

/**
 * Two output streams, the lifeline of a sandbox, and the release pipe of a warm one or the standard
 * input of a program that is spoken with.
 */
const pipesFor = ({ bwrap }: Command, inlets: StdioInputs): number =>
  2 + (bwrap === undefined ? 0 : 1) + (inlets.gated || inlets.live === true ? 1 : 0)

function spawn({ program, args, cwd, env }: Command, wiring: Stdio): Spawned {
  const child = execa(program, args, {
    cwd,
    env,
    extendEnv: false,
    // execa's types end at descriptor 9, its code does not.
    stdio: Array.from(wiring.stdio, (lent) => lent?.fd ?? 'ignore') as [3, 3, 3, ...3[]],
    detached: true, // a new session: without our terminal (S01), and killed as one group
    cleanup: false, // the kernel ends it with us
    buffer: false,
    reject: false,
    stripFinalNewline: false,
  })
  return { pid: child.pid, ended: child }
}
