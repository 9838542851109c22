// What jco's bindgen is given of a system while it transpiles: no files, no environment, no output. What it takes for random seeds its hash
// tables: drawn from the component, so that the same component always makes the same code, and whoever makes one can't foresee it.

import { createHash } from 'node:crypto'

let seed: Uint8Array = new Uint8Array(32)
export const seedFrom = (component: Uint8Array): void => {
  seed = createHash('sha256').update(component).digest()
}

const absent = (name: string) => (): never => {
  throw new Error(`the transpiler has no ${name}`)
}
class Nothing {}

export const random = {
  getRandomBytes: (count: bigint): Uint8Array =>
    Uint8Array.from({ length: Number(count) }, (_, index) => seed[index % seed.length] ?? 0),
}
export const environment = { getEnvironment: (): [] => [] }
export const exit = { exit: absent('way to exit') }
export const stdin = { getStdin: absent('standard input') }
export const stdout = { getStdout: absent('standard output') }
export const stderr = { getStderr: absent('standard error') }
export const terminalInput = { TerminalInput: Nothing }
export const terminalOutput = { TerminalOutput: Nothing }
export const terminalStdin = { getTerminalStdin: (): undefined => undefined }
export const terminalStdout = { getTerminalStdout: (): undefined => undefined }
export const terminalStderr = { getTerminalStderr: (): undefined => undefined }
export const preopens = { getDirectories: (): [] => [] }
export const types = {
  Descriptor: Nothing,
  DirectoryEntryStream: Nothing,
  filesystemErrorCode: (): undefined => undefined,
}
export const error = { Error: Nothing }
export const streams = { InputStream: Nothing, OutputStream: Nothing }
