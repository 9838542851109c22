// Commands with which operators register, show and withdraw tools.

import { basename } from 'node:path'
import { PATTERNS } from '../../shared/ids.ts'
import { LIMITS } from '../../shared/limits.ts'
import { err, ok } from '../../shared/result.ts'
import { RegisteredToolSpec } from '../../shared/wire/tools.ts'
import type { Command } from '../shell/command.ts'
import { command, usage } from '../shell/command.ts'
import { parseInput, readJsonObject } from '../shell/json-input.ts'
import { columns, inline, json, listing } from '../shell/terminal-text.ts'

const NAME = { NAME: 'its name' } as const

const listTools = command({
  words: ['tools', 'list'],
  args: {},
  flags: {},
  does: 'List the tools that the owner of the key may see',
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
  does: 'Show a tool as registered, as JSON; you can edit it and `tools put` it back',
  key: 'operator',
  async run({ args, api }) {
    const tool = await api('readTool', { params: { name: args.NAME } })
    return tool.ok ? ok({ ok: true, json: tool.value, text: json(tool.value) }) : tool
  },
})

const putTool = command({
  words: ['tools', 'put'],
  args: { FILE: 'the tool as JSON; - reads standard input' },
  flags: {
    name: {
      value: 'NAME',
      what: 'the tool’s name (default: `name` in the file, or the file’s name without .json)',
    },
  },
  does: 'Register or change a tool; every change makes a new version',
  key: 'operator',
  async run({ args: { FILE: file }, flags, api, paint }) {
    const read = readJsonObject(file)
    if (!read.ok) return read
    // `tools show` prints these fields too; the edge sets them.
    const { name: inFile, version: _version, digest: _digest, policy: _policy, ...rest } = read.value
    const name = flags.name ?? (typeof inFile === 'string' ? inFile : basename(file, '.json'))
    if (!PATTERNS.tool.test(name))
      return err(
        usage(
          `\`${name}\` is not a valid tool name; a name starts with a lower-case letter and has at most ${LIMITS.tool_name_chars} lower-case letters, digits, \`_\` or \`-\``,
        ),
      )
    const spec = parseInput(RegisteredToolSpec, rest, `\`${file}\``)
    if (!spec.ok) return spec
    const put = await api('putTool', { params: { name }, body: spec.value })
    if (!put.ok) return put
    const rows = [
      ['version', String(put.value.version)],
      ['digest', put.value.digest],
      ['policy sees', put.value.policy.args],
      ...put.value.policy.unseen.map(({ at, reason }) => ['does not see', `${at}: ${reason}`]),
    ]
    return ok({
      ok: true,
      json: put.value,
      text: `tool ${paint.bold(inline(put.value.name))}\n${columns(rows, '  ')}`,
    })
  },
})

const withdrawTool = command({
  words: ['tools', 'withdraw'],
  args: NAME,
  flags: {},
  does: 'Withdraw a tool, so that it can’t be called; its versions stay on record',
  key: 'operator',
  async run({ args, api }) {
    const gone = await api('deleteTool', { params: { name: args.NAME } })
    return gone.ok ? ok({ ok: true, json: gone.value, text: `tool ${args.NAME} withdrawn\n` }) : gone
  },
})

export const TOOLS: readonly Command[] = [listTools, showTool, putTool, withdrawTool]
