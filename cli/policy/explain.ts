// `countersign policy explain`: what is decided of a call, proposed or only supposed; why, and what would change it.

import { err, ok } from '../../shared/result.ts'
import { FILE_FLAG, measured, readFiles } from '../calls/call-files.ts'
import { showDecision } from '../calls/render.ts'
import type { Command } from '../shell/command.ts'
import { command, usage } from '../shell/command.ts'
import type { Api } from '../shell/edge-api.ts'
import { ARGUMENTS, readArguments, whole } from '../shell/json-input.ts'

type Flags = {
  readonly tool: string | undefined
  readonly args: string | undefined
  readonly agent: string | undefined
  readonly file: readonly string[]
}

async function supposed({ tool = '', args: text, agent, file }: Flags, api: Api) {
  const args = readArguments(text)
  if (!args.ok) return args
  const brought = readFiles(file)
  if (!brought.ok) return brought
  const files = measured(brought.value)
  return api('decide', {
    body: {
      tool,
      args: args.value,
      ...(files.length === 0 ? {} : { files }),
      ...(agent === undefined ? {} : { agent }),
    },
  })
}

async function proposed(id: string, api: Api) {
  const params = whole(id)
  return params.ok ? api('explainCall', { params: params.value }) : params
}

export const explain: Command = command({
  words: ['policy', 'explain'],
  args: { 'CALL?': 'a call that was proposed; it is decided anew, by the policies in force' },
  flags: {
    tool: { value: 'TOOL', what: 'without CALL: the tool of a call that is only supposed' },
    args: ARGUMENTS,
    file: { ...FILE_FLAG, what: 'a file that it would bring; it is read here and sent nowhere' },
    agent: { value: 'AGENT', what: 'whose call it would be; with an agent’s key it is its own' },
  },
  does: 'Explain what is decided of a call and what would change it; nothing happens',
  key: 'either',
  exits: '0 it is allowed, or put to an operator; 1 it is denied',
  examples: [
    'countersign policy explain call_01ABC…_1',
    `countersign policy explain --agent dev --tool process.run --args '{"command":"id"}'`,
  ],
  async run({ args: { CALL: id }, flags, api, paint }) {
    if ((id === undefined) === (flags.tool === undefined)) return err(usage('name a CALL, or a `--tool`'))
    if (id !== undefined && (flags.agent !== undefined || flags.args !== undefined || flags.file.length > 0))
      return err(
        usage('a CALL has its agent, arguments and files: leave `--agent`, `--args` and `--file` out'),
      )
    const read = id === undefined ? await supposed(flags, api) : await proposed(id, api)
    if (!read.ok) return read
    return ok({
      ok: read.value.decision.effect !== 'deny',
      json: read.value,
      text: showDecision(read.value, paint),
    })
  },
})
