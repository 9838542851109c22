// A program starts with exactly the given arguments, and the sandbox confines it. We don't guess
// which argument is a path, or which program an interpreter: the same argv reads and writes the
// host’s files in tier B, which is a fence, and finds none of them in tier C.
// @project prepared

import { existsSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { basename, dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { LIMITS } from '../../../shared/limits.ts'
import { Argv } from '../../../shared/plan/plan.ts'
import { Arena, attack, attackReport, planOf, unique } from '../arena/arena.ts'

const CANARY = `canary-${unique()}`

let arena: Arena
/** The folder of the host with the canary in it, as a tool of tier B would name it. */
let home: string
beforeAll(async () => {
  arena = await Arena.open()
  writeFileSync(join(arena.home, 'canary'), `${CANARY}\n`, { mode: 0o644 })
  home = dirname(arena.runFolder().there)
})
afterAll(() => arena.close())

type Words = (at: { file: string; folder: string }) => string[]
type Seed = readonly [title: string, words: Words]

const UP = '../'.repeat(12)
/** As `python3.11`. */
const PYTHON = basename(realpathSync('/usr/bin/python3'))
const READS: readonly Seed[] = [
  ['a relative path upwards', ({ file }) => ['cat', `${UP}${file.slice(1)}`]],
  ['a folder glued to its option', ({ folder }) => ['tar', '-cf-', `-C${folder}`, 'canary']],
  ['a URL of a file', ({ file }) => ['curl', '--silent', `file://${file}`]],
  [
    'a list of paths',
    ({ folder }) => ['sh', '-c', 'IFS=:; for at in $1; do cat "$at/canary"; done', 'sh', `a:${folder}`],
  ],
  ['a path inside quoted code', ({ file }) => ['python3', '-c', `(print)(open(("${file}")).read())`]],
  ['an interpreter', ({ file }) => ['python3', '-c', `print(open('${file}').read())`]],
  ['a login shell', ({ file }) => ['bash', '-lc', `cat ${file}`]],
  ['a shell with other options before', ({ file }) => ['sh', '-ec', `cat ${file}`]],
  ['code glued to its option', ({ file }) => ['python3', `-cprint(open('${file}').read())`]],
  ['another interpreter’s option', ({ file }) => ['perl', '-e', `open(F, '<', '${file}') and print <F>`]],
  [
    'an interpreter by its full name',
    ({ file }) => ['/usr/bin/env', 'python3', '-c', `print(open('${file}').read())`],
  ],
  [
    'an interpreter by the name of its version',
    ({ file }) => [PYTHON, '-c', `print(open('${file}').read())`],
  ],
  ['git', ({ file }) => ['git', '-c', `alias.x=!cat ${file}`, 'x']],
  ['awk', ({ file }) => ['awk', `BEGIN { while ((getline line < "${file}") > 0) print line }`]],
  ['env', ({ file }) => ['env', '-S', `cat ${file}`]],
  ['xargs', ({ file }) => ['xargs', '-a', '/dev/null', 'cat', file]],
  ['find', ({ folder }) => ['find', folder, '-maxdepth', '1', '-name', 'canary', '-exec', 'cat', '{}', ';']],
  ['tar', ({ folder }) => ['sh', '-c', 'tar -cf- -C "$1" canary | tar -xf- --to-command=cat', 'sh', folder]],
]

describe('reading files of the host', () => {
  test.each(READS)('no file of the host is read by %s', async (_title, words) => {
    const argv = words({ file: `${home}/canary`, folder: home })
    const fenced = await arena.launch({ plan: planOf(argv, { tier: 'B' }) })
    expect(fenced.out).toContain(CANARY)
    const walled = await arena.launch({ plan: planOf(argv) })
    expect(walled.out + walled.err).not.toContain(CANARY)
  })

  const LINKED: readonly Seed[] = [
    ['a symbolic link', () => ['cat', 'link']],
    ['a symbolic link that looks like an option', () => ['cat', '--', '-x']],
  ]
  test.each(LINKED)('no file of the host is reached by %s', async (_title, words) => {
    const { here, there } = arena.runFolder()
    for (const name of ['link', '-x']) symlinkSync(`${home}/canary`, join(here, name))
    const argv = words({ file: '', folder: '' })
    expect(
      (await arena.launch({ plan: planOf(['env', '-C', there, ...argv], { tier: 'B' }) })).out,
    ).toContain(CANARY)
    expect((await arena.launch({ plan: planOf(argv, { workspace: 'run' }), runFolder: there })).out).toBe('')
  })
})

describe('writing files on the host', () => {
  const WRITES: readonly Seed[] = [
    ['a path glued to a long option', ({ file }) => ['sort', `--output=${file}`, '/dev/null']],
    ['a relative path glued to a short one', ({ file }) => ['sort', `-o${UP}${file.slice(1)}`, '/dev/null']],
    ['a dangling link as output', () => ['touch', 'dangling']],
  ]
  test.each(WRITES)('no file on the host is made by %s', async (_title, words) => {
    const { here, there } = arena.runFolder()
    symlinkSync(`${home}/made`, join(here, 'dangling'))
    const argv = words({ file: `${home}/made`, folder: home })
    const run = async (call: Parameters<Arena['launch']>[0]): Promise<boolean> => {
      await arena.launch(call)
      const made = existsSync(join(arena.home, 'made'))
      rmSync(join(arena.home, 'made'), { force: true })
      return made
    }
    const inB = await run({ plan: planOf(['env', '-C', there, ...argv], { tier: 'B' }) })
    const inC = await run({ plan: planOf(argv, { workspace: 'run' }), runFolder: there })
    expect([inB, inC]).toEqual([true, false])
  })
})

describe('reaching hosts', () => {
  const NAMED: readonly (readonly [string, (port: number) => string[]])[] = [
    ['a bare host', (port) => ['curl', '--silent', '--show-error', `localhost:${port}`]],
    ['a host behind a user’s name', (port) => ['git', 'ls-remote', `http://user@localhost:${port}/it`]],
    ['an address', (port) => ['curl', '--silent', '--show-error', `127.0.0.1:${port}`]],
    [
      'a host in code',
      (port) => [
        'python3',
        '-c',
        `import socket; socket.create_connection(('localhost', ${port})).sendall(b'\\n')`,
      ],
    ],
  ]
  test.each(NAMED)(
    'no host that the plan does not name is reached through %s in an argv',
    async (_title, words) => {
      let reached = 0
      const server = createServer((socket) => {
        reached += 1
        socket.on('error', () => socket.destroy()).end('HTTP/1.0 404 Not Found\r\n\r\n')
      })
      await new Promise<void>((settle) => server.listen(0, '127.0.0.1', settle))
      const argv = words((server.address() as AddressInfo).port) // the address of a TCP server
      await arena.launch({ plan: planOf(argv, { tier: 'B' }) })
      expect(reached).toBeGreaterThan(0)
      reached = 0
      const { outcome, connections } = await arena.launch({ plan: planOf(argv) })
      expect([reached, connections]).toEqual([0, []])
      expect(outcome).not.toEqual({ kind: 'exit', code: 0 })
      server.close()
    },
  )
})

describe('killing processes of the host', () => {
  const KILLERS: readonly Seed[] = [
    ['pkill', () => ['pkill', '-9', '.']],
    ['a kill of everyone', () => ['kill', '-9', '-1']],
  ]
  test.each(KILLERS)('no process outside the call is killed by %s', async (_title, words) => {
    const { pid } = await arena.facts()
    await arena.launch({ plan: planOf(words({ file: '', folder: '' })) })
    expect((await arena.facts()).pid).toBe(pid)
  })

  test('a process number that a tool kills is one of its own sandbox', async () => {
    const { pid } = await arena.facts()
    const seen = await arena.launch({
      plan: planOf(attack(`tell['kill'] = [attempt(os.kill, ${pid}, 9), attempt(os.killpg, ${pid}, 9)]`)),
    })
    expect(attackReport(seen)).toEqual({ kill: ['ESRCH', 'ESRCH'] })
    expect((await arena.facts()).pid).toBe(pid)
  })
})

describe('arguments are passed on unchanged', () => {
  test('spaces, options and separators in a command are part of the program’s name', async () => {
    for (const name of ['echo ran', 'python3 -c "print(1)"', 'sh;echo', './echo ran', '$(echo ran)']) {
      const seen = await arena.launch({ plan: planOf([name]) })
      expect(seen.outcome, name).toEqual({ kind: 'exit', code: 127 })
      expect(seen.out, name).toBe('')
    }
    expect((await arena.launch({ plan: planOf(['printf', '%s|', 'printf %s ran']) })).out).toBe(
      'printf %s ran|',
    )
  })

  test('the plan’s schema refuses arguments that no program can receive', () => {
    expect(Argv.safeParse(['true', 'a\0b']).success).toBe(false)
    expect(Argv.safeParse(Array(LIMITS.argv_items).fill('x')).success).toBe(true)
    expect(Argv.safeParse(Array(LIMITS.argv_items + 1).fill('x')).success).toBe(false)
    expect(Argv.safeParse(['x'.repeat(LIMITS.argv_item_bytes + 1)]).success).toBe(false)
    expect(Argv.safeParse([]).success).toBe(false)
  })
})
