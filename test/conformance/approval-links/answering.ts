// An answer comes from the page itself, once, in time. Any other answer is refused by its status
// and changes nothing.

import { type Ask, type Check, type Settings, stillPending } from './check.ts'
import { counted, type Form, formOf, Visitor } from './visitor.ts'

const NO_FORM = ['the page has no form']
const formFor = async (visitor: Visitor, { link }: Ask): Promise<Form | undefined> =>
  formOf(await visitor.open(link))

/** Sends requests that must be refused. Returns those that were not. */
async function refused(
  ask: Ask,
  attempts: readonly (readonly [what: string, send: () => Promise<{ status: number }>])[],
): Promise<string[]> {
  const faults: string[] = []
  for (const [what, send] of attempts) {
    const { status } = await send()
    if (status < 400) faults.push(`${what} is answered ${status}`)
    faults.push(...(await stillPending(ask, what)))
  }
  return faults
}

const isOne = (what: string, number: number | undefined): string[] =>
  number === undefined || number === 1 ? [] : [`${number} ${what} instead of one`]

/** Many answers at once, alternating yes and no: one counts, the others are refused as too late. */
async function rush(ask: Ask, { approve, deny }: Settings, times: number): Promise<string[]> {
  const visitor = new Visitor()
  const form = await formFor(visitor, ask)
  if (form === undefined) return NO_FORM
  const replies = await Promise.all(
    Array.from({ length: times }, (_, i) => visitor.submit(form, i % 2 === 0 ? approve : deny)),
  )
  const broken = replies.filter(({ status }) => status >= 500).length
  const { status, answers } = await ask.look()
  return [
    ...isOne(`of ${times} posts counted`, replies.filter(counted).length),
    ...(broken > 0 ? [`${broken} of ${times} posts broke the server`] : []),
    ...isOne('answers on record', answers),
    ...(status === 'pending' ? ['the approval still waits'] : []),
  ]
}

/** After the end the page offers no form, and neither answer is accepted. */
async function over(ask: Ask, visitor: Visitor, form: Form, { approve, deny }: Settings): Promise<string[]> {
  const before = await ask.look()
  const faults = formOf(await visitor.open(ask.link)) === undefined ? [] : ['the page still has its form']
  for (const answer of [approve, deny]) {
    const { status } = await visitor.submit(form, answer)
    if (status < 400) faults.push(`\`${answer[1]}\` is answered ${status} again`)
  }
  const after = await ask.look()
  if (after.status !== before.status || after.answers !== before.answers)
    faults.push(`${before.status} has become ${after.status}`)
  return faults
}

