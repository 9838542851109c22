// The verb of Claude Code's `PreToolUse` hook. A tool of Claude Code is a registered tool without
// an executor, so policies read its arguments and people are asked by the usual card. The call ends
// `released` when the hook gets its yes.

import { failure } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import { err, ok } from '../../shared/result.ts'
import type { Call } from '../../shared/wire/calls.ts'
import { runObject } from '../bindings.ts'
import { runOwner } from '../call/run.ts'
import type { AgentPrincipal, LoadedDirectory } from '../directory/loaded-directory.ts'
import { hookAnswer } from '../http/claude-code-hook.ts'
import { originOfCaller, waitMs } from '../http/intake.ts'
import { runRecord } from '../run/find-run.ts'
import type { Verbs } from './verb.ts'

/** The registered tool for those of Claude Code's tools that have none of their own. */
const ANY_TOOL = 'claude_code_any'
const CHANNEL = 'claude-code'

export const hookRoutes: Verbs<'adviseClaudeCode'> = {
  async adviseClaudeCode({ env, request, caller, body: { session_id, tool_name, tool_input } }) {
    const { directory } = caller
    const agent = caller.principal as AgentPrincipal // the route admits only agents
    const tool = registeredTool(directory, tool_name)
    if (tool === undefined) return err(failure('not_found', unregistered(tool_name)))
    const args = tool === ANY_TOOL ? { tool_name, tool_input } : tool_input
    const spec = { session: session_id, channel: CHANNEL }
    const record = runRecord(env, agent, spec, `${CHANNEL} ${session_id}`)
    const call = await runObject(env, record.tenant, record.id).advise({
      version: directory.version,
      agent: runOwner(agent),
      tool,
      args,
      files: [],
      origin: originOfCaller(caller),
      key: null,
      create: record,
      join: true,
      waitMs: request.headers.has('prefer') ? waitMs(request) : LIMITS.hook_wait_s * 1_000,
    })
    return call.ok ? ok(answerFor(call.value)) : call
  },
}

/** `Bash` is `claude_code_bash`: lower case, and `_` for characters that names of tools lack. */
const nameOf = (tool: string): string => `claude_code_${tool.toLowerCase().replaceAll(/[^a-z0-9_-]/g, '_')}`

function registeredTool({ tools }: LoadedDirectory, tool: string): string | undefined {
  const own = tool.toLowerCase() === 'any' ? undefined : nameOf(tool)
  return [own, ANY_TOOL].find((name) => name !== undefined && tools.get(name)?.tool.executor.kind === 'none')
}

const unregistered = (tool: string): string =>
  `no tool \`${nameOf(tool)}\` or \`${ANY_TOOL}\` with \`"executor": {"kind": "none"}\` is registered for \`${tool}\``

function answerFor({ id, state, decision, approval, result }: Call) {
  const { reason, explanation } = decision
  if (state === 'released') return hookAnswer('allow', `Allowed by Countersign (${id}): ${reason}`)
  if (state === 'awaiting_approval')
    return hookAnswer(
      'deny',
      `Pending: people have been asked (${id}) and can answer until ${new Date(approval?.expires_at ?? 0).toISOString()}. Don’t try another way; ask for exactly this again later to get the answer.`,
    )
  const why = result?.error?.detail ?? reason
  const changes = (explanation?.changes ?? []).map((all) => all.map(({ words }) => words).join(' and '))
  const hint = changes.length === 0 ? '' : ` It would be allowed with: ${changes.join('; or ')}.`
  return hookAnswer('deny', `Denied by Countersign (${id}): ${why === '' ? reason : why}.${hint}`)
}
