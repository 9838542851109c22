// The files that a call brings, for whoever is asked about it: listed on the pages that show its card, and read as they are. Whether
// somebody may read them is for the doors to ask.

import { failure } from '../../shared/failures.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Approval } from '../../shared/wire/approvals.ts'

/** `at`: below which address their bytes are; `null` where nobody is to be led there. */
export function BroughtFiles({ files = [], at }: { files: Approval['prompt']['files']; at: string | null }) {
  if (files.length === 0) return null
  return (
    <>
      <dt>Files that it brings</dt>
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

type Named = { path: string; bytes: Uint8Array }
type Run = {
  approval: (n: number) => Promise<Result<Approval>>
  file: (agent: null, n: number, digest: string) => Promise<Result<Named>>
}

/** One that the question is about, under the name that its card shows; what the call leaves is none of the question. */
export async function broughtFile(
  { run, n }: { run: Run; n: number },
  sha256: string,
): Promise<Result<Named>> {
  const approval = await run.approval(n)
  const named = approval.ok ? approval.value.prompt.files?.find((file) => file.sha256 === sha256) : undefined
  if (named === undefined) return err(failure('not_found', 'the call brings no such file'))
  const file = await run.file(null, n, sha256)
  return file.ok ? ok({ path: named.path, bytes: file.value.bytes }) : file
}
