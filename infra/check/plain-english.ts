// `node infra/check/plain-english.ts`: counts comments of the product that begin with a free relative clause ("Who …", "What …"). Such a
// sentence hides its subject. The count may only shrink. After a rewrite, lower the limit.

import { isCode, readTree, type Tree } from './text.ts'

/** How many there still are. */
const LIMIT = 34
const FREE_RELATIVE = /^\s*(?:\/\/|\*|\/\*\*)\s*(?:Who|Whoever|What|Where) /

export const freeRelatives = (tree: Tree): string[] =>
  [...tree]
    .filter(([file]) => isCode(file) && /^(?:edge|worker|cli|shared)\//.test(file))
    .flatMap(([file, text]) =>
      text
        .split('\n')
        .flatMap((line, at) => (FREE_RELATIVE.test(line) ? [`${file}:${at + 1} ${line.trim()}`] : [])),
    )

if (import.meta.main) {
  const found = freeRelatives(readTree(process.cwd()))
  if (found.length > LIMIT) for (const line of found) console.log(line)
  console.log(`${found.length} comments begin with a free relative clause; the limit is ${LIMIT}`)
  if (found.length > LIMIT)
    console.log('begin the new ones with a subject: "The worker …", not "What the worker …"')
  if (found.length < LIMIT) console.log(`set LIMIT in infra/check/plain-english.ts to ${found.length}`)
  process.exitCode = found.length > LIMIT ? 1 : 0
}
