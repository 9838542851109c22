// Promise: on the command line, an operator prints an approval's arguments, reduces them, previews
// the change and approves exactly the changed call.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { countersign } from '../support/countersign.ts'
import { Fixtures } from '../support/fixtures.ts'
import { sharedStack, sharedState } from '../support/stack/stack.ts'

const fixtures = new Fixtures('edits-cli', sharedStack())
const agent = await fixtures.agent({ pool: 'default' })
const run = (...argv: string[]) => countersign(argv, { env: { COUNTERSIGN_STATE: sharedState() } })
const folder = mkdtempSync(join(tmpdir(), 'countersign-edits-'))
afterAll(() => rmSync(folder, { recursive: true }))

test('an operator reduces the arguments, previews the change and approves it; the changed call runs and says so', async () => {
  const call = await fixtures.proposeForApproval(agent.client, 'process_run', {
    command: 'echo',
    args: ['one', 'two', '--token', 'abcdefghijklmnop'],
  })
  const { id } = call.approval
  const taken = await run('approvals', 'arguments', id)
  expect(taken.out).not.toContain('abcdefghijklmnop')
  const { command, args } = JSON.parse(taken.out) as { command: string; args: string[] } // as `process_run` takes them
  const file = join(folder, 'less.json')
  writeFileSync(file, JSON.stringify({ command, args: args.filter((word) => word !== 'two') }))
  const looked = await run('approvals', 'approve', id, '--arguments', `@${file}`, '--dry-run')
  expect(looked).toMatchObject({
    code: 0,
    out: expect.stringMatching(
      /\/args\/1\n- │ "two"\n\+ │ "--token"[\s\S]*after your approval, the call runs/,
    ),
  })
  expect((await run('approvals', 'list')).out).toContain(id)
  expect(await run('approvals', 'approve', id, '--dry-run')).toMatchObject({ code: 2 })
  expect(await run('approvals', 'approve', id, '--arguments', `@${file}`, '--session')).toMatchObject({
    code: 2,
  })
  expect(await run('approvals', 'approve', id, '--arguments', `@${file}`, '--alike', '7')).toMatchObject({
    code: 2,
  })
  expect(
    await run('approvals', 'approve', id, '--arguments', `@${file}`, '--digest', '0'.repeat(64)),
  ).toMatchObject({
    code: 1,
    err: expect.stringContaining(call.digest),
  })
  expect(await run('approvals', 'approve', id, '--arguments', '{"command":"echo","more":1}')).toMatchObject({
    code: 1,
  })
  const approved = await run(
    'approvals',
    'approve',
    id,
    '--arguments',
    `@${file}`,
    '--digest',
    call.digest,
    '--reason',
    'one will do',
  )
  expect(approved).toMatchObject({ code: 0, out: expect.stringContaining(`from ${call.digest}`) })
  const ended = await agent.client('readCall', { params: { run: call.run, call: call.id }, wait: 20 })
  expect(ended.ok && ended.value).toMatchObject({
    state: 'succeeded',
    result: { output: 'one --token abcdefghijklmnop\n' },
  })
  expect((await run('calls', 'show', call.id)).out).toContain('an operator changed the arguments')
})
