// `countersign policy explain`: how policy decides a call, proposed or hypothetical, why, and what
// would change the decision.

import { err, ok } from '../../shared/result.ts'
import { FILE_FLAG, readFiles, withSizes } from '../calls/call-files.ts'
import { showDecision } from '../calls/render.ts'
import type { Command } from '../shell/command.ts'
import { command, usage } from '../shell/command.ts'
import type { Api } from '../shell/edge-api.ts'
import { ARGUMENTS, parseCallId, readArguments } from '../shell/json-input.ts'

type Flags = {
  readonly tool: string | undefined
  readonly args: string | undefined
  readonly agent: string | undefined
  readonly file: readonly string[]
}

async function decideHypothetical({ tool = '', args: text, agent, file }: Flags, api: Api) {
  const args = readArguments(text)
  if (!args.ok) return args
  const brought = readFiles(file)
  if (!brought.ok) return brought
  const files = withSizes(brought.value)
  return api('decide', {
    body: {
      tool,
      args: args.value,
      ...(files.length === 0 ? {} : { files }),
      ...(agent === undefined ? {} : { agent }),
    },
  })
}

async function explainProposed(id: string, api: Api) {
  const params = parseCallId(id)
  return params.ok ? api('explainCall', { params: params.value }) : params
}

export const explain: Command = command({
  words: ['policy', 'explain'],
  args: { 'CALL?': 'a proposed call; it is decided again, by the policies in force' },
  flags: {
    tool: { value: 'TOOL', what: 'instead of CALL: the tool of a hypothetical call' },
    args: ARGUMENTS,
    file: { ...FILE_FLAG, what: 'an input file of the hypothetical call; it is read here but not uploaded' },
    agent: {
      value: 'AGENT',
      what: 'the agent of the hypothetical call; with an agent’s key, always that agent',
    },
  },
  does: 'Explain how policy decides a call and what would change the decision; nothing is proposed',
  key: 'either',
  exits: '0 the call is allowed, or an operator would be asked; 1 it is denied',
  examples: [
    'countersign policy explain call_01ABC…_1',
    `countersign policy explain --agent dev --tool process_run --args '{"command":"id"}'`,
  ],
  async run({ args: { CALL: id }, flags, api, paint }) {
    if ((id === undefined) === (flags.tool === undefined)) return err(usage('give either CALL or `--tool`'))
    if (id !== undefined && (flags.agent !== undefined || flags.args !== undefined || flags.file.length > 0))
      return err(
        usage('CALL already has an agent, arguments and files: leave out `--agent`, `--args` and `--file`'),
      )
    const read = id === undefined ? await decideHypothetical(flags, api) : await explainProposed(id, api)
    if (!read.ok) return read
    return ok({
      ok: read.value.decision.effect !== 'deny',
      json: read.value,
      text: showDecision(read.value, paint),
    })
  },
})
