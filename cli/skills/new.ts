// `countersign skill new`: creates a folder that builds, tests and publishes as it is, from the
// templates beside this file. All templates share the same WIT world.

import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { userInfo } from 'node:os'
import { dirname, join } from 'node:path'
import { PATTERNS } from '../../shared/ids.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import { WORLD } from '../../shared/wire/skill-world.ts'
import type { Trouble } from '../shell/command.ts'
import { command, trouble, usage } from '../shell/command.ts'
import { reason } from '../shell/files.ts'
import { inline } from '../shell/terminal-text.ts'
import { localPublishers } from './publisher-key.ts'

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
  args: { NAME: 'the name of the skill and of its new folder' },
  flags: {
    template: { value: Object.keys(LANGUAGES).join('|'), what: 'the language (default: ts, TypeScript)' },
    publisher: {
      value: 'NAME',
      what: 'its publisher (default: the one whose key is on this machine, or else your user name)',
    },
  },
  does: 'Create a skill: a folder with skill.toml, code and a test, ready to build',
  key: 'offline',
  examples: ['countersign skill new hello', 'countersign skill new redact --template rust'],
  async run({ args: { NAME: id }, flags, paint }) {
    const template = flags.template ?? 'ts'
    if (!isLanguage(template))
      return err(
        usage(
          `there is no template \`${template}\`; choose one of ${Object.keys(LANGUAGES)
            .map((name) => `\`${name}\``)
            .join(', ')}`,
        ),
      )
    if (!PATTERNS.tool.test(id))
      return err(
        usage(
          `\`${id}\` is not a valid skill name; a name starts with a lower-case letter and has at most ${LIMITS.tool_name_chars} lower-case letters, digits, \`_\` or \`-\``,
        ),
      )
    const publisher = publisherFor(flags.publisher)
    if (!publisher.ok) return publisher
    const files = filesFromTemplate(template, {
      id,
      publisher: publisher.value,
    })
    if (existsSync(id) && readdirSync(id).length > 0)
      return err(
        trouble('exists', `the folder \`${id}\` already exists and is not empty`, 'choose another name'),
      )
    try {
      for (const [path, text] of files) {
        mkdirSync(dirname(join(id, path)), { recursive: true })
        writeFileSync(join(id, path), text, { flag: 'wx' })
      }
    } catch (thrown) {
      return err(trouble('unwritable', `\`${id}\` can’t be written: ${reason(thrown)}`))
    }
    const paths = [...files.keys()].sort()
    // To be typed in this folder: in one with its own package.json, `npx` would fetch whatever the
    // npm registry has under the name `countersign`, and run it.
    const next = [
      ...(template === 'assemblyscript' ? [`npm install --prefix ${id}`] : []),
      ...(localPublishers().includes(publisher.value)
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

/** The given publisher, or the only one with a key on this machine, or the user's name. */
function publisherFor(given: string | undefined): Result<string, Trouble> {
  const here = localPublishers()
  if (given === undefined && here.length > 1)
    return err(
      usage(`there are keys of several publishers here; choose one with \`--publisher\`: ${here.join(', ')}`),
    )
  const own = userInfo().username
  const publisher = given ?? here[0] ?? (PATTERNS.name.test(own) ? own : 'me')
  return PATTERNS.name.test(publisher)
    ? ok(publisher)
    : err(
        usage(
          `\`${publisher}\` is not a valid publisher name; a name starts with a lower-case letter and has at most 64 lower-case letters, digits, \`_\`, \`.\` or \`-\``,
        ),
      )
}

/** The texts of the new files, by their paths in the new folder. */
function filesFromTemplate(
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
