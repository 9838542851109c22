// Patterns of secrets in a text: by shape alone, or after a name. Each takes linear time (G06), so
// a pattern that could begin anywhere has a bounded length. Each ends where its secret may end, so
// that nothing else that an approver has to see is masked.

/**
 * Names of members and flags. Short ones match only as whole words, so `compass` and `author` are
 * not masked.
 */
export const SECRET_NAME =
  /passw(?:or)?d|passphrase|passcode|secret|credential|cookie|authorization|tokens?(?![a-z])|(?:api|access|account|private|signing|encryption)[_-]?key|(?<![a-z])(?:pass|pwd|pin|otp|auth|jwt|signature)(?![a-z])/i

export const PRIVATE_KEY =
  /-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|$)/g

/**
 * Private keys as lists of lines. Without an end marker, only lines that look like a key belong to
 * it.
 */
export const KEY_LINES: readonly RegExp[] = [
  /-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----(?:\n[\w+/=:, -]{0,100}){1,200}?\n-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----/g,
  /-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----(?:\n[\w+/=]{16,100}(?=\n|$))+/g,
]

/** Secrets recognized by their shape alone. */
export const TOKENS: readonly RegExp[] = [
  /cs_(?:agent|operator|enrol)_[a-z0-9-]+_[0-9A-Z_]{20,}/g, // API keys of this project
  /(?:xox[abceprs]|xapp)-[\w-]{10,}/g,
  /gh[opsur]_\w{20,}|github_pat_\w{20,}|gl(?:pat|dt|rt|ptt|cbt|ft|soat)-[\w-]{16,}/g,
  /(?<![\w-])(?:sk|rk|pk)[-_][\w-]{16,}|whsec_[\w+/=]{16,}/g,
  /(?:AKIA|ASIA)[0-9A-Z]{16}|AIza[\w-]{30,}|(?:npm|hf|dop_v1|shp(?:at|ss|ca))_\w{20,}|pypi-[\w-]{20,}/g,
  /(?<![\w.-])(?:SG|ya29)\.[\w-]{16,}(?:\.[\w-]+)?|(?<!\d)\d{8,10}:AA[\w-]{30,}/g,
  /(?<![\w.-])hv[sbr]\.[\w-]{20,}|AGE-SECRET-KEY-1[0-9A-Z]{20,}|GOCSPX-[\w-]{20,}|(?<!\w)dapi[0-9a-f]{32}/g,
  /(?<!\w)(?:dckr_[po]at|lin_api|glsa|gsk|figd)_[\w-]{20,}/g,
  // JSON Web Tokens. One starts only at the beginning of a word; otherwise matching would be
  // quadratic. Signed tokens have three parts, encrypted ones five.
  /(?<![\w-])eyJ[\w-]{8,}(?:\.[\w-]*){2,4}/g,
]

