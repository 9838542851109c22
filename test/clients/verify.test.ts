// Promise: both client packages judge signatures, digests and bundles as the edge does, without
// Node and without a library of the reader's machine (T02, J01).

import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { build } from 'esbuild'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { PORTABLE } from '../../infra/clients/package.ts'
import { ROOT } from '../../infra/state.ts'
import { digestOf, parseJson } from '../../shared/bytes/json.ts'
import { Bundle, verifyBundle } from '../../shared/evidence/bundle.ts'
import { CHECK_NAMES } from '../../shared/evidence/contradictions.ts'
import { vectors } from '../shared/curve.ts'
import { collude, deniedBundle, executedBundle, KEYS, reexecuted, regrant } from '../shared/evidence.ts'
import { JSON_CASES, jsonBytes } from '../shared/json-cases.ts'
import { changed, others, paths, reached } from '../shared/tamper.ts'
import type { portable as Portable } from './portable.ts'

let portable: typeof Portable
const folder = mkdtempSync(join(tmpdir(), 'countersign-portable-'))
beforeAll(async () => {
  const outfile = join(folder, 'portable.mjs')
  const entry = join(ROOT, 'test/clients/portable.ts')
  await build({ ...PORTABLE, entryPoints: [entry], outfile, bundle: true })
  ;({ portable } = (await import(outfile)) as { portable: typeof Portable }) // the entry exports it
})
afterAll(() => rmSync(folder, { recursive: true }))

/** The answers of the Python package to questions, one for each. */
function python(questions: readonly unknown[]): unknown[] {
  const ran = spawnSync('python3', ['-I', '-c', IN_PACKAGE, join(ROOT, 'clients/python')], {
    input: questions.map((question) => `${JSON.stringify(question)}\n`).join(''),
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
    env: { PATH: '/usr/bin:/bin', PYTHONDONTWRITEBYTECODE: '1' },
  })
  if (ran.status !== 0) throw new Error(`python3: ${ran.error?.message ?? ran.stderr}`)
  return ran.stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as unknown)
}
const IN_PACKAGE =
  'import sys, runpy; sys.path.insert(0, sys.argv[1] + "/src"); runpy.run_path(sys.argv[1] + "/tests/judge.py")'

const hex = (text: string): Buffer => Buffer.from(text, 'hex')

describe('signatures', () => {
  const all = vectors()
  test('T02 the bundled verifier judges each vector as it is labelled', () => {
    const answers = all.map(({ x, message, signature }) =>
      portable.isSignedBy(x, hex(message), hex(signature)),
    )
    expect(answers).toEqual(all.map(({ holds }) => holds))
  })

  test('T02 the verifier of the Python package judges each vector as it is labelled', () => {
    const questions = all.map(({ x, message, signature }) => ({
      key: Buffer.from(x, 'base64url').toString('hex'),
      message,
      signature,
    }))
    expect(python(questions)).toEqual(all.map(({ holds }) => holds))
  })
})

describe('digests', () => {
  test('the bundled parser and digest answer as the edge’s do', () => {
    for (const item of JSON_CASES) {
      const [ours, theirs] = [portable.parseJson(jsonBytes(item)), parseJson(jsonBytes(item))]
      expect([item.name, ours.ok && portable.digestOf(ours.value)]).toEqual([
        item.name,
        theirs.ok && digestOf(theirs.value),
      ])
    }
  })

  test('the Python package gives the digest that the edge gives, for values that it accepts', () => {
    const texts = JSON_CASES.flatMap((item) => {
      const read = parseJson(jsonBytes(item))
      return read.ok ? [{ text: jsonBytes(item), digest: digestOf(read.value) }] : []
    })
    const numbers = [0, 1.5, 1.5e21, 123e-8, 1e-6, 5e-324, -0.1, 4.35, 2 ** 53 - 1, 1.7976931348623157e308]
    const asked = [
      ...texts.map(({ text, digest }) => ({ json: Buffer.from(text).toString('utf8'), digest })),
      ...numbers.map((value) => ({ json: JSON.stringify(value), digest: digestOf(value) })),
    ]
    expect(python(asked.map(({ json }) => ({ json })))).toEqual(asked.map(({ digest }) => digest))
  })
})

describe('bundles', () => {
  const whole = { executed: executedBundle(), denied: deniedBundle() }
  const tampered = Object.values(whole).flatMap((bundle) =>
    paths(bundle).flatMap((path) => others(reached(bundle, path)).map((to) => changed(bundle, path, to))),
  )

  test('true bundles verify in both packages, and those of another call do not', () => {
    for (const bundle of Object.values(whole)) {
      expect(portable.verify(bundle, KEYS)).toMatchObject({ ok: true })
      expect(
        portable.verify(JSON.stringify(bundle), JSON.stringify(KEYS), { call: bundle.call.call }).ok,
      ).toBe(true)
      expect(portable.verify(bundle, KEYS, { call: 'call_of_another' }).ok).toBe(false)
    }
    expect(python(Object.values(whole).map((bundle) => ({ bundle, keys: KEYS })))).toEqual([true, true])
  })

  test('J01 the bundled verifier gives each tampered bundle the verdict of the edge’s code', () => {
    expect(tampered.length).toBeGreaterThan(300)
    for (const bundle of tampered) {
      const parsed = Bundle.safeParse(bundle)
      const expected = parsed.success && verifyBundle(parsed.data, KEYS).ok
      expect(portable.verify(bundle, KEYS).ok, JSON.stringify(bundle).slice(0, 300)).toBe(expected)
    }
  })

  test('J01 the Python package accepts no tampered bundle that the edge’s code refuses', () => {
    const refused = tampered.filter((bundle) => {
      const parsed = Bundle.safeParse(bundle)
      return !parsed.success || !verifyBundle(parsed.data, KEYS).ok
    })
    const answers = python(refused.map((bundle) => ({ bundle, keys: KEYS })))
    const accepted = refused.filter((_, i) => answers[i] === true)
    expect(accepted.map((bundle) => JSON.stringify(bundle))).toEqual([])
  })

  test('a false report signed by edge and worker fails in TypeScript, and Python lists that check as not made', () => {
    const bundle = executedBundle()
    const lie = collude(bundle, reexecuted(bundle, { cgroup: false }))
    const { ok, checks } = portable.verify(lie, KEYS)
    expect(ok).toBe(false)
    expect(checks.filter((check) => !check.ok).map(({ name }) => name)).toEqual([CHECK_NAMES.counted])
    expect(python([{ bundle: lie, keys: KEYS }])).toEqual([true])
  })

  test('a statement without the approval that policy asked for, and a changed grant, are refused by both clients', () => {
    const bundle = executedBundle()
    const lies = [
      collude(bundle, { 'statement.predicate.facts.approval': null }),
      regrant(bundle, { worker: 'edge' }),
      regrant(bundle, { deadline_ms: 1 }),
      { ...bundle, grant: null },
    ]
    for (const lie of lies) expect(portable.verify(lie, KEYS).ok).toBe(false)
    expect(python(lies.map((lie) => ({ bundle: lie, keys: KEYS })))).toEqual(lies.map(() => false))
  })

  test('a text with a duplicate member is refused, whichever value is right', () => {
    const text = JSON.stringify(whole.executed).replace('{"format"', '{"format":"other","format"')
    expect(portable.verify(text, KEYS).ok).toBe(false)
    expect(python([{ bundle: text, keys: KEYS }])).toEqual([false])
  })
})
