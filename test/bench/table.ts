// Owns how the report prints: figures with their targets, and tables of words and numbers. Pure.

export type Figure = {
  readonly what: string
  readonly wanted: string
  readonly got: string
  readonly met: boolean
}

export const figure = (what: string, wanted: string, got: string, met: boolean): Figure => ({
  what,
  wanted,
  got,
  met,
})

export const ms = (value: number): string => (value < 10 ? value.toFixed(2) : value.toFixed(1))

export function table(heads: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [heads, ...rows]
  const widths = heads.map((_, column) => Math.max(...lines.map((cells) => cells[column]?.length ?? 0)))
  // Words to the left, numbers to the right.
  const pad = (cell: string, column: number): string => {
    const isNumber = /^[−+]?[0-9.]+(?: %)?$/.test(rows[0]?.[column] ?? '')
    return isNumber ? cell.padStart(widths[column] ?? 0) : cell.padEnd(widths[column] ?? 0)
  }
  return lines.map((cells) => `  ${cells.map(pad).join('  ').trimEnd()}`).join('\n')
}
