// Files of calls: what a call brings is put into its run by digest, what it brought or left is listed and saved. A file that was fetched
// has the digest that the call names, lies inside the folder that was named, and takes no other file's place unless that is asked for.

import { basename, join } from 'node:path'
import { sha256 } from '../../shared/bytes/json.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { FileRef, InputFile } from '../../shared/plan/call-files.ts'
import { FileRefs, pathFault } from '../../shared/plan/call-files.ts'
import { broughtBy } from '../../shared/plan/plan.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Call } from '../../shared/wire/calls.ts'
import type { Answer, Command, Given, Trouble } from '../shell/command.ts'
import { command, trouble, usage } from '../shell/command.ts'
import type { Api } from '../shell/edge-api.ts'
import { placeIn, readBytes, saveBytes } from '../shell/files.ts'
import { fitting, whole } from '../shell/json-input.ts'
import { inline, listing, time } from '../shell/terminal-text.ts'

export const FILE_FLAG = {
  value: 'PATH[:NAME]',
  many: true,
  what: 'a file that the call brings, under its own name or this one; may be given several times',
} as const

type Brought = FileRef & { readonly content: Uint8Array }

/** Read once: what is digested is what is sent. */
export function readFiles(given: readonly string[]): Result<Brought[], Trouble> {
  const files: Brought[] = []
  for (const one of given) {
    const colon = one.lastIndexOf(':')
    const from = colon < 0 ? one : one.slice(0, colon)
    const path = colon < 0 ? basename(one) : one.slice(colon + 1)
    const fault = from === '' ? 'has a file before its `:`' : pathFault(path)
    if (fault !== undefined)
      return err(usage(`\`--file ${one}\`: the name of a file ${fault}; write PATH:NAME`))
    const read = readBytes(from, LIMITS.file_bytes)
    if (!read.ok) return read
    files.push({ path, sha256: sha256(read.value), content: read.value })
  }
  const fits = fitting(FileRefs, namesOf(files), '`--file`')
  return fits.ok ? ok(files) : fits
}

export const namesOf = (files: readonly Brought[]): FileRef[] =>
  files.map(({ path, sha256: digest }) => ({ path, sha256: digest }))

/** With their sizes, as a plan has them. */
export const measured = (files: readonly Brought[]): InputFile[] =>
  files.map(({ path, sha256: digest, content }) => ({ path, sha256: digest, bytes: content.byteLength }))

/** Into this run, or into a new one; whichever it is. */
export async function putFiles(
  api: Api,
  run: string | undefined,
  files: readonly Brought[],
): Promise<Result<string, Trouble>> {
  const made = run === undefined ? await api('createRun', { body: {} }) : ok({ id: run })
  if (!made.ok) return made
  const { id } = made.value
  for (const { sha256: digest, content } of files) {
    const put = await api('putFile', { params: { run: id, sha256: digest }, body: Uint8Array.from(content) })
    if (!put.ok) return put
  }
  return ok(id)
}

const putInto = command({
  words: ['runs', 'put'],
  args: {},
  flags: {
    file: FILE_FLAG,
    run: { value: 'RUN', what: 'the run to put them into; a new one if you say nothing' },
  },
  does: 'Put files into a run, for calls to bring them later by their digests',
  key: 'agent',
  examples: ['countersign runs put --file sales.csv --file q3.json'],
  async run({ flags, api, paint }) {
    if (flags.file.length === 0) return err(usage('name a `--file`'))
    const files = readFiles(flags.file)
    if (!files.ok) return files
    const run = await putFiles(api, flags.run, files.value)
    if (!run.ok) return run
    const put = measured(files.value)
    return ok({
      ok: true,
      json: { run: run.value, files: put },
      text: `run ${inline(run.value)}\n${listed(put, paint)}`,
    })
  },
})

