// Card numbers: 13 to 19 digits, in groups or not, that pass Luhn's check and are not the middle of
// a longer number.

import { begins, codeAt, isDigit, isWord } from './letters'

const SHORTEST = 13
const LONGEST = 19

/** Where a card number that begins at `at` ends, or 0. */
export function cardAt(text: string, at: i32): i32 {
  if (!isDigit(codeAt(text, at)) || !begins(text, at)) return 0
  let sum = 0
  let shifted = 0 // the sum if one more digit follows
  let digits = 0
  let end = at
  for (let i = at; digits <= LONGEST; i++) {
    const code = codeAt(text, i)
    if (isDigit(code)) {
      const digit = code - 0x30
      const doubled = digit < 5 ? digit * 2 : digit * 2 - 9
      const before = sum
      sum = shifted + digit
      shifted = before + doubled
      digits++
      end = i + 1
    } else if ((code != 0x20 && code != 0x2d) || !isDigit(codeAt(text, i + 1))) break
  }
  const whole = digits >= SHORTEST && digits <= LONGEST && !isWord(codeAt(text, end))
  return whole && sum % 10 == 0 ? end : 0
}
