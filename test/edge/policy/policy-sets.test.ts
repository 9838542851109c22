// Promise: a tenant's policy sets are immutable versions, one of which is in force. Concurrent
// changes are serialized, a rollback takes effect at once, and versions can be compared by policy.

import { afterAll, expect, test } from 'vitest'
import { LIMITS } from '../../../shared/limits.ts'
import { Fixtures, refusalOf, unwrap } from '../../support/fixtures.ts'
import { fileOf } from '../../support/stack/object-file.ts'
import { startTestStack } from '../../support/stack/stack.ts'

const stack = await startTestStack({ worker: 'idle' })
afterAll(stack.stop)
const fixtures = new Fixtures('sets', stack.dev)
const { root } = fixtures

const DEFAULTS = unwrap(await root('readPolicies', {})).policies
const TIDE =
  '@id("no-tide") @reason("the tide") forbid (principal, action in Action::"tool.execute", resource) when { context.session_id == "tide" };'
/** The defaults and one more text, different for each set. */
const setWith = (more: Record<string, string> = {}) => ({
  ...DEFAULTS,
  mark: `@id("${fixtures.name()}") ${TIDE.slice(15)}`,
  ...more,
})

const inForce = async () => unwrap(await root('readPolicies', {}))
const versions = async () => unwrap(await root('listPolicyVersions', {})).items
const read = async (version: number) =>
  unwrap(await root('readPolicyVersion', { params: { version: `${version}` } }))
const put = (policies: Record<string, string>, match?: string, activate = true) =>
  root('putPolicies', {
    body: { policies, activate },
    ...(match === undefined ? {} : { headers: { 'if-match': match } }),
  })
const activate = (version: number, match?: string, by = root) =>
  by('activatePolicyVersion', {
    params: { version: `${version}` },
    ...(match === undefined ? {} : { headers: { 'if-match': match } }),
  })

test('a new tenant’s first policy version contains the defaults', async () => {
  const [first, ...others] = await versions()
  expect(others).toEqual([])
  expect(first).toMatchObject({
    version: 1,
    active: true,
    author: 'the edge',
    note: 'defaults',
    activated_by: 'the edge',
  })
  expect(first?.policy_count).toBe(Object.keys(DEFAULTS).length)
  expect(await inForce()).toMatchObject({ version: 1, previous: null, digest: first?.digest })
})

test('each policy version keeps its text, author and note, and who activated it when', async () => {
  const before = await inForce()
  const policies = setWith()
  const made = unwrap(
    await root('putPolicies', { body: { policies, note: 'for the tide', activate: false } }),
  )
  expect(made).toMatchObject({
    version: before.version + 1,
    active: false,
    author: 'root',
    note: 'for the tide',
    activated_at_ms: null,
  })
  expect(await inForce()).toEqual(before)
  const chief = await fixtures.operator(['admin'])
  const { warnings, ...active } = unwrap(await activate(made.version, undefined, chief.client))
  expect(warnings).toEqual([])
  expect(active).toMatchObject({
    version: made.version,
    active: true,
    author: 'root',
    activated_by: chief.name,
  })
  expect(await inForce()).toMatchObject({
    version: made.version,
    policies,
    digest: made.digest,
    previous: before.version,
  })
  expect(await read(made.version)).toEqual({
    ...active,
    policies,
    activations: [{ at_ms: active.activated_at_ms, by: chief.name }],
  })
  expect(await read(before.version)).toMatchObject({
    active: false,
    policies: before.policies,
    digest: before.digest,
  })
})

test('decisions name the policy set in force together with the floor', async () => {
  const agent = await fixtures.agent()
  const tool = await fixtures.tool()
  const { digest, policy_set } = await inForce()
  const { decision } = unwrap(await agent.client('decide', { body: { tool, args: {} } }))
  expect(decision.policy_set).toBe(policy_set)
  expect(policy_set).not.toBe(digest)
})

