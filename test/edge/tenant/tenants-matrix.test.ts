// Promise: on all routes, ids of another tenant answer like ids that never existed. The routes come
// from the table, so new ones are tested.

import { describe, expect, test } from 'vitest'
import type { RouteName } from '../../../shared/routes/all.ts'
import { ROUTES } from '../../../shared/routes/all.ts'
import { bearer, type Credentials } from '../../../shared/routes/client.ts'
import type { Route } from '../../../shared/routes/route.ts'
import { eventually } from '../../support/eventually.ts'
import { unwrap } from '../../support/fixtures.ts'
import { objectFiles, objectId } from '../../support/stack/object-file.ts'
import { sharedStack, sharedState } from '../../support/stack/stack.ts'
import { BODIES, FORMS, NAMES_NOTHING } from '../../support/tenant-requests.ts'
import { type Ids, newFurnishedTenant, pathOf, unknownIds } from '../../support/tenants.ts'

const dev = sharedStack()
const [mine, other] = [
  await newFurnishedTenant(dev, 'matrix-mine'),
  await newFurnishedTenant(dev, 'matrix-other'),
]
// Each tenant counts its own policy versions: only the other tenant has this one.
const { policies } = unwrap(await other.fixtures.root('readPolicies', {}))
const { version } = unwrap(
  await other.fixtures.root('putPolicies', {
    body: { policies: { ...policies, third: '' }, note: 'a third' },
  }),
)
/** A link is valid only under its own tenant's name. */
const theirs: Ids = {
  ...other.ids,
  version: `${version}`,
  token: other.ids.token.replace(/^[^.]+/, mine.ids.tenant),
}
const never = unknownIds(theirs)

const routes = Object.entries(ROUTES) as [RouteName, Route][]
const isOpen = ({ callers }: Route): boolean => callers.includes('anyone') || callers.includes('slack')

const CREDENTIALS: Readonly<Record<string, Credentials>> = {
  agent: bearer(mine.agent.key),
  operator: bearer(mine.fixtures.rootKey),
  worker: mine.peer.credentials(),
  console: () => ({ cookie: mine.console.cookie, origin: new URL(dev.url).origin }),
  link: () => ({ origin: new URL(dev.url).origin }),
  // The operator of the installation has a key of a different kind from those of callers inside a
  // tenant.
  installation: bearer(mine.fixtures.rootKey),
}
const { form } = await mine.console.fields('/console/standing')

type Answer = { status: number; body: string }

function bodyOf(
  name: RouteName,
  route: Route,
  caller: string,
  ids: Ids,
): { bytes: Uint8Array<ArrayBuffer>; type: string } | undefined {
  const fields = FORMS[name]
  if (fields !== undefined)
    return {
      bytes: Buffer.from(`${new URLSearchParams({ form: form ?? '', ...fields(ids) })}`),
      type: 'application/x-www-form-urlencoded',
    }
  if (route.raw && BODIES[name] === undefined)
    return { bytes: Buffer.from(`of ${other.ids.tenant} alone`), type: 'application/octet-stream' }
  const body = BODIES[name]
  return body === undefined
    ? undefined
    : { bytes: Buffer.from(JSON.stringify(body(ids, caller))), type: 'application/json' }
}

async function ask(name: RouteName, route: Route, caller: string, ids: Ids): Promise<Answer> {
  const url = new URL(pathOf(name, ids), dev.url)
  const body = bodyOf(name, route, caller, ids)
  const sent = new Uint8Array(body?.bytes ?? [])
  const answer = await fetch(url, {
    method: route.method,
    redirect: 'manual',
    headers: {
      ...(body === undefined ? {} : { 'content-type': body.type }),
      ...CREDENTIALS[caller]?.({ method: route.method, url, body: sent }),
    },
    ...(body === undefined ? {} : { body: sent }),
    signal: AbortSignal.timeout(20_000),
  })
  const streams = route.media === 'text/event-stream' && answer.ok
  if (streams) await answer.body?.cancel()
  return { status: answer.status, body: streams ? 'a stream' : await answer.text() }
}

