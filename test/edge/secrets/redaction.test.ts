// Promise: a secret recognized by name or shape is replaced by a mark, at any depth and in any
// encoding, and ordinary text stays readable.

import { expect, test } from 'vitest'
import { markerFor, Redaction } from '../../../edge/secrets/redaction.ts'
import { sha256 } from '../../../shared/bytes/json.ts'
import { cpuTime } from '../../support/cpu-time.ts'
import { HIDDEN, redact, redaction, SECRET, shown } from './redacted.ts'

test.each([
  'password',
  'Password',
  'PASSWORD',
  'passwd',
  'dbPassword',
  'db_password',
  'db-password',
  'dbpassword',
  'passphrase',
  'pass',
  'user_pass',
  'userPass',
  'pwd',
  'secret',
  'client_secret',
  'clientSecret',
  'token',
  'accessToken',
  'tokens',
  'api_key',
  'apiKey',
  'apikey',
  'API-KEY',
  'x-api-key',
  'access_key',
  'aws_secret_access_key',
  'privateKey',
  'private-key',
  'signing_key',
  'authorization',
  'Authorization',
  'proxy-authorization',
  'auth',
  'cookie',
  'Set-Cookie',
  'credentials',
  'otp',
  'pin',
  'passcode',
  'jwt',
])('the value of a member named `%s` is hidden at any depth and whatever its type', (name) => {
  for (const value of [SECRET, [SECRET], { inner: SECRET }, [{ a: [SECRET] }]]) {
    for (const args of [{ [name]: value }, { a: { b: [{ [name]: value }] } }]) {
      expect(shown(args)).not.toContain(SECRET)
      expect(shown(args)).toMatch(HIDDEN)
    }
  }
})

test('a number under a secret name is hidden, but counts of tokens, null and booleans are not', () => {
  expect(shown({ pin: 4711, password: 123456 })).not.toMatch(/4711|123456/)
  expect(redact({ max_tokens: 500, tokens: 3, password: null, use_token: true })).toEqual({
    max_tokens: 500,
    tokens: 3,
    password: null,
    use_token: true,
  })
})

test.each([
  'compass',
  'passenger',
  'bypass',
  'author',
  'authority',
  'spin',
  'pinned',
  'keyboard',
  'monkey',
  'primary_key',
  'text',
  'command',
])('a value under the ordinary name `%s` stays readable', (name) =>
  expect(redact({ [name]: 'north by northwest' })).toEqual({ [name]: 'north by northwest' }),
)

// Written in two parts, so that secret scanners don't report this file.
const SHAPES: Readonly<Record<string, string>> = {
  'an agent’s key of ours': `cs_${'agent'}_default_01ARZ3NDEKTSV4RRFFQ69G5FAV_${'A'.repeat(52)}`,
  'an operator’s key of ours': `cs_${'operator'}_my-tenant_01ARZ3NDEKTSV4RRFFQ69G5FAV_${'A'.repeat(52)}`,
  'an enrolment token of ours': `cs_${'enrol'}_default_01ARZ3NDEKTSV4RRFFQ69G5FAV_${'A'.repeat(52)}`,
  'a Slack bot token': `xox${'b'}-1234567890-abcdefghij`,
  'a Slack app token': `xapp-${'1'}-A0123456789-abcdef`,
  'a GitHub token': `ghp_${'a'.repeat(36)}`,
  'a fine-grained GitHub token': `github_pat_${'a'.repeat(40)}`,
  'a GitLab token': `glpat-${'a'.repeat(20)}`,
  'a model provider’s key': `sk-${'a'.repeat(40)}`,
  'a payment provider’s key': `sk_live_${'a'.repeat(24)}`,
  'a cloud access key': `AKIA${'ABCDEFGH'.repeat(2)}`,
  'another cloud’s key': `AIza${'a'.repeat(35)}`,
  'a package registry’s token': `npm_${'a'.repeat(36)}`,
  'a JSON web token': `eyJ${'a'.repeat(20)}.eyJ${'b'.repeat(20)}.${'c'.repeat(30)}`,
  'a private key': `-----BEGIN ${'RSA'} PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----`,
  'a PGP key': `-----BEGIN PGP ${'PRIVATE'} KEY BLOCK-----\nMIIabc\n-----END PGP PRIVATE KEY BLOCK-----`,
  'a mail provider’s key': `SG.${'a'.repeat(22)}.${'b'.repeat(43)}`,
  'an OAuth token': `ya29.${'a'.repeat(40)}`,
  'a bot’s token': `123456789:AA${'b'.repeat(33)}`,
  'a token instead of a user in a URL': `https://${'d'.repeat(32)}@example.com/x`,
  'a password behind a long name in a URL': `https://${'u'.repeat(70)}:${'d'.repeat(30)}@example.com/x`,
  'a storage account’s key': `AccountKey=${'e'.repeat(40)}==`,
  'a sealed token': `eyJ${'a'.repeat(20)}..${'b'.repeat(16)}.${'c'.repeat(30)}.${'d'.repeat(22)}`,
  'a vault’s token': `hvs.${'a'.repeat(24)}`,
  'an identity that decrypts': `AGE-SECRET-KEY-${'1'}${'Q'.repeat(58)}`,
  'a container registry’s token': `dckr_pat_${'a'.repeat(27)}`,
  'an OAuth client’s secret': `GOCSPX-${'a'.repeat(28)}`,
  'a data platform’s token': `dapi${'0'.repeat(32)}`,
  'an issue tracker’s key': `lin_api_${'a'.repeat(40)}`,
  'a private key that is cut short': `-----BEGIN ${'EC'} PRIVATE KEY-----\nMIIabc`,
}