test('storing the newest version’s text again makes no version, and storing an older one’s does', async () => {
  const policies = setWith()
  const first = unwrap(await put(policies, undefined, false))
  expect(unwrap(await put(Object.fromEntries(Object.entries(policies).reverse()), undefined, false))).toEqual(
    first,
  )
  const enforced = unwrap(await put(policies))
  expect(enforced).toMatchObject({ version: first.version, active: true, activated_by: 'root' })
  expect(unwrap(await put(policies))).toEqual(enforced)
  expect((await read(first.version)).activations).toHaveLength(1)
  unwrap(await put(setWith()))
  expect(unwrap(await put(policies)).version).toBe(first.version + 2)
})

test('storing the same text does not change another version’s author or note', async () => {
  const policies = setWith()
  const noted = async (by: typeof root, note: string) =>
    unwrap(await by('putPolicies', { body: { policies, note, activate: false } }))
  const mal = (await fixtures.operator(['admin'])).client
  const { version } = await noted(root, 'for the tide')
  const { note, author, warnings } = await noted(mal, 'signed off by security')
  expect({ note, author, warnings }).toEqual({
    note: 'for the tide',
    author: 'root',
    warnings: [{ at: '/note', message: expect.stringMatching(/was dropped: .* `root`/) }],
  })
  expect(await read(version)).toMatchObject({ note: 'for the tide', author: 'root' })
  expect(await noted(mal, 'for the tide')).toMatchObject({ warnings: [] })
  expect(await noted(root, 'for the ebb')).toMatchObject({ version, note: 'for the ebb', warnings: [] })
})

test('a rollback puts an older policy version in force, which decides the next call', async () => {
  const agent = await fixtures.agent()
  const tool = await fixtures.tool()
  const effect = async () =>
    unwrap(await agent.client('decide', { body: { tool, args: {}, run: { session: 'tide' } } })).decision
      .effect
  unwrap(await put(DEFAULTS))
  const { version } = await inForce()
  expect(await effect()).toBe('allow')
  const tide = unwrap(await put({ ...DEFAULTS, tide: TIDE }))
  expect(await effect()).toBe('deny')
  const { previous } = await inForce()
  expect(previous).toBe(version)
  unwrap(await activate(version))
  expect(await effect()).toBe('allow')
  expect(await inForce()).toMatchObject({ version, previous: tide.version })
  expect((await read(version)).activations).toHaveLength(2)
  expect(unwrap(await activate(version))).toMatchObject({ version, active: true })
  expect((await read(version)).activations).toHaveLength(2)
})

test('an unknown policy version can’t be activated, read or compared', async () => {
  const { version } = await inForce()
  for (const none of ['999999', '0', '-1', '1.0', '0x1', ' 1', 'latest'])
    for (const name of ['readPolicyVersion', 'activatePolicyVersion', 'diffPolicyVersions'] as const)
      expect(refusalOf(await root(name, { params: { version: none } }))).toBe('404 not_found')
  expect(
    refusalOf(
      await root('diffPolicyVersions', { params: { version: `${version}` }, query: { against: 999_999 } }),
    ),
  ).toBe('404 not_found')
})

const tagged = async () => {
  const answer = await fetch(new URL('/v1/policies', fixtures.url), {
    headers: { authorization: `Bearer ${fixtures.rootKey}` },
  })
  return answer.headers.get('etag') ?? ''
}

test('a change with the `If-Match` tag of an older set is refused and changes nothing', async () => {
  const tag = await tagged()
  expect(tag).toBe(`"${(await inForce()).version}"`)
  const made = unwrap(await put(setWith(), tag))
  expect(await tagged()).toBe(`"${made.version}"`)
  const all = await versions()
  for (const stale of [tag, `W/"${made.version}"`, '"no-version"', '"0"', `${tag}, "999999"`, '""']) {
    expect([stale, refusalOf(await put(setWith(), stale))]).toEqual([stale, '412 version_conflict'])
    expect([stale, refusalOf(await put(setWith(), stale, false))]).toEqual([stale, '412 version_conflict'])
    expect([stale, refusalOf(await activate(1, stale))]).toEqual([stale, '412 version_conflict'])
  }
  expect(await versions()).toEqual(all)
  const refused = await put(setWith(), tag)
  expect(refused.ok || [refused.error.detail, refused.error.todo]).toEqual([
    expect.stringContaining(`version ${made.version} is active`),
    expect.stringContaining('ETag'),
  ])
  expect(unwrap(await put(setWith(), `"1", "${made.version}"`)).version).toBe(made.version + 1)
  expect(unwrap(await put(setWith(), '*')).version).toBe(made.version + 2)
})

