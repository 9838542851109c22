// The descriptors of one started process: its three streams, and those that bubblewrap reads and
// writes. Tracks which the child gets and which stay with the worker, and closes all of them in the
// end.

import { closeSync, writeSync } from 'node:fs'
import { Socket } from 'node:net'
import { contentOf, fill, inputFile, namelessFile, reopen } from '../../host/file-descriptors.ts'
import { FIRST_GROUP_FD, GROUP_FDS } from '../kernel/enter-cgroup.ts'
import type { SocketMode } from '../kernel/seccomp.ts'
import { type Command, FD } from '../plan/argv.ts'
import type { OutputCapture } from '../streams/output-capture.ts'
import type { MaskedStream } from '../streams/secret-mask.ts'
import { inputPipe, outputPipe, type UnopenedPipe } from './pipes.ts'
import type { LentDescriptor } from './spawner.ts'

/** After the last process has ended, the rest of its output is read within this time. */
const DRAIN_MS = 1_000

/** The worker's own open files that the descriptors of a call derive from. */
export type OpenFiles = {
  /** A folder for files without a name. */
  readonly scratch: string
  readonly devNull: number
  /** The compiled filters; undefined if there is none for this machine. */
  readonly filters: Readonly<Record<SocketMode, { readonly fd: number }>> | undefined
  /** The program of process 1; undefined if there is none for this machine. */
  readonly init: { readonly fd: number } | undefined
}

/** The child's input. A gated sandbox starts before its input is known. */
export type StdioInputs =
  | {
      readonly gated: false
      readonly stdin?: Uint8Array | undefined
      /** Standard input stays open, for a program that reads requests while it runs. */
      readonly live?: boolean | undefined
      readonly secrets?: Readonly<Record<string, string>> | undefined
    }
  | { readonly gated: true }

export type Stdio = {
  /** The child's descriptors, by number. */
  readonly stdio: readonly (LentDescriptor | undefined)[]
  /** Writes to the standard input of a program that is spoken with. */
  readonly stdin: Socket | undefined
  readonly stdout: Socket
  readonly stderr: Socket
  /** The child has its ends now; ours of them would keep the pipes open. */
  readonly closeChildEnds: () => void
  /** Gives a gated child the content that it waits for, once. */
  readonly release: (content: Buffer) => void
  /**
   * Ends the sandbox by closing its lifeline: process 1 ends, then everything in it. Does nothing
   * without one or if repeated.
   */
  readonly closeLifeline: () => void
  /** The status lines that bubblewrap has written. */
  readonly status: () => string
  readonly close: () => void
}

