// D17 Which programs count as interpreters, whose arguments are programs, and which as programs that
// a call can change. A standing answer for either would cover more than its approver read.

import { expect, test } from 'vitest'
import { mayStand } from '../../../edge/approvals/standing.ts'
import { interprets } from '../../../edge/tools/interpreters.ts'
import { DEFAULT_LIMITS } from '../../../shared/limits.ts'
import type { ProcessPlan } from '../../../shared/plan/plan.ts'

test.each([
  ...['sh', 'dash', '/bin/bash', 'bash-static', 'bash5', 'busybox', 'busybox.static', 'ksh93', 'mksh-static'],
  ...['python3', 'python3.11', 'python3.11-minimal', 'python3-dbg', 'pypy3', 'perl5.36-x86_64-linux-gnu'],
  ...['node', 'nodejs', 'ruby3.1', 'php8.2', 'lua5.4', 'vim.tiny', 'gawk-5.1', 'R', 'qemu-x86_64-static'],
  ...['env', 'xargs', 'nice', 'timeout', 'prlimit', 'setpriv', 'su-exec', 'systemd-run', 'ip', 'linux64'],
  ...['npx', 'uvx', 'pipx', 'bunx', 'pnpx', 'docker', 'docker-compose', 'kubectl-exec', 'ssh', 'dumb-init'],
  ...['ld.so', 'ld-linux-x86-64.so.2'],
])('D17 the arguments of `%s` are a program', (program) => {
  expect(interprets([program, '-c', 'x'])).toEqual(expect.any(String))
})

test.each(['cat', 'wc', 'ls', 'shasum', 'nicer', 'environ', 'pythonic', 'kshell', 'bashful', 'sha256sum'])(
  'the arguments of `%s` are not a program, although its name may begin like an interpreter’s',
  (program) => {
    expect(interprets([program, '-c', 'x'])).toBeUndefined()
  },
)

test.each([
  ['find', '-exec'],
  ['fdfind', '-x'],
  ['sort', '--compress-program=sh'],
  ['split', '--filter=sh'],
])('`%s` is an interpreter only with an argument such as `%s`', (program, argument) => {
  expect([interprets([program, '.']), interprets([program, argument])]).toEqual([
    undefined,
    expect.any(String),
  ])
})

const planOf = (
  program: string,
  rest: Partial<ProcessPlan> = {},
  env: Record<string, string> = {},
): ProcessPlan => ({
  tier: 'C',
  executor: { kind: 'process', argv: [program], stdin: 'none', env, cwd: '' },
  egress: { mode: 'strict', hosts: [] },
  secrets: [],
  workspace: 'call',
  limits: DEFAULT_LIMITS,
  ...rest,
})

test.each([
  ...['./build.sh', 'bin/build', '../build.sh', '/workspace/build.sh', '/tmp/build', '/dev/shm/build'],
  ...[
    '/proc/self/cwd/build.sh',
    '/usr/../workspace/build.sh',
    '//workspace/build.sh',
    '/home/me/bin/x',
    '/usr',
  ],
])('D17 no standing answer covers `%s`, which a call can write itself', (program) => {
  for (const workspace of ['call', 'run'] as const)
    expect([workspace, mayStand(planOf(program, { workspace }))]).toEqual([workspace, false])
  expect(mayStand(planOf(program, { tier: 'B' }))).toBe(false)
})

test.each([
  'wc',
  '/usr/bin/wc',
  '/bin/wc',
  '/usr/local/bin/tool',
  '/opt/tool/bin/tool',
  '/nix/store/x/bin/tool',
])('a standing answer may cover `%s`, which only an administrator can change', (program) => {
  expect(mayStand(planOf(program))).toBe(true)
})

test.each([
  ['/usr/local/bin:/usr/bin', true],
  ['/workspace/bin:/usr/bin', false],
  ['/usr/bin:.', false],
  ['/usr/bin:', false],
  ['', false],
])('D17 with PATH=`%s` a standing answer may cover a program by its name: %s', (path, may) => {
  expect(mayStand(planOf('wc', {}, { PATH: path }))).toBe(may)
  expect(mayStand(planOf('/usr/bin/wc', {}, { PATH: path }))).toBe(true)
})
