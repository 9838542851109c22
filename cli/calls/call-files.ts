// Input and output files of calls: uploads input files into a run by digest, lists and saves the
// files of a call. A saved file has the digest that the call names, stays inside the folder that
// the user named, and overwrites nothing unless `--overwrite` is given.

import { basename, join } from 'node:path'
import { sha256 } from '../../shared/bytes/json.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { FileRef, InputFile } from '../../shared/plan/call-files.ts'
import { FileRefs, pathFault } from '../../shared/plan/call-files.ts'
import { inputFilesOf } from '../../shared/plan/plan.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Call } from '../../shared/wire/calls.ts'
import type { Command, CommandContext, CommandResult, Trouble } from '../shell/command.ts'
import { command, trouble, usage } from '../shell/command.ts'
import type { Api } from '../shell/edge-api.ts'
import { prepareTarget, readBytes, saveBytes } from '../shell/files.ts'
import { parseCallId, parseInput } from '../shell/json-input.ts'
import { inline, listing, time } from '../shell/terminal-text.ts'

export const FILE_FLAG = {
  value: 'PATH[:NAME]',
  many: true,
  what: 'an input file of the call, under its own name or as NAME; may be given several times',
} as const

type LoadedFile = FileRef & { readonly content: Uint8Array }

/** Reads each file once, so that the digest is of the bytes that are sent. */
export function readFiles(given: readonly string[]): Result<LoadedFile[], Trouble> {
  const files: LoadedFile[] = []
  for (const one of given) {
    const colon = one.lastIndexOf(':')
    const from = colon < 0 ? one : one.slice(0, colon)
    const path = colon < 0 ? basename(one) : one.slice(colon + 1)
    if (from === '')
      return err(usage(`\`--file ${one}\`: there is no path before the \`:\`; write PATH:NAME`))
    const fault = pathFault(path)
    if (fault !== undefined)
      return err(usage(`\`--file ${one}\`: the name of a file ${fault}; write PATH:NAME`))
    const read = readBytes(from, LIMITS.file_bytes)
    if (!read.ok) return read
    files.push({ path, sha256: sha256(read.value), content: read.value })
  }
  const fits = parseInput(FileRefs, fileRefs(files), '`--file`')
  return fits.ok ? ok(files) : fits
}

export const fileRefs = (files: readonly LoadedFile[]): FileRef[] =>
  files.map(({ path, sha256: digest }) => ({ path, sha256: digest }))

/** The files with their sizes, as a plan lists them. */
export const withSizes = (files: readonly LoadedFile[]): InputFile[] =>
  files.map(({ path, sha256: digest, content }) => ({ path, sha256: digest, bytes: content.byteLength }))

/** Uploads the files into `run`, or into a new run; returns the run's id. */
export async function uploadFiles(
  api: Api,
  run: string | undefined,
  files: readonly LoadedFile[],
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

const uploadCommand = command({
  words: ['runs', 'put'],
  args: {},
  flags: { file: FILE_FLAG, run: { value: 'RUN', what: 'the run to put them into (default: a new run)' } },
  does: 'Upload files into a run; calls of the run can name them later by their digests',
  key: 'agent',
  examples: ['countersign runs put --file sales.csv --file q3.json'],
  async run({ flags, api, paint }) {
    if (flags.file.length === 0) return err(usage('give at least one `--file`'))
    const files = readFiles(flags.file)
    if (!files.ok) return files
    const run = await uploadFiles(api, flags.run, files.value)
    if (!run.ok) return run
    const put = withSizes(files.value)
    return ok({
      ok: true,
      json: { run: run.value, files: put },
      text: `run ${inline(run.value)}\n${fileTable(put, paint)}`,
    })
  },
})

const listRunFiles = command({
  words: ['runs', 'files'],
  args: { RUN: 'the run’s id' },
  flags: {},
  does: 'List the files that a run holds, and until when it keeps them',
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
      text: listing(paint, ['sha256', 'bytes', 'used by a call', 'kept until'], rows, 'no files'),
    })
  },
})