test.each(Object.entries(SHAPES))(
  '%s is hidden by its shape alone, in a sentence, as a member’s name and in a list',
  (_name, secret) => {
    const part = secret.split('\n')[1] ?? secret.slice(4, 30)
    for (const args of [
      { text: secret },
      { text: `before ${secret}` },
      { [secret]: 1 },
      { list: ['a', { b: secret }] },
      { text: `url?x=${secret}` },
    ]) {
      expect(shown(args)).not.toContain(part)
      expect(shown(args)).toMatch(HIDDEN)
    }
  },
)

test.each([
  `Authorization: Bearer ${SECRET}`,
  `authorization: basic ${SECRET}`,
  `curl -H 'X-Api-Key: ${SECRET}' https://example.com`,
  `https://user:${SECRET}@example.com/path`,
  `postgres://app:${SECRET}@db/app`,
  `https://example.com/?token=${SECRET}&x=1`,
  `https://example.com/?a=1&api_key=${SECRET}`,
  `PASSWORD=${SECRET} ./run`,
  `https://hooks.slack.com/services/T00000000/B00000000/${SECRET}`,
  `--password=${SECRET}`,
  ...[
    'password',
    'DB_PASSWORD',
    'private_key',
    'signing_key',
    'encryption_key',
    'passcode',
    'pin',
    'otp',
    'jwt',
    'auth',
    'credential',
  ].flatMap((name) =>
    [' = ', '=', ': ', ':  ', ':\t', ' := ', ' => '].flatMap((is) => [
      `x ${name}${is}${SECRET} y`,
      `x ${name}${is}'${SECRET}' y`,
    ]),
  ),
  `const password = '${SECRET}'`,
  `password: str = "${SECRET}"`,
  `config['password'] = '${SECRET}'`,
  `mysql --password ${SECRET} shop`,
  `mysql --db-password "${SECRET}" shop`,
  `curl -u admin:${SECRET} https://example.com`,
  `curl --user 'admin:${SECRET}' https://example.com`,
  `Cookie: theme=dark; session=${SECRET}`,
  `Authorization: Digest username="ann", response="${SECRET}", x=1`,
  `Authorization: ApiKey ${SECRET}`,
  `Authorization: Whatever ${SECRET}`,
  `curl -H 'Authorization: Whatever ${SECRET}' https://example.com`,
  `curl -H "Cookie: a=1; b=${SECRET}" https://example.com`,
  `postgres://app:pa/ss${SECRET}@db/app`,
  `postgres://app:p@ss${SECRET}@db/app`,
  `machine example.com login ann password ${SECRET}`,
  `machine example.com\n  login ann\n  password ${SECRET}`,
  `<user>ann</user><password>${SECRET}</password>`,
  `<a:clientSecret x="1"><![CDATA[${SECRET}]]></a:clientSecret>`,
  `CREATE USER ann IDENTIFIED BY '${SECRET}'`,
  `ALTER USER ann WITH PASSWORD '${SECRET}'`,
  `a=password%3D${SECRET}&b=1`,
  `a=%7B%22password%22%3A%22${SECRET}%22%7D&b=1`,
  `{"password":"${SECRET}"}`,
  `{"client_secret": "${SECRET}"}`,
])('a secret inside a text is hidden and the rest of the text is not: %s', (text) => {
  const redacted = shown({ text })
  expect(redacted).not.toContain(SECRET)
  expect(redacted).toMatch(HIDDEN)
  expect(redact({ text })).not.toEqual({ text: expect.stringMatching(/^«redacted, mark [0-9a-f]{16}»$/) })
})

