// `node infra/check/changes.ts`: checks the files in .changes and prints the changelog's part for
// the next release. With `--release VERSION` it writes that part into CHANGELOG.md, below the
// heading `[Unreleased]`, and removes the files. One file per change keeps branches from
// conflicting.

import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const FOLDER = '.changes'
const LOG = 'CHANGELOG.md'
/** The sections of Keep a Changelog, in their order. */
const SECTIONS = ['Added', 'Changed', 'Deprecated', 'Removed', 'Fixed', 'Security']

export type Change = { readonly file: string; readonly text: string }

/** The sentences that say what is wrong with a file of changes. */
export function faultsOf({ file, text }: Change): string[] {
  const [first = '', ...rest] = text.split('\n')
  const section = first.replace(/^# /, '')
  return [
    ...(SECTIONS.includes(section) && first.startsWith('# ')
      ? []
      : [`${file}: begin with one of ${SECTIONS.map((name) => `\`# ${name}\``).join(', ')}`]),
    ...(rest.join('\n').trim() === '' ? [`${file}: say in a sentence what a user notices`] : []),
    ...(rest.some((line) => line.startsWith('#')) ? [`${file}: write one section per file`] : []),
  ]
}

/** The entries of all files by section, each as one item of a list. */
export function unreleased(changes: readonly Change[]): string {
  return SECTIONS.flatMap((section) => {
    const entries = changes
      .filter(({ text }) => text.startsWith(`# ${section}\n`))
      .map(
        ({ text }) =>
          `- ${text
            .slice(section.length + 3)
            .trim()
            .replaceAll('\n', '\n  ')}`,
      )
    return entries.length === 0 ? [] : [`### ${section}\n\n${entries.join('\n')}\n`]
  }).join('\n')
}

/** The changelog with the release below the empty heading of what comes next. */
export function released(log: string, version: string, date: string, part: string): string {
  const heading = '## [Unreleased]\n'
  const at = log.indexOf(heading) + heading.length
  if (at < heading.length) throw new Error(`${LOG} has no heading \`[Unreleased]\``)
  return `${log.slice(0, at)}\n## [${version}] - ${date}\n\n${part}${log.slice(at)}`
}

if (import.meta.main) {
  const names = readdirSync(FOLDER).filter((name) => name.endsWith('.md') && name !== 'README.md')
  const changes = names
    .sort()
    .map((name): Change => ({ file: join(FOLDER, name), text: readFileSync(join(FOLDER, name), 'utf8') }))
  const faults = changes.flatMap(faultsOf)
  for (const fault of faults) console.log(fault)
  const [flag, version = ''] = process.argv.slice(2)
  if (faults.length > 0) process.exitCode = 1
  else if (flag === '--release' && /^\d+\.\d+\.\d+$/.test(version)) {
    const date = new Date().toISOString().slice(0, 10)
    writeFileSync(LOG, released(readFileSync(LOG, 'utf8'), version, date, unreleased(changes)))
    for (const { file } of changes) rmSync(file)
    console.log(`${changes.length} changes moved to ${version} in ${LOG}`)
  } else if (flag === undefined) console.log(unreleased(changes) || 'nothing since the last release')
  else {
    console.log('name the version: npm run changes -- --release 0.2.0')
    process.exitCode = 2
  }
}
