// A new skill: a folder that builds, tests and publishes as it is, in the language of its author. The templates lie beside this file; what is
// the same for all of them is the world, which they are written against.

import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { userInfo } from 'node:os'
import { dirname, join } from 'node:path'
import { PATTERNS } from '../../shared/ids.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import { WORLD } from '../../shared/wire/skill-world.ts'
import type { Trouble } from '../shell/command.ts'
import { command, trouble, usage } from '../shell/command.ts'
import { reason } from '../shell/files.ts'
import { inline } from '../shell/terminal-text.ts'
import { publishersHere } from './publisher-key.ts'

const TEMPLATES = join(import.meta.dirname, 'templates')
const LANGUAGES = {
  ts: 'typescript',
  js: 'javascript',
  rust: 'rust',
  assemblyscript: 'assemblyscript',
} as const
const isLanguage = (name: string): name is keyof typeof LANGUAGES => Object.hasOwn(LANGUAGES, name)

export const newSkill = command({
  words: ['skill', 'new'],
  args: { NAME: 'the skill’s name, and that of the folder that is made' },
  flags: {
    template: {
      value: Object.keys(LANGUAGES).join('|'),
      what: 'the language; TypeScript if you say nothing',
    },
    publisher: { value: 'NAME', what: 'who publishes it; the one whose key is here, if there is one' },
  },
  does: 'Begin a skill: a folder with skill.toml, code, and a test, that builds as it is',
  key: 'offline',
  examples: ['countersign skill new hello', 'countersign skill new redact --template rust'],
  async run({ args: { NAME: id }, flags, paint }) {
    const template = flags.template ?? 'ts'
    if (!isLanguage(template))
      return err(
        usage(
          `there is no template \`${template}\`, only ${Object.keys(LANGUAGES)
            .map((name) => `\`${name}\``)
            .join(', ')}`,
        ),
      )
    if (!PATTERNS.name.test(id))
      return err(
        usage(
          `\`${id}\` can’t name a skill: a small letter, then small letters, digits and \`_.-\`, 64 at the most`,
        ),
      )
    const publisher = publisherFor(flags.publisher)
    if (!publisher.ok) return publisher
    const files = filesOf(template, { id, publisher: publisher.value, crate: id.replace(/\./g, '-') })
    if (existsSync(id) && readdirSync(id).length > 0)
      return err(trouble('exists', `\`${id}\` is there already`, 'choose another name'))
    try {
      for (const [path, text] of files) {
        mkdirSync(dirname(join(id, path)), { recursive: true })
        writeFileSync(join(id, path), text, { flag: 'wx' })
      }
    } catch (thrown) {
      return err(trouble('unwritable', `\`${id}\` can't be written: ${reason(thrown)}`))
    }
    const paths = [...files.keys()].sort()
    // Typed here: in a folder with a package.json of its own `npx` would ask the npm registry for `countersign`, and run whatever it got.
    const next = [
      ...(template === 'assemblyscript' ? [`npm install --prefix ${id}`] : []),
      ...(publishersHere().includes(publisher.value)
        ? []
        : [`npx countersign skill keygen ${publisher.value}`]),
      `npx countersign skill test ${id}`,
      `npx countersign skill build ${id}`,
    ].join(' && ')
    return ok({
      ok: true,
      json: { id, publisher: publisher.value, files: paths },
      text: `skill ${paint.bold(inline(id))} of ${inline(publisher.value)}\n${paths.map((path) => `  ${join(id, path)}\n`).join('')}next: ${paint.bold(next)}\n`,
    })
  },
})

/** Whose key is here; where nobody's is, whoever is at work. */
function publisherFor(given: string | undefined): Result<string, Trouble> {
  const here = publishersHere()
  if (given === undefined && here.length > 1)
    return err(usage(`say which with \`--publisher\`: ${here.join(', ')}`))
  const own = userInfo().username
  const publisher = given ?? here[0] ?? (PATTERNS.name.test(own) ? own : 'me')
  return PATTERNS.name.test(publisher) ? ok(publisher) : err(usage(`\`${publisher}\` can’t name a publisher`))
}

/** By their paths in the new folder. */
function filesOf(
  template: keyof typeof LANGUAGES,
  words: Readonly<Record<string, string>>,
): Map<string, string> {
  const files = new Map([['world.wit', WORLD]])
  for (const from of ['every', LANGUAGES[template]]) {
    for (const path of readdirSync(join(TEMPLATES, from), { recursive: true, encoding: 'utf8' })) {
      if (!statSync(join(TEMPLATES, from, path)).isFile()) continue
      const text = readFileSync(join(TEMPLATES, from, path), 'utf8').replace(
        /\{\{(\w+)\}\}/g,
        (whole, word) => words[word] ?? whole,
      )
      files.set(path === 'gitignore' ? '.gitignore' : path, text)
    }
  }
  if (template === 'ts' || template === 'js')
    files.set('countersign-skill.d.ts', readFileSync(join(TEMPLATES, 'countersign-skill.d.ts'), 'utf8'))
  return files
}