const PHRASE = 'correct horse, battery; staple'
test.each([
  ['JSON', { password: PHRASE }],
  ['JSON, under a name for all within', { a: [{ credentials: { user: PHRASE, more: [{ key: PHRASE }] } }] }],
  ['JSON in JSON', { body: JSON.stringify({ client_secret: PHRASE }) }],
  ['JSON in JSON in JSON', { body: JSON.stringify({ body: JSON.stringify([{ apiKey: PHRASE }]) }) }],
])('V02 a secret with spaces in a text that is %s is hidden up to its last word', (_name, value) => {
  const redacted = shown({ text: JSON.stringify({ ...value, ordinary: 'stays' }) })
  for (const word of PHRASE.split(/\W+/)) expect(redacted).not.toContain(word)
  expect(redacted).toMatch(HIDDEN)
  expect(redacted).toContain('stays')
})

test('V02 redacting a JSON text changes only the secret: numbers keep their digits, and repeated names stay', () => {
  const text = `{ "n": 9007199254740993, "n": 1.10, "e": 1e400, "pin": 4711,\t"é": "\\u00e9" }`
  expect(redact({ text })).toEqual({
    text: text.replace('4711', String(/«[^»]*»/.exec(shown({ pin: '4711' }))?.[0])),
  })
})

test.each([
  `curl -d '{"password":"${PHRASE}","x":1}' https://example.com`,
  `sh -c "curl -d {\\"api_key\\": \\"${PHRASE}\\"} https://example.com"`,
  `password = x\nsecret="${PHRASE}"`,
])('V02 a quoted secret inside a text is hidden as a whole: %s', (text) => {
  for (const word of PHRASE.split(/\W+/)) expect(shown({ text })).not.toContain(word)
})

test.each([
  ['standard', 'base64'],
  ['of URLs', 'base64url'],
] as const)('V02 a secret in base64 is hidden: alphabet %s', (_name, encoding) => {
  for (const secret of [
    `password=${SECRET}`,
    `{"token":"${SECRET}"}`,
    `user:x\nAuthorization: Bearer ${SECRET}`,
    SHAPES['a GitHub token'] ?? '',
  ]) {
    const encoded = Buffer.from(secret).toString(encoding)
    expect(shown({ text: `data: ${encoded} end` })).toMatch(/"data: «redacted, mark [0-9a-f]{16}» end"/)
  }
})

test('pictures, digests, paths and other base64 without a secret stay readable', () => {
  for (const text of [
    'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk',
    'd41d8cd98f00b204e9800998ecf8427ed41d8cd98f00b204e9800998ecf8427e',
    '/usr/share/something/long/path/that/is/fine',
    Buffer.from('an ordinary sentence about nothing').toString('base64'),
  ])
    expect(redact({ text })).toEqual({ text })
})

test('V02 all parts of a hidden object are hidden in the command line too', () => {
  expect(
    JSON.stringify(redaction.ofArgv(['x', PHRASE], { credentials: { a: [{ b: PHRASE }] } })),
  ).not.toContain('horse')
})

test('in a list, the item after a secret flag is hidden', () => {
  expect(shown({ args: ['login', '--password', SECRET, '--user', 'ann'] })).toMatch(
    /"--password","«redacted[^"]*","--user","ann"/,
  )
  expect(shown({ args: ['-token', SECRET] })).not.toContain(SECRET)
  expect(redact({ args: ['--password', '--user', 'ann'] })).toMatchObject({ args: { 2: 'ann' } })
})