/** Secrets recognized by their position. */
export const PLACED: readonly RegExp[] = [
  /(?<=hooks\.slack(?:-gov)?\.com\/(?:services|workflows|triggers)\/)[\w/-]{10,}|(?<=discord(?:app)?\.com\/api\/webhooks\/)[\w/-]{10,}/g,
  /\bBearer [\w+/=.~-]{8,}/gi,
  // The password in a URL, up to the last `@` before the end of the host, so that the real host
  // stays visible whatever follows it.
  /(?<=:\/\/[^\s/:@]{0,64}:)[^\s/?#\\«]+(?=@)/g,
  // A password that should have been encoded. Digits that may be a port are not a password.
  /(?<=:\/\/[^\s/:@]{0,64}:)(?!\d*[/?#\\])[^\s@«]{1,256}(?=@)/g,
  /(?<=:\/\/)[^\s/@«]{20,}(?=@)/g, // a token as the whole user info, or after a long user name
]

/**
 * The end of a name before a secret in free text, where names look like words and `tokens` are
 * counts.
 */
const NAME =
  '(?:passw(?:or)?d|passphrase|passcode|secret|credentials?|cookie|authorization|token|(?:api|access|account|private|signing|encryption)[_-]?key|(?<![a-z])(?:pass|pwd|pin|otp|auth|jwt|sig|signature))'
const BLANKS = String.raw`[ \t]{0,16}`
const TYPE = String.raw`:[ \t]{0,4}(?:&?str|string|bytes|SecretStr)[ \t]{0,4}=(?!=)`
/**
 * The ways in which settings, programs, headers, queries and command lines assign a value to a
 * name.
 */
const NAMED = String.raw`${NAME}\\?["']?\]?${BLANKS}(?:${TYPE}|:=|=>|[=:])${BLANKS}|(?<![\w-])--?[\w-]{0,40}?${NAME}[ \t]{1,16}(?!-)|(?:passw(?:or)?d|passphrase)[ \t]{1,16}(?=["'])|identified\s{1,8}(?:with\s{1,8}[\w"']{1,64}\s{1,8})?(?:by|as)\s{1,8}(?:password\s{1,8})?(?=["'])`
const PARAMETER = String.raw`[\w.*-]{1,64}=(?:"[^"\n]{0,512}"|\\"[^"\\\n]{0,512}\\"|[^\s"';,«]{0,512})`
const HEADER = `(?:(?:proxy-)?authorization|(?:set-)?cookie)${BLANKS}:${BLANKS}`

/**
 * Two groups: the name, and the secret. A quoted secret may contain spaces, within its line and 512
 * characters; otherwise it ends with the word, and a list of parameters with the last parameter.
 */
export const AFTER_NAMES: readonly RegExp[] = [
  new RegExp(String.raw`(?<=')(${HEADER})([^'\n]{3,512})(?=')`, 'gi'),
  new RegExp(String.raw`(?<=(?<!\\)")(${HEADER})((?:[^"\\\n]|\\.){3,512})(?=")`, 'gi'),
  new RegExp(
    String.raw`((?:^|\n)[<> ]{0,2}(?:proxy-)?authorization${BLANKS}:${BLANKS}[A-Za-z][\w-]{1,30} )([^\s"';,«=]{3,}=*(?=\s|$))`,
    'gi',
  ),
  new RegExp(
    String.raw`(authorization\\?["']?${BLANKS}[=:]${BLANKS}\\?["']?[A-Za-z][\w-]{1,30} {1,4})(${PARAMETER}(?:, {0,4}${PARAMETER}){0,32})`,
    'gi',
  ),
  new RegExp(
    String.raw`(cookie\\?["']?${BLANKS}[=:]${BLANKS}\\?["']?)(${PARAMETER}(?:; {0,4}${PARAMETER}){0,64})`,
    'gi',
  ),
  new RegExp(String.raw`((?:${NAMED})[a-z@$]?")((?:[^"\\\n]|\\.){1,512})(?=")`, 'gi'),
  new RegExp(String.raw`((?:${NAMED})\\")((?:[^"\\\n]|\\[^"]){1,512})(?=\\")`, 'gi'),
  new RegExp(String.raw`((?:${NAMED})[a-z@$]?')((?:[^'\\\n]|\\.|''){1,512})(?=')`, 'gi'),
  new RegExp(
    String.raw`((?:${NAMED})\\?["']?(?:(?:Basic|Token|Digest|Negotiate|Key|Api-?Key|GenieKey|SSWS|OAuth) {1,4})?)([^&\s"';,«]{3,})`,
    'gi',
  ),
  /((?<![\w-])(?:-u|--user|--proxy-user)(?:[ \t]{1,16}|=|(?<=-u))["']?[^\s:"'«/]{1,64}:)(?!\d+(?:\s|$))([^\s"'«]{3,})/g,
  /(\blogin\s{1,16}[^\s«]{1,128}\s{1,16}password\s{1,16}|\bmachine\s{1,16}[^\s«]{1,256}\s{1,16}password\s{1,16})([^\s«]{3,})/gi, // netrc
  new RegExp(
    String.raw`(<[\w:.-]{0,40}?${NAME}(?:\s[^<>]{0,200})?>(?:<!\[CDATA\[)?)([^<«]{1,512})(?=<)`,
    'gi',
  ),
]
