// The sources of a log: an edge, or a folder with its entries. Both use the paths of C2SP tlog-tiles.

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { NOTE_CHARS } from '../../shared/evidence/note.ts'
import { type ReadTile, tileBytes, tilePath } from '../../shared/evidence/tiles.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import { type Trouble, trouble } from '../shell/command.ts'
import type { Api } from '../shell/edge-api.ts'
import { readBytes } from '../shell/files.ts'

export type LogSource = {
  /** The log may still get leaves and cosignatures. */
  readonly isLive: boolean
  /** The host that was asked; undefined for a folder. */
  readonly address: string | undefined
  /** The signed note, unverified. */
  readonly checkpoint: () => Promise<Result<string, Trouble>>
  /** Notes with cosignatures of witnesses, unverified. */
  readonly cosigned: () => Promise<Result<readonly string[], Trouble>>
  readonly readTile: ReadTile<Trouble>
}

/**
 * How long a live log may take to get the last ends of calls, or cosignatures. A run delivers its ends
 * after 0.2 s, or 2 s later; the edge asks its witnesses 1 s after that.
 */
export const LIVE_WAIT_MS = 10_000
export const LIVE_PAUSE_MS = 250

/** `url`: of the edge. */
export const edgeLog = (api: Api, tenant: string, url: string): LogSource => ({
  isLive: true,
  address: new URL(url).host,
  checkpoint: () => api('logCheckpoint', { params: { tenant } }),
  async cosigned() {
    const states = await api('logWitnesses', { params: { tenant } })
    return states.ok ? ok(states.value.items.flatMap(({ cosigned }) => cosigned?.note ?? [])) : states
  },
  async readTile(tile) {
    const path = tilePath(tile)
    const bytes = await api('logTile', { params: { tenant, tile: path } })
    if (!bytes.ok || bytes.value.byteLength === tileBytes(tile)) return bytes
    return err(
      trouble('unexpected_answer', `the edge sent ${bytes.value.byteLength} bytes as the tile ${path}`),
    )
  },
})

/** The folder of the notes that witnesses have cosigned, in the folder of an exported log. */
export const COSIGNED = 'cosigned'

export const folderLog = (folder: string): LogSource => ({
  isLive: false,
  address: undefined,
  checkpoint: async () => readNote(join(folder, 'checkpoint')),
  async cosigned() {
    const notes: string[] = []
    for (let i = 0; existsSync(join(folder, COSIGNED, `${i}`)); i++) {
      const note = readNote(join(folder, COSIGNED, `${i}`))
      if (!note.ok) return note
      notes.push(note.value)
    }
    return ok(notes)
  },
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
