// What a card has left out, whole, on the pages that show the card: folded, and a part at a time. It never says what is left out; that is
// made of the stored call (edge/approvals/card.ts).

import type { Result } from '../../shared/result.ts'
import type { Unfolded } from '../approvals/card.ts'

/** `part`: which part of each is asked for; none opens none. */
export function Wholes({ whole, part }: { whole: Result<readonly Unfolded[]>; part: number }) {
  return <>{whole.ok ? whole.value.map((one) => <Whole {...one} part={part} />) : ''}</>
}

export const partIn = (url: string): number => Number(new URL(url).searchParams.get('part') ?? 0)

/** All of a text that the card has shortened: folded until asked for, a part at a time where it is too long for one page. */
function Whole({ title, characters, parts, part }: Unfolded & { part: number }) {
  const at = Number.isInteger(part) && part >= 1 && part <= parts.length ? part : 1
  return (
    <details open={part > 0}>
      <summary>
        {title}, {characters} characters
      </summary>
      {parts.length === 1 ? (
        ''
      ) : (
        <p>
          Part {at} of {parts.length}.{' '}
          {parts
            .map((_, i) => (i + 1 === at ? '' : <a href={`?part=${i + 1}`}>Part {i + 1}</a>))
            .flatMap((link) => [link, ' '])}
        </p>
      )}
      <pre>{parts[at - 1]}</pre>
    </details>
  )
}
