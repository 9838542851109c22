// Text for a terminal: colour, columns, and escaping of untrusted strings (S32). The output of a
// tool, or text that an agent wrote, must not move the cursor, retitle the window or reorder a
// line.

export type Paint = {
  readonly bold: Brush
  readonly dim: Brush
  readonly good: Brush
  readonly bad: Brush
  readonly warn: Brush
}
type Brush = (text: string) => string

const brush = (on: boolean, open: number, close: number): Brush =>
  on ? (text) => `\x1b[${open}m${text}\x1b[${close}m` : (text) => text
export const paint = (on: boolean): Paint => ({
  bold: brush(on, 1, 22),
  dim: brush(on, 2, 22),
  good: brush(on, 32, 39),
  bad: brush(on, 31, 39),
  warn: brush(on, 33, 39),
})

/**
 * Controls (C0, C1), formats (bidirectional marks, zero-width characters), lone surrogates, private
 * use, and odd line ends.
 */
const ACTIVE = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\u2028\u2029]/gu

const escaped = (char: string): string => {
  const code = char.codePointAt(0) ?? 0
  return code < 0x100 ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u{${code.toString(16)}}`
}

/** Escapes every active character except newlines and tabs. */
export const inert = (text: string): string =>
  text.replace(ACTIVE, (char) => (char === '\n' || char === '\t' ? char : escaped(char)))
/** Like `inert`, for text within one line: newlines and tabs are escaped too. */
export const inline = (text: string): string => text.replace(ACTIVE, escaped)

/** Untrusted lines, each behind a bar, so that none can pass for a line of ours. */
export function quoted(text: string, bar = '│'): string {
  const lines = inert(text).replace(/\n$/, '').split('\n')
  return lines.map((line) => `  ${bar} ${line}\n`).join('')
}

/**
 * JSON that is safe on a terminal: active characters that JSON permits unescaped are escaped too.
 * The value is unchanged.
 */
export const json = (value: unknown): string => `${inertJson(JSON.stringify(value, null, 2))}\n`
/** The same on one line, for streams of JSON documents. */
export const jsonLine = (value: unknown): string => `${inertJson(JSON.stringify(value))}\n`

function inertJson(text: string): string {
  const unit = (char: string): string => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`
  return text.replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, (char) =>
    char === '\n' ? char : [...char.split('')].map(unit).join(''),
  )
}

/**
 * Aligned columns, each as wide as its widest cell; the last one is not padded. Escapes the cells.
 */
export function columns(rows: readonly (readonly string[])[], indent = ''): string {
  const cells = rows.map((row) => row.map(inline))
  const widths = cells.reduce<number[]>(
    (all, row) => row.map((cell, i) => Math.max(cell.length, all[i] ?? 0)),
    [],
  )
  return cells
    .map((row) =>
      `${indent}${row.map((cell, i) => (i < row.length - 1 ? cell.padEnd(widths[i] ?? 0) : cell)).join('  ')}`.trimEnd(),
    )
    .map((line) => `${line}\n`)
    .join('')
}

/** A heading and rows, or the sentence `none` if there are no rows. */
export const listing = (
  paint: Paint,
  heading: readonly string[],
  rows: readonly (readonly string[])[],
  none: string,
): string => {
  if (rows.length === 0) return `${none}\n`
  const [first = '', ...rest] = columns([heading, ...rows]).split('\n')
  return [paint.dim(first), ...rest].join('\n')
}

/** `1 file`, `2 files`. */
export const fileCount = (files: number): string => `${files} ${files === 1 ? 'file' : 'files'}`

export function time(ms: number): string {
  const date = new Date(ms)
  return Number.isNaN(date.getTime()) ? String(ms) : date.toISOString()
}

/** The confinement of an execution, according to its attestation. */
export const enforcementLabel = ({
  sandbox_enforcement,
  cgroup,
}: {
  readonly sandbox_enforcement: string
  readonly cgroup?: boolean | undefined
}): string => `${sandbox_enforcement}${cgroup === undefined ? '' : cgroup ? ', cgroup' : ', no cgroup'}`
