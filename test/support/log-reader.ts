// Reads a tenant's log as anybody can: its head, without checking the signature, and the entries that
// its leaves are made of.

import type { Client } from '../../shared/routes/client.ts'
import { unwrap } from './fixtures.ts'

type LogHead = {
  readonly origin: string
  readonly size: number
  readonly root: string
  readonly note: string
}

export async function logHead(ask: Client, tenant = 'default'): Promise<LogHead> {
  const note = unwrap(await ask('logCheckpoint', { params: { tenant } }))
  const [origin = '', size = '', root = ''] = note.split('\n')
  return { origin, size: Number(size), root: Buffer.from(root, 'base64').toString('hex'), note }
}

/** The journal hashes of all leaves, in hex. */
export async function logHashes(ask: Client, tenant = 'default'): Promise<string[]> {
  const { size } = await logHead(ask, tenant)
  const hashes: string[] = []
  for (let index = 0; hashes.length < size; index++) {
    const width = Math.min(size - hashes.length, 256)
    const path = String(index).padStart(3, '0') // of logs with fewer than 256,000 leaves
    const tile = `entries/${path}${width < 256 ? `.p/${width}` : ''}`
    const bytes = Buffer.from(unwrap(await ask('logTile', { params: { tenant, tile } })))
    for (let at = 0; at < bytes.length; at += 34) hashes.push(bytes.subarray(at + 2, at + 34).toString('hex'))
  }
  return hashes
}
