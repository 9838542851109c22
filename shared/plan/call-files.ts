// Files that a call brings and leaves, as the wire, the plan and both sides know them: a path that can only mean one place inside a
// folder, and the digest of the bytes. Pure.

import { z } from 'zod'
import { DECEIVING } from '../bytes/confusable-characters.ts'
import { sha256 } from '../bytes/json.ts'
import { TOLD_CHARS } from '../bytes/signable-text.ts'
import { PATTERNS } from '../ids.ts'
import { LIMITS } from '../limits.ts'

/** Where a call finds the files that it brings: a folder of its own, which nothing of an earlier call can reach into. */
export const INPUT_FOLDER = '/input'
/** Where a call whose tool says so leaves the files that are kept. */
export const OUTPUT_FOLDER = '/output'

/** Characters that end a line or mean nothing. `\` means a folder elsewhere; a backtick ends what our texts quote (G09). */
const UNFIT = /[\p{C}\\`]/u

/** Why a path is refused; nothing where it names one place below its folder, however it is read. */
export function pathFault(path: string): string | undefined {
  const parts = path.split('/')
  if (path === '' || Buffer.byteLength(path) > LIMITS.file_path_bytes)
    return `has 1 to ${LIMITS.file_path_bytes} bytes`
  if (parts.length > LIMITS.file_path_depth) return `has at most ${LIMITS.file_path_depth} parts`
  if (parts.includes('') || parts.includes('.') || parts.includes('..'))
    return 'is relative, in its shortest form, without `..`'
  if (parts.some((part) => Buffer.byteLength(part) > 255)) return 'has parts of at most 255 bytes'
  if (UNFIT.test(path) || DECEIVING.test(path) || path !== path.normalize('NFC'))
    return 'is of plain characters, in the form NFC'
  if (parts.some((part) => part.toLowerCase() === '.git'))
    return 'names no `.git`: programs obey what lies there' // S45
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
  z
    .array(file)
    .max(LIMITS.call_files)
    .refine(distinct, 'each path is named once, and none lies below another')

const FileRef = z.strictObject({ path: FilePath, sha256: z.string().regex(PATTERNS.sha256) })
/** As a call names them; the bytes were put into its run before. */
export const FileRefs = listed(FileRef)
export type FileRef = z.infer<typeof FileRef>

const InputFile = FileRef.extend({ bytes: z.int().min(0).max(LIMITS.file_bytes) })
/** As a plan has them. */
export const InputFiles = listed(InputFile)
export type InputFile = z.infer<typeof InputFile>

/** As a run holds it: `named` by a call of it, and until when, if nobody puts or names it again. */
export const HeldFile = FileRef.omit({ path: true }).extend({
  bytes: InputFile.shape.bytes,
  named: z.boolean(),
  until_ms: z.int(),
})
export type HeldFile = z.infer<typeof HeldFile>

/** As a case of policies has them: an empty file where no more is said. */
export const SupposedFiles = listed(
  InputFile.extend({
    sha256: FileRef.shape.sha256.default(sha256('')),
    bytes: InputFile.shape.bytes.default(0),
  }),
)

/**
 * `name`: one that could mean or show as another. `no_file`: a link, a device, or what has a second name. `no_room`: run, agent or tenant
 * hold as much as they may. `secret`: a value of one that the call was given stands in it, or in its name. `path` as JSON writes it.
 */
const LeftFile = z.strictObject({
  path: z.string().max(TOLD_CHARS.left),
  why: z.enum(['name', 'no_file', 'too_much', 'no_room', 'not_sent', 'secret']),
})
export type LeftFile = z.infer<typeof LeftFile>
/** What a call left, by content. */
export const OutputFiles = z.strictObject({
  files: z.array(InputFile).max(LIMITS.call_files),
  left: z.array(LeftFile).max(64),
  /** Left beyond those that are told. */
  more: z.int().min(0),
})
export type OutputFiles = z.infer<typeof OutputFiles>
