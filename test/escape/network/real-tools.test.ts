// Ordinary programs work through strict egress without configuration: curl, git, npm, pip and
// Node’s fetch reach a listed server over TLS by a private authority, and no unlisted one. A
// program that is missing on this host fails its test.

import { chmodSync, copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Arena, attackReport, planOf } from '../arena/arena.ts'
import type { LaunchSeen } from '../arena/orders.ts'
import { NAME, Origin } from '../arena/origin.ts'
import { TLS_PORT, takeTlsPort } from '../arena/web-port.ts'

let origin: Origin
let arena: Arena
/** Contains Node, which the system may lack. */
let node: string

beforeAll(async () => {
  origin = await Origin.open()
  arena = await Arena.open({ privateHosts: [origin.authority], authorities: origin.ca })
  const { here, there } = arena.runFolder()
  copyFileSync(process.execPath, join(here, 'node'))
  chmodSync(join(here, 'node'), 0o755)
  node = there
})
afterAll(async () => {
  await arena.close()
  await origin.close()
})

const MiB = 1024 * 1024
/** npm is the largest of them; Node itself lies in the folder of its run. */
const limits = { memory_bytes: 1024 * MiB, workspace_bytes: 512 * MiB, timeout_ms: 60_000, cpu_ms: 60_000 }

type Tool = {
  readonly argv: (url: string) => string[]
  readonly says: string
  readonly runFolder?: () => string
}
const sh = (script: string): string[] => ['sh', '-ec', script]
const TOOLS: Readonly<Record<string, Tool>> = {
  curl: {
    argv: (url) => ['curl', '--silent', '--show-error', '--fail', `${url}/simple/tiny/`],
    says: 'tiny-1.0-py3-none-any.whl</a>',
  },
  'curl over SOCKS': {
    argv: (url) => sh(`curl --silent --show-error --fail --proxy "$SOCKS_PROXY" ${url}/simple/tiny/`),
    says: 'tiny-1.0-py3-none-any.whl</a>',
  },
  'git clone': {
    argv: (url) => sh(`git clone --quiet ${url}/repo.git it && cat it/hello.txt`),
    says: 'hello from git',
  },
  'npm install': {
    argv: (url) =>
      sh(`npm install --registry ${url}/npm/ --fetch-retries 0 tiny >&2 && node -p 'require("tiny")'`),
    says: 'hello from npm',
  },
  'pip download': {
    argv: (url) =>
      sh(
        `pip3 download --quiet --retries 0 --index-url ${url}/simple/ tiny && python3 -m zipfile -l tiny-1.0-*.whl`,
      ),
    says: 'tiny.py',
  },
  'Node’s fetch': {
    argv: (url) => [
      '/workspace/node',
      '-e',
      `fetch('${url}/repo.git/HEAD').then(async (got) => console.log(await got.text()))`,
    ],
    says: 'refs/heads/main',
    runFolder: () => node,
  },
  'Python’s urllib': {
    argv: (url) => [
      'python3',
      '-c',
      `import urllib.request as u; print(u.urlopen('${url}/repo.git/HEAD').read())`,
    ],
    says: 'refs/heads/main',
  },
}

type More = { readonly url?: string; readonly env?: Readonly<Record<string, string>> }

function launch(
  { argv, runFolder }: Tool,
  hosts: readonly string[],
  { url = origin.url, env = {} }: More = {},
): Promise<LaunchSeen> {
  const workspace = runFolder === undefined ? 'call' : 'run'
  const plan = planOf(argv(url), { egress: { mode: 'strict', hosts: [...hosts] }, limits, workspace, env })
  return arena.launch({ plan, ...(runFolder === undefined ? {} : { runFolder: runFolder() }) })
}

/** git sends its first request without the token, and repeats it with the token after a 407. */
const known = ({ connections }: LaunchSeen) =>
  connections.filter(({ verdict }) => verdict !== 'unknown_client')

