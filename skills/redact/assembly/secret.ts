// Finds secrets by their known formats: a known prefix with enough characters after it, tokens of
// three parts, and private keys in PEM.

import { begins, codeAt, isToken, isWord } from './letters'

class Shape {
  constructor(
    readonly start: string,
    readonly shortest: i32,
  ) {}
}

/** Each prefix with the least number of characters that must follow. */
const SHAPES: Shape[] = [
  new Shape('AKIA', 16),
  new Shape('ASIA', 16),
  new Shape('ghp_', 30),
  new Shape('gho_', 30),
  new Shape('ghs_', 30),
  new Shape('github_pat_', 30),
  new Shape('glpat-', 20),
  new Shape('xoxb-', 20),
  new Shape('xoxp-', 20),
  new Shape('sk-', 20),
  new Shape('sk_live_', 16),
  new Shape('rk_live_', 16),
  new Shape('AIza', 35),
  new Shape('npm_', 30),
  new Shape('whsec_', 20),
  new Shape('cs_agent_', 30),
  new Shape('cs_operator_', 30),
]
const KEY_BEGINS = '-----BEGIN '
const KEY_ENDS = '-----END '
const PRIVATE = 'PRIVATE KEY-----'

/** The end of the secret that begins at `at`, or 0. */
export function secretAt(text: string, at: i32): i32 {
  const code = codeAt(text, at)
  if (code == 0x2d) return privateKeyAt(text, at)
  if (!isWord(code) || !begins(text, at)) return 0
  if (code == 0x65) {
    const end = tokenOfThreeAt(text, at)
    if (end > 0) return end
  }
  for (let i = 0; i < SHAPES.length; i++) {
    const shape = SHAPES[i]
    if (code != shape.start.charCodeAt(0) || !startsAt(text, shape.start, at)) continue
    const end = tokenEnd(text, at + shape.start.length)
    if (end - at - shape.start.length >= shape.shortest) return end
  }
  return 0
}

function startsAt(text: string, start: string, at: i32): bool {
  for (let i = 0; i < start.length; i++) if (codeAt(text, at + i) != start.charCodeAt(i)) return false
  return true
}

function tokenEnd(text: string, from: i32): i32 {
  let end = from
  while (isToken(codeAt(text, end))) end++
  return end
}

/** `eyJ…`: three parts, with dots between them. */
function tokenOfThreeAt(text: string, at: i32): i32 {
  if (!startsAt(text, 'eyJ', at)) return 0
  const first = tokenEnd(text, at)
  if (first - at < 10 || codeAt(text, first) != 0x2e) return 0
  const second = tokenEnd(text, first + 1)
  if (second - first < 10 || codeAt(text, second) != 0x2e) return 0
  const third = tokenEnd(text, second + 1)
  return third - second < 10 ? 0 : third
}

/** Up to the end marker, or to the end of the text. */
function privateKeyAt(text: string, at: i32): i32 {
  if (!startsAt(text, KEY_BEGINS, at)) return 0
  const head = text.indexOf(PRIVATE, at)
  if (head < 0 || head - at > 40) return 0
  const tail = text.indexOf(KEY_ENDS, head)
  if (tail < 0) return text.length
  const end = text.indexOf(PRIVATE, tail)
  return end < 0 ? text.length : end + PRIVATE.length
}
