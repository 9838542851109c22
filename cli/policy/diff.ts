// Renders a changed policy as a line diff with context, and the command that activates the version
// that was looked at. Pure.

import { diff } from 'node:util'
import type { Output as RouteOutput } from '../../shared/routes/client.ts'
import type { Paint } from '../shell/terminal-text.ts'
import { inert, inline } from '../shell/terminal-text.ts'

type Change = RouteOutput<'diffPolicyVersions'>['changes'][number]
type Line = { readonly sign: ' ' | '-' | '+'; readonly text: string }

/** Lines of context around a change. */
const CONTEXT_LINES = 3
/** Memory grows with the square of the lines; above this, all old lines are shown, then all new. */
const MAX_COMPARED_LINES = 2_000

const linesOf = (text: string | null): string[] => (text === null ? [] : text.split('\n'))

export function showChange({ policy, in: file, change, before, after }: Change, paint: Paint): string {
  const lines = diffLines(linesOf(before), linesOf(after))
  const isNear = (at: number): boolean =>
    lines.slice(Math.max(0, at - CONTEXT_LINES), at + CONTEXT_LINES + 1).some(({ sign }) => sign !== ' ')
  const shown = lines.flatMap((line, at) => {
    if (isNear(at)) return [paintLine(line, paint)]
    return at === 0 || isNear(at - 1) ? [paint.dim('   ⋮')] : []
  })
  return `\n${paint.bold(inline(policy))}  ${change}  in ${inline(file)}\n${shown.map((line) => `${line}\n`).join('')}`
}

/**
 * The command to paste. `--expect` makes it fail if the version it was compared with is no longer
 * in force.
 */
export const nextStep = (
  { version, against }: { readonly version: number; readonly against: number },
  paint: Paint,
): string =>
  `\n${paint.dim('to put it in force:')} countersign policy activate ${version} --expect ${against}\n`

function paintLine({ sign, text }: Line, paint: Paint): string {
  const line = ` ${sign} ${inert(text)}`.trimEnd()
  return sign === '-' ? paint.bad(line) : sign === '+' ? paint.good(line) : line
}

/**
 * `util.diff` describes how to get its first argument from its second, so its signs are inverted
 * here.
 */
function diffLines(before: readonly string[], after: readonly string[]): Line[] {
  if (before.length + after.length > MAX_COMPARED_LINES)
    return [
      ...before.map((text) => ({ sign: '-' as const, text })),
      ...after.map((text) => ({ sign: '+' as const, text })),
    ]
  const signs = { '-1': '+', '0': ' ', '1': '-' } as const
  return diff(before, after).map(([operation, text]) => ({ sign: signs[`${operation}`], text }))
}
