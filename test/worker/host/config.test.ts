// The configuration is read strictly, from a file that only its owner can read, and errors name the
// field and the fix.

import { execFileSync } from 'node:child_process'
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeEach, expect, test } from 'vitest'
import { ROOT } from '../../../infra/state.ts'
import { readConfig } from '../../../worker/config.ts'
import { readAuthorities } from '../../../worker/sandbox/network/trusted-cas.ts'

const folder = mkdtempSync(join(tmpdir(), 'countersign-config-'))
const path = join(folder, 'worker.json')
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const GOOD = {
  edge_url: 'https://edge.example.com',
  tenant: 'default',
  pool: 'default',
  redis_url: 'rediss://worker:hunter2-hunter2@redis.example.com:6379',
  home: '/var/lib/countersign/worker',
}
const write = (content: unknown): void => {
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content), { mode: 0o600 })
  chmodSync(path, 0o600)
}
const read = (environment: Record<string, string> = {}) => readConfig(path, environment)
beforeEach(() => write(GOOD))

test('a complete configuration file is read, with defaults for optional fields, such as `run_folders_bytes` and `disk_free_bytes`', () => {
  const config = read()
  expect(config).toMatchObject({
    ok: true,
    value: { ...GOOD, private_hosts: [], drain_ms: 20_000, runs_bytes: 2 ** 33, free_bytes: 2 ** 29 },
  })
  expect(config.ok && config.value.concurrency).toBeGreaterThan(0)
})

test('the systemd unit’s stop timeout covers the drain, and --help tells operators the rule', () => {
  const config = read()
  const unit = readFileSync(join(ROOT, 'infra/systemd/countersign-worker.service'), 'utf8')
  const [, seconds] = /^TimeoutStopSec=([0-9]+)$/m.exec(unit) ?? []
  expect(config.ok && config.value.drain_ms + 10_000).toBeLessThanOrEqual(Number(seconds) * 1_000)
  const help = execFileSync(process.execPath, [join(ROOT, 'worker/main.ts'), '--help'], { encoding: 'utf8' })
  expect(help.replace(/\s+/g, ' ')).toContain(
    `TimeoutStopSec (${seconds} s in our unit) must be at least 10 s longer`,
  )
})

test('environment variables override the configuration file', () => {
  const environment = {
    COUNTERSIGN_WORKER_CONCURRENCY: '7',
    COUNTERSIGN_WORKER_POOL: 'gpu',
    COUNTERSIGN_WORKER_RUNS_BYTES: '1000000',
    COUNTERSIGN_WORKER_PRIVATE_HOSTS: '10.0.0.1:80, [fd00::1]:443',
    COUNTERSIGN_WORKER_DRAIN_MS: '',
    OTHER: 'x',
  }
  expect(read(environment)).toMatchObject({
    ok: true,
    value: {
      concurrency: 7,
      runs_bytes: 1_000_000,
      pool: 'gpu',
      private_hosts: ['10.0.0.1:80', '[fd00::1]:443'],
      drain_ms: 20_000,
    },
  })
})

test.each([
  ['readable by the group', 0o640],
  ['readable by all', 0o604],
])('a configuration file that is %s is refused', (_name, mode) => {
  chmodSync(path, mode)
  expect(read()).toMatchObject({ ok: false, error: expect.stringContaining('chmod 600') })
})

test('the error for a missing configuration file names its path', () => {
  expect(readConfig(join(folder, 'none.json'))).toMatchObject({
    ok: false,
    error: expect.stringMatching(/none\.json.*ENOENT/),
  })
})