/** Throws the system's error if descriptors run out, and then leaves none open. */
export function wire(
  files: OpenFiles,
  { bwrap, groupFds }: Command,
  pipes: readonly UnopenedPipe[],
  inlets: StdioInputs,
): Stdio {
  const childFds: number[] = []
  const ownFds: number[] = []
  const secrets = inlets.gated ? undefined : inlets.secrets
  const sockets: Socket[] = []
  const lend = (fd: number): number => {
    childFds.push(fd)
    return fd
  }
  const keepOpen = (fd: number): number => {
    ownFds.push(fd)
    return fd
  }
  const closeChildEnds = (): void => {
    for (const fd of childFds.splice(0)) closeSync(fd)
  }
  let lifeline: number | undefined
  const closeLifeline = (): void => {
    if (lifeline !== undefined) closeSync(lifeline)
    lifeline = undefined
  }
  const unused = [...pipes]
  const close = (): void => {
    for (const unopened of unused.splice(0)) closeSync(unopened)
    closeChildEnds()
    for (const socket of sockets) socket.destroy()
    for (const fd of ownFds.splice(0)) closeSync(fd)
    closeLifeline()
  }
  const output = (): { reader: Socket; childEnd: number } => {
    const pipe = outputPipe(required(unused.shift()))
    sockets.push(pipe.reader)
    lend(pipe.childEnd)
    return pipe
  }
  try {
    const [stdout, stderr] = [output(), output()]
    const input = inlets.gated || inlets.live !== true ? undefined : inputPipe(required(unused.shift()))
    const stdin = input === undefined ? undefined : writer(input.ours)
    if (stdin !== undefined) sockets.push(stdin)
    const stdio: LentDescriptor[] = [
      input === undefined ? readEnd(files, inlets, lend) : reads(lend(input.childEnd)),
      writes(stdout.childEnd),
      writes(stderr.childEnd),
    ]
    let status: number | undefined
    if (bwrap !== undefined) {
      const filter = files.filters?.[bwrap.sockets]
      if (filter === undefined || files.init === undefined)
        throw new Error('tier C without a filter or an init')
      stdio[FD.args] = reads(lend(namelessFile(files.scratch, bwrap.options)))
      stdio[FD.seccomp] = reads(lend(reopen(filter.fd)))
      stdio[FD.init] = reads(lend(reopen(files.init.fd)))
      const life = inputPipe(required(unused.shift()))
      lifeline = life.ours
      stdio[FD.lifeline] = reads(lend(life.childEnd))
      status = keepOpen(namelessFile(files.scratch))
      stdio[FD.status] = writes(status)
      for (const [index, name] of bwrap.secrets.entries())
        stdio[FD.secrets + index] = reads(
          lend(inputFile(files.scratch, Buffer.from(secrets?.[name] ?? missingSecret(name)))),
        )
    }
    for (const [index, fd] of groupFds.entries())
      stdio[FIRST_GROUP_FD + index] = groupFds.length === GROUP_FDS ? writes(fd) : reads(fd)
    let release: Stdio['release'] = () => {
      throw new Error('only a gated child waits')
    }
    if (inlets.gated) {
      const delivery = keepOpen(namelessFile(files.scratch))
      const gate = inputPipe(required(unused.shift()))
      keepOpen(gate.ours)
      stdio[FD.delivery] = reads(lend(reopen(delivery)))
      stdio[FD.release] = reads(lend(gate.childEnd))
      release = (content) => {
        fill(delivery, content)
        writeSync(gate.ours, '!') // last, so that the gate reads a complete delivery
      }
    }
    const readStatus = (): string => (status === undefined ? '' : contentOf(status))
    return {
      stdio,
      stdin,
      stdout: stdout.reader,
      stderr: stderr.reader,
      closeChildEnds,
      release,
      closeLifeline,
      status: readStatus,
      close,
    }
  } catch (error) {
    close()
    throw error
  }
}

const reads = (fd: number): LentDescriptor => ({ fd, to: 'read' })
const writes = (fd: number): LentDescriptor => ({ fd, to: 'write' })

/**
 * Never blocks: a program that does not read must not stop the worker. Its end is not our error.
 */
function writer(fd: number): Socket {
  const socket = new Socket({ fd, readable: false, writable: true })
  socket.on('error', () => socket.destroy())
  return socket
}

/**
 * Standard input, if it is known already: a file, which unlike a FIFO can be reopened as /dev/stdin
 * and needs no writer. The spawner gives the tool a sealed copy of it (sealed-input.ts). Standard
 * input that becomes known later comes through the gate.
 */
function readEnd(
  { devNull, scratch }: OpenFiles,
  inlets: StdioInputs,
  lend: (fd: number) => number,
): LentDescriptor {
  if (inlets.gated || inlets.stdin === undefined) return reads(devNull)
  return { fd: lend(inputFile(scratch, inlets.stdin)), to: 'input' }
}

/** Unreachable for a verified claim, which has every secret that its plan names. */
function missingSecret(name: string): never {
  throw new Error(`the value of the secret \`${name}\` is missing`)
}

function required(unopened: UnopenedPipe | undefined): UnopenedPipe {
  if (unopened === undefined) throw new Error('a stream needs a pipe')
  return unopened
}

/** Captures a stream through the mask; resolves at the end of the stream. */
export function follow(stream: Socket, masked: MaskedStream, capture: OutputCapture): Promise<void> {
  return new Promise((settle) => {
    stream.on('data', (chunk: Buffer) => capture.take(masked.take(chunk)))
    stream.on('error', () => stream.destroy())
    stream.on('close', () => settle())
  })
}

/**
 * Waits for the ends of the streams, but not for a process out of our reach that holds one open.
 */
export async function drained(streams: readonly Promise<void>[]): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<void>((settle) => {
    timer = setTimeout(settle, DRAIN_MS)
  })
  await Promise.race([Promise.all(streams), late])
  clearTimeout(timer)
}
