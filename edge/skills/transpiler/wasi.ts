// The WASI imports of jco's bindgen: no files, no environment, no output. Its random numbers seed
// hash tables. They are derived from the component's digest, so that the same component always
// gives the same code and its author can't choose the seed.

import { createHash } from 'node:crypto'

let seed: Uint8Array = new Uint8Array(32)
export const seedFrom = (component: Uint8Array): void => {
  seed = createHash('sha256').update(component).digest()
}

const absent = (name: string) => (): never => {
  throw new Error(`the transpiler has no ${name}`)
}
class Unsupported {}

export const random = {
  getRandomBytes: (count: bigint): Uint8Array =>
    Uint8Array.from({ length: Number(count) }, (_, index) => seed[index % seed.length] ?? 0),
}
export const environment = { getEnvironment: (): [] => [] }
export const exit = { exit: absent('way to exit') }
export const stdin = { getStdin: absent('standard input') }
export const stdout = { getStdout: absent('standard output') }
export const stderr = { getStderr: absent('standard error') }
export const terminalInput = { TerminalInput: Unsupported }
export const terminalOutput = { TerminalOutput: Unsupported }
export const terminalStdin = { getTerminalStdin: (): undefined => undefined }
export const terminalStdout = { getTerminalStdout: (): undefined => undefined }
export const terminalStderr = { getTerminalStderr: (): undefined => undefined }
export const preopens = { getDirectories: (): [] => [] }
export const types = {
  Descriptor: Unsupported,
  DirectoryEntryStream: Unsupported,
  filesystemErrorCode: (): undefined => undefined,
}
export const error = { Error: Unsupported }
export const streams = { InputStream: Unsupported, OutputStream: Unsupported }
