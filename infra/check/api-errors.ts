// `node infra/check/api-errors.ts --write`: brings the tables of docs/api-errors.md up to date with
// shared/failures.ts. The column "what happened" is written by hand and kept; every other column
// comes from the code. test/infra/api-errors.test.ts fails if the page is stale.

import { readFileSync, writeFileSync } from 'node:fs'
import { FAILURES } from '../../shared/failures.ts'
import { ROOT } from '../state.ts'

export const PAGE = `${ROOT}/docs/api-errors.md`

type Row = { readonly code: string; readonly status: number; readonly todo: string; readonly retry: boolean }

const ROWS: readonly Row[] = Object.entries(FAILURES)
  .map(([code, { status, todo, retry }]) => ({ code, status, todo, retry }))
  .sort((a, b) => (a.code < b.code ? -1 : 1))

const HEADS = {
  refusals: '| code | status | what happened | what to do | retry? |\n|---|---|---|---|---|',
  endings: '| code | what happened | what to do | retry? |\n|---|---|---|---|',
} as const

/** The page with up-to-date tables, and the codes whose column "what happened" is still empty. */
export function refresh(page: string): { readonly page: string; readonly missing: readonly string[] } {
  const happened = new Map(
    [...page.matchAll(/^\| `(\w+)` \|(?: \d{3} \|)? (.*?) \|/gm)].map(([, code = '', text = '']) => [
      code,
      text,
    ]),
  )
  const cells = ({ code, status, todo, retry }: Row): string =>
    `| ${[`\`${code}\``, ...(status === 200 ? [] : [status]), happened.get(code) ?? '', todo, retry ? 'yes' : 'no'].join(' | ')} |`
  const table = (name: keyof typeof HEADS): string =>
    [HEADS[name], ...ROWS.filter(({ status }) => (status === 200) === (name === 'endings')).map(cells)].join(
      '\n',
    )
  const replaced = page.replace(
    /(<!-- (refusals|endings) -->\n\n)[\s\S]*?(\n\n<!-- end -->)/g,
    (_, begin: string, name: keyof typeof HEADS, end: string) => `${begin}${table(name)}${end}`,
  )
  return {
    page: replaced,
    missing: ROWS.flatMap(({ code }) => ((happened.get(code) ?? '') === '' ? [code] : [])),
  }
}

if (import.meta.main) {
  const { page, missing } = refresh(readFileSync(PAGE, 'utf8'))
  writeFileSync(PAGE, page)
  for (const code of missing)
    console.log(`docs/api-errors.md: write what happened when \`${code}\` is answered`)
  process.exit(missing.length === 0 ? 0 : 1)
}
