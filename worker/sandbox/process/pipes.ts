// Owns real pipes for output. Node gives children sockets for standard streams, and on a socket `/dev/stdout` and `/dev/stderr` can't be
// opened; a socket would also hand hostile code a channel for descriptors into the worker. Node can't make a pipe, but it can open a FIFO:
// a stock of them is made ahead, named nowhere, each for one stream of one call.

import { execFile } from 'node:child_process'
import { closeSync, constants, openSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { Socket } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { together } from '../../host/file-descriptors.ts'
import { ownFolder } from '../../host/owned-folders.ts'

/** Neither end yet; open it to get one. The flag is Linux's, Node does not name it. */
const O_PATH = 0o10000000
/** One process makes this many. */
const BATCH = 96
/** Make more when fewer are left: what a burst of calls takes while mkfifo runs. */
const LOW = 48

/** A pipe with no end open. It serves once. */
export type Blank = number
export type OutputPipe = { readonly reader: Socket; readonly childEnd: number }

/** For a stream that the child writes. */
export function outputPipe(blank: Blank): OutputPipe {
  const path = `/proc/self/fd/${blank}`
  try {
    return together((keep) => {
      const readEnd = keep(openSync(path, constants.O_RDONLY | constants.O_NONBLOCK))
      const childEnd = keep(openSync(path, constants.O_WRONLY)) // waits for no one: the other end is there
      return { reader: new Socket({ fd: readEnd, readable: true, writable: false }), childEnd }
    })
  } finally {
    closeSync(blank)
  }
}

/** The child reads it; we may write a byte. `ours` is gone when we are, and then the child sees the end. */
export function inputPipe(blank: Blank): { readonly ours: number; readonly childEnd: number } {
  const path = `/proc/self/fd/${blank}`
  try {
    return together((keep) => {
      const held = keep(openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)) // or opening the other end would wait
      const ours = keep(openSync(path, constants.O_WRONLY))
      const childEnd = keep(openSync(path, constants.O_RDONLY))
      closeSync(held)
      return { ours, childEnd }
    })
  } finally {
    closeSync(blank)
  }
}

export class PipeStock {
  readonly #mkfifo: string
  readonly #folder: string
  readonly #idle: Blank[] = []
  #making: Promise<void> | undefined
  #closed = false

  private constructor(mkfifo: string, folder: string) {
    this.#mkfifo = mkfifo
    this.#folder = folder
  }

  /**
   * Begins to make the first ones; a failure is told to whoever takes them. `folder` should be in memory: on a disk the kernel looks at all
   * files that were removed of late before it makes another.
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

  /** Waits only when a burst outran the making. What is not opened is to be closed. */
  async take(count: number): Promise<Blank[]> {
    while (this.#idle.length < count) await this.#refill()
    const taken = this.#idle.splice(-count)
    if (this.#idle.length < LOW) this.#refill().catch(() => undefined) // whoever has to wait for it is told
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
