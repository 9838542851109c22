// npm run migrations: what changed in the tables of a room (edge/*/tables.ts) becomes a new migration of each object class that keeps anything, by drizzle-kit. It
// applies nothing: the objects do that when they open.

import { spawnSync } from 'node:child_process'

/** Object class → the room whose tables it keeps. */
const ROOMS = {
  tenant: 'tenant',
  run: 'run',
  session: 'session',
  log: 'log',
  channel: 'channels',
  skill: 'skills',
  installation: 'installation',
}

for (const [object, room] of Object.entries(ROOMS)) {
  const args = [
    'generate',
    '--dialect',
    'sqlite',
    '--driver',
    'durable-sqlite',
    '--schema',
    `edge/${room}/tables.ts`,
    '--out',
    `migrations/${object}`,
  ]
  const { status } = spawnSync('node_modules/.bin/drizzle-kit', args, { stdio: 'inherit' })
  if (status !== 0) process.exit(status ?? 1)
}
