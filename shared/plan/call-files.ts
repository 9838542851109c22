// Input and output files of a call: an unambiguous path inside a folder, and the digest of the
// bytes. Pure.

import { z } from 'zod'
import { CONFUSABLE } from '../bytes/confusable-characters.ts'
import { sha256 } from '../bytes/json.ts'
import { SIGNED_TEXT_CHARS } from '../bytes/signable-text.ts'
import { PATTERNS } from '../ids.ts'
import { LIMITS } from '../limits.ts'

/** The folder of a call's input files. Earlier calls can't have written to it. */
export const INPUT_FOLDER = '/input'
/** The folder in which a call leaves its output files, if its tool keeps them. */
export const OUTPUT_FOLDER = '/output'

/**
 * Control and unassigned characters; `\`, which separates folders on other systems; a backtick,
 * which ends a quotation in our texts (G09).
 */
const UNFIT = /[\p{C}\\`]/u

/**
 * The reason to refuse a path, or nothing if every program reads it as the same place below its
 * folder.
 */
export function pathFault(path: string): string | undefined {
  const parts = path.split('/')
  if (path === '' || Buffer.byteLength(path) > LIMITS.file_path_bytes)
    return `must have 1 to ${LIMITS.file_path_bytes} bytes`
  if (parts.length > LIMITS.file_path_depth) return `must have at most ${LIMITS.file_path_depth} parts`
  if (parts.includes('') || parts.includes('.') || parts.includes('..'))
    return 'must be relative and in its shortest form, without `..`'
  if (parts.some((part) => Buffer.byteLength(part) > 255)) return 'must have parts of at most 255 bytes'
  if (UNFIT.test(path) || CONFUSABLE.test(path) || path !== path.normalize('NFC'))
    return 'must have plain characters only, in the form NFC'
  if (parts.some((part) => part.toLowerCase() === '.git'))
    return 'must not contain `.git`: programs run what such a folder configures' // S45
  return undefined
}

const FilePath = z.string().superRefine((path, { addIssue }) => {
  const fault = pathFault(path)
  if (fault !== undefined) addIssue(`a file’s path ${fault}`)
})

const distinct = (files: readonly { path: string }[]): boolean => {
  const paths = files.map(({ path }) => path).toSorted()
  return (
    new Set(paths).size === paths.length &&
    !paths.some((path) => paths.some((other) => other.startsWith(`${path}/`)))
  )
}

const listed = <T extends z.ZodType<{ path: string }>>(file: T) =>
  z.array(file).max(LIMITS.call_files).refine(distinct, 'must name each path once, and none below another')

const FileRef = z.strictObject({ path: FilePath, sha256: z.string().regex(PATTERNS.sha256) })
/** Input files as a call names them. Their bytes were uploaded to its run before. */
export const FileRefs = listed(FileRef)
export type FileRef = z.infer<typeof FileRef>

const InputFile = FileRef.extend({ bytes: z.int().min(0).max(LIMITS.file_bytes) })
/** Input files in a plan. */
export const InputFiles = listed(InputFile)
export type InputFile = z.infer<typeof InputFile>

/**
 * A file of a run. `named`: a call uses it. `until_ms`: when it is deleted unless it is uploaded or
 * used again.
 */
export const HeldFile = FileRef.omit({ path: true }).extend({
  bytes: InputFile.shape.bytes,
  named: z.boolean(),
  until_ms: z.int(),
})
export type HeldFile = z.infer<typeof HeldFile>

/** Input files in a policy case; by default empty files. */
export const HypotheticalFiles = listed(
  InputFile.extend({
    sha256: FileRef.shape.sha256.default(sha256('')),
    bytes: InputFile.shape.bytes.default(0),
  }),
)

/**
 * An output file that was not kept. `name`: its name is ambiguous or deceptive. `no_file`: a link,
 * a device, or a file with several names. `no_room`: the quota of run, agent or tenant is used up.
 * `secret`: the file or its name contains a secret of the call. `path` is escaped as in JSON.
 */
const LeftFile = z.strictObject({
  path: z.string().max(SIGNED_TEXT_CHARS.left),
  why: z.enum(['name', 'no_file', 'too_much', 'no_room', 'not_sent', 'secret']),
})
export type LeftFile = z.infer<typeof LeftFile>
/** The output files of a call. */
export const OutputFiles = z.strictObject({
  files: z.array(InputFile).max(LIMITS.call_files),
  left: z.array(LeftFile).max(64),
  /** The number of files that `left` omits. */
  more: z.int().min(0),
})
export type OutputFiles = z.infer<typeof OutputFiles>
