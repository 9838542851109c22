// The plans for macOS and Windows, compared as text. They are unproven: nothing here runs on either
// system. test/worker/host/refusals.test.ts tests that a worker refuses to start there.

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { onMacOS, onWindows } from '../../../worker/sandbox/plan/other-platforms.ts'
import { planOf } from '../arena/arena.ts'

const GOLDEN = join(import.meta.dirname, '..', '..', 'golden', 'other-platforms.json')

test('plans for macOS and Windows equal the golden file', () => {
  const seen = {
    macOS: onMacOS(
      planOf(['wc', '-c', 'a b'], { env: { GREETING: 'hello "world"' }, cwd: 'sub' }),
      '/Users/w/call-1',
    ),
    Windows: onWindows(planOf(['C:\\tools\\wc.exe', '-c'], { tier: 'B' }), 'C:/w/call-1'),
  }
  if (process.env['UPDATE_GOLDEN'] === '1') writeFileSync(GOLDEN, `${JSON.stringify(seen, null, 2)}\n`)
  expect(seen).toEqual(JSON.parse(readFileSync(GOLDEN, 'utf8')))
})

test('on macOS a path of the host is a parameter of the profile, never a part of its text', () => {
  const hostile = '/Users/w")(allow default)("'
  const planned = onMacOS(planOf(['true']), hostile)
  const argv = planned.ok ? planned.value.argv : []
  expect(argv.filter((item) => item.includes('(allow default)')).sort()).toEqual([
    `HOME=${hostile}`,
    `TMPDIR=${hostile}`,
    `WORKSPACE=${hostile}`,
  ])
  expect(argv.slice(argv.indexOf('-p') + 1, argv.indexOf('-p') + 2)[0]).toMatch(
    /^\(version 1\)\n\(deny default\)/,
  )
})

test('a plan that macOS or Windows can’t enforce is refused, never weakened', () => {
  const hosts = { egress: { mode: 'strict' as const, hosts: ['example.org:443'] } }
  const unavailable = { ok: false, error: { kind: 'refused', code: 'sandbox_unavailable' } }
  expect(onMacOS(planOf(['true'], { tier: 'B' }), '/w')).toMatchObject(unavailable)
  expect(onMacOS(planOf(['true'], hosts), '/w')).toMatchObject(unavailable)
  expect(onWindows(planOf(['true']), 'C:/w')).toMatchObject(unavailable)
  for (const name of ['-S', 'A=b', './A=b'])
    expect(onMacOS(planOf([name, 'true']), '/w')).toMatchObject({
      ok: false,
      error: { code: 'invalid_input' },
    })
  for (const plan of [planOf(['true'], { cwd: '../x' }), planOf(['true'], { tier: 'B', cwd: '/x' })])
    for (const on of [onMacOS, onWindows])
      expect(on(plan, '/w')).toMatchObject({ ok: false, error: { code: 'workspace_scope_denied' } })
})

test.each(['cmd', 'CMD.EXE', 'C:\\Windows\\System32\\cmd.exe', 'run.bat', 'C:/tools/x.CMD'])(
  'on Windows %s is refused, because it parses its arguments by its own rules',
  (program) => {
    const planned = onWindows(planOf([program, '/c', 'echo %PATH% ! " \r\n'], { tier: 'B' }), 'C:/w')
    expect(planned).toMatchObject({ ok: false, error: { code: 'invalid_input' } })
  },
)
