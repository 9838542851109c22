// The input files of a call, for its approvers: the list on the pages that show its card, and the
// bytes of each. Callers check whether the operator may read them.

import { failure } from '../../shared/failures.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Approval } from '../../shared/wire/approvals.ts'

/** `at`: the URL prefix of the files; `null` lists them without links. */
export function InputFiles({ files = [], at }: { files: Approval['prompt']['files']; at: string | null }) {
  if (files.length === 0) return null
  return (
    <>
      <dt>Input files</dt>
      <dd>
        <ul class="files">
          {files.map(({ path, bytes, sha256 }) => (
            <li>
              {at === null ? (
                path
              ) : (
                <a href={`${at}/${sha256}`} download>
                  {path}
                </a>
              )}{' '}
              <span class="quiet">
                {bytes} bytes, SHA-256 <code>{sha256}</code>
              </span>
            </li>
          ))}
        </ul>
      </dd>
    </>
  )
}

type InputFile = { path: string; bytes: Uint8Array }
type Run = {
  approval: (n: number) => Promise<Result<Approval>>
  file: (agent: null, n: number, digest: string) => Promise<Result<InputFile>>
}

/**
 * One input file, under the name that the card shows. Output files of the call are not served here.
 */
export async function inputFile(
  { run, n }: { run: Run; n: number },
  sha256: string,
): Promise<Result<InputFile>> {
  const approval = await run.approval(n)
  const listed = approval.ok ? approval.value.prompt.files?.find((file) => file.sha256 === sha256) : undefined
  if (listed === undefined) return err(failure('not_found', 'the call has no such input file'))
  const file = await run.file(null, n, sha256)
  return file.ok ? ok({ path: listed.path, bytes: file.value.bytes }) : file
}
