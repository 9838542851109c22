// The flag that names a file for evidence, and how evidence is written to it or printed.

import { ok } from '../../shared/result.ts'
import type { CommandResult } from '../shell/command.ts'
import { writeText } from '../shell/files.ts'
import { inline, json } from '../shell/terminal-text.ts'

export const OUTPUT = { value: 'FILE', short: 'o', what: 'write it to this file' } as const

/** Writes evidence to the file that `-o` names, as `file`, or prints it to standard output, as `text`. */
export function emitEvidence(
  value: unknown,
  path: string | undefined,
  text = json(value),
  file = json(value),
): Awaited<CommandResult> {
  if (path === undefined) return ok({ ok: true, json: value, text })
  const written = writeText(path, file)
  return written.ok
    ? ok({
        ok: true,
        json: { file: path, bytes: written.value },
        text: `wrote ${inline(path)}, ${written.value} bytes\n`,
      })
    : written
}
