// The other side of real tools: an https server on loopback with a certificate of a private
// authority, made for each test. It serves a git repository, an npm registry and a Python index,
// each with one small thing in it, that real programs made.

import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join, normalize } from 'node:path'

const NOBODY = {
  GIT_AUTHOR_NAME: 'a',
  GIT_AUTHOR_EMAIL: 'a@example.com',
  GIT_COMMITTER_NAME: 'a',
  GIT_COMMITTER_EMAIL: 'a@example.com',
}
const env = { PATH: '/usr/bin:/bin', HOME: '/nonexistent', LANG: 'C.UTF-8', ...NOBODY }

/** The name of a server that is on loopback for every resolver. */
export const NAME = 'localhost'

export class Origin {
  readonly url: string
  /** `host:port`, as a plan lists it. */
  readonly authority: string
  /** PEM of its authority. */
  readonly ca: string
  readonly #server: Server
  readonly #folder: string

  private constructor(server: Server, folder: string, ca: string) {
    this.#server = server
    this.#folder = folder
    this.ca = ca
    this.authority = `${NAME}:${(server.address() as AddressInfo).port}` // the address of a TCP server
    this.url = `https://${this.authority}`
  }

  static async open(listen = onAnyPort): Promise<Origin> {
    const folder = mkdtempSync(join(tmpdir(), 'origin-'))
    const { ca, key, cert } = certificates(folder)
    const files = join(folder, 'files')
    mkdirSync(files)
    gitRepository(folder, files)
    pythonIndex(folder, files)
    const tarball = npmPackage(folder, files)
    let url = ''
    const server = createServer({ key, cert }, ({ url: path = '/' }, answer) => {
      if (path === '/npm/tiny') {
        answer.setHeader('content-type', 'application/json').end(JSON.stringify(packument(url, tarball)))
        return
      }
      try {
        const name = normalize(path.split('?', 1)[0] ?? '').replace(/\/$/, '/index.html')
        if (name.endsWith('.html')) answer.setHeader('content-type', 'text/html')
        answer.end(readFileSync(join(files, name)))
      } catch {
        answer.writeHead(404).end()
      }
    })
    await listen(server)
    const origin = new Origin(server, folder, ca)
    url = origin.url
    return origin
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((settle) => this.#server.close(settle))
    rmSync(this.#folder, { recursive: true, force: true })
  }
}

const onAnyPort = (server: Server): Promise<void> =>
  new Promise((settle) => server.listen(0, '127.0.0.1', settle))

function run(cwd: string, program: string, ...args: string[]): void {
  execFileSync(program, args, { cwd, env, stdio: ['ignore', 'ignore', 'pipe'] }) // its messages are in the error
}

/** An authority, and a certificate of it for the name. */
function certificates(folder: string): { ca: string; key: Buffer; cert: Buffer } {
  const make = (name: string, ...more: string[]): void =>
    run(
      folder,
      'openssl',
      ...[
        'req',
        '-x509',
        '-newkey',
        'ec',
        '-pkeyopt',
        'ec_paramgen_curve:P-256',
        '-nodes',
        '-days',
        '2',
        '-batch',
      ],
      ...['-keyout', `${name}.key`, '-out', `${name}.pem`, ...more],
    )
  make('ca', '-subj', '/CN=an authority of the tests', '-addext', 'keyUsage=critical,keyCertSign')
  const leaf = ['-addext', `subjectAltName=DNS:${NAME}`, '-addext', 'basicConstraints=critical,CA:FALSE']
  make('leaf', '-subj', `/CN=${NAME}`, ...leaf, '-CA', 'ca.pem', '-CAkey', 'ca.key')
  const read = (name: string): Buffer => readFileSync(join(folder, name))
  return { ca: read('ca.pem').toString(), key: read('leaf.key'), cert: read('leaf.pem') }
}

/** For git's plain protocol over http: files, and an index of them. */
function gitRepository(folder: string, files: string): void {
  const work = join(folder, 'work')
  mkdirSync(work)
  run(work, 'git', 'init', '--quiet', '--initial-branch=main')
  writeFileSync(join(work, 'hello.txt'), 'hello from git\n')
  run(work, 'git', 'add', '.')
  run(work, 'git', 'commit', '--quiet', '-m', 'one')
  run(folder, 'git', 'clone', '--quiet', '--bare', work, join(files, 'repo.git'))
  run(join(files, 'repo.git'), 'git', 'update-server-info')
}

function npmPackage(folder: string, files: string): Buffer {
  mkdirSync(join(folder, 'package'))
  writeFileSync(
    join(folder, 'package', 'package.json'),
    JSON.stringify({ name: 'tiny', version: '1.0.0', main: 'index.js' }),
  )
  writeFileSync(join(folder, 'package', 'index.js'), 'module.exports = "hello from npm"\n')
  run(folder, 'tar', '-czf', join(files, 'tiny-1.0.0.tgz'), 'package')
  return readFileSync(join(files, 'tiny-1.0.0.tgz'))
}

const packument = (url: string, tarball: Buffer): unknown => ({
  name: 'tiny',
  'dist-tags': { latest: '1.0.0' },
  versions: {
    '1.0.0': {
      name: 'tiny',
      version: '1.0.0',
      dist: {
        tarball: `${url}/tiny-1.0.0.tgz`,
        integrity: `sha512-${createHash('sha512').update(tarball).digest('base64')}`,
      },
    },
  },
})

function pythonIndex(folder: string, files: string): void {
  const info = 'tiny-1.0.dist-info'
  mkdirSync(join(folder, info))
  writeFileSync(join(folder, info, 'METADATA'), 'Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n')
  writeFileSync(
    join(folder, info, 'WHEEL'),
    'Wheel-Version: 1.0\nGenerator: a test\nRoot-Is-Purelib: true\nTag: py3-none-any\n',
  )
  writeFileSync(join(folder, info, 'RECORD'), '')
  writeFileSync(join(folder, 'tiny.py'), 'hello = "hello from pip"\n')
  run(folder, 'python3', '-m', 'zipfile', '-c', join(files, 'tiny-1.0-py3-none-any.whl'), 'tiny.py', info)
  mkdirSync(join(files, 'simple', 'tiny'), { recursive: true })
  writeFileSync(
    join(files, 'simple', 'tiny', 'index.html'),
    '<a href="/tiny-1.0-py3-none-any.whl">tiny-1.0-py3-none-any.whl</a>',
  )
}
