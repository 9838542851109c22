// While an operator is away, their delegate is asked too, under their own name and with their own
// permissions; nobody else is, and not afterwards.

import { expect, test } from 'vitest'
import { withDelegates } from '../../../edge/channels/delegation.ts'
import type { Delegation } from '../../../shared/wire/channels.ts'
import { countersign } from '../../support/countersign.ts'
import { eventually } from '../../support/eventually.ts'
import { Fixtures, refusalOf, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'

const away = (operator: string, to: string, until_ms = 100): Delegation => ({
  operator,
  to,
  until_ms,
  put_at_ms: 0,
})
const addressees = (names: string[], delegations: Delegation[], now = 0) =>
  withDelegates(names, delegations, now).map(({ recipient, insteadOf }) =>
    insteadOf === null ? recipient : `${recipient} for ${insteadOf}`,
  )

test('a delegate is asked too, once, until the delegation ends, even through chains and cycles', () => {
  expect(addressees(['ann'], [away('ann', 'bob')])).toEqual(['ann', 'bob for ann'])
  expect(addressees(['ann'], [away('ann', 'bob')], 100)).toEqual(['ann'])
  expect(addressees(['bob'], [away('ann', 'bob')])).toEqual(['bob'])
  expect(addressees(['ann', 'bob'], [away('ann', 'bob')])).toEqual(['ann', 'bob'])
  expect(addressees(['ann'], [away('bob', 'cid'), away('ann', 'bob')])).toEqual([
    'ann',
    'bob for ann',
    'cid for ann',
  ])
  expect(addressees(['ann'], [away('ann', 'bob'), away('bob', 'ann')])).toEqual(['ann', 'bob for ann'])
  expect(addressees(['ann', 'bob'], [away('ann', 'cid'), away('bob', 'cid')])).toEqual([
    'ann',
    'bob',
    'cid for ann',
  ])
  expect(addressees([], [away('ann', 'bob')])).toEqual([])
})

const fixtures = new Fixtures('away', sharedStack())
const agent = await fixtures.agent()
const [ann, bob, cid] = [
  await fixtures.operator(['approver']),
  await fixtures.operator(['approver']),
  await fixtures.operator(['auditor']),
]
const tool = await fixtures.tool({ sensitive: true })
const channel = fixtures.name()

test('a delegate gets a mail with their own link that names the absent operator, until the delegation ends', async () => {
  const addresses = {
    [ann.name]: 'ann@example.com',
    [bob.name]: 'bob@example.com',
    [cid.name]: 'cid@example.com',
  }
  const put = (people: string[]) =>
    fixtures.root('putChannel', {
      params: { name: channel },
      body: {
        kind: 'email',
        from: 'approvals@example.com',
        addresses: Object.fromEntries(Object.entries(addresses).filter(([name]) => people.includes(name))),
        via: { provider: 'outbox' },
      },
    })
  unwrap(await put([ann.name]))
  const mails = async (approval: string): Promise<string[]> => {
    const { items } = unwrap(await fixtures.root('listDeliveries', { params: { name: channel }, query: {} }))
    return items
      .filter((delivery) => delivery.approval === approval)
      .map(({ recipient, instead_of, state, why }) => `${recipient} for ${instead_of}: ${state}, ${why}`)
      .sort()
  }
  try {
    unwrap(await ann.client('putDelegation', { body: { to: bob.name, for_s: 3_600 } }))
    const first = await fixtures.proposeForApproval(agent.client, tool)
    await eventually('both are asked', async () => (await mails(first.approval.id)).length === 2, 20_000)
    // The channel has no address for bob, which shows as a dropped delivery.
    await eventually(
      'ann’s waits',
      async () =>
        (await mails(first.approval.id)).includes(`${ann.name} for null: due, waiting to be collected`),
      20_000,
    )
    const noAddress = `${bob.name} for ${ann.name}: dropped, the channel has no address for the recipient`
    unwrap(await fixtures.root('collectMessages', { params: { name: channel }, body: {} }))
    await eventually(
      'bob’s is dropped',
      async () => (await mails(first.approval.id)).includes(noAddress),
      20_000,
    )

    // Bob is not a recipient; his address is used only while he is a delegate.
    unwrap(
      await fixtures.root('putChannel', {
        params: { name: channel },
        body: {
          kind: 'email',
          from: 'approvals@example.com',
          addresses,
          recipients: { operators: [ann.name] },
          via: { provider: 'outbox' },
        },
      }),
    )
    const second = await fixtures.proposeForApproval(agent.client, tool)
    const collected = async (): Promise<string[]> => {
      const { items } = unwrap(
        await fixtures.root('collectMessages', { params: { name: channel }, body: {} }),
      )
      return items.map(({ message }) => message).filter((message) => textOf(message).includes(second.id))
    }
    await eventually('two mails wait', async () => (await collected()).length === 2, 20_000)
    const toBob = (await collected()).find((message) => message.includes('To: bob@example.com')) ?? ''
    expect(textOf(toBob)).toContain(`You are asked because ${ann.name} is away`)
    expect(textOf(toBob)).toContain(`Answer as ${bob.name}`)
    expect(textOf(toBob)).toContain(`.${bob.name}.`) // his personal link
    unwrap(await ann.client('deleteDelegation', {}))
    const third = await fixtures.proposeForApproval(agent.client, tool)
    await eventually('ann is asked', async () => (await mails(third.approval.id)).length === 1, 20_000)
  } finally {
    unwrap(await fixtures.root('deleteChannel', { params: { name: channel } }))
  }
})

const textOf = (eml: string): string =>
  Buffer.from(/base64\r\n\r\n([A-Za-z0-9+/=\r\n]+)/.exec(eml)?.[1] ?? '', 'base64').toString()

test('P09 a delegation transfers no right: the delegate has to be another operator who may answer', async () => {
  const put = (to: string) => ann.client('putDelegation', { body: { to, for_s: 3_600 } })
  for (const to of [cid.name, ann.name, 'nobody-of-that-name', agent.name])
    expect([to, refusalOf(await put(to))]).toEqual([to, '422 delegate_refused'])
  expect(refusalOf(await cid.client('putDelegation', { body: { to: ann.name, for_s: 3_600 } }))).toBe(
    '403 forbidden',
  )
  expect(refusalOf(await ann.client('putDelegation', { body: { to: bob.name, for_s: 10 ** 9 } }))).toBe(
    '400 invalid_request',
  )
  expect(refusalOf(await bob.client('deleteDelegation', {}))).toBe('404 not_found')
})

test('setting up a channel warns about operators and roles that match nobody', async () => {
  const [name, role, nobody] = [fixtures.name(), fixtures.name(), fixtures.name()]
  const root = { COUNTERSIGN_URL: fixtures.url, COUNTERSIGN_KEY: fixtures.rootKey }
  const spec = {
    kind: 'email',
    from: 'a@example.com',
    addresses: { [ann.name]: 'ann@example.com', [nobody]: 'nobody@example.com' },
    recipients: { roles: ['approver', role], operators: [ann.name, nobody] },
    via: { provider: 'outbox' },
  }
  const put = await countersign(['channels', 'put', name, '-'], { env: root, stdin: JSON.stringify(spec) })
  unwrap(await fixtures.root('deleteChannel', { params: { name } }))
  expect(put.out.split('\n').slice(1, -1)).toEqual([
    `warning: no operator has the role \`${role}\``,
    `warning: there is no operator \`${nobody}\``,
  ])
})

test('delegations can be listed, made and ended on the command line', async () => {
  const env = { COUNTERSIGN_URL: fixtures.url, COUNTERSIGN_KEY: bob.key }
  const away = async () =>
    (await countersign(['channels', 'delegate', ann.name, '--for', '14d'], { env })).out
  expect(await away()).toMatch(/^warning: .* will not be asked: no channel /)
  // The first channel knows bob and ann by name; the others have unnamed readers, only bob, or only
  // ann.
  const [both, readers, bobs, anns] = [fixtures.name(), fixtures.name(), fixtures.name(), fixtures.name()]
  const hook = {
    kind: 'webhook' as const,
    url: 'https://hooks.example.com/x',
    keys: [`whsec_${'A'.repeat(32)}`],
  }
  const mail = { kind: 'email' as const, from: 'a@example.com', via: { provider: 'outbox' as const } }
  const put = async (name: string, body: Parameters<typeof fixtures.root<'putChannel'>>[1]['body']) =>
    unwrap(await fixtures.root('putChannel', { params: { name }, body })).warnings
  try {
    expect(await put(both, { ...hook, recipients: { operators: [bob.name] } })).toEqual([])
    expect(await put(readers, hook)).toEqual([])
    expect(await put(bobs, { ...mail, addresses: { [bob.name]: 'bob@example.com' } })).toEqual([])
    expect(await put(anns, { ...mail, addresses: { [ann.name]: 'ann@example.com' } })).toEqual([])
    expect(await away()).toContain(`, through ${both}\n`)
  } finally {
    for (const name of [both, readers, bobs, anns])
      unwrap(await fixtures.root('deleteChannel', { params: { name } }))
  }
  expect((await countersign(['channels', 'delegations'], { env })).out).toMatch(
    new RegExp(`${bob.name} +${ann.name} +2`),
  )
  expect((await countersign(['channels', 'delegate'], { env })).out).toBe('you no longer have a delegate\n')
  expect((await countersign(['channels', 'delegate'], { env })).err).toMatch(
    /you have no delegate; there is nothing to do/,
  )
  expect(await countersign(['channels', 'delegate', ann.name], { env })).toMatchObject({ code: 2 })
  expect((await countersign(['channels', 'delegations'], { env })).out).not.toContain(bob.name)
})
