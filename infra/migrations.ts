// npm run migrations: what changed in edge/tables becomes a new migration of each object class that keeps anything, by drizzle-kit. It
// applies nothing: the objects do that when they open.

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
