// `node infra/check/seeds.ts`: prints which test re-expresses which seed, and fails where one is named by none. Seeds are what the tests
// of an earlier system of this kind promised (T…), and where it failed (N…); a title says `(seed T31)` or `(seeds T33, N2)`. T1–T8 are
// cases of policy (policies/cases), and what is not listed belongs to parts that are not built yet.

import { type Title, titlesOf } from './titles.ts'
import { readTree } from './tree.ts'

type Range = readonly [kind: 'T' | 'N', first: number, last: number]
const NEEDED: readonly Range[] = [
  ['T', 9, 78],
  ['N', 1, 12],
  ['N', 15, 17],
  ['N', 19, 20],
]
const NAMED = /\bseeds? ([TN]\d+(?:(?:, | and )[TN]\d+)*)/g

/** The titles that name each seed that is needed, none included. */
export function namedBy(titles: readonly Title[]): Map<string, Title[]> {
  const needed = NEEDED.flatMap(([kind, first, last]) =>
    Array.from({ length: last - first + 1 }, (_, n) => `${kind}${first + n}`),
  )
  const found = new Map<string, Title[]>(needed.map((seed) => [seed, []]))
  for (const title of titles) {
    const seeds = [...title.text.matchAll(NAMED)].flatMap(([, list = '']) => list.match(/[TN]\d+/g) ?? [])
    for (const seed of seeds) found.get(seed)?.push(title)
  }
  return found
}

if (import.meta.main) {
  const found = namedBy(titlesOf(readTree(process.cwd())))
  const missing = [...found].filter(([, titles]) => titles.length === 0).map(([seed]) => seed)
  for (const [seed, titles] of found)
    for (const { file, text } of titles) console.log(`${seed.padEnd(4)} ${file}: ${text}`)
  console.log(`${found.size} seeds, ${found.size - missing.length} named by a test`)
  for (const seed of missing) console.log(`no test names seed ${seed}: end a title with \`(seed ${seed})\``)
  process.exitCode = missing.length > 0 ? 1 : 0
}
