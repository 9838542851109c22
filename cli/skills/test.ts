// `countersign skill test`: runs the tests beside a skill. Each is a call in the edge's own isolate
// with recorded answers of the host, compared with the expectation. Nothing is published or signed.

import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { canonical } from '../../shared/bytes/json.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import { Trial, type TrialResult } from '../../shared/wire/skill-trials.ts'
import type { Trouble } from '../shell/command.ts'
import { command, usage } from '../shell/command.ts'
import type { Api } from '../shell/edge-api.ts'
import { readJson } from '../shell/files.ts'
import { parseInput } from '../shell/json-input.ts'
import type { Paint } from '../shell/terminal-text.ts'
import { inline, quoted } from '../shell/terminal-text.ts'
import { FOLDER, readSkill, type SkillFolder } from './source-folder.ts'

/** Only the fields that a test gives are compared. */
const Expectation = z.strictObject({
  output: z.json().optional(),
  /** The message of the error that the skill returned. */
  error: z.string().optional(),
  /** The kind of another ending: `trap`, `fuel_exhausted`, `capability_denied`, … */
  ends: z.string().optional(),
  log: z.string().optional(),
  requests: z
    .array(
      z.strictObject({
        request: z.string(),
        headers: z.record(z.string(), z.string()).optional(),
        body: z.string().optional(),
      }),
    )
    .optional(),
  kv: z.record(z.string(), z.string()).optional(),
  posts: z.array(z.strictObject({ channel: z.string(), text: z.string() })).optional(),
  fuel_at_most: z.int().optional(),
})
const Test = Trial.extend({ description: z.string().min(1), expect: Expectation })
type Test = z.infer<typeof Test>
const TestFile = z.strictObject({ about: z.string(), tests: z.array(Test).min(1) })

type TestResult = {
  readonly description: string
  readonly ok: boolean
  readonly why: readonly string[]
  readonly fuel: number
}

export const test = command({
  words: ['skill', 'test'],
  args: FOLDER,
  flags: {},
  does: 'Run the tests of a skill, tests/*.json: each is a call in the edge’s own isolate, with host answers recorded in the test',
  key: 'operator',
  exits: '0 all tests passed; 1 a test failed, or the skill does not build',
  async run({ args: { FOLDER: folder = '.' }, api, paint }) {
    const skill = readSkill(folder)
    if (!skill.ok) return skill
    const files = readTests(folder)
    if (!files.ok) return files
    const { compileSkill } = await import('./compile.ts')
    const made = await compileSkill(skill.value)
    if (!made.ok) return made
    const filesWithResults: { path: string; tests: TestResult[] }[] = []
    for (const { path, tests } of files.value) {
      const results = await runTests(api, skill.value, made.value.component, tests)
      if (!results.ok) return results
      filesWithResults.push({ path, tests: tests.map((one, index) => resultOf(one, results.value[index])) })
    }
    const all = filesWithResults.flatMap(({ tests }) => tests)
    const failed = all.filter((one) => !one.ok).length
    return ok({
      ok: failed === 0,
      json: filesWithResults,
      text: summary(filesWithResults, paint, all.length, failed),
    })
  },
})

function readTests(folder: string): Result<{ path: string; tests: Test[] }[], Trouble> {
  const dir = join(folder, 'tests')
  const names = existsSync(dir)
    ? readdirSync(dir)
        .filter((name) => name.endsWith('.json'))
        .sort()
    : []
  if (names.length === 0)
    return err(
      usage(
        `there are no tests: \`${dir}\` contains no .json file; docs/skills.md explains how to write them`,
      ),
    )
  const files: { path: string; tests: Test[] }[] = []
  for (const name of names) {
    const path = join(dir, name)
    const json = readJson(path)
    if (!json.ok) return json
    const read = parseInput(TestFile, json.value, `\`${path}\``)
    if (!read.ok) return read
    files.push({ path, tests: read.value.tests })
  }
  return ok(files)
}