test.each(['7', 'latest', '"7', '"a b"', '*, "7"', ','])(
  'an invalid `If-Match` tag is refused, not ignored: %j',
  async (match) => {
    const all = await versions()
    expect(refusalOf(await put(setWith(), match))).toBe('400 invalid_request')
    expect(refusalOf(await activate(1, match))).toBe('400 invalid_request')
    expect(await versions()).toEqual(all)
  },
)

test('a policy change whose answer was lost can be sent again unchanged', async () => {
  const tag = await tagged()
  const policies = setWith()
  const made = unwrap(await put(policies, tag))
  expect(unwrap(await put(policies, tag))).toEqual(made)
  expect(unwrap(await activate(made.version, tag))).toEqual(made)
})

test('only one of several concurrent changes to the same policy set succeeds', async () => {
  const tag = await tagged()
  const before = (await versions()).length
  const answers = await Promise.all(Array.from({ length: 12 }, () => put(setWith(), tag)))
  expect(answers.filter(({ ok }) => ok)).toHaveLength(1)
  expect(answers.filter(({ ok }) => !ok).map(refusalOf)).toEqual(Array(11).fill('412 version_conflict'))
  expect((await versions()).length).toBe(before + 1)
})

test('concurrent uploads and rollbacks are serialized: one version is in force, and no set is lost', async () => {
  const before = (await versions()).length
  const answers = await Promise.all(
    Array.from({ length: 12 }, (_, i) => (i % 2 === 0 ? put(setWith()) : activate(1))),
  )
  answers.map(unwrap)
  const all = await versions()
  expect(all.length).toBe(before + 6)
  expect(all.filter(({ active }) => active)).toHaveLength(1)
  expect(all.find(({ active }) => active)?.version).toBe((await inForce()).version)
})

test('a set under which its activator could not roll back is not put in force', async () => {
  const before = await inForce()
  const operators = (DEFAULTS['operators'] ?? '').replace(', Action::"policy.activate"', '')
  expect(operators).not.toBe(DEFAULTS['operators'])
  const trap = { ...DEFAULTS, operators }
  expect(refusalOf(await put(trap))).toBe('422 invalid_policy')
  const stored = unwrap(await put(trap, undefined, false))
  expect(refusalOf(await activate(stored.version))).toBe('422 invalid_policy')
  expect(await inForce()).toEqual(before)
})

test('writing and activating a policy set are separate permissions', async () => {
  const split = {
    ...DEFAULTS,
    split: `@id("writers") permit (principal in Role::"writer", action in [Action::"policy.write", Action::"policy.read"], resource);
      @id("activators") permit (principal in Role::"activator", action in [Action::"policy.activate", Action::"policy.read"], resource);`,
  }
  unwrap(await put(split))
  const [writer, activator] = [await fixtures.operator(['writer']), await fixtures.operator(['activator'])]
  const body = { policies: setWith(split), note: 'two of us' }
  expect(refusalOf(await writer.client('putPolicies', { body }))).toBe('403 forbidden')
  const stored = unwrap(await writer.client('putPolicies', { body: { ...body, activate: false } }))
  expect(refusalOf(await activate(stored.version, undefined, writer.client))).toBe('403 forbidden')
  expect(refusalOf(await activator.client('putPolicies', { body: { ...body, activate: false } }))).toBe(
    '403 forbidden',
  )
  expect(unwrap(await activate(stored.version, undefined, activator.client))).toMatchObject({
    author: writer.name,
    activated_by: activator.name,
  })
  unwrap(await put(DEFAULTS))
})

