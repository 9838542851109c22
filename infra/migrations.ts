// `npm run migrations -- NAME`: drizzle-kit writes a new migration for each object class whose
// tables changed, under a name that says what it does, e.g. `worker_proofs`. It applies nothing:
// the objects do that when they open, by the times in the journal and not by the names. New objects
// are made from `schemas.json`, which is written here too.

import { spawnSync } from 'node:child_process'
import { writeSchemas } from './migration-schemas.ts'

const [name] = process.argv.slice(2)
if (name === undefined || !/^[a-z][a-z0-9_]*$/.test(name)) {
  process.stderr.write('name the migration by what it does: `npm run migrations -- worker_proofs`\n')
  process.exit(2)
}

/** Maps each object class to the room with its tables. */
const ROOMS = {
  tenant: 'tenant',
  run: 'run',
  session: 'session',
  log: 'log',
  channel: 'channels',
  skill: 'skills',
  installation: 'installation',
  archive: 'archive',
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
    '--name',
    name,
  ]
  const { status } = spawnSync('node_modules/.bin/drizzle-kit', args, { stdio: 'inherit' })
  if (status !== 0) process.exit(status ?? 1)
  writeSchemas(`migrations/${object}`)
}