/** Sends the tests in batches of as many as the edge accepts. */
async function runTests(
  api: Api,
  { manifest }: SkillFolder,
  component: Uint8Array,
  tests: readonly Test[],
): Promise<Result<TrialResult[], Trouble>> {
  const done: TrialResult[] = []
  for (let from = 0; from < tests.length; from += LIMITS.trials) {
    const trials = tests
      .slice(from, from + LIMITS.trials)
      .map(({ tool, input, host }) => ({ tool, input, host }))
    const answer = await api('trySkill', {
      body: { manifest, component: Buffer.from(component).toString('base64'), trials },
    })
    if (!answer.ok) return answer
    done.push(...answer.value.items)
  }
  return ok(done)
}

function resultOf({ description, expect }: Test, tried: TrialResult | undefined): TestResult {
  if (tried === undefined)
    return { description, ok: false, why: ['the edge returned no result for this test'], fuel: 0 }
  const why = [...endingFaults(expect, tried), ...sideEffectFaults(expect, tried)]
  return { description, ok: why.length === 0, why, fuel: tried.fuel_used }
}

const differs = (what: string, expected: string, was: string): string[] =>
  expected === was ? [] : [`${what}: expected ${expected}`, `${' '.repeat(what.length)}  but was  ${was}`]

function endingFaults(
  { output, error, ends }: Test['expect'],
  { outcome, output: text }: TrialResult,
): string[] {
  const reason = 'detail' in outcome ? outcome.detail : ''
  const was = outcome.kind === 'returned' ? text : `${outcome.kind}${reason === '' ? '' : `: ${reason}`}`
  if (ends !== undefined) return differs('ends', ends, outcome.kind)
  if (error !== undefined)
    return outcome.kind === 'skill_error'
      ? differs('error', error, reason)
      : [`error: expected ${error}`, `       but was  ${was}`]
  if (outcome.kind !== 'returned') return [`it failed: ${was}`]
  return output === undefined ? [] : differs('output', canonical(output), canonical(JSON.parse(text))) // the edge only accepts JSON as output
}

function sideEffectFaults(
  { log, requests, kv, posts, fuel_at_most: most }: Test['expect'],
  tried: TrialResult,
): string[] {
  const unanswered = tried.requests
    .filter(({ answered }) => !answered)
    .map(({ request }) => `no answer recorded under \`host.http\` for \`${request}\``)
  const wanted = requests?.map((one, index) => {
    const was = tried.requests[index]
    const headers = Object.fromEntries(
      Object.keys(one.headers ?? {}).map((name) => [name, was?.headers[name] ?? null]),
    )
    const actual = {
      request: was?.request ?? 'nothing',
      ...(one.headers && { headers }),
      ...(one.body !== undefined && { body: was?.body }),
    }
    return differs(`request ${index + 1}`, canonical(one), canonical(actual))
  })
  return [
    ...unanswered,
    ...(log === undefined ? [] : differs('log', JSON.stringify(log), JSON.stringify(tried.log))),
    ...(wanted?.flat() ?? []),
    ...(requests === undefined
      ? []
      : differs('requests', String(requests.length), String(tried.requests.length))),
    ...(kv === undefined ? [] : differs('kv', canonical(kv), canonical(tried.kv))),
    ...(posts === undefined ? [] : differs('posts', canonical(posts), canonical(tried.posts))),
    ...(most !== undefined && tried.fuel_used > most
      ? [`fuel: expected at most ${most}, but was ${tried.fuel_used}`]
      : []),
  ]
}

function summary(
  files: readonly { path: string; tests: readonly TestResult[] }[],
  paint: Paint,
  all: number,
  failed: number,
): string {
  const lines = files.map(({ path, tests }) => {
    const good = tests.filter((one) => one.ok).length
    const bad = tests
      .filter((one) => !one.ok)
      .map(
        ({ description, why }) => `  ${paint.bad('FAIL')}  ${inline(description)}\n${quoted(why.join('\n'))}`,
      )
    return `${path}  ${good} of ${tests.length} as expected\n${bad.join('')}`
  })
  return `${lines.join('')}${failed === 0 ? paint.good(`${all} passed`) : paint.bad(`${failed} of ${all} failed`)}\n`
}
