// State folders that are made once and copied for each stack or worker that a test starts. Keys,
// tables, tools and enrolment are in them, which saves half of the start. They are cached in
// node_modules, by the digest of their sources; `npm test` makes new ones.
// test/journey/start.test.ts tests a first start. Their keys only open test stacks on loopback.

import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { ROOT, takeLock } from '../../../infra/state.ts'

const SEEDED = process.env['COUNTERSIGN_SEEDED'] ?? join(ROOT, 'node_modules/.cache/countersign/seeded')
/**
 * The sources of a state folder. The edge is left out, so that changing it needs no new folder: an
 * edge can open the folders of older versions.
 */
const SOURCES = [
  ...['infra', 'migrations', 'policies', 'shared', 'worker', 'package-lock.json'],
  relative(ROOT, import.meta.filename),
]
/** Parts that belong to one run of a stack: ports, logs, doorbells, the bundle. */
const OF_ONE_RUN = ['ports.json', 'log', 'redis', 'edge/bundle', 'edge/config.capnp', 'dev.json', 'lock']
/**
 * The worker's compile cache: 870 files, which Node replaces and never changes. They are linked,
 * because creating and removing copies takes 0.3 s of CPU.
 */
const COMPILED = 'worker/cache'
const MADE_WITHIN_MS = 90_000
const KEPT = 3

/**
 * Returns a copy of the folder that `make` fills; the caller removes the copy. One process makes
 * the folder, others wait.
 */
export async function copyOfSeeded(name: string, make: (dir: string) => Promise<void>): Promise<string> {
  const copy = mkdtempSync(join(tmpdir(), 'countersign-'))
  const seeded = await madeOnce(name, make)
  const cp = (from: string, to: string, how: readonly string[] = []): number | null =>
    spawnSync('/usr/bin/cp', ['--archive', '--no-target-directory', ...how, join(seeded, from), to]).status // keeps the owner of the worker's files
  if (cp('state', copy) !== 0) throw new Error(`\`${seeded}\` could not be copied`)
  const compiled = join(copy, COMPILED)
  // Links don't lead to another disk.
  if (cp('compiled', compiled, ['--link']) !== 0) {
    rmSync(compiled, { recursive: true, force: true })
    cp('compiled', compiled)
  }
  return copy
}

async function madeOnce(name: string, make: (dir: string) => Promise<void>): Promise<string> {
  const dir = join(SEEDED, `${name}-${digest()}`)
  mkdirSync(dirname(SEEDED), { recursive: true }) // open: the worker's user reads bundles beside it
  mkdirSync(SEEDED, { recursive: true, mode: 0o700 })
  for (const until = Date.now() + MADE_WITHIN_MS; !existsSync(dir); await sleep(50)) {
    const lock = takeLock(`${dir}.lock`)
    if (!lock.ok) {
      if (Date.now() > until)
        throw new Error(`\`${dir}\` was not made within ${MADE_WITHIN_MS} ms by process ${lock.error}`)
      continue
    }
    try {
      if (existsSync(dir)) continue
      await madeBy(make, `${dir}.draft`, dir)
      prune(name)
    } finally {
      lock.value()
    }
  }
  return dir
}

async function madeBy(make: (dir: string) => Promise<void>, draft: string, dir: string): Promise<void> {
  rmSync(draft, { recursive: true, force: true }) // left by a process that was killed
  mkdirSync(draft)
  const state = join(draft, 'state')
  await make(state)
  for (const path of OF_ONE_RUN) rmSync(join(state, path), { recursive: true, force: true })
  renameSync(join(state, COMPILED), join(draft, 'compiled'))
  renameSync(draft, dir)
}

/** Removes folders of older sources, except the newest few. */
function prune(name: string): void {
  const old = readdirSync(SEEDED)
    .filter((entry) => entry.startsWith(`${name}-`) && /-[0-9a-f]{32}$/.test(entry))
    .map((entry) => join(SEEDED, entry))
    .sort((a, b) => statSync(b).mtimeMs - statSync(a).mtimeMs)
  for (const path of old.slice(KEPT)) rmSync(path, { recursive: true, force: true })
}

let known: string | undefined
function digest(): string {
  if (known !== undefined) return known
  const hash = createHash('sha256')
  for (const source of SOURCES) {
    const files = source.includes('.')
      ? ['']
      : readdirSync(join(ROOT, source), { recursive: true, encoding: 'utf8' }).sort()
    for (const file of files) {
      const path = join(ROOT, source, file)
      if (/\.\w+$/.test(path)) hash.update(`${source}/${file}\0`).update(readFileSync(path))
    }
  }
  known = hash.digest('hex').slice(0, 32)
  return known
}
