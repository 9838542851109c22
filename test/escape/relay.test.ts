// Promise: a relay that ended while it waited is no call's.

import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { Arena, eventually, planOf } from './arena.ts'
import { below, parentOf } from './census.ts'

const relaysBelow = (pid: number): number[] =>
  below(pid).filter((one) => {
    try {
      return readFileSync(`/proc/${one}/cmdline`, 'latin1').includes('TCP-LISTEN')
    } catch {
      return false // it ended meanwhile
    }
  })

test('relays that were killed while they waited are not given to calls', async () => {
  const arena = await Arena.open()
  const { pid } = await arena.facts()
  const plan = planOf(['true'], { egress: { mode: 'strict', hosts: ['example.com:443'] } })
  expect((await arena.launch({ plan })).outcome).toEqual({ kind: 'exit', code: 0 })
  await eventually('relays wait', () => relaysBelow(pid).length >= 2)
  const waiting = relaysBelow(pid)
  for (const one of waiting) process.kill(one, 'SIGKILL')
  await eventually('they are gone', () => waiting.every((one) => parentOf(`${one}`) === 0))
  for (let i = 0; i < 3; i++) expect((await arena.launch({ plan })).outcome).toEqual({ kind: 'exit', code: 0 })
  await arena.close()
})
