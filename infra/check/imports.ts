// `node infra/check/imports.ts`: holds the tree against rules.ts, prints each breach, exits 1 if there is one.

import { breaches } from './rules.ts'
import { isCode, readTree } from './tree.ts'

const root = process.cwd()
const tree = readTree(root)
const found = breaches(tree, root)
for (const { file, line, rule, found: what, todo } of found)
  console.log(`${file}:${line}  ${rule}: ${what}; ${todo}`)
console.log(`${[...tree.keys()].filter(isCode).length} source files, ${found.length} breaches`)
process.exitCode = found.length === 0 ? 0 : 1
