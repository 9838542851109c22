// Promise: the next commands that `skill new` prints work as printed, in the same folder, whatever
// the new folder contains. They never fetch `countersign` from a package registry, where the owner
// of that name could run code on authors' machines.

import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { ROOT } from '../../infra/state.ts'
import { countersign } from '../support/countersign.ts'
import { sharedStack, sharedState } from '../support/stack/stack.ts'

sharedStack() // the commands below use it
const folder = mkdtempSync(join(tmpdir(), 'countersign-begun-'))

/** This repository as `npx` sees it: a package whose bin is the command line. */
const { name, bin } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
const here = join(folder, 'here')
mkdirSync(here)
writeFileSync(join(here, 'package.json'), JSON.stringify({ name, bin }))
for (const part of ['cli', 'node_modules']) symlinkSync(join(ROOT, part), join(here, part))

/** A package registry that has only AssemblyScript, as a stub that runs the one installed here. */
const asked: string[] = []
const version = '0.28.20'
const asc = join(folder, 'asc')
mkdirSync(join(asc, 'package/bin'), { recursive: true })
writeFileSync(
  join(asc, 'package/package.json'),
  JSON.stringify({ name: 'assemblyscript', version, type: 'module' }),
)
writeFileSync(
  join(asc, 'package/bin/asc.js'),
  `import ${JSON.stringify(join(ROOT, 'node_modules/assemblyscript/bin/asc.js'))}\n`,
)

type Ended = { readonly code: number | null; readonly out: string }
const ran = (command: string, args: readonly string[], cwd: string, env = {}): Promise<Ended> =>
  new Promise((settle, fail) => {
    const PATH = `${dirname(process.execPath)}:${process.env['PATH']}`
    const child = spawn(command, args, {
      cwd,
      env: { PATH, HOME: folder, NO_COLOR: '1', ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let out = ''
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (out += chunk))
    child.once('error', fail)
    child.once('close', (code) => settle({ code, out }))
  })

expect(await ran('tar', ['cf', 'asc.tar', '-C', asc, 'package'], folder)).toMatchObject({ code: 0 })
const registry = createServer(({ url = '' }, answer) => {
  asked.push(url)
  const dist = { tarball: `${address()}/asc.tar` }
  if (url === '/asc.tar') answer.end(readFileSync(join(folder, 'asc.tar')))
  else if (url === '/assemblyscript')
    answer.end(
      JSON.stringify({
        name: 'assemblyscript',
        'dist-tags': { latest: version },
        versions: { [version]: { name: 'assemblyscript', version, dist } },
      }),
    )
  else answer.writeHead(404).end('{}')
})
const address = (): string => `http://127.0.0.1:${(registry.address() as AddressInfo).port}` // the address of a TCP server
await new Promise<void>((listening) => registry.listen(0, '127.0.0.1', listening))
afterAll(() => {
  registry.closeAllConnections()
  registry.close()
  rmSync(folder, { recursive: true })
})

test.each([
  ['assemblyscript', ''],
  ['ts', '{"private":true,"type":"module"}'],
])(
  'the commands that `skill new --template %s` prints test and build the skill without fetching `countersign`',
  async (template, packageJson) => {
    const id = `begun-${template}`
    const env = { COUNTERSIGN_STATE: sharedState(), XDG_CONFIG_HOME: join(folder, id) }
    const begun = await countersign(['skill', 'new', id, '--template', template], { cwd: here, env })
    const [, next = ''] = /^next: (.*)$/m.exec(begun.out) ?? []
    if (packageJson !== '') writeFileSync(join(here, id, 'package.json'), packageJson) // as authors add one sooner or later
    asked.length = 0
    const npm = {
      npm_config_registry: address(),
      npm_config_cache: join(folder, 'cache'),
      npm_config_fetch_retries: '0',
    }
    const done = await ran('bash', ['-c', next], here, { ...env, ...npm })
    expect(done, `${next}\n${done.out}`).toMatchObject({
      code: 0,
      out: expect.stringMatching(/^2 passed$[\s\S]*^skill begun-\w+ 1\.0\.0$/m),
    })
    expect(asked.filter((url) => url.includes('countersign'))).toEqual([])
    if (template === 'assemblyscript') expect(asked).toContain('/asc.tar') // the printed commands fetched the compiler
  },
)
