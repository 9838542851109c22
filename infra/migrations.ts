// `npm run migrations`: lets drizzle-kit write migrations for the changes in edge/tables, one
// folder per object class. It applies none; the objects do that when they open.

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
