// A call that exceeds its workspace ends soon, even if it slows down the scans that find out. The
// bound is a time and the attacks use all cores, so these tests run alone.
// @project exclusive

import { expect, test } from 'vitest'
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
time.sleep(1.5)
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

const CASES = Object.entries(SLOW).flatMap(([what, source]) => [
  { what, source, kind: 'cold', options: {} },
  { what, source, kind: 'warm', options: { prepared: {} } },
])

test.each(CASES)(
  'S30 $what that slow a scan down do not delay the end of a call over its limit in a $kind sandbox',
  { timeout: 120_000 },
  async ({ source, options }) => {
    const arena = await Arena.open(options)
    try {
      let since = 0
      const plan = planOf(attack(`import time\n${source}${FILL}`), { workspace: 'run', limits: LIMITS })
      const seen = await arena.launch({ plan, runFolder: arena.runFolder().there }, () => {
        since = performance.now()
      })
      expect([seen.outcome, seen.out]).toEqual([{ kind: 'workspace_cap' }, 'filling\n'])
      expect(performance.now() - since).toBeLessThan(6_000)
    } finally {
      await arena.close()
    }
  },
)
