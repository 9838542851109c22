// Owns the requirements on the operating system: Debian packages, and the worker's user. Installs
// what is missing if it may, or says exactly what to install. Never removes, starts or stops a
// system service.

import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { err, ok, type Result } from '../shared/result.ts'
import type { Refusal } from './state.ts'

export const WORKER_USER = 'countersign'

const SYSTEM_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
type Need = { readonly package: string; readonly oneOf: readonly string[] }

/** A package, and files any of which shows that it, or an equivalent, is installed. */
const STACK: readonly Need[] = [
  { package: 'bubblewrap', oneOf: ['bwrap'] },
  { package: 'redis-tools', oneOf: ['redis-server', 'redis-check-rdb'] }, // see redisProgram
  { package: 'iproute2', oneOf: ['ip'] },
  { package: 'socat', oneOf: ['socat'] },
  { package: 'util-linux', oneOf: ['setpriv', 'unshare', 'prlimit'] },
  { package: 'curl', oneOf: ['curl'] },
  { package: 'ca-certificates', oneOf: ['/etc/ssl/certs/ca-certificates.crt'] },
]

/**
 * Only for tests: a browser for the pages, languages of attack programs, and programs that must
 * work unchanged in a sandbox.
 */
const TESTS: readonly Need[] = [
  { package: 'chromium-headless-shell', oneOf: ['chromium-headless-shell'] },
  { package: 'python3', oneOf: ['/usr/bin/python3'] },
  { package: 'linux-libc-dev', oneOf: ['/usr/include/linux/version.h'] },
  { package: 'git', oneOf: ['git'] },
  { package: 'openssl', oneOf: ['openssl'] },
  { package: 'python3-pip', oneOf: ['/usr/bin/pip3'] },
  { package: 'npm', oneOf: ['npm'] },
]

/** Only for `npm run test:hosts`, which boots Debian in a folder. */
const HOSTS: readonly Need[] = [
  { package: 'mmdebstrap', oneOf: ['mmdebstrap'] },
  { package: 'systemd-container', oneOf: ['systemd-nspawn'] },
]

const onPath = (name: string): string | undefined =>
  name.startsWith('/')
    ? [name].find((path) => existsSync(path))
    : SYSTEM_PATH.split(':')
        .map((folder) => `${folder}/${name}`)
        .find((path) => existsSync(path))

const isRoot = (): boolean => process.getuid?.() === 0

function run(argv: readonly string[]): boolean {
  const [file = '', ...args] = argv
  const env = { PATH: SYSTEM_PATH, DEBIAN_FRONTEND: 'noninteractive', LANG: 'C.UTF-8' }
  return spawnSync(file, args, { env, stdio: ['ignore', 2, 2] }).status === 0
}

/** The command prefix that makes us root without a password prompt, or `undefined`. */
const asRoot = (): readonly string[] | undefined => {
  if (isRoot()) return []
  const sudo = onPath('sudo')
  return sudo !== undefined && spawnSync(sudo, ['-n', 'true'], { stdio: 'ignore' }).status === 0
    ? [sudo, '-n']
    : undefined
}

function install(needs: readonly Need[], say: (text: string) => void): Result<void, Refusal> {
  const missing = () => needs.filter((need) => !need.oneOf.some(onPath)).map((need) => need.package)
  const packages = missing()
  if (packages.length === 0) return ok(undefined)
  const byHand = `apt-get install --no-install-recommends ${packages.join(' ')}`
  const root = asRoot()
  const apt = onPath('apt-get')
  if (apt === undefined)
    return err(
      `this system has no apt-get; install the equivalents of the Debian packages ${packages.join(', ')}, then run this again`,
    )
  if (root === undefined)
    return err(
      `these packages are missing, and you are not root: ${packages.join(', ')}; run \`sudo ${byHand}\`, then run this again`,
    )
  say(`installing ${packages.join(', ')}`)
  const command = [...root, apt, 'install', '-y', '-q', '--no-install-recommends', ...packages]
  // A new machine has no package lists and an old one has stale lists, so fetch them if the first
  // try fails.
  const installed = run(command) || (run([...root, apt, 'update', '-q']) && run(command))
  return installed && missing().length === 0
    ? ok(undefined)
    : err(
        `apt-get could not install ${missing().join(', ')}; fix the error above, or run \`${byHand}\` yourself`,
      )
}

export const installPackages = (say: (text: string) => void): Result<void, Refusal> => install(STACK, say)

/**
 * Installs everything that the tests need: the packages of the stack, the worker's user and the
 * packages of tests.
 */
export function installForTests(say: (text: string) => void): Result<void, Refusal> {
  const stack = installPackages(say)
  if (!stack.ok) return stack
  const user = makeUser(WORKER_USER, say)
  return user.ok ? install(TESTS, say) : user
}

export const installForHosts = (say: (text: string) => void): Result<void, Refusal> => install(HOSTS, say)

/**
 * Root never runs a sandbox, because bwrap started by uid 0 leaves ways to become host root. The
 * worker gets an unprivileged user.
 */
export function makeUser(name: string, say: (text: string) => void): Result<void, Refusal> {
  if (!isRoot() || userNamed(name) !== undefined) return ok(undefined)
  say(`adding the system user \`${name}\``)
  const args = [
    '--system',
    '--user-group',
    '--no-create-home',
    '--home-dir',
    '/nonexistent',
    '--shell',
    '/usr/sbin/nologin',
    name,
  ]
  return run([onPath('useradd') ?? '/usr/sbin/useradd', ...args])
    ? ok(undefined)
    : err(`the user \`${name}\` could not be added; run \`useradd ${args.join(' ')}\` yourself`)
}

/** A user's uid and gid. The worker's home is in the state folder, not in /etc/passwd. */
export function userNamed(name: string): { readonly uid: number; readonly gid: number } | undefined {
  const line = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .find((entry) => entry.startsWith(`${name}:`))
  const [, , uid, gid] = line?.split(':') ?? []
  return uid === undefined || gid === undefined ? undefined : { uid: Number(uid), gid: Number(gid) }
}
