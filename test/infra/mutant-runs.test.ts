// Promise: no run of `npm run mutants` changes the verdict of another.

import { existsSync, mkdtempSync, readdirSync, readlinkSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { ROOT } from '../../infra/state.ts'
import { copyTree } from '../mutants/copy.ts'
import { laneOf } from '../mutants/lanes.ts'
import { MUTANTS } from '../mutants/list.ts'

test('a copy of the tree has the installed packages and no cache of the checkout, where a broken line may be bundled', () => {
  const folder = mkdtempSync(join(tmpdir(), 'csm-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const modules = join(copyTree(join(folder, '0')).root, 'node_modules')
  expect(readlinkSync(join(modules, 'vitest'))).toBe(join(ROOT, 'node_modules/vitest'))
  expect(existsSync(join(ROOT, 'node_modules/.cache'))).toBe(true)
  expect(readdirSync(modules).filter((name) => /^\.(?:cache|vite)/.test(name))).toEqual([])
})

test('a mutant whose tests compare the whole machine is judged while no other runs', () => {
  const lane = (file: string) => laneOf({ tests: [file] })
  expect([
    lane('test/escape/process/orphans.test.ts'),
    lane('test/faults/backup/backup.test.ts'),
    lane('test/edge/tenant/tenants-quota.test.ts'),
    lane('test/edge/call/table.test.ts'),
  ]).toEqual(['alone', 'withStack', 'withStack', 'without'])
  expect(MUTANTS.filter((mutant) => laneOf(mutant) === 'alone')).not.toEqual([])
})
