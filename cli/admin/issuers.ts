// Commands for issuers of tokens, whose JSON Web Tokens authenticate agents. A token is read from
// standard input, never from the command line, where others could read it.

import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Issuer } from '../../shared/wire/issuers.ts'
import { IssuerSpec } from '../../shared/wire/issuers.ts'
import type { Command, Trouble } from '../shell/command.ts'
import { command, usage } from '../shell/command.ts'
import { readBytes } from '../shell/files.ts'
import { parseInput, readJsonObject } from '../shell/json-input.ts'
import { columns, inline, listing, time } from '../shell/terminal-text.ts'

const NAME = { NAME: 'the issuer’s name, which you choose' } as const

const keysFrom = ({ issuer, jwks }: Issuer): string => {
  if (jwks === 'discovery') return `discovery at ${issuer}`
  return 'uri' in jwks ? jwks.uri : `${jwks.keys.length} given here`
}

const list = command({
  words: ['issuers', 'list'],
  args: {},
  flags: {},
  does: 'List the issuers whose tokens authenticate agents',
  key: 'operator',
  async run({ api, paint }) {
    const issuers = await api('listIssuers', {})
    if (!issuers.ok) return issuers
    const rows = issuers.value.items.map((issuer) => [
      issuer.name,
      issuer.issuer,
      keysFrom(issuer),
      [...new Set(issuer.rules.map(({ agent }) => agent))].join(','),
      `${issuer.put_by}, ${time(issuer.put_at_ms)}`,
    ])
    const titles = ['name', 'issuer', 'keys', 'agents', 'changed by']
    const text = listing(paint, titles, rows, 'no issuers: agents use keys')
    return ok({ ok: true, json: issuers.value.items, text })
  },
})

const shownText = (issuer: Issuer): string => {
  const rules = issuer.rules.map(({ claims, agent }) => {
    const conditions = Object.entries(claims).map(([claim, rule]) =>
      typeof rule === 'string' ? `${claim} is ${rule}` : `${claim} begins with ${rule.prefix}`,
    )
    return ['rule', `${agent} if ${conditions.join(' and ')}`]
  })
  const rows = [
    ['issuer', issuer.issuer],
    ['keys', keysFrom(issuer)],
    ['algorithms', issuer.algorithms.join(', ')],
    ['audiences', issuer.audiences.join(', ')],
    ['requires', ['exp', 'sub', ...issuer.require].join(', ')],
    ['longest age', issuer.max_age_s === undefined ? 'until it expires' : `${issuer.max_age_s} s`],
    ['advertised', issuer.advertise ? 'yes' : 'no'],
    ...rules,
  ]
  return `issuer ${inline(issuer.name)}\n${columns(rows, '  ')}`
}

const show = command({
  words: ['issuers', 'show'],
  args: NAME,
  flags: {},
  does: 'Show an issuer with the rules that lead from claims to agents',
  key: 'operator',
  async run({ args, api }) {
    const issuer = await api('readIssuer', { params: { name: args.NAME } })
    return issuer.ok ? ok({ ok: true, json: issuer.value, text: shownText(issuer.value) }) : issuer
  },
})

const put = command({
  words: ['issuers', 'put'],
  args: { ...NAME, FILE: 'the issuer as JSON; - reads standard input' },
  flags: {},
  does: 'Trust an issuer of tokens, or change its settings',
  key: 'operator',
  examples: [
    `echo '{"issuer": "https://token.actions.githubusercontent.com", "advertise": false, "rules": [{"claims": {"sub": "repo:acme/app:ref:refs/heads/main"}, "agent": "deploy-bot"}]}' | countersign issuers put github -`,
  ],
  async run({ args: { NAME: name, FILE: file }, api }) {
    const read = readJsonObject(file)
    const spec = read.ok ? parseInput(IssuerSpec, read.value, 'the issuer') : read
    if (!spec.ok) return spec
    const done = await api('putIssuer', { params: { name }, body: spec.value })
    return done.ok ? ok({ ok: true, json: done.value, text: shownText(done.value) }) : done
  },
})

const remove = command({
  words: ['issuers', 'remove'],
  args: NAME,
  flags: {},
  does: 'Remove an issuer; its tokens are refused from then on',
  key: 'operator',
  async run({ args: { NAME: name }, api }) {
    const gone = await api('deleteIssuer', { params: { name } })
    return gone.ok ? ok({ ok: true, json: gone.value, text: `issuer ${inline(name)} removed\n` }) : gone
  },
})

const test = command({
  words: ['issuers', 'test'],
  args: {},
  flags: { token: { value: '-', what: 'the token, always from standard input' } },
  does: 'Say which agent a token authenticates now, or why it is refused',
  key: 'operator',
  exits: '0 it is accepted; 1 it is not, or the command was refused',
  examples: [
    'kubectl create token deploy-bot --audience https://cs.example.com | countersign issuers test --token -',
  ],
  async run({ flags, api }) {
    const token = readToken(flags.token)
    if (!token.ok) return token
    const judged = await api('testToken', { body: { token: token.value } })
    if (!judged.ok) return judged
    const verdict = judged.value
    const text = verdict.accepted
      ? `accepted: ${inline(verdict.actor.subject)} of ${inline(verdict.issuer)} is the agent ${inline(verdict.agent)} until ${time(verdict.expires_at_ms)}\n`
      : `refused (${verdict.fault}): ${inline(verdict.detail)}\n`
    return ok({ ok: verdict.accepted, json: verdict, text })
  },
})

/** The text of the flag is never repeated: somebody may have put the token there. */
function readToken(given: string | undefined): Result<string, Trouble> {
  if (given !== '-')
    return err(usage('pipe the token in and add `--token -`; on the command line others could read it'))
  const bytes = readBytes('-', 2 * LIMITS.token_bytes)
  return bytes.ok ? ok(new TextDecoder().decode(bytes.value).trim()) : bytes
}

export const ISSUERS: readonly Command[] = [list, show, put, remove, test]
