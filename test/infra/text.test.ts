// Tests infra/check/text.ts and infra/check/plain-english.ts on small made-up trees: one that
// breaks a rule, and a similar one that does not.

import { describe, expect, test } from 'vitest'
import { oddComments } from '../../infra/check/plain-english.ts'
import { faultsIn } from '../../infra/check/text.ts'

const ROOT = '/srv/somewhere/countersign'

/** `rule file:line` of each fault, in the order of the tree. */
const faults = (files: Record<string, string>, root = ROOT): string[] =>
  faultsIn(new Map(Object.entries(files)), root).map(({ rule, file, line }) => `${rule} ${file}:${line}`)

type Case = readonly [name: string, files: Record<string, string>, expected: readonly string[]]
const holds = (cases: readonly Case[]) => {
  test.each(cases)('%s', (_name, files, expected) => {
    expect(faults(files)).toEqual(expected)
  })
}

describe('places and names', () => {
  const lines = (n: number) => 'export const a = 1\n'.repeat(n)
  holds([
    ['a file in an unknown top folder is refused', { 'scripts/a.ts': '' }, ['place scripts/a.ts:1']],
    [
      'a file in a folder that is no room is refused',
      { 'edge/new-room/a.ts': '' },
      ['place edge/new-room/a.ts:1'],
    ],
    [
      'a file in a room passes',
      { 'edge/run/store.ts': '', 'worker/sandbox/plan/argv.ts': '', 'test/a.test.ts': '' },
      [],
    ],
    ['a file of 601 lines is refused', { 'edge/run/a.sql.ts': lines(601) }, ['length edge/run/a.sql.ts:601']],
    ['a file of 600 lines passes', { 'edge/run/a.ts': lines(600) }, []],
    [
      'a long file that a command writes passes',
      { 'clients/a.ts': `// Generated from the routes\n${lines(601)}` },
      [],
    ],
    ['a long document passes', { 'README.md': lines(601) }, []],
    ['a long shell script is refused', { 'infra/a.sh': lines(601) }, ['length infra/a.sh:601']],
    ['`utils` is refused as a name', { 'edge/run/utils.ts': '' }, ['name edge/run/utils.ts:1']],
    [
      '`helpers` is refused in a name',
      { 'test/approval-helpers.ts': '' },
      ['name test/approval-helpers.ts:1'],
    ],
    [
      '`services` is refused as a folder',
      { 'edge/run/services/a.ts': '' },
      ['name edge/run/services/a.ts:1'],
    ],
    ['a barrel is refused', { 'edge/api/index.ts': '' }, ['name edge/api/index.ts:1']],
    ['a systemd unit may be a service', { 'infra/countersign-worker.service': '' }, []],
    [
      'a folder with more than 25 source files is refused',
      Object.fromEntries(Array.from({ length: 26 }, (_, n) => [`edge/run/a${n}.ts`, ''])),
      ['crowd edge/run:1'],
    ],
    [
      '25 source files pass',
      Object.fromEntries(Array.from({ length: 25 }, (_, n) => [`edge/run/a${n}.ts`, ''])),
      [],
    ],
  ])
})

describe('READMEs of rooms', () => {
  const tests = { 'test/edge/run/a.test.ts': '' }
  const readme = (text: string) => ({ ...tests, 'edge/run/README.md': text })
  holds([
    ['a README that names a folder of tests passes', readme('Tests: `test/edge/run`.\n'), []],
    ['a README that names one test passes', readme('Tests: `test/edge/run/a.test.ts`.\n'), []],
    ['a README that names no tests is refused', readme('# run\n'), ['readme edge/run/README.md:1']],
    [
      'a README that names tests which do not exist is refused',
      readme('Tests: `test/edge/run`, `test/edge/ru`.\n'),
      ['readme edge/run/README.md:1'],
    ],
    [
      'a README of 41 lines is refused',
      readme(`Tests: \`test/edge/run\`.\n${'a\n'.repeat(40)}`),
      ['readme edge/run/README.md:1'],
    ],
    ['a README outside of the rooms names what it wants', { 'clients/README.md': '# clients\n' }, []],
  ])
})

describe('text that belongs to one machine', () => {
  // Assembled here, so that this file does not contain the forbidden text.
  const host = ['registry', 'example', 'org'].join('.')
  holds([
    [
      'the host of a package registry is refused',
      { 'README.md': `see\nhttps://${host}/a\n` },
      ['registry-host README.md:2'],
    ],
    [
      'the host of an image registry is refused',
      { 'infra/Containerfile': `FROM ${['docker', 'io'].join('.')}/debian:12\n` },
      ['registry-host infra/Containerfile:1'],
    ],
    [
      'a lock file with hosts is refused',
      { 'package-lock.json': `{"resolved": "${'https'}://x/a.tgz"}\n` },
      ['registry-host package-lock.json:1'],
    ],
    ['the path of this checkout is refused', { 'README.md': `cd ${ROOT}\n` }, ['machine-path README.md:1']],
    ['a path inside the sandbox passes', { 'README.md': 'cd /workspace\n' }, []],
    ['the word registry passes', { 'README.md': 'the policy registry. Then\n' }, []],
  ])

  test('paths beside the checkout are refused too, unless its parent folder exists on every machine', () => {
    const files = { 'README.md': 'see /builds/notes.md\nnot host/builds/x\n' }
    expect(faults(files, '/builds/countersign')).toEqual(['machine-path README.md:1'])
    expect(faults(files, '/srv/countersign')).toEqual([])
  })
})

test('a comment that begins with a free relative, or has a word that we avoid, is reported with a better one', () => {
  const text = [
    '// Who sends it twice is refused.',
    ' * What it holds.',
    '  /** Where it lies. */',
    '// The worker sends it.',
    "const a = '// Who '",
    `const b = 1 // closed ${['mean', 'while'].join('')}`,
    '// It is signed anew.',
    '// Only so many wait, so long as there is room.',
  ].join('\n')
  const tree = new Map([
    ['edge/run/a.ts', text],
    ['cli/skills/templates/assemblyscript/assembly/a.ts', text],
    ['docs/a.md', text],
  ])
  expect(oddComments(tree).map(({ at, todo }) => `${at} ${todo.split(' ', 1)[0]}`)).toEqual([
    'edge/run/a.ts:1 begin',
    'edge/run/a.ts:2 begin',
    'edge/run/a.ts:3 begin',
    'edge/run/a.ts:6 write',
    'edge/run/a.ts:7 write',
    'edge/run/a.ts:8 write',
  ])
})