test('versions are compared by policy; position and surrounding comments make no difference', async () => {
  const old = unwrap(
    await put({
      ...DEFAULTS,
      a: `// first\n${TIDE}\n@id("kept") permit (principal in Role::"none", action, resource);`,
      b: 'permit (principal in Role::"b", action, resource);',
    }),
  )
  const changed = TIDE.replace('"tide"', '"ebb"')
  const fresh = unwrap(
    await put(
      {
        ...DEFAULTS,
        a: `// second\n${changed}`,
        c: '@id("kept") permit (principal in Role::"none", action, resource);\nforbid (principal in Role::"c", action, resource);',
      },
      undefined,
      false,
    ),
  )
  const diff = async (version: number, against?: number) =>
    unwrap(
      await root('diffPolicyVersions', {
        params: { version: `${version}` },
        query: against === undefined ? {} : { against },
      }),
    )
  const forward = await diff(fresh.version)
  expect(forward).toEqual({
    version: fresh.version,
    against: old.version,
    changes: [
      {
        policy: 'b/1',
        in: 'b',
        change: 'removed',
        before: 'permit (principal in Role::"b", action, resource);',
        after: null,
      },
      {
        policy: 'c/2',
        in: 'c',
        change: 'added',
        before: null,
        after: 'forbid (principal in Role::"c", action, resource);',
      },
      { policy: 'no-tide', in: 'a', change: 'changed', before: TIDE, after: changed },
    ],
  })
  expect(
    (await diff(old.version, fresh.version)).changes.map(({ policy, change }) => [policy, change]),
  ).toEqual([
    ['b/1', 'added'],
    ['c/2', 'removed'],
    ['no-tide', 'changed'],
  ])
  expect((await diff(old.version)).changes).toEqual([])
})

test('reading policy sets changes nothing', async () => {
  const { version } = await inForce()
  const paths = [
    '',
    '/versions',
    '/versions?before=3',
    `/versions/${version}`,
    `/versions/${version}/diff?against=1`,
    `/versions/${version}/activate`,
  ]
  const state = async () => [await inForce(), await versions()]
  const before = await state()
  for (const path of paths)
    for (const method of ['GET', 'HEAD'])
      await fetch(new URL(`/v1/policies${path}`, fixtures.url), {
        method,
        headers: { authorization: `Bearer ${fixtures.rootKey}`, 'if-match': '"1"' },
      })
  expect(await state()).toEqual(before)
})

test('policy versions are listed by page, newest first', async () => {
  const newest = (await versions())[0]?.version ?? 0
  const numbers = async (before: number) =>
    unwrap(await root('listPolicyVersions', { query: { before } })).items.map(({ version }) => version)
  expect(await numbers(4)).toEqual([3, 2, 1])
  expect(await numbers(newest)).toEqual(
    Array.from({ length: Math.min(newest - 1, LIMITS.page) }, (_, i) => newest - 1 - i),
  )
})

test.each([
  ['a note that is too long', { note: 'x'.repeat(LIMITS.reason_chars + 1) }, '400 invalid_request'],
  [
    'a text that is too long',
    { policies: { a: ' '.repeat(LIMITS.policy_bytes + 1) } },
    '400 invalid_request',
  ],
  [
    'too many texts',
    { policies: Object.fromEntries(Array.from({ length: LIMITS.policies + 1 }, (_, i) => [`p${i}`, ''])) },
    '409 limit_reached',
  ],
  ['an unknown member', { force: true }, '400 invalid_request'],
])('a policy set with %s is refused and makes no version', async (_what, change, code) => {
  const all = await versions()
  expect(refusalOf(await root('putPolicies', { body: { policies: DEFAULTS, ...change } }))).toBe(code)
  expect(await versions()).toEqual(all)
})