export const ANSWERING: readonly Check[] = [
  {
    name: 'no-nonce',
    promise:
      'a POST without what the page’s form carries is refused, and so is one with something else in its place',
    needs: 'one',
    async run(ask, { approve }) {
      const visitor = new Visitor()
      const form = await formFor(visitor, ask)
      if (form === undefined) return NO_FORM
      const without = { ...form, fields: new URLSearchParams() }
      const made = [...form.fields].map(([name, value]): [string, string] => [name, 'A'.repeat(value.length)])
      const wrong = { ...form, fields: new URLSearchParams(made) }
      return refused(ask, [
        ['a post without the form’s fields', () => new Visitor().submit(without, approve)],
        ['a post with a made-up nonce', () => new Visitor().submit(wrong, approve)],
        [
          'an empty post',
          () => visitor.send('POST', form.action, { headers: { origin: new URL(form.page).origin } }),
        ],
      ])
    },
  },
  {
    name: 'foreign-nonce',
    promise: 'the form of one approval answers no other',
    needs: 'two',
    async run(ask, { approve }, other) {
      const visitor = new Visitor()
      const [form, theirs] = [await formFor(visitor, ask), await formFor(visitor, other)]
      if (form === undefined || theirs === undefined) return NO_FORM
      const faults = await refused(ask, [
        ['the nonce of another approval', () => visitor.submit({ ...form, fields: theirs.fields }, approve)],
      ])
      return [...faults, ...(await stillPending(other, 'its nonce was used elsewhere'))]
    },
  },
  {
    name: 'foreign-origin',
    promise:
      'a form on another site, or of a program that is no browser, is refused though it carries the right nonce',
    needs: 'one',
    async run(ask, { approve }) {
      const visitor = new Visitor()
      const form = await formFor(visitor, ask)
      if (form === undefined) return NO_FORM
      const { origin } = new URL(form.page)
      const by = (headers: Readonly<Record<string, string>>) => () =>
        visitor.submit(form, approve, { headers })
      return refused(ask, [
        ['another origin', by({ origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' })],
        ['another origin, from a browser that says no more', by({ origin: 'https://evil.example' })],
        ['an origin that begins like ours', by({ origin: `${origin}.evil.example` })],
        ['an opaque origin', by({ origin: 'null' })],
        ['a post across sites', by({ origin, 'sec-fetch-site': 'cross-site' })],
        [
          'a scanner that sends forms',
          by({ 'user-agent': 'Mozilla/5.0 (Windows NT 10.0; Win64; x64) SafeLinks' }),
        ],
      ])
    },
  },
  {
    name: 'disguises',
    promise:
      'a body that another site may send without asking (plain text, multipart), or JSON, is no answer',
    needs: 'one',
    async run(ask, { approve }) {
      const visitor = new Visitor()
      const form = await formFor(visitor, ask)
      if (form === undefined) return NO_FORM
      const fields = new URLSearchParams(form.fields)
      fields.set(...approve)
      const parts = [...fields].map(
        ([name, value]) => `--x\r\ncontent-disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`,
      )
      const as = (type: string, body: string) => () =>
        visitor.submit(form, approve, { type, body, headers: { origin: 'https://evil.example' } })
      return refused(ask, [
        ['plain text', as('text/plain', fields.toString())],
        ['multipart', as('multipart/form-data; boundary=x', `${parts.join('')}--x--\r\n`)],
        ['JSON', as('application/json', JSON.stringify(Object.fromEntries(fields)))],
      ])
    },
  },
  {
    name: 'once',
    promise:
      'an answer from the page counts; then the page is over, and the same answer and the other are refused',
    needs: 'one',
    async run(ask, settings) {
      const visitor = new Visitor()
      const form = await formFor(visitor, ask)
      if (form === undefined) return NO_FORM
      const reply = await visitor.submit(form, settings.approve)
      const { status, answers } = await ask.look()
      return [
        ...(counted(reply) ? [] : [`the answer of a browser is answered ${reply.status}`]),
        ...(status === 'approved' || status === 'ended' ? [] : [`after a yes the approval is ${status}`]),
        ...isOne('answers on record', answers),
        ...(await over(ask, visitor, form, settings)),
      ]
    },
  },
  {
    name: 'forward',
    promise:
      'of two browsers that have the page open, the first to answer does; the other is refused, and shown what is',
    needs: 'one',
    async run(ask, settings) {
      const [mine, theirs] = [new Visitor(), new Visitor()]
      const [form, forwarded] = [await formFor(mine, ask), await formFor(theirs, ask)]
      if (form === undefined || forwarded === undefined) return NO_FORM
      const first = await mine.submit(form, settings.deny)
      const { status } = await ask.look()
      return [
        ...(counted(first) ? [] : [`the first answer is answered ${first.status}`]),
        ...(status === 'denied' || status === 'ended' ? [] : [`after a no the approval is ${status}`]),
        ...(await over(ask, theirs, forwarded, settings)),
      ]
    },
  },
  {
    name: 'double-click',
    promise: 'two answers at once: one counts',
    needs: 'one',
    run: (ask, settings) => rush(ask, { ...settings, deny: settings.approve }, 2),
  },
  {
    name: 'thousand',
    promise: 'a thousand answers at once, alternating yes and no: exactly one transition',
    needs: 'one',
    run: (ask, settings) => rush(ask, settings, settings.posts),
  },
  {
    name: 'expiry',
    promise: 'after its expiry an approval is over, by the server’s clock, for a page that was opened before',
    needs: 'short-lived',
    async run(ask, settings) {
      const visitor = new Visitor()
      const form = await formFor(visitor, ask)
      if (form === undefined) return NO_FORM
      const deadline = Date.now() + 5 * settings.life_s * 1000
      while (Date.now() < deadline && formOf(await visitor.open(ask.link)) !== undefined) await pause(100)
      const faults = await over(ask, visitor, form, settings)
      const { status } = await ask.look()
      return status === 'approved' ? ['it was approved after its expiry', ...faults] : faults
    },
  },
]

const pause = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms))
