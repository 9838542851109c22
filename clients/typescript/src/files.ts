// Input and output files of a run. Each is named by the SHA-256 of its bytes, which is checked when
// it is read.

import type { Call, HeldFile } from './api.ts'
import { ConnectionError } from './errors.ts'
import type { Transport } from './transport.ts'

export class Files {
  readonly #transport: Transport
  constructor(transport: Transport) {
    this.#transport = transport
  }

  /** Uploads an input file. Name it in `files` of a call of the same run. */
  async put(
    run: string,
    bytes: Uint8Array | string,
    signal?: AbortSignal,
  ): Promise<{ readonly sha256: string; readonly bytes: number }> {
    const body = typeof bytes === 'string' ? new TextEncoder().encode(bytes) : bytes
    const params = { run, sha256: await sha256(body) }
    return this.#transport.json('putFile', { params, body, signal })
  }

  async list(run: string, signal?: AbortSignal): Promise<readonly HeldFile[]> {
    const { items } = await this.#transport.json<{ readonly items: readonly HeldFile[] }>('listFiles', {
      params: { run },
      signal,
    })
    return items
  }

  /** An input or output file of a call, by its digest. */
  async read(
    call: Pick<Call, 'id' | 'run'>,
    digest: string,
    signal?: AbortSignal,
  ): Promise<Uint8Array<ArrayBuffer>> {
    const params = { run: call.run, call: call.id, sha256: digest }
    const response = await this.#transport.send('readFile', { params, signal })
    const bytes = new Uint8Array(await response.arrayBuffer())
    if ((await sha256(bytes)) !== digest)
      throw new ConnectionError(`the bytes that arrived are not those of the file ${digest}`)
    return bytes
  }
}

/** In lower-case hex. Browsers have `crypto.subtle` on https pages only. */
export async function sha256(bytes: Uint8Array): Promise<string> {
  const digest = await crypto.subtle.digest('SHA-256', bytes as Uint8Array<ArrayBuffer>) // never shared memory
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0')).join('')
}