/**
 * Removes what the request sent, and what differs in every answer: times, digests over names, keys.
 */
function alike({ status, body }: Answer, ids: Ids): Answer {
  let text = body
  const echoed = Object.values(ids)
    .map(String)
    .filter((id) => id.length > 4)
  for (const id of echoed.toSorted((a, b) => b.length - a.length)) text = text.replaceAll(id, '<id>')
  text = text
    .replace(/cs_[a-z]+_[a-z0-9-]+_\w+/g, '<key>')
    .replace(/"request_id":"[0-9a-f-]{36}"/, '<request>')
    .replace(/(?:run|call|apr|att|wrk|std)_[0-9A-HJKMNP-TV-Z]{26}(?:_\d+)?/g, '<id>')
    .replaceAll(`version ${ids.version} `, 'version <id> ')
    .replace(/ed25519:[0-9a-f]{16}|"x":"[\w-]{43}"/g, '<key>')
    .replace(/[0-9a-f]{64}/g, '<digest>')
    .replace(/\d{13}/g, '<time>')
    .replace(/\d{4}-\d\d-\d\d[T ][\d:.]+Z?/g, '<time>')
  return { status, body: text }
}

/** Reads first and removals last, so that no request depends on what an earlier one created. */
const ORDER = ['GET', 'POST', 'DELETE', 'PUT']
const asked = routes
  .filter(([name, route]) => !(isOpen(route) || NAMES_NOTHING.has(name)))
  .toSorted(([, a], [, b]) => ORDER.indexOf(a.method) - ORDER.indexOf(b.method))

/** One file for each existing object. */
const objects = (): string[] => objectFiles(sharedState())

/** Data of the other tenant that must not change, as its own people read it. */
async function stateOf({ fixtures, ids, agent }: typeof other): Promise<unknown> {
  const { root } = fixtures
  const params = { run: ids.run, call: ids.call }
  return [
    unwrap(await agent.client('readRun', { params })),
    unwrap(await agent.client('readCall', { params })).state,
    unwrap(await agent.client('readJournal', { params, query: {} })).items,
    unwrap(await root('listApprovals', { query: { status: 'all' } })),
    unwrap(await root('listStanding', {})),
    unwrap(await root('listSkills', { query: {} })),
    unwrap(await root('readSkillJournal', { query: {} })),
    unwrap(await root('listAgents', {})),
    unwrap(await root('listOperators', {})),
    unwrap(await root('listSecrets', {})),
    unwrap(await root('listUpstreams', {})),
    unwrap(await root('readUpstreamJournal', { query: {} })),
    unwrap(await root('readTenantJournal', { query: {} })),
    unwrap(await root('listChannels', {})),
    unwrap(await root('listPublishers', {})),
    unwrap(await root('listPolicyVersions', { query: {} })),
    unwrap(await root('listWorkers', {})).items.map(({ seen_at_ms: _, ...worker }) => worker),
    unwrap(await root('listTools', {})),
  ]
}

test('this test has a body for each route that takes one, and a route whose body names no id has no parameter', () => {
  for (const [name, { body, raw, path }] of asked) {
    if (body !== undefined && raw === undefined) expect([name, name in BODIES]).toEqual([name, true])
    expect(() => pathOf(name, theirs), path).not.toThrow()
  }
  for (const name of NAMES_NOTHING) expect([name, ROUTES[name].path.includes('{')]).toEqual([name, false])
})

