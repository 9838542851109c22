// Owns the Debian trees that machines are made of: one tar per list of packages, made once and kept
// next to node_modules. The mirror is the one that apt on this host uses.

import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { ROOT } from '../../infra/state.ts'

/** Debian 12, the oldest release that the documents promise. */
const SUITE = 'bookworm'
const CACHE = join(ROOT, 'node_modules/.cache/countersign/hosts')
const ENV = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', LANG: 'C.UTF-8', DEBIAN_FRONTEND: 'noninteractive' }

/** Packages that a machine needs to boot and to be inspected. */
const BOOTS = ['systemd-sysv', 'dbus', 'iproute2', 'procps']

/**
 * Returns its output. Asynchronous, because the first tree takes longer than the test runner's
 * timeout for a blocked process.
 */
async function outputOf(file: string, ...args: readonly string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(file, args, { env: ENV })
  return stdout.trim()
}

/**
 * The path of a tar with these packages and their dependencies. The first time takes about 40 s.
 */
export async function debianTree(packages: readonly string[]): Promise<string> {
  const list = [...new Set([...BOOTS, ...packages])].sort()
  const key = createHash('sha256')
    .update(`${SUITE}\n${list.join('\n')}`)
    .digest('hex')
    .slice(0, 16)
  const tar = join(CACHE, `debian-${key}.tar`)
  if (existsSync(tar)) return tar
  mkdirSync(CACHE, { recursive: true })
  const draft = join(CACHE, `.${process.pid}.tar`)
  try {
    const included = `--include=${list.join(',')}`
    await outputOf(
      'mmdebstrap',
      '--quiet',
      '--mode=root',
      '--variant=minbase',
      included,
      SUITE,
      draft,
      `deb ${await mirror()} ${SUITE} main`,
    )
    for (const other of readdirSync(CACHE)) if (other.startsWith('debian-')) rmSync(join(CACHE, other))
    renameSync(draft, tar)
  } finally {
    rmSync(draft, { force: true })
  }
  return tar
}

async function mirror(): Promise<string> {
  const filters = ['Created-By: Packages', 'Origin: Debian', 'Component: main']
  const known = async (): Promise<string | undefined> =>
    (await outputOf('apt-get', 'indextargets', '--format', '$(REPO_URI)', ...filters))
      .split('\n')
      .find((line) => line !== '')
  const first = await known()
  if (first !== undefined) return first
  await outputOf('apt-get', 'update', '--quiet') // a fresh system has no lists yet
  const second = await known()
  if (second !== undefined) return second
  throw new Error(
    'apt on this host has no Debian mirror, from which machines are made: add one to /etc/apt/sources.list.d',
  )
}