test('secret arguments are hidden in the command line that is made of them', () => {
  const args = { user: 'ann', password: SECRET, more: { pin: 4711, tokens: [`${SECRET}-2`] } }
  const line = JSON.stringify(
    redaction.ofArgv(['login', 'ann', SECRET, '4711', `${SECRET}-2`, '--verbose'], args),
  )
  expect(line).toMatch(/^\["login","ann","«redacted[^"]*","«redacted[^"]*","«redacted[^"]*","--verbose"\]$/)
})

test('ordinary text that resembles secrets stays unchanged', () => {
  for (const text of [
    'Basic training for bearers of good news',
    'the token economy',
    'a secret garden',
    'pass the salt',
    'task-force-member-list',
    'https://example.com:8080/a?b=c',
    'user@example.com',
    'risk-management-department',
    'a.b.c eyJ.x.y',
    'max_tokens=500 and tokens: 300',
    'the password reset is due; the login page asks for a password twice',
    'two secrets, a pin, a pass and an author: Ann',
    'spin: fast, compass = north, bypass => road',
    'docker run -u 1000:1000 --user 33:33 --tokenizer fast',
    'if (password === other) return',
    'https://example.com/a?mail=a@example.com',
    'a%20b%2Fc is a path, and 100% of it',
    '<name>Ann</name><author>Ben</author>',
  ])
    expect(redact({ text })).toEqual({ text })
})

test('V02 nobody without the edge’s key can test guesses of a hidden value', () => {
  const marks = [
    redaction,
    new Redaction(markerFor(Buffer.alloc(32, 1), 'default')),
    new Redaction(markerFor(Buffer.alloc(32), 'other')),
  ]
  expect(new Set(marks.map((one) => one.of('4711', 'pin'))).size).toBe(3) // this edge, another edge, another tenant
  expect(redaction.of(4711, 'pin')).toBe(redaction.of('4711', 'pin'))
  expect(redaction.of('4711', 'pin')).not.toContain(sha256('4711').slice(0, 12))
})

test('equal secrets get equal marks, and different secrets get different ones', () => {
  const digest = (value: string) => shown({ password: value })
  expect(digest('a')).toBe(digest('a'))
  expect(digest('a')).not.toBe(digest('b'))
})

test('G06 redaction takes linear time for hostile texts too', () => {
  const beginnings = [
    'eyJ',
    'eyJa.',
    'xoxb-',
    'sk-',
    '-----BEGIN ',
    '-----BEGIN PRIVATE KEY-----',
    'Bearer ',
    '://a:',
    '://',
    'token=',
    'password: ',
    'token="',
    'password":"\\',
    '{"a":',
    '{"a":"{\\"a\\":',
    '["',
    '["\\"',
    '[1,',
    '://aaaaaaaaaaaaaaaaaaaaaaaa',
    'aGVsbG8gd29ybGQgaGVsbG8g',
    'SG.aaaaaaaaaaaaaaaaaaaaaa',
    'cs_agent_a_',
    'AKIA',
    'token',
    'token = ',
    'token                 ',
    "token='",
    'password := "\\"',
    '--password ',
    '--a',
    '-u a:',
    '-ua',
    'Cookie: a=b; ',
    'cookie=',
    '"Cookie: ',
    'Authorization: Digest a="',
    'Authorization: Digest a=b, ',
    '\nAuthorization: a ',
    '://a:b',
    '://a:@',
    'login a password ',
    'machine ',
    'login ',
    '<password>',
    '<a:password ',
    'identified by ',
    'hvs.aaaaaaaaaaaaaaaaaaaa',
    'eyJaaaaaaaa.',
    'eyJaaaaaaaa.. ',
    'aGVsbG8gd29ybGQgaGVsbG8gd29ybGQg\n',
    '%41',
    'a%',
    ' '.repeat(100),
  ]
  for (const beginning of beginnings) {
    const text = beginning.repeat(Math.ceil(500_000 / beginning.length))
    const started = cpuTime()
    redact({ text })
    expect([beginning, cpuTime() - started < 1_500]).toEqual([beginning, true])
  }
})