describe.each(Object.entries(TOOLS))('%s', (_name, tool) => {
  test('a real tool works through the proxy, and each connection is recorded', async () => {
    const seen = await launch(tool, [origin.authority])
    expect([seen.outcome, seen.err.includes('certificate')], seen.err).toEqual([
      { kind: 'exit', code: 0 },
      false,
    ])
    expect(seen.out).toContain(tool.says)
    const [host, port] = origin.authority.split(':')
    expect(known(seen).length).toBeGreaterThan(0)
    for (const connection of known(seen))
      expect(connection).toMatchObject({ host, port: Number(port), verdict: 'allowed' })
  })

  test('a real tool fails for an unlisted host, and for another port of a listed one', async () => {
    for (const url of ['https://unlisted.example', `https://${NAME}:4444`]) {
      const seen = await launch(tool, [origin.authority], { url })
      expect(seen.outcome).toMatchObject({ kind: 'exit' })
      expect(seen.outcome).not.toEqual({ kind: 'exit', code: 0 })
      expect(seen.out).not.toContain(tool.says)
      expect(known(seen).length).toBeGreaterThan(0)
      for (const { verdict, bytes_out } of known(seen))
        expect([verdict, bytes_out]).toEqual(['host_not_listed', 0])
    }
  })
})

test('a tool does not trust a server whose authority the operator did not name', async () => {
  const plain = await Arena.open({ privateHosts: [origin.authority] })
  const egress = { mode: 'strict' as const, hosts: [origin.authority] }
  const seen = await plain.launch({ plan: planOf(TOOLS['curl']?.argv(origin.url) ?? [], { egress, limits }) })
  await plain.close()
  expect([seen.outcome, seen.err]).toEqual([
    { kind: 'exit', code: 60 },
    expect.stringContaining('certificate'),
  ])
})

test('N11 on the TLS port curl sends the server name of the allowed host, or is cut off before it sends data', {
  timeout: 60_000,
}, async () => {
  const web = await Origin.open(takeTlsPort)
  const opened = await Arena.open({ privateHosts: [web.authority], authorities: web.ca })
  const asks = (...words: string[]) => {
    const argv = ['curl', '--silent', '--show-error', '--fail', ...words]
    return opened.launch({
      plan: planOf(argv, { egress: { mode: 'strict', hosts: [web.authority] }, limits }),
    })
  }
  const same = await asks(`${web.url}/simple/tiny/`)
  expect([same.outcome, same.connections]).toMatchObject([
    { kind: 'exit', code: 0 },
    [{ host: NAME, port: TLS_PORT, verdict: 'allowed' }],
  ])
  const other = await asks(
    '--insecure',
    '--connect-to',
    `other.example:443:${web.authority}`,
    'https://other.example/simple/tiny/',
  )
  expect(other.outcome).not.toEqual({ kind: 'exit', code: 0 })
  expect([other.out, other.connections]).toMatchObject([
    '',
    [{ host: NAME, port: TLS_PORT, verdict: 'sni_mismatch', bytes_out: 0 }],
  ])
  await Promise.all([opened.close(), web.close()])
})

const ENVIRONMENT: Tool = {
  argv: () => ['python3', '-c', 'import json, os; print(json.dumps(dict(os.environ)))'],
  says: '',
}

test('N12 a tool’s environment holds the token of its call, and nothing else of the host', async () => {
  const env = attackReport(await launch(ENVIRONMENT, ['example.com']))
  const url = /^http:\/\/call:[0-9a-f]{32}@127\.0\.0\.1:3128$/
  for (const name of ['HTTP_PROXY', 'HTTPS_PROXY', 'ALL_PROXY']) {
    expect(env[name]).toMatch(url)
    expect(env[name.toLowerCase()]).toBe(env[name])
  }
  expect(env['SOCKS_PROXY']).toBe(`${env['HTTP_PROXY']}`.replace('http:', 'socks5h:'))
  expect(JSON.stringify(env)).not.toContain(arena.home)
  const again = attackReport(await launch(ENVIRONMENT, ['example.com']))
  expect(again['HTTP_PROXY']).not.toBe(env['HTTP_PROXY'])
})

test('a contract’s proxy variables apply in both spellings, and a tool reaches its own server without the proxy', async () => {
  const own = { HTTPS_PROXY: 'http://mine:1', SSL_CERT_FILE: '/workspace/mine.pem', NODE_USE_ENV_PROXY: '0' }
  const env = attackReport(await launch(ENVIRONMENT, ['example.com'], { env: own }))
  expect(env).toMatchObject({ ...own, https_proxy: 'http://mine:1', no_proxy: 'localhost,127.0.0.1,::1' })
  expect(env['http_proxy']).not.toBe('http://mine:1')
  expect(attackReport(await launch(ENVIRONMENT, ['localhost:1', '127.0.0.1:1']))['NO_PROXY']).toBe('::1')
})
