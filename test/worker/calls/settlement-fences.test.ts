// A call that was granted twice has two results; the edge's answer to the first does not affect the
// second.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { seal } from '../../../shared/evidence/dsse.ts'
import { STATEMENT_TYPE } from '../../../shared/evidence/statement.ts'
import { SettlementSender } from '../../../worker/calls/settlements.ts'
import { Spool, type SpooledSettlement } from '../../../worker/calls/spool.ts'
import { openLog } from '../../../worker/host/log.ts'
import { openEdgeLink } from '../../../worker/link/client.ts'
import { eventually } from '../../support/eventually.ts'
import { newSigner } from '../../support/worker/fake-edge.ts'
import { FaultyPath } from '../../support/worker/faulty-path.ts'

const CALL = 'call_01JZ0000000000000000000000_1'
const signer = newSigner()
const result = (fence: number): SpooledSettlement => ({
  call: CALL,
  deadline_ms: Date.now() + 60_000,
  settlement: {
    fence,
    envelope: seal(STATEMENT_TYPE, { fence }, signer),
    output: { stdout: '', stderr: '' },
  },
})
const refusal = (status: number, code: string) => ({
  status,
  headers: { 'content-type': 'application/json' },
  body: Buffer.from(JSON.stringify({ status, code, detail: 'no' })),
})

test('L4 a late refusal of an earlier result drops that result only, not the one waiting after it', async () => {
  const home = mkdtempSync(join(tmpdir(), 'countersign-fences-'))
  const path = new FaultyPath('http://127.0.0.1:9')
  const link = openEdgeLink(await path.open(), {
    tenant: 'default',
    worker: 'wrk_01JZ0000000000000000000000',
    signer,
  })
  const spool = new Spool(join(home, 'spool'))
  const settling = new SettlementSender(
    link,
    spool,
    signer,
    openLog(true, () => undefined),
  )
  onTestFinished(async () => {
    settling.end()
    link.close()
    await path.close()
    rmSync(home, { recursive: true, force: true })
  })
  expect(spool.open(Date.now()).ok).toBe(true)
  const busy = refusal(500, 'internal')
  const late = Promise.withResolvers<void>()
  const refused = Promise.withResolvers<void>()
  path.next('settle', async ({ reply }) => reply(busy))
  path.next('settle', async ({ reply }) => {
    await late.promise
    reply(refusal(409, 'stale_fence'))
    refused.resolve()
  })
  path.next('settle', async ({ reply }) => reply(busy), 1_000)

  expect(await settling.settle(result(1))).toBe('waiting')
  await eventually('the first one is offered again', () => path.count('settle') === 2)
  expect(await settling.settle(result(2))).toBe('waiting')
  late.resolve()
  await refused.promise
  const asked = path.count('settle')
  await eventually('the second one is offered', () => path.count('settle') > asked)
  expect(settling.leasedCalls()).toEqual([{ call: CALL, fence: 2 }])
  expect(new Spool(join(home, 'spool')).open(Date.now())).toMatchObject({
    value: { settled: [{ settlement: { fence: 2 } }] },
  })
})
