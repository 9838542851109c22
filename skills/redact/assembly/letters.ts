// Characters by their kind. What is not ASCII is of none.

export function isDigit(code: i32): bool {
  return code >= 0x30 && code <= 0x39
}

export function isLetter(code: i32): bool {
  const lower = code | 0x20
  return lower >= 0x61 && lower <= 0x7a
}

export function isWord(code: i32): bool {
  return isDigit(code) || isLetter(code)
}

/** Of base64, in either alphabet. */
export function isToken(code: i32): bool {
  return isWord(code) || code == 0x2d || code == 0x5f || code == 0x2b || code == 0x2f
}

/** -1 before the first and after the last. */
export function codeAt(text: string, at: i32): i32 {
  return at >= 0 && at < text.length ? text.charCodeAt(at) : -1
}

/** Whether a word begins there, and is not the rest of one. */
export function begins(text: string, at: i32): bool {
  return !isWord(codeAt(text, at - 1))
}
