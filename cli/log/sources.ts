// The sources of a log: an edge, or a folder with its entries. Both use the paths of C2SP tlog-tiles.

import { join } from 'node:path'
import { NOTE_CHARS } from '../../shared/evidence/note.ts'
import { type ReadTile, tileBytes, tilePath } from '../../shared/evidence/tiles.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import { type Trouble, trouble } from '../shell/command.ts'
import type { Api } from '../shell/edge-api.ts'
import { readBytes } from '../shell/files.ts'

export type LogSource = {
  /** The signed note, unverified. */
  readonly checkpoint: () => Promise<Result<string, Trouble>>
  readonly readTile: ReadTile<Trouble>
}

export const edgeLog = (api: Api, tenant: string): LogSource => ({
  checkpoint: () => api('logCheckpoint', { params: { tenant } }),
  async readTile(tile) {
    const path = tilePath(tile)
    const bytes = await api('logTile', { params: { tenant, tile: path } })
    if (!bytes.ok || bytes.value.byteLength === tileBytes(tile)) return bytes
    return err(
      trouble('unexpected_answer', `the edge sent ${bytes.value.byteLength} bytes as the tile ${path}`),
    )
  },
})

export const folderLog = (folder: string): LogSource => ({
  checkpoint: async () => readNote(join(folder, 'checkpoint')),
  async readTile(tile) {
    const path = join(folder, 'tile', tilePath(tile))
    const bytes = readBytes(path, tileBytes(tile))
    if (!bytes.ok || bytes.value.byteLength === tileBytes(tile)) return bytes
    return err(trouble('unreadable', `\`${path}\` has ${bytes.value.byteLength} bytes, fewer than the tile`))
  },
})

export function readNote(path: string): Result<string, Trouble> {
  const bytes = readBytes(path, NOTE_CHARS)
  return bytes.ok ? ok(Buffer.from(bytes.value).toString()) : bytes
}
