// A call that exceeds its workspace ends soon, even if it slows down the scans that find out. The
// bound is a time and the attacks use all cores, so these tests run alone.
// @project exclusive

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Arena, attack, planOf } from '../arena/arena.ts'

const MiB = 1024 * 1024
const LIMITS = {
  workspace_bytes: 4 * MiB,
  workspace_inodes: 100_000,
  open_files: 400,
  timeout_ms: 90_000,
  cpu_ms: 60_000,
}
const FILL = `
time.sleep(3)
print('filling', flush=True)
os.posix_fallocate(os.open('full', 0o101), 0, 8 << 20)
time.sleep(60)`
const SLOW = {
  'many names': "for n in range(30000): open('%d' % n, 'w').close()",
  'many descriptors': `
for _ in range(100):
    if os.fork() == 0:
        own = os.open('.', os.O_RDONLY)
        while attempt(os.dup, own) == 'ok': pass
        time.sleep(60)`,
}

describe.each([
  ['cold', {}],
  ['warm', { prepared: {} }],
] as const)('in a sandbox that is %s', (_kind, options) => {
  let arena: Arena
  beforeAll(async () => {
    arena = await Arena.open(options)
  })
  afterAll(() => arena.close())

  test.each(Object.entries(SLOW))(
    'S30 %s that slow a scan down do not delay the end of a call over its limit',
    { timeout: 120_000 },
    async (_what, source) => {
      const { there } = arena.runFolder()
      let since = 0
      const plan = planOf(attack(`import time\n${source}${FILL}`), { workspace: 'run', limits: LIMITS })
      const seen = await arena.launch({ plan, runFolder: there }, () => {
        since = performance.now()
      })
      expect([seen.outcome, seen.out]).toEqual([{ kind: 'workspace_cap' }, 'filling\n'])
      expect(performance.now() - since).toBeLessThan(6_000)
    },
  )
})
