// A stock of real pipes for output. Node gives children sockets as standard streams, which can't be
// reopened as `/dev/stdout`, and over which hostile code could pass descriptors into the worker.
// Node can't make pipes but can open FIFOs, so FIFOs are made in advance and unlinked; each serves
// one stream of one call.

import { execFile } from 'node:child_process'
import { closeSync, constants, openSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { Socket } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { together } from '../../host/file-descriptors.ts'
import { ownFolder } from '../../host/owned-folders.ts'

/**
 * Opens a file without access to its content; the ends are opened through it later. Node lacks this
 * Linux flag.
 */
const O_PATH = 0o10000000
/** The pipes that one mkfifo process makes. */
const BATCH = 96
/** The refill threshold: enough for a burst of calls while mkfifo runs. */
const LOW = 48

/** The descriptor of an unused pipe, neither end of which is open. */
export type UnopenedPipe = number
export type OutputPipe = { readonly reader: Socket; readonly childEnd: number }

/** Opens a pipe that the child writes and we read. */
export function outputPipe(unopened: UnopenedPipe): OutputPipe {
  const path = `/proc/self/fd/${unopened}`
  try {
    return together((keep) => {
      const readEnd = keep(openSync(path, constants.O_RDONLY | constants.O_NONBLOCK))
      const childEnd = keep(openSync(path, constants.O_WRONLY)) // does not block: the other end is open
      return { reader: new Socket({ fd: readEnd, readable: true, writable: false }), childEnd }
    })
  } finally {
    closeSync(unopened)
  }
}

/**
 * Opens a pipe that the child reads and we write. When we die, `ours` closes and the child sees the
 * end.
 */
export function inputPipe(unopened: UnopenedPipe): { readonly ours: number; readonly childEnd: number } {
  const path = `/proc/self/fd/${unopened}`
  try {
    return together((keep) => {
      // Keeps the next open from blocking.
      const held = keep(openSync(path, constants.O_RDONLY | constants.O_NONBLOCK))
      const ours = keep(openSync(path, constants.O_WRONLY))
      const childEnd = keep(openSync(path, constants.O_RDONLY))
      closeSync(held)
      return { ours, childEnd }
    })
  } finally {
    closeSync(unopened)
  }
}

export class PipeStock {
  readonly #mkfifo: string
  readonly #folder: string
  readonly #idle: UnopenedPipe[] = []
  #making: Promise<void> | undefined
  #closed = false

  private constructor(mkfifo: string, folder: string) {
    this.#mkfifo = mkfifo
    this.#folder = folder
  }

  /**
   * Starts to make the first pipes; `take` reports a failure. `folder` should be in memory:
   * creating files is slow on disks whose file system searches recently removed ones.
   */
  static open(mkfifo: string, folder: string): PipeStock {
    const stock = new PipeStock(mkfifo, folder)
    stock.#refill().catch(() => undefined)
    return stock
  }

  async close(): Promise<void> {
    this.#closed = true
    await this.#making?.catch(() => undefined)
    for (const fd of this.#idle.splice(0)) closeSync(fd)
  }

  /** Waits only if a burst emptied the stock. The caller closes what it does not open. */
  async take(count: number): Promise<UnopenedPipe[]> {
    while (this.#idle.length < count) await this.#refill()
    const taken = this.#idle.splice(-count)
    // The next `take` that needs it gets the error.
    if (this.#idle.length < LOW) this.#refill().catch(() => undefined)
    return taken
  }

  #refill(): Promise<void> {
    this.#making ??= this.#make().finally(() => {
      this.#making = undefined
    })
    return this.#making
  }

  async #make(): Promise<void> {
    const folder = await ownFolder(this.#folder, 'countersign-pipes')
    try {
      const paths = Array.from({ length: BATCH }, (_, index) => join(folder, `${index}`))
      await promisify(execFile)(this.#mkfifo, ['-m', '600', '--', ...paths], { env: {} })
      if (!this.#closed)
        this.#idle.push(...together((keep) => paths.map((path) => keep(openSync(path, O_PATH)))))
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  }
}
