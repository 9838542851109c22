// For a plan and a host there is exactly one command line, kept in test/golden/argv. A change of a
// defence changes a file that a reviewer reads. `vitest run --update` writes the files.

import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ProcessPlan as Plan } from '../../../shared/plan/plan.ts'
import {
  type ArgvHost,
  admit,
  argvDigest,
  type CallResources,
  type Command,
  commandFor,
} from '../../../worker/sandbox/plan/argv.ts'
import type { OperatorProfiles } from '../../../worker/sandbox/plan/operator-profiles.ts'
import { planOf } from '../arena/arena.ts'

const names = ['bwrap', 'prlimit', 'setpriv', 'unshare', 'nsenter', 'mkfifo', 'socat', 'ip'] as const
const ground: ArgvHost = {
  programs: Object.fromEntries(names.map((name) => [name, `/usr/bin/${name}`])) as ArgvHost['programs'], // all of its names
  ceilings: new Map([['--nofile', 1_024]]),
}

const OWN = {
  compiler: { from: 'c_offline', ro_binds: ['/opt/compiler'], tmp_bytes: 1_048_576 },
} as const satisfies OperatorProfiles

function commandOf(plan: Plan, place: CallResources): Command {
  const admitted = admit(Plan.parse(plan), OWN)
  if (!admitted.ok) throw new Error(admitted.error.detail)
  return commandFor(admitted.value, ground, place)
}

/** One element a line, options with their values. */
function written({ profile, program, args, env, cwd, bwrap }: Command): string {
  const options = bwrap?.options.toString().split('\0').slice(0, -1) ?? []
  const lines = (list: readonly string[]): string =>
    list.map((item) => (item.startsWith('--') ? `\n  ${item}` : ` ${item}`)).join('')
  const variables = Object.entries(env).map(([name, value]) => `\n  ${name}=${value}`)
  return `profile ${profile}\ncwd ${cwd}\nenvironment${variables.join('')}\nargv\n  ${program}${lines(args)}\noptions (${bwrap?.sockets ?? 'none'})${lines(options)}\n`
}

const HOSTS = { mode: 'strict', hosts: ['example.com:443', '.example.org'] } as const
const relay = { pid: 4_321, proxyUrl: 'http://call:token@127.0.0.1:3128' }

const CASES: Readonly<Record<string, readonly [Plan, CallResources]>> = {
  'c-offline-call': [planOf(['wc', '-c']), {}],
  'c-offline-call-cwd': [planOf(['wc', '-c'], { cwd: 'a/b', env: { GREETING: 'hello world' } }), {}],
  'c-offline-run': [
    planOf(['wc', '-c'], { workspace: 'run', cwd: 'a' }),
    { folder: '/var/lib/worker/runs/1' },
  ],
  'c-relayed-call': [
    planOf(['curl', '--url', 'https://example.com/'], { egress: { ...HOSTS, hosts: [...HOSTS.hosts] } }),
    { relay },
  ],
  'c-relayed-run': [
    planOf(['curl'], { egress: { ...HOSTS, hosts: [...HOSTS.hosts] }, workspace: 'run' }),
    { relay, folder: '/var/lib/worker/runs/1' },
  ],
  'c-relayed-authorities': [
    planOf(['curl'], {
      egress: { ...HOSTS, hosts: ['localhost:8443'] },
      env: { HTTPS_PROXY: 'http://own:1' },
    }),
    { relay: { ...relay, authorities: '/var/lib/worker/sandbox/authorities.pem' } },
  ],
  'b-host-call': [
    planOf(['wc', '-c'], { tier: 'B' }),
    {
      folder: '/var/lib/worker/call-1',
      mark: 4_503_599_627_370_497n,
      fence: '/var/lib/worker/sandbox/fence',
    },
  ],
  'b-host-cwd': [
    planOf(['wc', '-c'], { tier: 'B', cwd: 'a', egress: { mode: 'preflight', hosts: [] } }),
    {
      folder: '/var/lib/worker/call-1',
      mark: 4_503_599_627_370_497n,
      fence: '/var/lib/worker/sandbox/fence',
    },
  ],
  'c-offline-secrets': [planOf(['wc', '-c'], { secrets: ['db.password', 'token'] }), {}],
  'c-offline-files': [
    planOf(['cat', '/input/a'], {
      workspace: 'run',
      files: [{ path: 'a', sha256: '0'.repeat(64), bytes: 1 }],
    }),
    { folder: '/var/lib/worker/runs/1', inputs: '/var/lib/worker/sandbox/input-1' },
  ],
  'c-offline-own': [{ ...planOf(['wc', '-c']), profile: 'compiler' }, {}],
  'c-offline-outputs': [planOf(['true'], { outputs: true }), { outputs: '/var/lib/worker/sandbox/output-1' }],
  'c-offline-ceiling': [planOf(['true'], { limits: { open_files: 65_536 } }), {}],
}

const GOLDEN = join(import.meta.dirname, '../../golden/argv')

// Runs first: the comparison below would write a missing file.
test('there is a golden file for each case of the command line, and no other', () => {
  expect(readdirSync(GOLDEN).sort()).toEqual(
    Object.keys(CASES)
      .map((name) => `${name}.txt`)
      .sort(),
  )
})

test.each(Object.entries(CASES))(
  'the command line of %s equals its golden file',
  async (name, [plan, place]) => {
    await expect(written(commandOf(plan, place))).toMatchFileSnapshot(join(GOLDEN, `${name}.txt`))
  },
)

test('no profile mounts the host’s root, or makes more of the host writable than the folders of the run and the call', () => {
  for (const [name, [plan, place]] of Object.entries(CASES)) {
    const options = commandOf(plan, place).bwrap?.options.toString().split('\0') ?? []
    const binds = options.flatMap((option, at) => (/bind/.test(option) ? [[option, options[at + 1]]] : []))
    expect(
      binds.map(([, from]) => from),
      name,
    ).not.toContain('/')
    expect(
      binds.filter(([option = '']) => !option.startsWith('--ro-bind')),
      name,
    ).toEqual(
      plan.tier === 'B'
        ? []
        : [place.folder, place.outputs].flatMap((folder) =>
            folder === undefined ? [] : [['--bind', folder]],
          ),
    )
  }
})

test('the digest of a command covers its arguments and bubblewrap’s options', () => {
  const of = (plan: Plan, place: CallResources = {}) => argvDigest(commandOf(plan, place))
  const digests = [
    of(planOf(['wc', '-c'])),
    of(planOf(['wc', '-cl'])),
    of(planOf(['wc', '-c', ''])),
    of(planOf(['wc', '-c'], { cwd: 'a' })),
    of(planOf(['wc', '-c'], { env: { A: '1' } })),
    of(planOf(['wc', '-c'], { limits: { workspace_bytes: 1 } })),
    of(planOf(['wc', '-c'], { limits: { pids: 1 } })),
    of(planOf(['wc', '-c'], { workspace: 'run' }), { folder: '/x' }),
  ]
  expect(new Set(digests).size).toBe(digests.length)
  expect(of(planOf(['wc', '-c']))).toBe(digests[0])
})
