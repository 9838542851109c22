// What operators say about calls beforehand: the tools that there are, and the policies that decide.

import { readdirSync } from 'node:fs'
import { basename, join } from 'node:path'
import { LIMITS } from '../shared/limits.ts'
import type { Result } from '../shared/result.ts'
import { err, ok } from '../shared/result.ts'
import { ToolSpec } from '../shared/wire.ts'
import type { Command, Trouble } from './command.ts'
import { command, trouble, usage } from './command.ts'
import { readBytes, reason } from './files.ts'
import { fitting, readRecord } from './specs.ts'
import { columns, inline, json, listing, quoted } from './text.ts'

const NAME = { NAME: 'its name' } as const

const listTools = command({
  words: ['tools', 'list'],
  args: {},
  flags: {},
  does: 'List the tools that the key’s owner may see',
  key: 'either',
  async run({ api, paint }) {
    const list = await api('listTools', {})
    if (!list.ok) return list
    const rows = list.value.items.map(({ name, version, sensitive, capabilities, description }) => [
      name,
      String(version),
      sensitive ? 'sensitive' : '',
      capabilities.join(','),
      description,
    ])
    return ok({
      ok: true,
      json: list.value.items,
      text: listing(paint, ['tool', 'version', '', 'capabilities', 'description'], rows, 'no tools'),
    })
  },
})

const showTool = command({
  words: ['tools', 'show'],
  args: NAME,
  flags: {},
  does: 'Show a tool as registered; the answer can be edited and put back',
  key: 'operator',
  async run({ args, api }) {
    const tool = await api('readTool', { params: { name: args.NAME } })
    return tool.ok ? ok({ ok: true, json: tool.value, text: json(tool.value) }) : tool
  },
})

const putTool = command({
  words: ['tools', 'put'],
  args: { FILE: 'the tool as JSON; - reads it from standard input' },
  flags: { name: { value: 'NAME', what: 'the tool’s name, where the file neither says it nor is named by it' } },
  does: 'Register a tool; every change is a new version',
  key: 'operator',
  async run({ args: { FILE: file }, flags, api, paint }) {
    const read = readRecord(file)
    if (!read.ok) return read
    const { name: named, version: _version, digest: _digest, ...rest } = read.value // as `tools show` tells them; the edge says them anew
    const name = flags.name ?? (typeof named === 'string' ? named : basename(file, '.json'))
    const spec = fitting(ToolSpec, rest, `\`${file}\``)
    if (!spec.ok) return spec
    const put = await api('putTool', { params: { name }, body: spec.value })
    if (!put.ok) return put
    const rows = [
      ['version', String(put.value.version)],
      ['digest', put.value.digest],
    ]
    return ok({ ok: true, json: put.value, text: `tool ${paint.bold(inline(put.value.name))}\n${columns(rows, '  ')}` })
  },
})

const withdrawTool = command({
  words: ['tools', 'withdraw'],
  args: NAME,
  flags: {},
  does: 'Withdraw a tool; its versions stay on record',
  key: 'operator',
  async run({ args, api }) {
    const gone = await api('deleteTool', { params: { name: args.NAME } })
    return gone.ok ? ok({ ok: true, json: gone.value, text: `tool ${args.NAME} withdrawn\n` }) : gone
  },
})

const showPolicies = command({
  words: ['policies', 'show'],
  args: { 'NAME?': 'one policy; all of them if you say nothing' },
  flags: {},
  does: 'Show the policies in force: the floor, and the tenant’s own',
  key: 'operator',
  async run({ args, api, paint }) {
    const read = await api('readPolicies', {})
    if (!read.ok) return read
    const { version, digest, policies, floor } = read.value
    const shown = [
      ...Object.entries(floor).map(([name, text]) => ({ name, of: 'floor', text })),
      ...Object.entries(policies).map(([name, text]) => ({ name, of: 'tenant', text })),
    ]
    const wanted = shown.filter(({ name }) => args.NAME === undefined || name === args.NAME)
    if (wanted.length === 0 && args.NAME !== undefined) return err(trouble('not_found', `there is no policy \`${args.NAME}\``))
    const text = wanted.map(({ name, of, text: cedar }) => `${paint.bold(inline(name))}  ${of}\n${quoted(cedar)}`).join('')
    return ok({ ok: true, json: read.value, text: `version ${version}  ${digest}\n${text}` })
  },
})

const putPolicies = command({
  words: ['policies', 'put'],
  args: { DIR: 'a folder of .cedar files; each is a policy by its file’s name' },
  flags: {
    note: { value: 'TEXT', what: 'why; kept with the version' },
    inactive: { what: 'only store and check it; the version in force stays' },
  },
  does: 'Put a new version of the tenant’s policy set',
  key: 'operator',
  async run({ args: { DIR: dir }, flags, api, paint }) {
    const policies = readPolicies(dir)
    if (!policies.ok) return policies
    const put = await api('putPolicies', {
      body: { policies: policies.value, activate: !flags.inactive, ...(flags.note === undefined ? {} : { note: flags.note }) },
    })
    if (!put.ok) return put
    const { version, digest, active } = put.value
    return ok({
      ok: true,
      json: put.value,
      text: `version ${paint.bold(String(version))}  ${active ? 'in force' : 'not in force'}\n${columns([['digest', digest]], '  ')}`,
    })
  },
})

function readPolicies(dir: string): Result<Record<string, string>, Trouble> {
  let entries: string[]
  try {
    entries = readdirSync(dir).filter((name) => name.endsWith('.cedar'))
  } catch (thrown) {
    return err(trouble('unreadable', `\`${dir}\` can't be read: ${reason(thrown)}`))
  }
  if (entries.length === 0) return err(usage(`\`${dir}\` holds no .cedar file; to allow nothing, put a policy that permits nothing`))
  const policies: Record<string, string> = {}
  for (const name of entries.sort()) {
    const bytes = readBytes(join(dir, name), LIMITS.policy_bytes)
    if (!bytes.ok) return bytes
    policies[basename(name, '.cedar')] = Buffer.from(bytes.value).toString('utf8')
  }
  return ok(policies)
}

export const TOOLS: readonly Command[] = [listTools, showTool, putTool, withdrawTool, showPolicies, putPolicies]
