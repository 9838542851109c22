// The collector of output files alone, on folders that no sandbox would let a tool make: it never
// blocks, and swapped folders lead nowhere. Twins show that each check is needed.

import { spawn, spawnSync } from 'node:child_process'
import { linkSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { newWorkerId } from '../../../shared/ids.ts'
import { LIMITS } from '../../../shared/limits.ts'
import { collectOutputFiles } from '../../../worker/calls/output-files.ts'
import { type EdgeLink, openEdgeLink } from '../../../worker/link/client.ts'
import { SecretMask } from '../../../worker/sandbox/streams/secret-mask.ts'
import { weakened } from '../../support/weakened.ts'
import { FakeEdge, newSigner } from '../../support/worker/fake-edge.ts'

const root = mkdtempSync(join(tmpdir(), 'countersign-collect-'))
const edge = new FakeEdge()
let link: EdgeLink
beforeAll(async () => {
  await edge.start()
  const [signer, worker] = [newSigner(), newWorkerId(Date.now())]
  edge.worker = { id: worker, x: signer.x }
  link = openEdgeLink(edge.url, { tenant: edge.tenant, worker, signer })
})
afterAll(async () => {
  link?.close()
  await edge.stop()
  rmSync(root, { recursive: true, force: true })
})

const CALL = 'call_01JZ0000000000000000000000_1'
const collected = (
  folder: string,
  { by = collectOutputFiles, within_ms = 20_000, secrets = {}, signal = AbortSignal.timeout(60_000) } = {},
) => by(folder, { call: CALL, mask: new SecretMask(secrets), link, until_ms: Date.now() + within_ms, signal })

const OUTPUTS = 'worker/calls/output-files.ts'
async function without(
  ...weaknesses: readonly (readonly [from: string, to: string])[]
): Promise<typeof collectOutputFiles> {
  const load = weakened(...weaknesses.map(([from, to]) => [OUTPUTS, from, to] as const))
  return (await load<typeof import('../../../worker/calls/output-files.ts')>(OUTPUTS)).collectOutputFiles
}
/** The collected files and their content. */
const contents = ({ files }: Awaited<ReturnType<typeof collectOutputFiles>>): string[] =>
  files.map(({ path, sha256 }) => `${path} ${edge.files.get(sha256)}`)

test('S43 FIFOs, sockets and devices in an output folder are reported and never block', async () => {
  const folder = withFifo('special')
  const device = spawnSync('/usr/bin/mknod', [join(folder, 'zero'), 'c', '1', '5'])
  // Only root can make a device file, and no sandbox can.
  if (device.status !== 0) symlinkSync('/dev/zero', join(folder, 'zero'))
  const server = createServer()
  await new Promise<void>((listening) => server.listen(join(folder, 'socket'), listening))
  writeFileSync(join(folder, 'plain'), 'x')
  const { files, left } = await collected(folder)
  server.close()
  expect(files.map(({ path }) => path)).toEqual(['plain'])
  expect(left).toEqual(['fifo', 'socket', 'zero'].map((path) => ({ path, why: 'no_file' })))
})

test('S43 without the check of the file type: a FIFO is collected as a file', async () => {
  const folder = withFifo('taken')
  expect(contents(await collected(folder, { by: await without(['!stats.isFile() || ', '']) }))).toEqual([
    'fifo ',
  ])
})

test('S43 without O_NONBLOCK: a FIFO blocks the collector until somebody writes', async () => {
  const folder = withFifo('waiting')
  const collecting = collected(folder, { by: await without([' | constants.O_NONBLOCK', '']) })
  expect(await Promise.race([collecting, sleep(1_000, 'it waits')])).toBe('it waits')
  await (await open(join(folder, 'fifo'), 'w')).close()
  expect((await collecting).left).toEqual([{ path: 'fifo', why: 'no_file' }])
})

function withFifo(name: string): string {
  const folder = join(root, name)
  mkdirSync(folder)
  expect(spawnSync('/usr/bin/mkfifo', [join(folder, 'fifo')]).status).toBe(0)
  return folder
}

/**
 * Collects from a folder in which `a` and a link out of it keep changing places, until a file
 * matches `wanted` or time is up.
 */
async function swapping(
  name: string,
  wanted: RegExp,
  by: (folder: string) => Promise<typeof collectOutputFiles>,
): Promise<string[]> {
  const [folder, outside] = [join(root, name), join(root, `${name}-outside`)]
  for (const made of [folder, outside, join(folder, 'a')]) mkdirSync(made)
  writeFileSync(join(outside, 'in'), 'canary')
  writeFileSync(join(folder, 'a', 'in'), 'inside')
  symlinkSync(outside, join(folder, 'b'))
  const exchange = `
import ctypes
libc, a, b = ctypes.CDLL(None), b'${folder}/a', b'${folder}/b'
while True: libc.renameat2(-100, a, -100, b, 2)`
  const swapper = spawn('python3', ['-c', exchange], { stdio: 'ignore' })
  const seen = new Set<string>()
  try {
    const collector = await by(folder)
    const until = Date.now() + 30_000
    for (let n = 0; n < 300 || (![...seen].some((file) => wanted.test(file)) && Date.now() < until); n++)
      for (const file of contents(await collected(folder, { by: collector }))) seen.add(file)
  } finally {
    swapper.kill('SIGKILL')
  }
  return [...seen].toSorted()
}

test('S41 a folder that keeps being swapped for a link never leads the collector outside', {
  timeout: 60_000,
}, async () => {
  // Both places were read.
  expect(await swapping('swapped', /^b/, async () => collectOutputFiles)).toEqual([
    'a/in inside',
    'b/in inside',
  ])
})

const HELD = '`/proc/self/fd/$' + '{handle.fd}`' // with no placeholder in it

test('S41 without folders held open: a swapped folder leads outside', { timeout: 60_000 }, async () => {
  const byPath = (folder: string) => without([HELD, `\`${folder}/\${above}\``])
  expect((await swapping('followed', /canary/, byPath)).join()).toContain('canary')
})

test('S40 without O_NOFOLLOW: the target of a link is collected', async () => {
  const [folder, secret] = [join(root, 'linked'), join(root, 'secret')]
  mkdirSync(folder)
  writeFileSync(secret, 'canary')
  symlinkSync(secret, join(folder, 'link'))
  const following = [
    'constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK',
    'constants.O_RDONLY | constants.O_NONBLOCK',
  ] as const
  expect([
    contents(await collected(folder)),
    contents(await collected(folder, { by: await without(following) })),
  ]).toEqual([[], ['link canary']])
})

test('S42 a file with a second name is reported and not collected, because it may belong to somebody else', async () => {
  const folder = join(root, 'doubled')
  mkdirSync(folder)
  writeFileSync(join(root, 'elsewhere'), 'canary')
  linkSync(join(root, 'elsewhere'), join(folder, 'second-name'))
  writeFileSync(join(folder, 'plain'), 'x')
  const { files, left } = await collected(folder)
  expect([files.map(({ path }) => path), left]).toEqual([
    ['plain'],
    [{ path: 'second-name', why: 'no_file' }],
  ])
})

test('S44, S45 a file with a deceptive name, or a name that programs act on, is reported and not collected', async () => {
  const folder = join(root, 'misnamed')
  mkdirSync(join(folder, '.git', 'hooks'), { recursive: true })
  for (const name of ['.git/hooks/pre-commit', 'a\u202eb', 'a\nb', 'plain'])
    writeFileSync(join(folder, name), 'x')
  const { files, left } = await collected(folder)
  expect([files.map(({ path }) => path), left.map(({ why }) => why)]).toEqual([
    ['plain'],
    ['name', 'name', 'name'],
  ])
})

test('S44, S45 without the rule of names: files of any name are collected', async () => {
  const folder = join(root, 'named')
  const names = ['.git/hooks/pre-commit', 'a\u001b[2J', 'a\nb', 'a\u202eb']
  mkdirSync(join(folder, '.git', 'hooks'), { recursive: true })
  for (const name of names) writeFileSync(join(folder, name), 'x')
  const unnamed = [' || pathFault(path) !== undefined', ''] as const
  const by = await without(unnamed)
  expect([contents(await collected(folder)), contents(await collected(folder, { by })).toSorted()]).toEqual([
    [],
    names.map((name) => `${name} x`).toSorted(),
  ])
})

test('output files that can’t be sent in time, or for which the edge has no room, are reported', async () => {
  const folder = join(root, 'late')
  mkdirSync(folder)
  writeFileSync(join(folder, 'plain'), 'x')
  expect(await collected(folder, { within_ms: 0 })).toEqual({
    files: [],
    left: [{ path: 'plain', why: 'not_sent' }],
    more: 0,
  })
  edge.hasRoom = false
  expect(await collected(folder)).toEqual({ files: [], left: [{ path: 'plain', why: 'no_room' }], more: 0 })
  edge.hasRoom = true
})

test('a long search for secrets in output files ends at the deadline and when the call is aborted', async () => {
  const folder = join(root, 'searched for long')
  mkdirSync(folder)
  // Nothing takes longer.
  for (const name of ['one', 'two', 'three'])
    writeFileSync(join(folder, name), '\\'.repeat(LIMITS.file_bytes))
  const late = {
    files: [],
    left: ['one', 'three', 'two'].map((path) => ({ path, why: 'not_sent' })),
    more: 0,
  }
  const secrets = { token: TOKEN }
  const since = performance.now()
  expect(await collected(folder, { secrets, within_ms: 500 })).toEqual(late)
  expect(await collected(folder, { secrets, signal: AbortSignal.timeout(500) })).toEqual(late)
  expect(performance.now() - since).toBeLessThan(4_000) // one file alone would take longer
})

const TOKEN = 'hunter2-hunter2'
/**
 * Four files: with the token in base64, with the token as name, with half of it, and without it.
 */
function withToken(name: string): string {
  const folder = join(root, name)
  mkdirSync(join(folder, 'deep'), { recursive: true })
  writeFileSync(
    join(folder, 'deep', 'archive'),
    Buffer.concat([Buffer.alloc(200_000, 1), Buffer.from(btoa(`a${TOKEN}`)), Buffer.alloc(9)]),
  )
  writeFileSync(join(folder, `of-${TOKEN}.txt`), 'x')
  writeFileSync(join(folder, 'half'), TOKEN.slice(0, 12))
  return folder
}

test('V01 an output file that contains a secret, or is named by one, is not collected, and the report hides the name', async () => {
  const { files, left } = await collected(withToken('telling'), { secrets: { token: TOKEN } })
  expect(files.map(({ path }) => path)).toEqual(['half'])
  expect(left).toEqual([
    { path: 'deep/archive', why: 'secret' },
    { path: 'of-«secret token».txt', why: 'secret' },
  ])
})

test('V01 without the search of files, and with other secrets: the files are collected', async () => {
  const folder = withToken('searched by nobody')
  const unsearched = ['await target.mask.findsSecretIn(bytes, hasTime)', 'false'] as const
  const { files } = await collected(folder, { by: await without(unsearched), secrets: { token: TOKEN } })
  expect(files.map(({ path }) => path)).toEqual(['deep/archive', 'half'])
  expect((await collected(folder, { secrets: { token: 'another value' } })).left).toEqual([])
})
