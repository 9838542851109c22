// Builds the table of `npm run test:escape` from the attack catalogue and the results of the tests: for each attack on the sandbox, whether
// it fails with all defences on, and whether it works with one of them removed, or why this machine can't show that. Pure.
//
// A test's name begins with its lines, and says what it shows:
//   S22 …                      with every defence on, the attack fails
//   S22 without DEFENCE: …     with that one off, it works, so the test above bites
//   S50 D1 …                   either may name the defect that it was written for
//   S22 not shown here: WHY    taking the defence off shows nothing on this machine; the test holds the WHY itself

import type { Attack } from '../check/attack-catalogue.ts'

export const CODE = '[SNWGPQKTJV]\\d\\d'

/** One test, with the titles of the groups that it is in. */
export type TestResult = { readonly titles: readonly string[]; readonly status: string }

export type Row = Attack & {
  /** Tests that hold the attack off: how many passed, of how many. */
  readonly contained: Tally
  /** What is taken away, and whether the attack then works. */
  readonly without: readonly { readonly defence: string; readonly works: boolean }[]
  readonly notShown: readonly string[]
  /** What is missing or failed; none of it is a line that is done. */
  readonly open: readonly string[]
}
type Tally = { readonly passed: number; readonly of: number }

const CODES = `${CODE}(?:,? ${CODE})*`
/** A test that is made from a table may name all codes of the table before the row's own: `S44 S45: S44 …`. The row's own count. */
const NAMED = new RegExp(`^(?:${CODES}: )?(${CODES}):? `)
const WITHOUT = /^(?:D\d+ )?without (.+?): /
const NOT_SHOWN = /^not shown here: (.+)$/

/** The attacks that a sandbox and its network must hold off. */
export const attacksOf = (catalogue: readonly Attack[]): Attack[] =>
  catalogue.filter(({ line }) => /^[SN]/.test(line))

type Said = { readonly lines: readonly string[]; readonly rest: string; readonly passed: boolean }

/** The innermost title that names lines is the one that counts. */
function saidBy({ titles, status }: TestResult): Said | undefined {
  const title = titles.findLast((text) => NAMED.test(text))
  const named = title === undefined ? null : NAMED.exec(title)
  if (title === undefined || named === null) return undefined
  return {
    lines: named[1]?.match(new RegExp(CODE, 'g')) ?? [],
    rest: title.slice(named[0].length),
    passed: status === 'passed',
  }
}

export function rowsOf(attacks: readonly Attack[], results: readonly TestResult[]): Row[] {
  const said = results.flatMap((result) => saidBy(result) ?? [])
  return attacks.map((attack) =>
    rowOf(
      attack,
      said.filter(({ lines }) => lines.includes(attack.line)),
    ),
  )
}

function rowOf(attack: Attack, said: readonly Said[]): Row {
  const without = said.flatMap(({ rest, passed }) => {
    const defence = WITHOUT.exec(rest)?.[1]
    return defence === undefined ? [] : [{ defence, works: passed }]
  })
  const reasons = said.filter(({ rest }) => NOT_SHOWN.test(rest))
  const holds = said.filter(({ rest }) => !WITHOUT.test(rest) && !NOT_SHOWN.test(rest))
  const contained = { passed: holds.filter(({ passed }) => passed).length, of: holds.length }
  const open = [
    ...(contained.of === 0 ? ['no test'] : contained.passed < contained.of ? ['not contained'] : []),
    ...(without.length === 0 && reasons.length === 0 ? ['nothing shows that the test bites'] : []),
    ...without
      .filter(({ works }) => !works)
      .map(({ defence }) => `without ${defence} the attack does not work`),
    ...reasons.filter(({ passed }) => !passed).map(() => 'the reason does not hold'),
  ]
  return {
    ...attack,
    contained,
    without,
    notShown: reasons.map(({ rest }) => NOT_SHOWN.exec(rest)?.[1] ?? ''),
    open,
  }
}

const shownBy = ({ without, notShown }: Pick<Row, 'without' | 'notShown'>): string[] => [
  ...without.map(({ defence, works }) => (works ? defence : `(not: ${defence})`)),
  ...notShown.map((why) => `not shown: ${why}`),
]

/** One line of text for each row, and one for each that is open. */
export function written(rows: readonly Row[]): string {
  const head = ['line', 'attack', 'contained', 'works without', ''] as const
  const cells = rows.map(({ line, words, contained, without, notShown, open }) => [
    line,
    words,
    `${contained.passed} of ${contained.of}`,
    [...new Set(shownBy({ without, notShown }))].join('; '),
    open.length === 0 ? '' : 'OPEN',
  ])
  const widths = head.map((_, column) => Math.max(...[head, ...cells].map((row) => row[column]?.length ?? 0)))
  const lines = [head, ...cells].map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  )
  const open = rows.flatMap(({ line, open: faults }) => faults.map((fault) => `${line} is open: ${fault}`))
  return [
    ...lines,
    '',
    ...open,
    `${rows.length - rows.filter((row) => row.open.length > 0).length} of ${rows.length} lines hold`,
  ].join('\n')
}
