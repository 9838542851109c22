// Commands with which operators store, list and remove secrets, which nobody can read back. A value
// comes from standard input or a file, never from the command line, where others could read it.

import { LIMITS } from '../../shared/limits.ts'
import { err, ok } from '../../shared/result.ts'
import { SecretSpec } from '../../shared/wire/secrets.ts'
import type { Command } from '../shell/command.ts'
import { command, trouble, usage } from '../shell/command.ts'
import { readBytes } from '../shell/files.ts'
import { parseInput } from '../shell/json-input.ts'
import { inline, listing, time } from '../shell/terminal-text.ts'

const names = (given: string | undefined): string[] =>
  (given ?? '').split(',').flatMap((name) => name.trim() || [])
const NAME = { NAME: 'the secret’s name' } as const

/** Strict UTF-8: a lenient decoder would change the secret. */
function textOf(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return undefined
  }
}

const list = command({
  words: ['secrets', 'list'],
  args: {},
  flags: {},
  does: 'List secrets with their versions and the tools that may use them, never their values',
  key: 'operator',
  async run({ api, paint }) {
    const secrets = await api('listSecrets', {})
    if (!secrets.ok) return secrets
    const rows = secrets.value.items.map(({ name, version, tools, hosts, put_by, put_at_ms }) => [
      name,
      String(version),
      tools.join(','),
      hosts?.join(',') ?? 'tools',
      `${put_by}, ${time(put_at_ms)}`,
    ])
    return ok({
      ok: true,
      json: secrets.value.items,
      text: listing(paint, ['secret', 'version', 'tools', 'given to', 'changed by'], rows, 'no secrets'),
    })
  },
})

const put = command({
  words: ['secrets', 'put'],
  args: {
    ...NAME,
    FILE: 'the file with the value, as UTF-8 text; - reads standard input. One newline at the end is removed',
  },
  flags: {
    tools: { value: 'TOOL,…', what: 'the tools that may use it' },
    hosts: {
      value: 'HOST:PORT,…',
      what: 'only for requests to these hosts: the proxy adds it, and no tool gets to see it',
    },
  },
  does: 'Store a secret, or its next version; its value can’t be read back',
  key: 'operator',
  examples: [
    'pass show github/bot | countersign secrets put github-token - --tools github_issues',
    'countersign secrets put erp-key key.txt --tools erp_orders --hosts erp.example.com:8080',
  ],
  async run({ args: { NAME: name, FILE: file }, flags, api }) {
    const [tools, hosts] = [names(flags.tools), names(flags.hosts)]
    if (tools.length === 0) return err(usage('`--tools` is missing: name the tools that may use the secret'))
    const bytes = readBytes(file, LIMITS.body_bytes)
    if (!bytes.ok) return bytes
    const text = textOf(bytes.value)
    if (text === undefined)
      return err(
        trouble(
          'unreadable',
          'the secret is not UTF-8 text',
          'encode it in base64 and let the tool decode it',
        ),
      )
    const value = text.replace(/\r?\n$/, '')
    const spec = parseInput(
      SecretSpec,
      { value, tools, ...(hosts.length === 0 ? {} : { hosts }) },
      'the secret',
    )
    if (!spec.ok) return spec
    const done = await api('putSecret', { params: { name }, body: spec.value })
    return done.ok
      ? ok({ ok: true, json: done.value, text: `secret ${inline(name)}, version ${done.value.version}\n` })
      : done
  },
})

const remove = command({
  words: ['secrets', 'remove'],
  args: NAME,
  flags: {},
  does: 'Remove a secret; from then on, calls of tools that need it are denied',
  key: 'operator',
  async run({ args: { NAME: name }, api }) {
    const gone = await api('deleteSecret', { params: { name } })
    return gone.ok ? ok({ ok: true, json: gone.value, text: `secret ${inline(name)} removed\n` }) : gone
  },
})

export const SECRETS: readonly Command[] = [list, put, remove]
