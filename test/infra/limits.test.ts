// Promise: every limit's name occurs in a test, so that a search for a limit leads to the test that
// shows it.

import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ROOT } from '../../infra/state.ts'
import { LIMITS } from '../../shared/limits.ts'

/** Limits that no test names, each with the reason. */
const UNNAMED: Partial<Record<keyof typeof LIMITS, string>> = {
  agent_deliveries_at_once: 'no test yet',
  answers_at_once: 'no test yet',
  backup_manifest_bytes: 'no test yet',
  calls_per_run: 'no test yet',
  challenge_ms: 'no test yet',
  challenge_tenants: 'no test yet',
  claim_again_ms: 'no test yet',
  console_pause_ms: 'no test yet',
  edits: 'no test yet',
  explanation_tried_chars: 'no test yet',
  hook_wait_s: 'no test yet',
  list_scan: 'no test yet',
  mcp_hold_legacy_s: 'no test yet',
  mcp_hold_s: 'no test yet',
  mcp_holds_tenant: 'no test yet',
  mcp_listened_tasks: 'no test yet',
  mcp_quick_ms: 'no test yet',
  mcp_requests_run: 'no test yet',
  rehearsal_calls_at_once: 'no test yet',
  rehearsal_ms: 'no test yet',
  rehearsal_runs: 'no test yet',
  skill_code_bytes: 'no test yet',
  skill_detail_chars: 'no test yet',
  skill_log_spare_chars: 'no test yet',
  skill_part_bytes: 'no test yet',
  skill_versions: 'no test yet',
  skills: 'no test yet',
  slack_ack_ms: 'no test yet',
  standing: 'no test yet',
  stdio_exit_ms: 'no test yet',
  trials_ms: 'no test yet',
  unknown_body_bytes: 'no test yet',
  upstream_calls: 'no test yet',
  upstream_listing_ms: 'no test yet',
}

/** Without lines that are comments, and without comments at the end of a line. */
const code = (text: string): string => text.replace(/^\s*(?:\/\/|\/\*|\*).*$|\s\/\/ .*$/gm, '')
const TESTS = globSync('test/**/*.test.ts', { cwd: ROOT, exclude: (path) => path.endsWith('node_modules') })
  .filter((file) => join(ROOT, file) !== import.meta.filename)
  .map((file) => code(readFileSync(join(ROOT, file), 'utf8')))

/**
 * `LIMITS.name`, or `` `name` `` in a title, or `'name'` in a table of limits. A name of one word
 * is also an ordinary word, so a title has to say `` `LIMITS.name` ``.
 */
function isNamed(name: string): boolean {
  const anywhere = new RegExp(`\\bLIMITS\\.${name}\\b${name.includes('_') ? `|\`${name}\`` : ''}`)
  const inTable = new RegExp(`'${name}'`)
  return TESTS.some(
    (text) => anywhere.test(text) || (text.includes('keyof typeof LIMITS') && inTable.test(text)),
  )
}

test('every limit is named by a test, except those that are listed with a reason', () => {
  expect(TESTS.length).toBeGreaterThan(100)
  expect(isNamed('json_depht')).toBe(false)
  const unnamed = Object.keys(LIMITS).filter((name) => !isNamed(name))
  expect(unnamed.sort()).toEqual(Object.keys(UNNAMED).sort())
})
