// The policies' promises as data (policies/cases): who asks for what, and what comes of it, by which rule. Each case is asked twice, as a dry
// run and for real, and both must answer the same: one function decides.

import { readdirSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { ROOT } from '../../infra/state.ts'
import { bearer, type Client, client } from '../../shared/client.ts'
import { AgentSpec, RunSpec, ToolSpec } from '../../shared/wire.ts'
import { Desk, granted, toolSpec } from '../support/desk.ts'
import { sharedStack } from '../support/stack.ts'

const desk = new Desk('cases', sharedStack())

const Case = z.strictObject({
  description: z.string(),
  /** Sets of the file that stand beside the tenant's own, and files of the tenant's own that do not. */
  with: z.array(z.string()).default([]),
  without: z.array(z.string()).default([]),
  request: z.strictObject({
    agent: z.string(),
    tool: z.string(),
    args: z.record(z.string(), z.unknown()).default({}),
    run: RunSpec.optional(),
  }),
  expect: z.strictObject({
    effect: z.enum(['allow', 'ask', 'deny']),
    code: z.string().optional(),
    policies: z.array(z.string()).optional(),
    reason: z.string().optional(),
    plan: z.strictObject({ tier: z.string(), egress: z.string(), hosts: z.array(z.string()).optional() }).optional(),
  }),
  /** What the answer must not say. */
  silent: z.array(z.string()).default([]),
})

const Executor = ToolSpec.shape.executor.partial()
const Cases = z.strictObject({
  about: z.string(),
  tools: z.record(z.string(), ToolSpec.partial().extend({ executor: Executor.optional() })),
  agents: z.record(z.string(), AgentSpec),
  sets: z.record(z.string(), z.array(z.string())).default({}),
  cases: z.array(Case).min(1),
})

const FOLDER = join(ROOT, 'policies/cases')
const files = readdirSync(FOLDER).filter((name) => name.endsWith('.json'))

/** Any tool that does not say otherwise takes anything and runs nothing. */
const specOf = (change: z.infer<typeof Cases>['tools'][string]): ToolSpec =>
  toolSpec({ input_schema: { type: 'object' }, ...(change as object) })

describe.each(files)('%s', (file) => {
  const { tools, agents, sets, cases } = Cases.parse(JSON.parse(readFileSync(join(FOLDER, file), 'utf8')))
  const clients = new Map<string, Client>()

  beforeAll(async () => {
    for (const [name, change] of Object.entries(tools)) granted(await desk.root('putTool', { params: { name }, body: specOf(change) }))
    for (const [name, spec] of Object.entries(agents)) {
      const { key } = granted(await desk.root('putAgent', { params: { name }, body: { pool: desk.pool, ...spec } }))
      if (key === undefined) throw new Error(`an agent \`${name}\` is there already; name it otherwise in ${basename(file)}`)
      clients.set(name, client(desk.url, bearer(key)))
    }
  })
  afterAll(async () => {
    for (const name of Object.keys(tools)) granted(await desk.root('deleteTool', { params: { name } }))
    for (const name of Object.keys(agents)) granted(await desk.root('deleteAgent', { params: { name } }))
  })

  test.each(cases.map((one) => [one.description, one] as const))(
    '%s',
    async (_description, { request, expect: expected, silent, ...sides }) => {
      const agent = clients.get(request.agent)
      if (agent === undefined) throw new Error(`no agent \`${request.agent}\` in ${file}`)
      const { agent: _, run, ...call } = request
      const body = { ...call, ...(run === undefined ? {} : { run }) }
      const beside = Object.fromEntries(sides.with.map((name) => [name, sets[name]?.join('\n') ?? `no set \`${name}\` in ${file}`]))
      const left = Object.fromEntries(sides.without.map((name) => [name, null]))
      const changes = { ...beside, ...left }
      const ask = async () => {
        // Without a permission to try, the dry run itself is refused; the real proposal is decided all the same.
        const tried = sides.without.length > 0 ? null : granted(await agent('decide', { body }))
        return { tried, made: granted(await agent('proposeCallInNewRun', { body })) }
      }
      const { tried, made } = Object.keys(changes).length === 0 ? await ask() : await desk.withPolicies(changes, ask)

      const { plan, ...decided } = expected
      expect(made.decision).toMatchObject(decided)
      if (plan !== undefined) {
        expect(made.plan).toMatchObject({
          tier: plan.tier,
          egress: { mode: plan.egress, ...(plan.hosts === undefined ? {} : { hosts: plan.hosts }) },
        })
      }
      expect(made.state).toBe({ allow: 'granted', ask: 'awaiting_approval', deny: 'denied' }[expected.effect])
      if (tried !== null)
        expect([tried.decision, tried.plan]).toEqual([{ ...made.decision, snapshot: tried.decision.snapshot }, made.plan ?? null])
      for (const words of silent) expect(JSON.stringify(made.decision)).not.toContain(words)
      if (made.ended_at_ms === undefined) granted(await desk.root('cancelRun', { params: { run: made.run } }))
    },
  )
})

test('every file of cases says what it is about, and no case is there twice', () => {
  expect(files.length).toBeGreaterThan(5)
  for (const file of files) {
    const { about, cases } = Cases.parse(JSON.parse(readFileSync(join(FOLDER, file), 'utf8')))
    expect([file, about.length > 40, new Set(cases.map(({ description }) => description)).size]).toEqual([file, true, cases.length])
  }
})