const fileTable = (files: readonly InputFile[], paint: CommandContext['paint']): string =>
  listing(
    paint,
    ['file', 'bytes', 'sha256'],
    files.map(({ path, bytes, sha256: digest }) => [path, String(bytes), digest]),
    'no files',
  )

const CALL = { CALL: 'the call’s id' } as const
const FLAGS = {
  to: { value: 'DIR', what: 'save them in this folder, which is created if needed' },
  overwrite: { what: 'with `--to`: overwrite existing files' },
} as const
type Flags = { readonly to: string | undefined; readonly overwrite: boolean }

const inputs = command({
  words: ['calls', 'inputs'],
  args: CALL,
  flags: FLAGS,
  does: 'List the input files of a call, or save them, for instance to read what an approval is about',
  key: 'either',
  run: (given) => listOrSave(given, 'brings'),
})

const outputs = command({
  words: ['calls', 'outputs'],
  args: CALL,
  flags: FLAGS,
  does: 'List the output files of a call, or save them',
  key: 'either',
  examples: ['countersign calls outputs call_01ABC…_1 --to results'],
  run: (given) => listOrSave(given, 'left'),
})

async function listOrSave(
  { args, flags, api, paint }: CommandContext<typeof CALL> & { readonly flags: Flags },
  which: 'brings' | 'left',
): CommandResult {
  if (flags.overwrite && flags.to === undefined) return err(usage('`--overwrite` needs `--to DIR`'))
  const params = parseCallId(args.CALL)
  if (!params.ok) return params
  const read = await api('readCall', { params: params.value })
  if (!read.ok) return read
  const { files, left, more } = filesOfCall(read.value, which)
  const saved =
    flags.to === undefined
      ? ok(undefined)
      : await save(api, params.value, files, { to: flags.to, overwrite: flags.overwrite })
  if (!saved.ok) return saved
  const besides = [
    ...left.map(({ path, why }) => `not kept: ${inline(path)} (${why})\n`),
    ...(more === 0 ? [] : [`not kept: ${more} more\n`]),
    ...(saved.value === undefined ? [] : [`saved in ${inline(saved.value)}\n`]),
  ]
  const places = saved.value === undefined ? {} : { saved: saved.value }
  return ok({
    ok: true,
    json: { files, left, more, ...places },
    text: `${fileTable(files, paint)}${besides.join('')}`,
  })
}

const filesOfCall = ({ plan, result }: Call, which: 'brings' | 'left') =>
  which === 'left'
    ? (result?.files ?? { files: [], left: [], more: 0 })
    : { files: inputFilesOf(plan) ?? [], left: [], more: 0 }

type SaveOptions = { readonly to: string; readonly overwrite: boolean }

/**
 * Saves the files in order and stops at the first that fails. Existing files and bad paths are
 * reported before anything is fetched.
 */
async function save(
  api: Api,
  call: { run: string; call: string },
  files: readonly InputFile[],
  where: SaveOptions,
): Promise<Result<string, Trouble>> {
  for (const { path } of files) {
    const place = prepareTarget(where.to, path, where.overwrite)
    if (!place.ok) return place
  }
  for (const { path, sha256: digest, bytes } of files) {
    const fetched = await api('readFile', { params: { ...call, sha256: digest } })
    if (!fetched.ok) return fetched
    if (fetched.value.byteLength !== bytes || sha256(fetched.value) !== digest)
      return err(
        trouble(
          'digest_mismatch',
          `the edge’s answer for \`${path}\` does not have the digest that the call names; it was not saved`,
        ),
      )
    const saved = saveBytes(where.to, path, fetched.value, where.overwrite)
    if (!saved.ok) return saved
  }
  return ok(join(where.to, '.'))
}

export const CALL_FILES: readonly Command[] = [inputs, outputs, uploadCommand, listRunFiles]
