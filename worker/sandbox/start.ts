// Owns the one start of a tool's processes: from a command to a child with its descriptors. execa is imported here and nowhere else.
//
// To be called from the main thread: the kernel ends a sandbox when the thread that started it ends.

import { execa } from 'execa'
import type { Command } from './argv.ts'
import type { Equipment } from './equipment.ts'
import { type Inlets, type Wiring, wire } from './wiring.ts'

/** How the started program ended. */
type End = { readonly exitCode?: number | undefined; readonly signal?: string | undefined; readonly code?: string | undefined }

export type Started = {
  readonly command: Command
  readonly wired: Wiring
  /** Undefined if it could not be started. */
  readonly pid: number | undefined
  readonly ended: Promise<End>
}

/** Throws what the system said when it has no descriptors left; nothing stays open then. */
export async function start(equipment: Equipment, command: Command, inlets: Inlets): Promise<Started> {
  const wired = wire(equipment, command, await equipment.pipes.take(inlets.gated ? 3 : 2), inlets)
  try {
    const ended = spawn(command, wired)
    return { command, wired, pid: ended.pid, ended }
  } catch (error) {
    wired.close()
    throw error
  }
}

function spawn({ program, args, cwd, env }: Command, wiring: Wiring) {
  const child = execa(program, args, {
    cwd,
    env,
    extendEnv: false,
    stdio: [...wiring.stdio] as [3, 3, 3, ...3[]], // execa's types stop at descriptor 9, its code does not
    detached: true, // a session of its own: no terminal of ours (S01), and one group to end
    cleanup: false, // the kernel sees to it
    buffer: false,
    reject: false,
    stripFinalNewline: false,
  })
  wiring.handedOver()
  return child
}
