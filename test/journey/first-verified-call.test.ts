// Promise: with a running stack, the command line alone is enough to get to a verified call, an
// approved one and a denied one, and to administer agents, operators, tools and workers.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import type { CliResult } from '../support/countersign.ts'
import { countersign } from '../support/countersign.ts'
import { sharedStack, sharedState } from '../support/stack/stack.ts'

const { url } = sharedStack()
const folder = mkdtempSync(join(tmpdir(), 'countersign-journey-'))
afterAll(() => rmSync(folder, { recursive: true }))

/** Runs the command line in `folder`, with the state folder of the running stack. */
const run = (...args: readonly string[]): Promise<CliResult> =>
  countersign(args, { cwd: folder, env: { COUNTERSIGN_STATE: sharedState() } })
const as = (key: string, ...args: readonly string[]): Promise<CliResult> =>
  countersign(args, { cwd: folder, env: { COUNTERSIGN_URL: url, COUNTERSIGN_KEY: key } })
/** The JSON output of a command that must succeed. */
async function jsonOf(ran: Promise<CliResult>): Promise<Record<string, unknown>> {
  const { code, out, err } = await ran
  expect({ code, err }).toEqual({ code: 0, err: '' })
  return JSON.parse(out)
}
const idIn = (text: string, kind: 'call' | 'apr'): string =>
  new RegExp(`${kind}_[0-9A-Z]{26}_\\d+`).exec(text)?.[0] ?? ''

/** Fetches the evidence of a call and verifies it offline. */
async function verified(call: string): Promise<CliResult> {
  expect(await run('attestation', call, '-o', `${call}.json`)).toMatchObject({ code: 0 })
  writeFileSync(join(folder, 'keys.json'), (await run('keys', 'list')).out)
  return countersign(['verify', `${call}.json`, '--keys', 'keys.json', '--call', call], { cwd: folder })
}

describe('a first call', () => {
  test('a call that policy allows runs, and its attestation verifies', async () => {
    const ran = await run('call', 'text_stats', '--args', '{"text":"who signs, answers\\n"}')
    expect(ran).toMatchObject({ code: 0, err: '' })
    expect(ran.out).toMatch(/^succeeded {2}text_stats/)
    expect(ran.out).toMatch(/^ {2}│ +1 +3 +19$/m)
    const proof = await verified(idIn(ran.out, 'call'))
    expect(proof).toMatchObject({ code: 0, err: '', out: expect.stringMatching(/^verified$/m) })
  })

  test('a call that needs an approval runs exactly as the approval showed it', async () => {
    const asked = await run(
      'call',
      'process_run',
      '--args',
      '{"command":"printf","args":["%s|","a b","$HOME"]}',
    )
    expect(asked).toMatchObject({ code: 0, out: expect.stringMatching(/^awaiting_approval/) })
    const [call, approval] = [idIn(asked.out, 'call'), idIn(asked.out, 'apr')]
    expect((await run('approvals', 'list')).out).toMatch(
      new RegExp(`^${approval} .* ${url}/approve/\\S+$`, 'm'),
    )
    const card = await run('approvals', 'show', approval)
    expect(card.out).toContain('["printf","%s|","a b","$HOME"]')
    expect(await run('approvals', 'approve', approval, '--reason', 'a test')).toMatchObject({
      code: 0,
      out: expect.stringMatching(/^approved/),
    })
    const ended = await run('calls', 'show', call, '--wait', '30', '--raw')
    expect(ended).toMatchObject({ code: 0, out: 'a b|$HOME|' })
    const proof = await verified(call)
    expect(proof.out).toMatch(/approval +approve by root$/m)
    expect(proof.code).toBe(0)
    expect(await run('approvals', 'approve', approval)).toMatchObject({
      code: 1,
      err: expect.stringContaining('answered'),
    })
  })

  test('a call that an operator denies does not run, and its attestation verifies', async () => {
    const asked = await run('call', 'process_run', '--args', '{"command":"id"}')
    expect(await run('approvals', 'deny', idIn(asked.out, 'apr'), '--reason', 'not today')).toMatchObject({
      code: 0,
    })
    const ended = await run('calls', 'show', idIn(asked.out, 'call'))
    expect(ended).toMatchObject({ code: 1, out: expect.stringMatching(/^rejected/) })
    expect(ended.out).toContain('not today')
    expect((await verified(idIn(asked.out, 'call'))).out).toMatch(/ran +nothing$/m)
  })

  test('a call that policy forbids is denied with its reason, as `policy explain` predicted, and its attestation verifies', async () => {
    const dry = await run(
      'policy',
      'explain',
      '--agent',
      'dev',
      '--tool',
      'process_run',
      '--args',
      '{"command":"sudo"}',
    )
    expect(dry).toMatchObject({ code: 1, out: expect.stringMatching(/^deny/) })
    const ran = await run('call', 'process_run', '--args', '{"command":"sudo","args":["id"]}')
    expect(ran).toMatchObject({ code: 1, out: expect.stringMatching(/^denied/) })
    expect(ran.out).toContain(
      'deny by no-privilege-tools: agents may not run programs that change the user or the host',
    )
    expect(await verified(idIn(ran.out, 'call'))).toMatchObject({ code: 0 })
  })

  test('a call with invalid arguments is refused, and the error names the field', async () => {
    const ran = await run('call', 'text_stats', '--args', '{"text":7}')
    expect(ran).toMatchObject({ code: 1, out: '', err: expect.stringMatching(/text/) })
    expect((await run('call', 'no_such_tool')).code).toBe(1)
  })

  test('a call that waits for an approval can be cancelled', async () => {
    const asked = await run('call', 'process_run', '--args', '{"command":"id"}')
    expect(await run('calls', 'cancel', idIn(asked.out, 'call'))).toMatchObject({
      code: 0,
      out: expect.stringMatching(/^cancelled/),
    })
    expect(await run('calls', 'cancel', idIn(asked.out, 'call'))).toMatchObject({ code: 1 })
  })
})

