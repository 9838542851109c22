// A changed policy as lines taken away and lines added, a few of the others around them; and how to put in force what was looked at. Pure.

import { diff } from 'node:util'
import type { Output as Answered } from '../../shared/routes/client.ts'
import type { Paint } from '../shell/terminal-text.ts'
import { inert, inline } from '../shell/terminal-text.ts'

type Change = Answered<'diffPolicyVersions'>['changes'][number]
type Line = { readonly sign: ' ' | '-' | '+'; readonly text: string }

/** Unchanged lines that stand by a change, so that it can be read. */
const AROUND = 3
/** Finding the fewest changes takes room that grows with the square of the lines; beyond this, all go and all come. */
const LINES_COMPARED = 2_000

const linesOf = (text: string | null): string[] => (text === null ? [] : text.split('\n'))

export function showChange({ policy, in: file, change, before, after }: Change, paint: Paint): string {
  const lines = compared(linesOf(before), linesOf(after))
  const isNear = (at: number): boolean =>
    lines.slice(Math.max(0, at - AROUND), at + AROUND + 1).some(({ sign }) => sign !== ' ')
  const shown = lines.flatMap((line, at) => {
    if (isNear(at)) return [painted(line, paint)]
    return at === 0 || isNear(at - 1) ? [paint.dim('   ⋮')] : []
  })
  return `\n${paint.bold(inline(policy))}  ${change}  in ${inline(file)}\n${shown.map((line) => `${line}\n`).join('')}`
}

/** Whoever looked at a version means to change the one that it was held against, and no other: the line to paste says so. */
export const nextStep = (
  { version, against }: { readonly version: number; readonly against: number },
  paint: Paint,
): string =>
  `\n${paint.dim('to put it in force, if that is still so:')} countersign policy activate ${version} --expect ${against}\n`

function painted({ sign, text }: Line, paint: Paint): string {
  const line = ` ${sign} ${inert(text)}`.trimEnd()
  return sign === '-' ? paint.bad(line) : sign === '+' ? paint.good(line) : line
}

/** `diff` tells how to make its first from its second, so what it calls added is what was there before. */
function compared(before: readonly string[], after: readonly string[]): Line[] {
  if (before.length + after.length > LINES_COMPARED)
    return [
      ...before.map((text) => ({ sign: '-' as const, text })),
      ...after.map((text) => ({ sign: '+' as const, text })),
    ]
  const signs = { '-1': '+', '0': ' ', '1': '-' } as const
  return diff(before, after).map(([operation, text]) => ({ sign: signs[`${operation}`], text }))
}
