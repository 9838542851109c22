// A link with any change is not a link: it shows no form, its POST is refused, and nothing is
// decided.

import { type Ask, type Check, type Settings, stillPending } from './check.ts'
import { type Form, formOf, Visitor } from './visitor.ts'

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~'
const AT_ONCE = 32

/** A link is a prefix and the token, which is the last part of its path or query. */
function halves(link: string): [before: string, token: string] {
  const at = Math.max(link.lastIndexOf('/'), link.lastIndexOf('=')) + 1
  return [link.slice(0, at), link.slice(at)]
}

/** The same numbers for the same seed, so that a finding can be reproduced. */
function numbers(seed: number): (below: number) => number {
  let state = seed >>> 0
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below
  }
}

/**
 * Makes one to three changes: a character is replaced, dropped, inserted or moved to the end, or
 * the end is cut off.
 */
function mutated(token: string, below: (limit: number) => number): string {
  let text = token
  for (let left = 1 + below(3); left > 0; left--) {
    const at = below(text.length)
    const char = ALPHABET[below(ALPHABET.length)] ?? 'A'
    const kinds = [
      () => text.slice(0, at) + char + text.slice(at + 1),
      () => text.slice(0, at) + text.slice(at + 1),
      () => text.slice(0, at) + char + text.slice(at),
      () => text.slice(0, at) + text.slice(at + 1) + (text[at] ?? ''),
      () => text.slice(0, at + 1),
    ]
    text = kinds[below(10) < 6 ? 0 : below(kinds.length)]?.() ?? text
  }
  return text
}

/** `count` different alterations of a token. */
export function alterations(token: string, count: number, seed: number): string[] {
  const below = numbers(seed)
  const tokens = new Set<string>()
  while (tokens.size < count) tokens.add(mutated(token, below))
  tokens.delete(token)
  return [...tokens]
}

/** Opens each token, and sends the approval's form to some. Returns the accepted ones. */
async function taken(
  ask: Ask,
  tokens: readonly string[],
  settings: Settings,
  posts: (i: number) => boolean,
): Promise<string[]> {
  const visitor = new Visitor()
  const form = formOf(await visitor.open(ask.link))
  if (form === undefined) return ['the page has no form']
  const [before, token] = halves(ask.link)
  const faults: string[] = []
  const changed = [...new Set(tokens)].filter((text) => text !== token && text !== '').entries()
  const worker = async (): Promise<void> => {
    for (const [i, text] of changed) {
      const url = before + text
      if (formOf(await visitor.open(url)) !== undefined) faults.push(`\`${text}\` shows the form`)
      if (!posts(i)) continue
      const aimed: Form = { page: url, action: form.action.replace(token, text), fields: form.fields }
      const { status } = await visitor.submit(aimed, settings.approve)
      if (status < 400) faults.push(`a post to \`${text}\` is answered ${status}`)
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, worker))
  return [...faults, ...(await stillPending(ask, 'the altered links'))]
}

export const TAMPERING: readonly Check[] = [
  {
    name: 'each-character',
    promise:
      'each character of the token changed to several others, the last to every other: none is accepted',
    needs: 'one',
    run(ask, settings) {
      const [, token] = halves(ask.link)
      const tokens = [...token].flatMap((char, at) => {
        const place = ALPHABET.indexOf(char)
        const near = [1, 2, 13, 26, 32].map((step) => ALPHABET[(place + step) % ALPHABET.length] ?? 'A')
        const others =
          at === token.length - 1 ? [...ALPHABET] : [...near, char.toUpperCase(), char.toLowerCase()]
        return others.map((other) => token.slice(0, at) + other + token.slice(at + 1))
      })
      return taken(ask, tokens, settings, () => true)
    },
  },
  {
    name: 'spliced',
    promise: 'the beginning of one link with the end of another: none is accepted',
    needs: 'two',
    async run(ask, settings, other) {
      const [[, mine], [, theirs]] = [halves(ask.link), halves(other.link)]
      const cuts = Array.from({ length: Math.min(mine.length, theirs.length) - 1 }, (_, i) => i + 1)
      const tokens = cuts.flatMap((at) => [
        mine.slice(0, at) + theirs.slice(at),
        theirs.slice(0, at) + mine.slice(at),
      ])
      const faults = await taken(
        ask,
        tokens.filter((token) => token !== theirs),
        settings,
        () => true,
      )
      return [...faults, ...(await stillPending(other, 'the altered links'))]
    },
  },
  {
    name: 'shapes',
    promise: 'a token that is cut, lengthened, turned to capitals, or no token at all: none is accepted',
    needs: 'one',
    run(ask, settings) {
      const [, token] = halves(ask.link)
      const whole = [
        token.toUpperCase(),
        token.toLowerCase(),
        [...token].reverse().join(''),
        `${token}=`,
        `${token}%00`,
        `${token}%20`,
      ]
      const cut = Array.from({ length: token.length - 1 }, (_, i) => token.slice(0, i + 1))
      return taken(
        ask,
        [
          ...whole,
          ...cut,
          `${token}A`,
          `A${token}`,
          token + token,
          'null',
          'undefined',
          '0',
          '%00',
          'x'.repeat(10_000),
        ],
        settings,
        () => true,
      )
    },
  },
  {
    name: 'random',
    promise: 'thousands of random alterations: none is accepted',
    needs: 'one',
    run(ask, settings) {
      const [, token] = halves(ask.link)
      const tokens = alterations(token, settings.mutations, settings.seed)
      return taken(ask, tokens, settings, (i) => i % 10 === 0)
    },
  },
]
