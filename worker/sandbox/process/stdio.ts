// Owns the descriptors of one started process: its three streams, and what bubblewrap reads and writes. It knows which the child gets,
// which stay with us, and that all of them are closed in the end. It starts nothing.

import { closeSync, writeSync } from 'node:fs'
import type { Socket } from 'node:net'
import { contentOf, fill, inputFile, namelessFile, reopen } from '../../host/file-descriptors.ts'
import { FIRST_GROUP_FD, GROUP_FDS } from '../kernel/enter-cgroup.ts'
import type { SocketMode } from '../kernel/seccomp.ts'
import { type Command, FD } from '../plan/argv.ts'
import type { OutputCapture } from '../streams/output-capture.ts'
import type { VeiledStream } from '../streams/secret-mask.ts'
import { type Blank, inputPipe, outputPipe } from './pipes.ts'
import type { Lent } from './spawner.ts'

/** What is still in the pipes when every process is gone is read within this time. */
const DRAIN_MS = 1_000

/** What the worker holds open for all calls, as far as the streams of one need it. */
export type OpenFiles = {
  /** A folder for files without a name. */
  readonly scratch: string
  readonly devNull: number
  /** The compiled filters; undefined where no filter is known for the machine. */
  readonly filters: Readonly<Record<SocketMode, { readonly fd: number }>> | undefined
  /** The program of process 1; undefined where none is known for the machine. */
  readonly init: { readonly fd: number } | undefined
}

/** The child's input. A gated sandbox is started before it is known. */
export type Inlets =
  | {
      readonly gated: false
      readonly stdin?: Uint8Array | undefined
      readonly secrets?: Readonly<Record<string, string>> | undefined
    }
  | { readonly gated: true }

export type Wiring = {
  /** For the child, by its numbers. */
  readonly stdio: readonly (Lent | undefined)[]
  readonly stdout: Socket
  readonly stderr: Socket
  /** The child has its ends now; ours of them would keep the pipes open. */
  readonly handedOver: () => void
  /** Gives a gated child the content that it waits for, once. */
  readonly release: (content: Buffer) => void
  /** Ends the sandbox by closing its lifeline: process 1 ends, then everything in it. Does nothing without one or if repeated. */
  readonly letGo: () => void
  /** What bubblewrap wrote. */
  readonly status: () => string
  readonly close: () => void
}

/** Throws what the system said when it has no descriptors left; nothing stays open then. */
export function wire(
  files: OpenFiles,
  { bwrap, groupFds }: Command,
  blanks: readonly Blank[],
  inlets: Inlets,
): Wiring {
  const lent: number[] = []
  const kept: number[] = []
  const secrets = inlets.gated ? undefined : inlets.secrets
  const readers: Socket[] = []
  const lend = (fd: number): number => {
    lent.push(fd)
    return fd
  }
  const keep = (fd: number): number => {
    kept.push(fd)
    return fd
  }
  const handedOver = (): void => {
    for (const fd of lent.splice(0)) closeSync(fd)
  }
  let lifeline: number | undefined
  const letGo = (): void => {
    if (lifeline !== undefined) closeSync(lifeline)
    lifeline = undefined
  }
  const unused = [...blanks]
  const close = (): void => {
    for (const blank of unused.splice(0)) closeSync(blank)
    handedOver()
    for (const reader of readers) reader.destroy()
    for (const fd of kept.splice(0)) closeSync(fd)
    letGo()
  }
  const output = (): { reader: Socket; childEnd: number } => {
    const pipe = outputPipe(needed(unused.shift()))
    readers.push(pipe.reader)
    lend(pipe.childEnd)
    return pipe
  }
  try {
    const [stdout, stderr] = [output(), output()]
    const stdio: Lent[] = [readEnd(files, inlets, lend), writes(stdout.childEnd), writes(stderr.childEnd)]
    let status: number | undefined
    if (bwrap !== undefined) {
      const filter = files.filters?.[bwrap.sockets]
      if (filter === undefined || files.init === undefined)
        throw new Error('tier C without a filter or an init')
      stdio[FD.args] = reads(lend(namelessFile(files.scratch, bwrap.options)))
      stdio[FD.seccomp] = reads(lend(reopen(filter.fd)))
      stdio[FD.init] = reads(lend(reopen(files.init.fd)))
      const life = inputPipe(needed(unused.shift()))
      lifeline = life.ours
      stdio[FD.lifeline] = reads(lend(life.childEnd))
      status = keep(namelessFile(files.scratch))
      stdio[FD.status] = writes(status)
      for (const [index, name] of bwrap.secrets.entries())
        stdio[FD.secrets + index] = reads(
          lend(inputFile(files.scratch, Buffer.from(secrets?.[name] ?? missing(name)))),
        )
    }
    for (const [index, fd] of groupFds.entries())
      stdio[FIRST_GROUP_FD + index] = groupFds.length === GROUP_FDS ? writes(fd) : reads(fd)
    let release: Wiring['release'] = () => {
      throw new Error('only a gated child waits')
    }
    if (inlets.gated) {
      const delivery = keep(namelessFile(files.scratch))
      const gate = inputPipe(needed(unused.shift()))
      keep(gate.ours)
      stdio[FD.delivery] = reads(lend(reopen(delivery)))
      stdio[FD.release] = reads(lend(gate.childEnd))
      release = (content) => {
        fill(delivery, content)
        writeSync(gate.ours, '!') // last: what was handed over is whole before it is read
      }
    }
    const told = (): string => (status === undefined ? '' : contentOf(status))
    return {
      stdio,
      stdout: stdout.reader,
      stderr: stderr.reader,
      handedOver,
      release,
      letGo,
      status: told,
      close,
    }
  } catch (error) {
    close()
    throw error
  }
}

const reads = (fd: number): Lent => ({ fd, to: 'read' })
const writes = (fd: number): Lent => ({ fd, to: 'write' })

/**
 * Standard input, where it is already known: a file, which unlike a FIFO can be opened again as /dev/stdin and needs no writer. The spawner
 * gives the tool a sealed copy of it (sealed.ts). The gate delivers standard input that becomes known later.
 */
function readEnd({ devNull, scratch }: OpenFiles, inlets: Inlets, lend: (fd: number) => number): Lent {
  if (inlets.gated || inlets.stdin === undefined) return reads(devNull)
  return { fd: lend(inputFile(scratch, inlets.stdin)), to: 'input' }
}

/** A claim that lacks one is not verified. */
function missing(name: string): never {
  throw new Error(`the secret \`${name}\` was not handed over`)
}

function needed(blank: Blank | undefined): Blank {
  if (blank === undefined) throw new Error('a stream needs a pipe')
  return blank
}

/** Reads a stream to its end, as far as it may be known. The promise keeps once nothing more can come. */
export function follow(stream: Socket, veiled: VeiledStream, capture: OutputCapture): Promise<void> {
  return new Promise((settle) => {
    stream.on('data', (chunk: Buffer) => capture.take(veiled.take(chunk)))
    stream.on('error', () => stream.destroy())
    stream.on('close', () => settle())
  })
}

/** Waits for the ends of the streams, but for no one who holds one open from outside our reach. */
export async function drained(streams: readonly Promise<void>[]): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<void>((settle) => {
    timer = setTimeout(settle, DRAIN_MS)
  })
  await Promise.race([Promise.all(streams), late])
  clearTimeout(timer)
}