describe('the journal of a run', () => {
  test('the journal of a run is fetched whole and verifies against the head that `runs show` prints', async () => {
    const first = idIn((await run('call', 'text_stats', '--args', '{"text":"1"}')).out, 'call')
    const id = `run_${first.split('_')[1]}`
    expect(await run('call', 'text_stats', '--args', '{"text":"2"}', '--run', id)).toMatchObject({
      code: 0,
      out: expect.stringContaining(first.replace(/_1$/, '_2')),
    })
    const { journal } = await jsonOf(run('runs', 'show', id, '--json'))
    expect(await run('runs', 'journal', id, '-o', 'journal.json')).toMatchObject({ code: 0 })
    const { head } = journal as { head: string } // the wire schema guarantees it
    expect(await run('verify', '--journal', 'journal.json', '--head', head)).toMatchObject({
      code: 0,
      out: expect.stringMatching(/^verified$/m),
    })
    expect(
      await run(
        'verify',
        '--journal',
        'journal.json',
        '--head',
        head.replace(/^./, (first) => (first === '0' ? '1' : '0')),
      ),
    ).toMatchObject({ code: 1 })
  })
})

describe('an operator', () => {
  test('an operator creates an agent, rotates its key and revokes it; each takes effect immediately', async () => {
    const { key } = await jsonOf(run('agents', 'put', 'reporter', '--tools', 'text_stats', '--json'))
    expect(key).toMatch(/^cs_agent_default_/)
    const [old, call] = [String(key), ['call', 'text_stats', '--args', '{"text":"x"}']]
    expect(await as(old, ...call)).toMatchObject({ code: 0 })
    expect(await as(old, 'call', 'process_run', '--args', '{"command":"id"}')).toMatchObject({ code: 1 })
    expect(
      (await jsonOf(run('agents', 'put', 'reporter', '--tools', 'text_stats,http_fetch', '--json')))['key'],
    ).toBeUndefined()
    const { key: fresh } = await jsonOf(run('agents', 'rotate', 'reporter', '--json'))
    expect(await as(old, ...call)).toMatchObject({ code: 1, err: expect.stringContaining('key') })
    expect(await as(String(fresh), ...call)).toMatchObject({ code: 0 })
    expect((await run('agents', 'list')).out).toMatch(/^reporter +text_stats,http_fetch/m)
    expect(await run('agents', 'revoke', 'reporter')).toMatchObject({
      code: 0,
      out: 'agent reporter revoked\n',
    })
    expect(await as(String(fresh), ...call)).toMatchObject({ code: 1 })
  })

  test('an operator creates an approver, whose key can list approvals and not administer', async () => {
    const { key } = await jsonOf(run('operators', 'put', 'ann', '--roles', 'approver', '--json'))
    expect(await as(String(key), 'approvals', 'list')).toMatchObject({ code: 0 })
    expect(await as(String(key), 'agents', 'revoke', 'dev')).toMatchObject({
      code: 1,
      err: expect.stringContaining('agent.write'),
    })
    expect((await run('operators', 'list')).out).toMatch(/^ann +approver/m)
    expect(await run('operators', 'revoke', 'ann')).toMatchObject({ code: 0 })
    expect(await as(String(key), 'approvals', 'list')).toMatchObject({ code: 1 })
  })

  test('an operator prints a tool, changes it and puts it back as a new version', async () => {
    const tool = await jsonOf(run('tools', 'show', 'text_stats', '--json'))
    const { name: _name, version: _version, digest: _digest, ...spec } = tool
    writeFileSync(join(folder, 'text_again.json'), JSON.stringify(spec))
    const put = await jsonOf(run('tools', 'put', 'text_again.json', '--json'))
    expect(put).toMatchObject({ name: 'text_again', version: 1 })
    writeFileSync(join(folder, 'changed.json'), JSON.stringify({ ...put, description: 'Counts, again.' }))
    expect(await jsonOf(run('tools', 'put', 'changed.json', '--json'))).toMatchObject({
      name: 'text_again',
      version: 2,
    })
    expect((await run('tools', 'list')).out).toMatch(/^text_again +2 /m)
    expect(await run('tools', 'withdraw', 'text_again')).toMatchObject({ code: 0 })
    expect(await run('tools', 'show', 'text_again')).toMatchObject({ code: 1 })
  })

  test('an operator prints an enrolment token alone on its line, and lists workers and ended calls', async () => {
    expect((await run('workers', 'enrol')).out).toMatch(/^cs_enrol_default_\S+\n$/)
    expect((await run('workers', 'list')).out).toContain(sharedStack().worker_id)
    expect((await run('calls', 'list', '--last', '1')).out.trimEnd().split('\n')).toHaveLength(2)
  })
})
