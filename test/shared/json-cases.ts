// Texts at the JSON boundary with their expected results, for both Node and workerd. A text is a
// string, or bytes if no string can represent it.

import type { Code } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'

export type JsonCase = {
  readonly name: string
  readonly text: string | readonly number[]
  readonly is: 'fine' | Code
}

const nested = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`
const nestedObjects = (depth: number) => `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`
const bytes = (text: string): number[] => [...new TextEncoder().encode(text)]
const quoted = (...inside: number[]): number[] => [0x22, ...inside, 0x22]

const all = (is: JsonCase['is'], texts: Record<string, JsonCase['text']>): JsonCase[] =>
  Object.entries(texts).map(([name, text]) => ({ name, text, is }))

const SYNTAX: JsonCase[] = [
  ...all('fine', {
    'an empty object': '{}',
    'an empty array': '[]',
    'each kind of value': '{"a":[null,true,false,1,"x",{}]}',
    'a value alone': '1',
    'a string alone': '"x"',
    'every kind of space':
      ' \t\r\n{ \t\r\n"a" \t\r\n: \t\r\n[ \t\r\n1 \t\r\n, \t\r\n2 \t\r\n] \t\r\n} \t\r\n',
    'an empty name': '{"":1}',
    'every short escape': '"\\"\\\\\\/\\b\\f\\n\\r\\t"',
    'an escaped letter': '"\\u0041"',
    'an escaped pair': '"\\ud83d\\ude00"',
    'DEL in a string': '"\u007f"',
    'line separators in a string': '"\u2028\u2029"',
    noncharacters: '"\uffff\ufdd0"',
    'the last code point': '"\u{10ffff}"',
  }),
  ...all('not_json', {
    nothing: '',
    'only space': '  ',
    'a comma too many in an array': '[1,]',
    'a comma too many in an object': '{"a":1,}',
    'a comma before': '[,1]',
    'two commas': '[1,,2]',
    'no comma': '[1 2]',
    'no colon': '{"a" 1}',
    'two colons': '{"a"::1}',
    'no value': '{"a":}',
    'a name without quotes': '{a:1}',
    'a number for a name': '{1:1}',
    'single quotes': "{'a':1}",
    'a comment': '{"a":1}//',
    'a comment within': '[1/**/]',
    'two values': '{}{}',
    'a bracket too many': '[]]',
    'brackets crossed': '[{]}',
    'an open array': '[1',
    'an open object': '{"a":1',
    'an open string': '"a',
    'an open string after an escape': '"a\\"',
    'an open escape': '"\\',
    'a name alone': '{"a"',
    'a tab in a string': '"\t"',
    'a line feed in a string': '"\n"',
    'NUL in a string': '"\0"',
    'NUL between values': '[1\0]',
    'an unknown escape': '"\\x41"',
    'an escaped quote of the other kind': '"\\\'"',
    'a short \\u': '"\\u004"',
    'a \\u without hex': '"\\u00g0"',
    'a capital \\U': '"\\U0041"',
    'form feed as space': '\f1',
    'no-break space': '\u00a01',
    'a byte order mark': '\ufeff{}',
    'a capital TRUE': 'TRUE',
    'a word cut short': 'tru',
    'a word too long': 'trueish',
    undefined: 'undefined',
    NaN: '[NaN]',
    Infinity: '[-Infinity]',
    'a lone minus': '-',
    'a plus': '+1',
    'a leading zero': '01',
    'a dot without digits': '1.',
    'a dot without a head': '.5',
    'an exponent without digits': '1e',
    'an exponent of a sign': '1e+',
    'hex digits': '0x1',
    'an underscore': '1_000',
    'full-width digits': '１',
    'a minus of typography': '−1',
    'a stray letter': '[1a]',
  }),
]

const DEPTH: JsonCase[] = [
  ...all('fine', {
    'G02 arrays as deep as allowed': nested(LIMITS.json_depth),
    'G02 objects as deep as allowed': nestedObjects(LIMITS.json_depth),
  }),
  ...all('json_too_deep', {
    'G02 arrays one too deep': nested(LIMITS.json_depth + 2), // the innermost holds nothing: one more bracket is one more value
    'G02 objects one too deep': nestedObjects(LIMITS.json_depth + 1),
    'G02 a hundred thousand brackets': '['.repeat(100_000),
    'G02 a hundred thousand objects': '{"a":'.repeat(100_000),
  }),
  ...all('fine', {
    'G10 as many values as allowed': `[${Array.from({ length: LIMITS.json_nodes - 1 }, () => 1).join()}]`,
  }),
  ...all('json_too_many', {
    'G10 one value too many': `[${Array.from({ length: LIMITS.json_nodes }, () => 1).join()}]`,
  }),
  ...all('fine', { 'G10 as many bytes as allowed': `"${'x'.repeat(LIMITS.body_bytes - 2)}"` }),
  ...all('body_too_large', {
    'G10 one byte too many': `"${'x'.repeat(LIMITS.body_bytes - 1)}"`,
    'G10 bytes count, not characters': `"${'é'.repeat(LIMITS.body_bytes / 2)}"`,
  }),
]

const NAMES: JsonCase[] = [
  ...all('json_forbidden_key', {
    'G01 __proto__': '{"__proto__":{"admin":true}}',
    'G01 __proto__ spelled with an escape': '{"\\u005f_proto__":1}',
    'G01 __proto__ deep inside': '[[{"a":{"__proto__":null}}]]',
  }),
  ...all('fine', {
    'G01 constructor is a name like others':
      '{"constructor":{"prototype":{"x":1}},"toString":1,"hasOwnProperty":2}',
  }),
  ...all('json_duplicate_key', {
    'G03 a name twice': '{"a":1,"a":2}',
    'G03 a name twice with the same value': '{"a":1,"a":1}',
    'G03 a name twice, once escaped': '{"a":1,"\\u0061":2}',
    'G03 a name twice, far apart': '{"a":1,"b":{"c":[1,2]},"a":2}',
    'G03 a name twice, deep inside': '[{"b":{"a":1,"a":2}}]',
    'G03 an empty name twice': '{"":1,"":2}',
    'G03 the name of an inherited method twice': '{"toString":1,"toString":2}',
    'G03 a number for a name twice': '{"1":1,"1":2}',
  }),
  ...all('fine', {
    'G03 the same name in two objects': '[{"a":1},{"a":1}]',
    'G03 names that only look the same': '{"é":1,"e\u0301":2}',
  }),
]

const NUMBERS: JsonCase[] = [
  ...all('fine', {
    'G04 zero': '0',
    'G04 the largest safe integer': '9007199254740991',
    'G04 the smallest safe integer': '-9007199254740991',
    'G04 a safe integer by exponent': '1E15',
    'G04 a safe integer with a point': '4503599627370496.0',
    'G04 zero with a point and an exponent': '0.0e10',
    'G04 a fraction': '0.1',
    'G04 the smallest double': '5e-324',
    'G04 a small fraction': '1e-300',
    'D13 a fraction with a zero at its end': '0.10',
    'D13 a fraction by exponent': '1.5e3',
    'D13 a fraction by exponent, moved': '0.015E+2',
    'D13 a whole number with a point': '100.0',
    'D13 a whole number with many zeros': `100.${'0'.repeat(400)}`,
    'D13 zero with a large exponent': '0e999999999999999999999999',
    'D13 a double’s seventeen digits': '0.30000000000000004',
    'D13 the smallest double, written out': `0.${'0'.repeat(323)}5`,
  }),
  ...all('json_unsafe_number', {
    'G04 2^53': '9007199254740992',
    'G04 2^53 + 1': '9007199254740993',
    'G04 −2^53': '-9007199254740992',
    'G04 the largest 64-bit integer': '9223372036854775807',
    'G04 a long integer': '1'.repeat(400),
    'G04 too large by exponent': '1e400',
    'G04 too large and negative': '-1e400',
    'G04 a large double': '1.7976931348623157e308',
    'G04 1e21': '1e21',
    'G04 a fraction that rounds to an unsafe integer': '9007199254740993.5',
    'G04 minus zero': '-0',
    'G04 minus zero with a point': '-0.0',
    'G04 minus zero by exponent': '-0e5',
    'G04 a number that vanishes': '1e-400',
    'G04 a negative number that vanishes': '-1e-400',
    'G04 a long number that vanishes': `0.${'0'.repeat(400)}1`,
    'G04 an unsafe number deep inside': '{"a":[{"b":1e400}]}',
    'D13 G04 a long decimal that is read as 100': '100.00000000000000000000001',
    'D13 G04 a long decimal that is read as 0.1': '0.1000000000000000055511151231257827021181583404541015625',
    'D13 G04 a long decimal below one that is read as one': `0.${'9'.repeat(30)}`,
    'D13 G04 a negative long decimal': '-99.999999999999999999',
    'D13 G04 a long decimal by exponent': '10000000000000000000000001e-23',
    'D13 G04 one digit more than a double has': '0.300000000000000041',
    'D13 G04 less than the smallest double, and read as it': '4e-324',
    'D13 G04 a double written out beyond what tells it from others': '1.10000000000000008882',
  }),
]

const TEXT: JsonCase[] = [
  ...all('json_bad_text', {
    'G05 a stray continuation byte': quoted(0x80),
    'G05 a lead byte without its tail': quoted(0xc3),
    'G05 an overlong slash': quoted(0xc0, 0xaf),
    'G05 an overlong NUL': quoted(0xc0, 0x80),
    'G05 an overlong form of three bytes': quoted(0xe0, 0x80, 0xaf),
    'G05 a surrogate in UTF-8': quoted(0xed, 0xa0, 0x80),
    'G05 a pair of surrogates in UTF-8': quoted(0xed, 0xa0, 0xbd, 0xed, 0xb8, 0x80),
    'G05 beyond the last code point': quoted(0xf4, 0x90, 0x80, 0x80),
    'G05 a five-byte form': quoted(0xf8, 0x88, 0x80, 0x80, 0x80),
    'G05 0xff': quoted(0xff),
    'G05 UTF-16 with a mark': [0xff, 0xfe, 0x7b, 0x00, 0x7d, 0x00],
    'G05 Latin-1': quoted(0xe9),
    'G05 a bad byte in a name': [...bytes('{"a'), 0xff, ...bytes('":1}')],
    'G05 a bad byte after the value': [...bytes('{}'), 0xff],
    'G05 an escaped NUL': '"\\u0000"',
    'G05 an escaped NUL in a name': '{"\\u0000":1}',
    'G05 a lone high surrogate, escaped': '"\\ud83d"',
    'G05 a lone low surrogate, escaped': '"\\ude00"',
    'G05 surrogates the wrong way round': '"\\ude00\\ud83d"',
    'G05 a high surrogate before a letter': '"\\ud83dx"',
    'G05 a lone surrogate in a name': '{"\\ud800":1}',
  }),
  ...all('not_json', {
    'G05 UTF-16 without a mark': [0x7b, 0x00, 0x7d, 0x00],
    'G05 a byte order mark': [0xef, 0xbb, 0xbf, 0x7b, 0x7d],
  }),
]

export const JSON_CASES: readonly JsonCase[] = [...SYNTAX, ...DEPTH, ...NAMES, ...NUMBERS, ...TEXT]
export const jsonBytes = ({ text }: JsonCase): Uint8Array =>
  typeof text === 'string' ? new TextEncoder().encode(text) : Uint8Array.from(text)

/** RFC 8785: appendix B's doubles by their bits, and the sample of its section 3.2.4 by parts. */
export const CANONICAL_NUMBERS: readonly (readonly [bits: string, text: string])[] = [
  ['0000000000000000', '0'],
  ['8000000000000000', '0'],
  ['0000000000000001', '5e-324'],
  ['8000000000000001', '-5e-324'],
  ['7fefffffffffffff', '1.7976931348623157e+308'],
  ['ffefffffffffffff', '-1.7976931348623157e+308'],
  ['4340000000000000', '9007199254740992'],
  ['c340000000000000', '-9007199254740992'],
  ['4430000000000000', '295147905179352830000'],
  ['44b52d02c7e14af5', '9.999999999999997e+22'],
  ['44b52d02c7e14af6', '1e+23'],
  ['44b52d02c7e14af7', '1.0000000000000001e+23'],
  ['444b1ae4d6e2ef4e', '999999999999999700000'],
  ['444b1ae4d6e2ef4f', '999999999999999900000'],
  ['444b1ae4d6e2ef50', '1e+21'],
  ['3eb0c6f7a0b5ed8c', '9.999999999999997e-7'],
  ['3eb0c6f7a0b5ed8d', '0.000001'],
  ['41b3de4355555553', '333333333.3333332'],
  ['41b3de4355555554', '333333333.33333325'],
  ['41b3de4355555555', '333333333.3333333'],
  ['41b3de4355555556', '333333333.3333334'],
  ['41b3de4355555557', '333333333.33333343'],
  ['becbf647612f3696', '-0.0000033333333333333333'],
  ['43143ff3c1cb0959', '1424953923781206.2'],
]

export const CANONICAL_TEXTS: readonly (readonly [name: string, value: unknown, text: string])[] = [
  [
    'numbers and words',
    { numbers: [Number('333333333.33333329'), 1e30, 4.5, 2e-3, 1e-27], literals: [null, true, false] },
    '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27]}',
  ],
  [
    'only what must be escaped is',
    { string: '€$\u000f\nA\'B"\\\\"/' },
    '{"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}',
  ],
  [
    'names in the order of UTF-16 code units',
    {
      '\u20ac': 'Euro Sign',
      '\r': 'Carriage Return',
      '\ufb33': 'Hebrew Letter Dalet With Dagesh',
      '1': 'One',
      '\u{1f600}': 'Emoji: Grinning Face',
      '\u0080': 'Control',
      ö: 'Latin Small Letter O With Diaeresis',
    },
    '{"\\r":"Carriage Return","1":"One","\u0080":"Control","ö":"Latin Small Letter O With Diaeresis","€":"Euro Sign","\u{1f600}":"Emoji: Grinning Face","\ufb33":"Hebrew Letter Dalet With Dagesh"}',
  ],
  [
    'names that look like numbers sort as text',
    { '10': 1, '9': 2, a: 3, '': 4 },
    '{"":4,"10":1,"9":2,"a":3}',
  ],
  ['order at every level', [{ b: { d: 1, c: 2 }, a: [] }], '[{"a":[],"b":{"c":2,"d":1}}]'],
  ['absent members are absent', { a: undefined, b: null }, '{"b":null}'],
  ['no normalisation of text', ['é', 'e\u0301'], '["é","e\u0301"]'],
]
