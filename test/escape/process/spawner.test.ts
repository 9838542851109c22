// Calls end as usual, leave nothing, and are followed by others if the worker starts sandboxes
// itself, or if its spawner is killed.

import { afterAll, beforeAll, expect, test } from 'vitest'
import { eventually } from '../../support/eventually.ts'
import { Arena, planOf } from '../arena/arena.ts'
import { descendantsOf, spawnersBelow } from '../arena/census.ts'

let arena: Arena
let pid: number
beforeAll(async () => {
  arena = await Arena.open()
  pid = (await arena.facts()).pid
})
afterAll(() => arena.close())

test.each([
  ['killed', 'B', 'SIGKILL'],
  ['killed', 'C', 'SIGKILL'],
  ['stopped', 'C', 'SIGSTOP'],
] as const)(
  'a spawner that is %s during a call of tier %s ends that call, and the next call runs',
  async (_, tier, signal) => {
    await arena.launch({ plan: planOf(['true'], { tier }) }) // warms the worker up
    const before = descendantsOf(pid)
    const heard = Promise.withResolvers<void>()
    const running = arena.launch(
      {
        plan: planOf(['/bin/sh', '-c', 'echo begun; exec sleep 60'], {
          tier,
          limits: { timeout_ms: 60_000 },
        }),
      },
      () => heard.resolve(),
    )
    await heard.promise
    const [spawner = 0, ...more] = spawnersBelow(pid)
    expect([spawner > 0, more]).toEqual([true, []])
    process.kill(spawner, signal)
    expect((await running).outcome.kind).toBe('infra')
    await eventually('nothing of it is left', () => descendantsOf(pid).every((one) => before.includes(one)))
    const next = await arena.launch({ plan: planOf(['echo', 'again'], { tier }) })
    expect([next.outcome, next.out]).toEqual([{ kind: 'exit', code: 0 }, 'again\n'])
    expect(spawnersBelow(pid)).not.toEqual([spawner])
  },
)

test('a worker without perl starts calls itself, in both tiers', async () => {
  const without = await Arena.open({
    under: ['/usr/bin/bwrap', '--dev-bind', '/', '/', '--ro-bind', '/etc/passwd', '/usr/bin/perl', '--'],
  })
  for (const tier of ['B', 'C'] as const) {
    const { outcome, out } = await without.launch({ plan: planOf(['echo', tier], { tier }) })
    expect([outcome, out]).toEqual([{ kind: 'exit', code: 0 }, `${tier}\n`])
  }
  expect(spawnersBelow((await without.facts()).pid)).toEqual([])
  await without.close()
})
