// `npm run test:hosts`: installs Countersign on booted Debian machines with the documented
// commands, and tests it there. Arguments go to vitest. The first run makes a Debian tree (40 s)
// and keeps it; a run takes about two minutes.

import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { buildEdge } from './edge-build.ts'
import { installForHosts } from './packages.ts'
import { sayOnStderr as say } from './setup.ts'
import { ROOT } from './state.ts'
import { fail } from './terminal.ts'

if (process.getuid?.() !== 0)
  fail(say, 'booting machines needs root: run this with sudo, or in a virtual machine')
const ready = installForHosts(say)
if (!ready.ok) fail(say, ready.error)
// Build once; the machines use this checkout.
const built = await buildEdge(say)
if (!built.ok) fail(say, built.error)
const argv = ['run', '--config', 'vitest.hosts.config.ts', ...process.argv.slice(2)]
process.exit(
  spawnSync(join(ROOT, 'node_modules/.bin/vitest'), argv, { cwd: ROOT, stdio: ['ignore', 1, 2] }).status ?? 1,
)
