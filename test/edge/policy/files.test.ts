// Promise: policies can read the files that a call brings: number, size, paths and digests.

import { expect, test } from 'vitest'
import { sha256 } from '../../../shared/bytes/json.ts'
import { Fixtures, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'

const fixtures = new Fixtures('policy-files', sharedStack())
const agent = await fixtures.agent()
const tool = await fixtures.tool({ input_files: true })
const on = `principal, action == Action::"tool.execute/${tool}", resource`
const files = `@id("files-few") forbid (${on}) when { context.files.count > 2 };
  @id("files-small") forbid (${on}) when { context.files.bytes > 20 };
  @id("files-named") forbid (${on}) when { context.files.paths.contains("Makefile") };
  @id("files-known") forbid (${on}) when { context.files.sha256.contains("${sha256('known evil')}") };`

test('policies can read count, bytes, paths and digests of a call’s files', async () => {
  await fixtures.withPolicies({ files }, async () => {
    const run = unwrap(await agent.client('createRun', { body: {} })).id
    const said = async (brought: Record<string, string>): Promise<string[]> => {
      for (const text of Object.values(brought))
        unwrap(
          await agent.client('putFile', { params: { run, sha256: sha256(text) }, body: Buffer.from(text) }),
        )
      const named = Object.entries(brought).map(([path, text]) => ({ path, sha256: sha256(text) }))
      const { decision, plan } = unwrap(
        await agent.client('proposeCall', { params: { run }, body: { tool, args: {}, files: named } }),
      )
      const sized = Object.values(brought).map((text, i) => ({
        path: '',
        sha256: '',
        ...named[i],
        bytes: text.length,
      }))
      const tried = unwrap(await agent.client('decide', { body: { tool, args: {}, files: sized } }))
      expect([tried.decision, tried.plan]).toEqual([
        { ...decision, snapshot: tried.decision.snapshot },
        plan ?? null,
      ])
      return decision.effect === 'deny' ? decision.policies : []
    }
    expect(await said({ a: '1', b: '2' })).toEqual([])
    expect(await said({ a: '1', b: '2', c: '3' })).toEqual(['files-few'])
    expect(await said({ a: 'x'.repeat(21) })).toEqual(['files-small'])
    expect(await said({ Makefile: '1' })).toEqual(['files-named'])
    expect(await said({ 'sub/Makefile': '1' })).toEqual([])
    expect(await said({ harmless: 'known evil' })).toEqual(['files-known'])
  })
})
