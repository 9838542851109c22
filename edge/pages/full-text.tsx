// The full text of what a card shortens, folded, one part at a time. edge/approvals/card.ts makes
// it from the stored call.

import type { Result } from '../../shared/result.ts'
import type { FullText } from '../approvals/card.ts'

/** `part`: the part of each text to show; 0 keeps them folded. */
export function FullTexts({ whole, part }: { whole: Result<readonly FullText[]>; part: number }) {
  return <>{whole.ok ? whole.value.map((one) => <FoldedText {...one} part={part} />) : ''}</>
}

export const partIn = (url: string): number => Number(new URL(url).searchParams.get('part') ?? 0)

function FoldedText({ title, characters, parts, part }: FullText & { part: number }) {
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
