// `node infra/check/attacks.ts [--write]`: keeps the table of SECURITY.md that says which attack is tested where. A test names its
// attack at the start of its title (`S22 …`), and the table follows. It does not judge whether the test is any good.

import { readFileSync, writeFileSync } from 'node:fs'
import { attacksOf, CODE, rowsOf } from '../escape-table.ts'
import { type Title, titlesOf } from './titles.ts'
import { readTree } from './tree.ts'

const DOCUMENT = 'SECURITY.md'
/** `S22 …`, and for a test of several `P04, P05 …` or `P04 P05 …`. */
const TITLE = new RegExp(`^${CODE}(?:,? ${CODE})*(?=:? \\S)`)
const ROW = new RegExp(`^\\| (${CODE}) \\| ([^|]+) \\| ([^|]*) \\|$`)
const UNTESTED = 'not yet'

/** Where each attack is named by a test: by its code, the files in order. */
export function testedIn(titles: readonly Title[]): Map<string, string[]> {
  const found = new Map<string, string[]>()
  for (const { file, text } of titles) {
    for (const code of TITLE.exec(text)?.[0].match(new RegExp(CODE, 'g')) ?? []) {
      const files = found.get(code) ?? []
      if (!files.includes(file)) found.set(code, [...files, file])
    }
  }
  return found
}

/** The document with its third column filled in, and the codes that tests name but no row has. */
export function filled(
  document: string,
  tested: ReadonlyMap<string, readonly string[]>,
): { document: string; strangers: string[] } {
  const strangers = new Set(tested.keys())
  const lines = document.split('\n').map((line) => {
    const [, code, attack] = ROW.exec(line) ?? []
    if (code === undefined) return line
    strangers.delete(code)
    const files = tested
      .get(code)
      ?.map((file) => `\`${file}\``)
      .join(', ')
    return `| ${code} | ${attack} | ${files ?? UNTESTED} |`
  })
  return { document: lines.join('\n'), strangers: [...strangers] }
}

/** What a sandbox must hold off is attacked by a test, and once more where the defence is missing. */
export const unproven = (document: string, titles: readonly Title[]): string[] =>
  rowsOf(
    attacksOf(document),
    titles.map(({ text }) => ({ titles: [text], status: 'passed' })),
  ).flatMap(({ line, open }) => open.map((fault) => `${line}: ${fault}`))

if (import.meta.main) {
  const current = readFileSync(DOCUMENT, 'utf8')
  const titles = titlesOf(readTree(process.cwd()))
  const { document, strangers } = filled(current, testedIn(titles))
  for (const code of strangers)
    console.log(`a test names ${code}, which ${DOCUMENT} does not list; add its row`)
  const open = unproven(document, titles)
  for (const fault of open) console.log(`${fault}; CONTRIBUTING.md says how tests of attacks are called`)
  const stale = document !== current
  if (stale && process.argv.includes('--write')) writeFileSync(DOCUMENT, document)
  else if (stale)
    console.log(
      `${DOCUMENT} no longer says where the attacks are tested; run \`npm run attacks\` and commit it`,
    )
  const rows = document.split('\n').filter((line) => ROW.test(line))
  console.log(
    `${rows.length} attacks, ${rows.filter((row) => !row.endsWith(` ${UNTESTED} |`)).length} tested`,
  )
  process.exitCode =
    strangers.length > 0 || open.length > 0 || (stale && !process.argv.includes('--write')) ? 1 : 0
}