describe('G11 V03 between two tenants', () => {
  test('D18 for every route and kind of caller, ids of another tenant answer like ids that never existed and reveal nothing', async () => {
    // A run updates the inbox and the log after it has answered: wait for everything that
    // `furnished` created before comparing.
    await eventually('both inboxes and both logs are up to date', async () => {
      const inboxes = [mine, other].map(({ fixtures }) =>
        fixtures.root('listApprovals', { query: { status: 'all' } }),
      )
      const made = objects()
      return (
        (await Promise.all(inboxes)).every((inbox) => unwrap(inbox).items.length === 2) &&
        [mine, other].every(({ ids }) =>
          made.some((file) => file.includes(objectId('countersign-log', ids.tenant))),
        )
      )
    })
    const [before, files] = [await stateOf(other), objects()]
    const reached = new Map<number, number>()
    const misfits: string[] = []
    const secrets = [...Object.values(other.ids), `value of ${other.ids.tenant}`]
      .map(String)
      .filter((text) => text.includes('matrix-other'))
    for (const [name, route] of asked) {
      for (const caller of route.callers) {
        const first = await ask(name, route, caller, theirs)
        const second = await ask(name, route, caller, never)
        expect([name, caller, alike(first, theirs)]).toEqual([name, caller, alike(second, never)])
        if (first.status === 400) misfits.push(`${name}: ${first.body}`)
        reached.set(first.status, (reached.get(first.status) ?? 0) + 1)
        // An answer may repeat what the request contained; the rest of the other tenant's data must
        // stay unknown.
        for (const secret of secrets)
          if (second.body.includes(secret)) throw new Error(`${name} told ${caller} of \`${secret}\``)
      }
    }
    // Most ids were really looked up: an invalid or unauthenticated request would answer alike
    // without proving anything.
    expect([...reached.keys()].filter((status) => status >= 500)).toEqual([])
    expect(reached.get(404) ?? 0).toBeGreaterThan(40)
    expect(misfits).toEqual([])
    expect(await stateOf(other)).toEqual(before)

    // No object was created for an id of the other tenant, or an id that never existed, under our
    // name. Objects with names that we may choose are allowed: sessions, storage of skills, and the
    // new runs of `proposeCallInNewRun`.
    const [us, made] = [mine.ids.tenant, objects().filter((file) => !files.includes(file))]
    const may = [theirs, never].flatMap(({ session, skill }) => [
      objectId('countersign-session', `${us}/${mine.agent.name}/${session}`),
      objectId('countersign-session', `${us}/${mine.agent.name}/`),
      objectId('countersign-skill', `${us}/${skill}`),
    ])
    const mayNot = [theirs, never].map(({ run }) => objectId('countersign-run', `${us}/${run}`))
    const others = made.filter((file) => !may.some((id) => file.includes(id)))
    expect(
      others.filter((file) => !file.startsWith('countersign-run/') || mayNot.some((id) => file.includes(id))),
    ).toEqual([])
    expect(others.length).toBeLessThanOrEqual(2)
  })

  // Both requests take the same path, and neither wakes an object. The test compares medians of
  // alternating requests, so that other load on the machine affects both.
  test('D18 reading by an id of another tenant takes as long as by an id that never existed', {
    timeout: 120_000,
  }, async () => {
    const [TIMES, ROUNDS] = [25, 3]
    const median = (times: number[]): number =>
      times.toSorted((a, b) => a - b)[Math.floor(times.length / 2)] ?? 0
    const timed = async (name: RouteName, route: Route, caller: string, ids: Ids): Promise<number> => {
      const began = performance.now()
      await ask(name, route, caller, ids)
      return performance.now() - began
    }
    const apart = async (name: RouteName, route: Route): Promise<string | undefined> => {
      const [caller = 'operator'] = route.callers
      const [foreign, nobody]: [number[], number[]] = [[], []]
      for (let time = 0; time < TIMES; time++) {
        foreign.push(await timed(name, route, caller, theirs))
        nobody.push(await timed(name, route, caller, never))
      }
      const [one, two] = [median(foreign), median(nobody)]
      if ((Math.max(one, two) + 1) / (Math.min(one, two) + 1) <= 2) return undefined
      return `${name}: ${one.toFixed(1)} and ${two.toFixed(1)} ms`
    }
    let routes = asked.filter(([, { method, media }]) => method === 'GET' && media !== 'text/event-stream')
    let seen: string[] = []
    for (let round = 0; round < ROUNDS && routes.length > 0; round++) {
      const found: [(typeof routes)[number], string | undefined][] = []
      for (const one of routes) found.push([one, await apart(...one)])
      routes = found.filter(([, what]) => what !== undefined).map(([one]) => one)
      seen = found.flatMap(([, what]) => what ?? [])
    }
    expect(seen).toEqual([])
  })
})