test('the same warnings are reported when a policy set is linted, stored, activated or made a shadow', async () => {
  const odd =
    '@id("odd") @reason("odd") forbid (principal in Group::"nosuch", action, resource) unless { context has args && false };'
  const quorum = `@id("two") @reason("two")\nforbid (principal, action in Action::"tool.execute", resource)\nunless { context.approval.quorum.contains("two of finance") };`
  const policies = setWith({ odd, quorum })
  const { findings } = unwrap(await root('checkPolicies', { body: { policies } }))
  const found = findings.map(({ severity: _, ...warning }) => warning)
  expect(found).toEqual(
    expect.arrayContaining([
      { at: `odd:1:${odd.indexOf('"nosuch"') + 1}`, message: expect.stringContaining('`nosuch`') },
      {
        at: `quorum:3:${'unless { context.approval.quorum.contains('.length + 1}`,
        message: expect.stringContaining('two of finance'),
        hint: expect.any(String),
      },
    ]),
  )
  const made = unwrap(await put(policies, undefined, false))
  expect(made.warnings).toEqual(found)
  expect(unwrap(await root('putPolicyShadow', { body: { version: made.version } })).warnings).toEqual(found)
  expect(unwrap(await root('putPolicyShadow', { body: { version: null } })).warnings).toEqual([])
  expect(unwrap(await activate(made.version)).warnings).toEqual(found)
  unwrap(await put(setWith()))
})

/** Adds copies of the newest version in its object's file; a put of each would take 20 s in all. */
async function copyVersion(version: number, copies: number): Promise<void> {
  await stack.edge.kill()
  const db = fileOf('tenant', stack.state.dir)
  db.prepare(
    `with recursive n(i) as (select 1 union all select i + 1 from n where i < ?)
     insert into policy_sets (version, digest, policies, note, author, active, created_at)
     select version + i, digest, policies, note, author, active, created_at from policy_sets, n where version = ?`,
  ).run(copies, version)
  db.close()
  expect(await stack.edge.start()).toMatchObject({ ok: true })
}

test('the oldest policy versions are deleted when there are too many, except those that were in force or are a shadow', async () => {
  unwrap(await activate(1))
  const { version: unused } = unwrap(await put(setWith(), undefined, false))
  unwrap(await root('putPolicyShadow', { body: { version: unused } }))
  const { previous } = await inForce()
  const history = (await versions()).filter(({ activated_at_ms }) => activated_at_ms !== null)
  // These sets are minimal, because only their number matters.
  const least = () => ({
    mark: `@id("${fixtures.name()}") @reason("none") forbid (principal, action == Action::"tool.list", resource is Tenant);`,
  })
  const { version: from } = unwrap(await put(least(), undefined, false))
  await copyVersion(from, LIMITS.policy_versions - 20)
  await Promise.all(Array.from({ length: 40 }, async () => unwrap(await put(least(), undefined, false))))
  const newest = (await versions())[0]?.version ?? 0
  const oldest = newest - LIMITS.policy_versions + 1
  expect(oldest).toBeGreaterThan(unused)
  const known = unwrap(await root('listPolicyVersions', { query: { before: oldest + 2 } })).items
  expect(known.map(({ version }) => version)).toEqual([
    oldest + 1,
    oldest,
    unused,
    ...history.map((set) => set.version),
  ])
  expect(refusalOf(await root('readPolicyVersion', { params: { version: `${oldest - 1}` } }))).toBe(
    '404 not_found',
  )
  expect(await inForce()).toMatchObject({ version: 1, policies: DEFAULTS, previous })
  expect(known.slice(3)).toEqual(history)
  expect(unwrap(await root('readPolicyShadow', {})).version).toBe(unused)
  expect(unwrap(await activate(previous ?? 0)).version).toBe(previous)
}, 240_000)

test('a set that was in force can be activated again, even with more tools than it could be stored with', async () => {
  const numbers = Array.from({ length: 24_000 }, (_, i) => i % 10).join()
  const heavy = setWith({
    heavy: `forbid (principal, action in Action::"tool.execute", resource) when { [${numbers}].contains(11) };`,
  })
  const made = unwrap(await put(heavy))
  await expect(async () => {
    for (;;) await fixtures.tool()
  }).rejects.toThrow('would take too long')
  unwrap(await put(DEFAULTS))
  await fixtures.tool()
  expect(refusalOf(await put({ ...heavy, more: '' }))).toBe('409 limit_reached')
  expect(unwrap(await activate(made.version))).toMatchObject({ version: made.version, active: true })
  unwrap(await put(DEFAULTS))
})
