// `npm run migrations`: lets drizzle-kit write migrations for the changes in edge/tables, one
// folder per object class. It applies none; the objects do that when they open.

import { spawnSync } from 'node:child_process'

for (const object of ['tenant', 'run', 'session', 'log', 'channel', 'skill', 'installation']) {
  const args = [
    'generate',
    '--dialect',
    'sqlite',
    '--driver',
    'durable-sqlite',
    '--schema',
    `edge/tables/${object}.ts`,
    '--out',
    `migrations/${object}`,
  ]
  const { status } = spawnSync('node_modules/.bin/drizzle-kit', args, { stdio: 'inherit' })
  if (status !== 0) process.exit(status ?? 1)
}