const held = command({
  words: ['runs', 'files'],
  args: { RUN: 'the run’s id' },
  flags: {},
  does: 'List the files that a run holds, and until when',
  key: 'either',
  async run({ args, api, paint }) {
    const list = await api('listFiles', { params: { run: args.RUN } })
    if (!list.ok) return list
    const { items } = list.value
    const rows = items.map(({ sha256: digest, bytes, named, until_ms }) => [
      digest,
      String(bytes),
      named ? 'yes' : 'no',
      time(until_ms),
    ])
    return ok({
      ok: true,
      json: items,
      text: listing(paint, ['sha256', 'bytes', 'named by a call', 'until'], rows, 'no files'),
    })
  },
})

const listed = (files: readonly InputFile[], paint: Given['paint']): string =>
  listing(
    paint,
    ['file', 'bytes', 'sha256'],
    files.map(({ path, bytes, sha256: digest }) => [path, String(bytes), digest]),
    'no files',
  )

const CALL = { CALL: 'the call’s id' } as const
const FLAGS = {
  to: { value: 'DIR', what: 'save them below this folder, which is made if it is not there' },
  overwrite: { what: 'with `--to`: in the place of files that are there already' },
} as const
type Flags = { readonly to: string | undefined; readonly overwrite: boolean }

const inputs = command({
  words: ['calls', 'inputs'],
  args: CALL,
  flags: FLAGS,
  does: 'List the files that a call brings, or save them to read what would run',
  key: 'either',
  run: (given) => filesOf(given, 'brings'),
})

const outputs = command({
  words: ['calls', 'outputs'],
  args: CALL,
  flags: FLAGS,
  does: 'List the files that a call left, or save them',
  key: 'either',
  examples: ['countersign calls outputs call_01ABC…_1 --to results'],
  run: (given) => filesOf(given, 'left'),
})

async function filesOf(
  { args, flags, api, paint }: Given<typeof CALL> & { readonly flags: Flags },
  which: 'brings' | 'left',
): Answer {
  if (flags.overwrite && flags.to === undefined) return err(usage('`--overwrite` goes with `--to`'))
  const params = whole(args.CALL)
  if (!params.ok) return params
  const read = await api('readCall', { params: params.value })
  if (!read.ok) return read
  const { files, left, more } = told(read.value, which)
  const saved =
    flags.to === undefined
      ? ok(undefined)
      : await save(api, params.value, files, { to: flags.to, overwrite: flags.overwrite })
  if (!saved.ok) return saved
  const besides = [
    ...left.map(({ path, why }) => `not kept: ${inline(path)} (${why})\n`),
    ...(more === 0 ? [] : [`and ${more} more that were not kept\n`]),
    ...(saved.value === undefined ? [] : [`saved below ${inline(saved.value)}\n`]),
  ]
  const places = saved.value === undefined ? {} : { saved: saved.value }
  return ok({
    ok: true,
    json: { files, left, more, ...places },
    text: `${listed(files, paint)}${besides.join('')}`,
  })
}

const told = ({ plan, result }: Call, which: 'brings' | 'left') =>
  which === 'left'
    ? (result?.files ?? { files: [], left: [], more: 0 })
    : { files: broughtBy(plan) ?? [], left: [], more: 0 }

type Where = { readonly to: string; readonly overwrite: boolean }

/** All of them or, where one can't be had, those before it; what is in the way is told before the first is fetched. */
async function save(
  api: Api,
  call: { run: string; call: string },
  files: readonly InputFile[],
  where: Where,
): Promise<Result<string, Trouble>> {
  for (const { path } of files) {
    const place = placeIn(where.to, path, where.overwrite)
    if (!place.ok) return place
  }
  for (const { path, sha256: digest, bytes } of files) {
    const fetched = await api('readFile', { params: { ...call, sha256: digest } })
    if (!fetched.ok) return fetched
    if (fetched.value.byteLength !== bytes || sha256(fetched.value) !== digest)
      return err(
        trouble(
          'digest_mismatch',
          `what was answered for \`${path}\` has another digest than the call names; it was not saved`,
        ),
      )
    const saved = saveBytes(where.to, path, fetched.value, where.overwrite)
    if (!saved.ok) return saved
  }
  return ok(join(where.to, '.'))
}

export const CALL_FILES: readonly Command[] = [inputs, outputs, putInto, held]
