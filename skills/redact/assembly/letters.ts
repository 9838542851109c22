// Kinds of ASCII characters. All other characters have no kind.

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

/** A character of base64, in either alphabet. */
export function isToken(code: i32): bool {
  return isWord(code) || code == 0x2d || code == 0x5f || code == 0x2b || code == 0x2f
}

/** -1 outside of the text. */
export function codeAt(text: string, at: i32): i32 {
  return at >= 0 && at < text.length ? text.charCodeAt(at) : -1
}

/** Whether no word continues across this position. */
export function begins(text: string, at: i32): bool {
  return !isWord(codeAt(text, at - 1))
}
