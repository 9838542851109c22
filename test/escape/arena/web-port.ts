// Port 443, which several test files need exclusively: each waits until it is free.

import type { Server } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

export const TLS_PORT = 443
const WITHIN_MS = 30_000

export async function takeTlsPort(server: Server): Promise<void> {
  for (const until = Date.now() + WITHIN_MS; !(await listens(server, Date.now() > until)); ) await sleep(50)
}

function listens(server: Server, last: boolean): Promise<boolean> {
  return new Promise((settle, fail) => {
    const failed = (error: NodeJS.ErrnoException): void => {
      if (last || error.code !== 'EADDRINUSE') fail(error)
      else settle(false)
    }
    server.once('error', failed)
    server.listen(TLS_PORT, '127.0.0.1', () => {
      server.off('error', failed)
      settle(true)
    })
  })
}
