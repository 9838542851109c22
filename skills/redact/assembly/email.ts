// E-mail addresses as people write them: a name of word characters and dots, an @, and a domain with a dot in it.

import { begins, codeAt, isLetter, isWord } from './letters'

function isNameCode(code: i32): bool {
  // . _ % + - '
  return isWord(code) || code == 0x2e || code == 0x5f || code == 0x25 || code == 0x2b || code == 0x2d || code == 0x27
}

/** Where an address that begins at `at` ends, or 0. */
export function emailAt(text: string, at: i32): i32 {
  if (!isWord(codeAt(text, at)) || !begins(text, at)) return 0
  let i = at
  while (isNameCode(codeAt(text, i))) i++
  if (codeAt(text, i) != 0x40) return 0
  const domain = ++i
  let lastDot = 0
  while (isWord(codeAt(text, i)) || codeAt(text, i) == 0x2d || (codeAt(text, i) == 0x2e && isWord(codeAt(text, i + 1)))) {
    if (codeAt(text, i) == 0x2e) lastDot = i
    i++
  }
  if (lastDot <= domain || i - lastDot < 3) return 0
  for (let k = lastDot + 1; k < i; k++) if (!isLetter(codeAt(text, k))) return 0
  return i
}
