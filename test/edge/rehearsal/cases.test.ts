// Promise: the cases in policies/cases are decided as they say. Each is decided as data, as
// operators do it, and, unless it sets its own clock or usage, by a dry run and by a real call. All
// three must agree.

import { readdirSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { readCases } from '../../../cli/policy/folder.ts'
import { ROOT } from '../../../infra/state.ts'
import { bearer, type Client, client } from '../../../shared/routes/client.ts'
import { type CaseResult, type PolicyCase, toolOfCase } from '../../../shared/wire/policy-cases.ts'
import { Fixtures, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'

const fixtures = new Fixtures('cases', sharedStack())

const read = readCases(join(ROOT, 'policies/cases'))
if (!read.ok) throw new Error(read.error.detail)
const files = read.value.map(({ path, cases }) => ({ file: basename(path), ...cases }))

describe.each(files)('$file', ({ file, ...sent }) => {
  const { tools, agents, operators, sets, cases } = sent
  let onPaper: CaseResult[]
  const clients = new Map<string, Client>()
  const keyed = (name: string, { key }: { key?: string | undefined }): void => {
    if (key === undefined)
      throw new Error(`\`${name}\` is there already; name it otherwise in ${basename(file)}`)
    clients.set(name, client(fixtures.url, bearer(key)))
  }
  const as = (name: string): Client => {
    const one = clients.get(name)
    if (one === undefined) throw new Error(`no \`${name}\` in ${file}`)
    return one
  }

  beforeAll(async () => {
    const checked = unwrap(await fixtures.root('checkPolicies', { body: { cases: sent } }))
    expect(checked.refusal).toBeNull()
    onPaper = checked.results
    for (const [name, change] of Object.entries(tools))
      unwrap(await fixtures.root('putTool', { params: { name }, body: toolOfCase(change) }))
    for (const [name, spec] of Object.entries(operators))
      keyed(name, unwrap(await fixtures.root('putOperator', { params: { name }, body: spec })))
    for (const [name, spec] of Object.entries(agents))
      keyed(
        name,
        unwrap(await fixtures.root('putAgent', { params: { name }, body: { pool: fixtures.pool, ...spec } })),
      )
  })
  afterAll(async () => {
    for (const name of Object.keys(tools)) unwrap(await fixtures.root('deleteTool', { params: { name } }))
    for (const name of Object.keys(agents)) unwrap(await fixtures.root('deleteAgent', { params: { name } }))
    for (const name of Object.keys(operators))
      unwrap(await fixtures.root('deleteOperator', { params: { name } }))
  })

  const changesOf = (one: PolicyCase): Record<string, string | null> => ({
    ...Object.fromEntries(
      one.with.map((name) => [name, sets[name]?.join('\n') ?? `no set \`${name}\` in ${file}`]),
    ),
    ...Object.fromEntries(one.without.map((name) => [name, null])),
  })
  const named = cases.map((one) => [one.description, one] as const)

  test.each(named)('%s', (description) => {
    expect(onPaper.find((result) => result.description === description)).toMatchObject({
      passed: true,
      differs: [],
    })
  })

  // A running edge uses the real time, counts usage itself (test/edge/run/usage.test.ts), knows
  // files by their bytes (test/edge/policy/files.test.ts) and the folders of its runs
  // (test/edge/run/secrets-in-folder.test.ts).
  const live = named.filter(
    ([
      ,
      {
        at,
        used,
        folder_met_secret,
        request: { files },
      },
    ]) => at === undefined && used === undefined && !folder_met_secret && files.length === 0,
  )
  if (live.length === 0) return
  test.each(live)(
    'a real call agrees with the case: %s',
    async (_description, { request, expect: expected, silent, approved_by, ...sides }) => {
      const agent = as(request.agent)
      const { agent: _, run, ...call } = request
      const body = { ...call, ...(run === undefined ? {} : { run }) }
      const { id } = unwrap(await agent('createRun', { body: run ?? {} })) // before policies change, because these cases use the real call
      const ask = async () => {
        // An agent without permission for dry runs is refused one; the real proposal is decided
        // anyway.
        const tried = sides.without.length > 0 ? null : unwrap(await agent('decide', { body }))
        const proposed = unwrap(await agent('proposeCall', { params: { run: id }, body: call }))
        if (tried !== null)
          expect([tried.decision, tried.plan]).toEqual([
            { ...proposed.decision, snapshot: tried.decision.snapshot },
            proposed.plan ?? null,
          ])
        for (const name of approved_by)
          unwrap(
            await as(name)('answerApproval', {
              params: { id: proposed.approval?.id ?? 'none' },
              body: { decision: 'approve' },
            }),
          )
        return approved_by.length === 0
          ? proposed
          : unwrap(await agent('readCall', { params: { run: proposed.run, call: proposed.id } }))
      }
      const changes = changesOf({ request, expect: expected, silent, approved_by, ...sides })
      const made = Object.keys(changes).length === 0 ? await ask() : await fixtures.withPolicies(changes, ask)

      const { plan } = expected
      if (approved_by.length === 0) expect(made.decision).toMatchObject(decided({ expect: expected }))
      if (plan !== undefined) expect(made.plan).toMatchObject(planned(plan))
      expect(made.state).toBe({ allow: 'granted', ask: 'awaiting_approval', deny: 'denied' }[expected.effect])
      for (const words of silent) expect(JSON.stringify(made.decision)).not.toContain(words)
      if (made.ended_at_ms === undefined)
        unwrap(await fixtures.root('cancelRun', { params: { run: made.run } }))
    },
  )
})

/** Policies regardless of their order. */
const decided = ({ expect: { plan: _, policies, ...said } }: Pick<PolicyCase, 'expect'>) =>
  policies === undefined
    ? said
    : {
        ...said,
        policies: expect.toSatisfy(
          (given: string[]) => given.toSorted().join() === policies.toSorted().join(),
          policies.join(),
        ),
      }

const planned = ({ tier, egress: mode, hosts }: NonNullable<PolicyCase['expect']['plan']>) => ({
  tier,
  egress: { mode, ...(hosts === undefined ? {} : { hosts }) },
})

test('every file of cases has a description, and no case occurs twice', () => {
  expect(files.length).toBeGreaterThan(5)
  for (const { file, about, cases } of files)
    expect([file, about.length > 40, new Set(cases.map(({ description }) => description)).size]).toEqual([
      file,
      true,
      cases.length,
    ])
})

test('every example policy set has cases, and each of its policies decides at least one', () => {
  const folder = join(ROOT, 'policies/examples')
  const decisive = new Set(
    files.flatMap(({ cases }) => cases.flatMap(({ expect: { policies = [] } }) => policies)),
  )
  for (const example of readdirSync(folder)) {
    const ids = [...readFileSync(join(folder, example), 'utf8').matchAll(/@id\("([^"]+)"\)/g)].map(
      ([, id]) => id,
    )
    expect([example, ids.length > 0, ids.filter((id) => !decisive.has(id ?? ''))]).toEqual([
      example,
      true,
      [],
    ])
  }
})
