// The lock that permits one process per home of a worker.

import { statSync } from 'node:fs'
import { createServer } from 'node:net'
import { err, ok, type Result } from '../../shared/result.ts'

/**
 * Ensures one worker process per home, by an abstract socket: of two processes under one identity,
 * the edge would declare each one's calls lost. The kernel frees the socket when we die, for any
 * reason. Its name is the folder's inode, because one folder may have several paths.
 */
export function holdHome(home: string): Promise<Result<void, string>> {
  const { dev, ino } = statSync(home)
  return new Promise((settle) => {
    const server = createServer((socket) => socket.destroy())
    server.once('error', () =>
      settle(err(`another worker runs on \`${home}\`; stop it, or give this one another home`)),
    )
    server.listen(`\0countersign-worker-${dev}-${ino}`, () => settle(ok(undefined)))
    server.unref()
  })
}
