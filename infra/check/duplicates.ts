// `node infra/check/duplicates.ts`: lists runs of equal lines in our source, and exits 1 past the threshold below. What counts
// is meaning: blank lines, comments, imports and lone brackets are left out, and indentation does not matter.

import { isCode, readTree, type Tree } from './tree.ts'

/** A run this long is a decision written down twice. */
const RUN = 8
/** Repeated lines that the tree may hold. It may only shrink. */
const THRESHOLD = 0

type Line = { readonly at: number; readonly text: string }
type Place = { readonly file: string; readonly index: number }
export type Repeat = { readonly first: string; readonly second: string; readonly lines: number }

export function repeats(tree: Tree): Repeat[] {
  const sources = new Map(
    [...tree].filter(([path]) => isCode(path)).map(([path, text]) => [path, meaningful(text)]),
  )
  const windows = new Map<string, Place[]>()
  const found: Repeat[] = []
  const covered = new Set<string>()
  for (const [file, lines] of sources) {
    for (let index = 0; index + RUN <= lines.length; index++) {
      const key = window(lines, index)
      const places = windows.get(key) ?? []
      if (places.length === 0) windows.set(key, places)
      const here = { file, index }
      // A run that overlaps itself (a table of like rows) is one thing, not two.
      const earlier = places.find((place) => place.file !== file || place.index + RUN <= index)
      if (earlier !== undefined && !covered.has(pairKey(earlier, here)))
        found.push(runFrom(sources, earlier, here, covered))
      places.push(here)
    }
  }
  return found
}

/** Follows two equal windows to where they part, and marks every step, so that one run is reported once. */
function runFrom(
  sources: ReadonlyMap<string, readonly Line[]>,
  first: Place,
  second: Place,
  covered: Set<string>,
): Repeat {
  const left = sources.get(first.file) ?? []
  const right = sources.get(second.file) ?? []
  let length = RUN
  const same = () =>
    left[first.index + length] !== undefined &&
    left[first.index + length]?.text === right[second.index + length]?.text
  while (same() && (first.file !== second.file || first.index + length < second.index)) length++
  for (let step = 0; step < length; step++) {
    covered.add(
      pairKey(
        { file: first.file, index: first.index + step },
        { file: second.file, index: second.index + step },
      ),
    )
  }
  return { first: span(first, left, length), second: span(second, right, length), lines: length }
}

const window = (lines: readonly Line[], index: number): string =>
  lines
    .slice(index, index + RUN)
    .map(({ text }) => text)
    .join('\n')
const pairKey = (a: Place, b: Place): string => `${a.file}:${a.index}|${b.file}:${b.index}`
const span = ({ file, index }: Place, lines: readonly Line[], length: number): string =>
  `${file}:${lines[index]?.at}-${lines[index + length - 1]?.at}`

function meaningful(source: string): Line[] {
  const kept: Line[] = []
  let within: 'code' | 'comment' | 'import' = 'code'
  for (const [index, raw] of source.split('\n').entries()) {
    const text = raw
      .replace(/\s\/\/ .*$/, '')
      .replace(/\s+/g, ' ')
      .trim()
    if (within === 'code' && /^(?:import\b|export\b[^=(]*\bfrom\b)/.test(text)) within = 'import'
    if (within === 'code' && text.startsWith('/*')) within = 'comment'
    if (within === 'code' && !text.startsWith('//') && /\w/.test(text)) kept.push({ at: index + 1, text })
    if (within === 'import' && /['"];?$/.test(text)) within = 'code'
    if (within === 'comment' && text.includes('*/')) within = 'code'
  }
  return kept
}

if (import.meta.main) {
  const found = repeats(readTree(process.cwd()))
  for (const { first, second, lines } of found) console.log(`${first} = ${second} (${lines} lines)`)
  const total = found.reduce((sum, { lines }) => sum + lines, 0)
  console.log(`${found.length} repeats, ${total} lines; the threshold is ${THRESHOLD}`)
  if (total > THRESHOLD) {
    console.log('give what is repeated one place, in the folder that owns it')
    process.exitCode = 1
  }
}