test.each([
  ['a file that is not JSON', '{', 'is not JSON'],
  ['a file that is not an object', '7', 'is not a JSON object'],
  ['an unknown member', { ...GOOD, concurency: 4 }, 'concurency'],
  ['a missing member', { ...GOOD, pool: undefined }, 'pool'],
  ['plain http beyond loopback', { ...GOOD, edge_url: 'http://edge.example.com' }, 'use https'],
  [
    'an edge address with a path',
    { ...GOOD, edge_url: 'https://edge.example.com/v1' },
    'scheme, host and port only',
  ],
  [
    'an edge address with a password',
    { ...GOOD, edge_url: 'https://a:b@edge.example.com' },
    'scheme, host and port only',
  ],
  ['an edge address of another kind', { ...GOOD, edge_url: 'file:///etc/passwd' }, 'give the edge’s address'],
  ['an invalid Redis address', { ...GOOD, redis_url: 'redis.example.com' }, 'redis_url'],
  ['a relative home', { ...GOOD, home: 'worker' }, 'absolute'],
  ['no concurrency', { ...GOOD, concurrency: 0 }, 'concurrency'],
  ['a missing CA file', { ...GOOD, ca_file: '/nowhere/ca.pem' }, 'ENOENT'],
  ['a relative path of a CA file', { ...GOOD, ca_file: 'ca.pem' }, 'absolute'],
  ['a CA file without certificates', { ...GOOD, ca_file: '/etc/hostname' }, 'holds no certificate'],
  ['a ceiling of zero', { ...GOOD, limits: { pids: 0 } }, 'limits.pids'],
  ['an unknown ceiling', { ...GOOD, limits: { disk: 1 } }, 'limits'],
  [
    'a profile that binds the root',
    { ...GOOD, profiles: { own: { from: 'c_offline', ro_binds: ['/'] } } },
    '`own` can’t bind `/`',
  ],
  [
    'a profile that may write',
    { ...GOOD, profiles: { own: { from: 'c_offline', binds: ['/srv'] } } },
    'profiles.own',
  ],
  ['a private host without a port', { ...GOOD, private_hosts: ['10.0.0.1'] }, 'host:port'],
])('%s in the configuration is refused, with the field and what to do', (_name, content, expected) => {
  write(content)
  const refused = read()
  expect(refused).toMatchObject({ ok: false, error: expect.stringContaining(expected) })
  expect(!refused.ok && refused.error).not.toContain('hunter2') // V02
})

test('only CA certificates are read from the file that `ca_file` names', () => {
  const file = join(folder, 'ca.pem')
  const args = [
    'req',
    '-x509',
    '-newkey',
    'ec',
    '-pkeyopt',
    'ec_paramgen_curve:P-256',
    '-nodes',
    '-subj',
    '/CN=a',
    '-keyout',
    `${file}.key`,
  ]
  const make = (...more: string[]): void =>
    void execFileSync('/usr/bin/openssl', [...args, '-out', file, ...more], { stdio: 'pipe' })
  make()
  const [certificate, key] = [readFileSync(file, 'latin1'), readFileSync(`${file}.key`, 'latin1')]
  writeFileSync(file, `# ours\n${key}${certificate}`)
  write({ ...GOOD, ca_file: file })
  expect(read()).toMatchObject({ ok: true, value: { ca_file: file } })
  expect(readAuthorities(file)).toEqual({ ok: true, value: certificate })
  make('-addext', 'basicConstraints=critical,CA:FALSE')
  expect(read()).toMatchObject({ ok: false, error: expect.stringContaining('not a certificate authority') })
  writeFileSync(file, certificate.replace(/[A-Za-z]{20}/, 'A'.repeat(20)))
  expect(read()).toMatchObject({ ok: false, error: expect.stringContaining('can’t be read') })
})

test('an environment variable that should be a number and is not is refused', () => {
  expect(read({ COUNTERSIGN_WORKER_CONCURRENCY: 'many' })).toMatchObject({
    ok: false,
    error: expect.stringContaining('concurrency'),
  })
})

test('plain http is accepted for an edge on loopback', () => {
  for (const edge_url of ['http://127.0.0.1:8787', 'http://localhost:8787', 'http://[::1]:8787']) {
    write({ ...GOOD, edge_url })
    expect(read()).toMatchObject({ ok: true })
  }
  write({ ...GOOD, edge_url: 'http://127.0.0.1.example.com' })
  expect(read()).toMatchObject({ ok: false })
})
