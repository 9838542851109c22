// Builds the table of `npm run test:escape` from the attack catalogue and the results of the tests:
// for each attack on the sandbox, whether it fails with all defences on, and whether it works with
// one of them removed, or why this machine can't show that. Pure.
//
// A test's name begins with the codes of its attacks and says what it shows:
//   S22 …                      the attack fails with every defence on
//   S22 without DEFENCE: …     the attack works without that defence, so the test above can fail
//   S50 D1 …                   the code of a defect may follow: the test was written for it
//   S22 not shown here: WHY    this machine can't show the attack; the test checks the reason

import type { Attack } from '../check/attack-catalogue.ts'

export const CODE = '[SNWUMGPQKTJVA]\\d\\d'

/** One test, with the titles of its groups and its own. */
export type TestResult = { readonly titles: readonly string[]; readonly status: string }

export type Row = Attack & {
  /** Tests in which the attack must fail: how many passed, of how many. */
  readonly contained: Tally
  /** The removed defences, and whether the attack then works. */
  readonly without: readonly { readonly defence: string; readonly works: boolean }[]
  readonly notShown: readonly string[]
  /** Missing or failed tests; a line with any of these is not done. */
  readonly open: readonly string[]
}
type Tally = { readonly passed: number; readonly of: number }

const CODES = `${CODE}(?:,? ${CODE})*`
/**
 * The title of a test from a table may begin with all codes of the table: `S44 S45: S44 …`. Only
 * the row's own codes count.
 */
const NAMED = new RegExp(`^(?:${CODES}: )?(${CODES}):? `)
const WITHOUT = /^(?:D\d+ )?without (.+?): /
const NOT_SHOWN = /^not shown here: (.+)$/

/** The attacks that a sandbox and its network must hold off. */
export const attacksOf = (catalogue: readonly Attack[]): Attack[] =>
  catalogue.filter(({ line }) => /^[SN]/.test(line))

type Said = { readonly lines: readonly string[]; readonly rest: string; readonly passed: boolean }

/** Of nested titles, the innermost one with codes counts. */
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
    ...(without.length === 0 && reasons.length === 0 ? ['no test without a defence'] : []),
    ...without
      .filter(({ works }) => !works)
      .map(({ defence }) => `the attack does not work without ${defence}`),
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

/** One line of text for each row, and one for each fault. */
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
