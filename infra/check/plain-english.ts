// `node infra/check/plain-english.ts`: finds comments whose first word is a free relative ("Who …",
// "What …"), because such a sentence hides its subject, and comments with words that this project's
// English avoids. It prints each with what to write instead, and exits 1 if there is one.

import { GENERATED, isCode, readTree, type Tree } from './text.ts'

/** Without the templates, examples and Python programs that are other people's code to a reader. */
const FOLDERS = /^(?:edge|worker|cli|clients|shared|infra|test|[^/]+$)/
const COMMENT = /(?:^|\s)\/\/ .*|^\s*(?:\/\*\*|\*) .*/
const RULES: readonly { readonly found: RegExp; readonly todo: string }[] = [
  {
    found: /^\s*(?:\/\/|\*|\/\*\*)\s*(?:Who|Whoever|What|Whatever|Where) /,
    todo: 'begin with a subject: "The worker …", not "What the worker …"',
  },
  { found: /\banew\b/, todo: 'write "again"' },
  { found: /\bheld against\b/, todo: 'write "compared with"' },
  { found: /\bmeanwhile\b/, todo: 'write "in the meantime", or what happens' },
  { found: /\bso (?:many|much|long)\b(?! (?:as|that)\b)/, todo: 'write "this many", or the number' },
]

export type Finding = { readonly at: string; readonly text: string; readonly todo: string }

export const oddComments = (tree: Tree): Finding[] =>
  [...tree]
    .filter(([file, text]) => isCode(file) && FOLDERS.test(file) && !GENERATED.test(text))
    .flatMap(([file, text]) =>
      text.split('\n').flatMap((line, index) => {
        const comment = COMMENT.exec(line)?.[0] ?? ''
        return RULES.filter(({ found }) => found.test(comment)).map(({ todo }) => ({
          at: `${file}:${index + 1}`,
          text: comment.trim(),
          todo,
        }))
      }),
    )

if (import.meta.main) {
  const findings = oddComments(readTree(process.cwd()))
  for (const { at, text, todo } of findings) console.log(`${at} ${text}\n  ${todo}`)
  console.log(`${findings.length} comments to rewrite`)
  process.exitCode = findings.length === 0 ? 0 : 1
}
