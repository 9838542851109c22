// The records of docs/decisions: every one is complete, fits on a screen, and can be found from the
// index.

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const FOLDER = join(import.meta.dirname, '../../docs/decisions')
const INDEX = readFileSync(join(FOLDER, 'README.md'), 'utf8')
const FILES = readdirSync(FOLDER).sort()
const RECORDS = FILES.filter((file) => /^\d{4}-/.test(file))
const SECTIONS = ['## Context', '## Decision', '## Alternatives', '## Consequences']
const WORDS_MAX = 350

const bodyOf = (text: string): string =>
  text.slice(text.indexOf('## Context')).replace(/^Archive: [\s\S]*/m, '')

test('no two records have the same number', () => {
  const numbers = RECORDS.map((file) => file.slice(0, 4))
  expect(numbers.length).toBeGreaterThan(0)
  expect(new Set(numbers).size).toBe(numbers.length)
})

test.each(RECORDS)('%s has a status, all sections in order, and fits on a screen', (file) => {
  const text = readFileSync(join(FOLDER, file), 'utf8')
  expect(text).toMatch(/^- Status: (?:accepted|superseded by \d{4}), \d{4}-\d{2}-\d{2}/m)
  expect(text.match(/^## .*$/gm)).toEqual(SECTIONS)
  expect(bodyOf(text).split(/\s+/).length).toBeLessThanOrEqual(WORDS_MAX + SECTIONS.length * 2)
  expect(text.split('\n').filter((line) => [...line].length > 100)).toEqual([])
})

test.each(RECORDS)('the index lists %s under its heading and with its status', (file) => {
  const text = readFileSync(join(FOLDER, file), 'utf8')
  const number = file.slice(0, 4)
  const title = /^# \d{4} (.*)$/m.exec(text)?.[1]
  const status = /^- Status: (accepted|superseded by \d{4})/m.exec(text)?.[1]
  const line = INDEX.split('\n').find((row) => row.startsWith(`| [${number}](${file}) |`))
  expect(line?.split(' | ').slice(1, 2)).toEqual([title])
  expect(line).toMatch(new RegExp(`\\| ${status} \\|$`))
})

test('links between records and the index lead somewhere', () => {
  const broken = FILES.filter((file) => !file.startsWith('archive-')).flatMap((file) =>
    [...readFileSync(join(FOLDER, file), 'utf8').matchAll(/\]\((?!http)([^)#/]+)\)/g)]
      .map(([, target = '']) => target)
      .filter((target) => !FILES.includes(target))
      .map((target) => `${file} → ${target}`),
  )
  expect(broken).toEqual([])
})
