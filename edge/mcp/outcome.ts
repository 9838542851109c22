// The text that a model reads about a call: one table from the call's state to a tool result. Pure.
// A denial or a failure is a result with `isError`, because models see no JSON-RPC errors. Our
// sentences and a tool's output never share a text block: the output is untrusted.

import { z } from 'zod'
import { adviceOf, type Code, entryOf, FAILURES, type Failure } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import { isMcpResult } from '../../shared/mcp/tool-result.ts'
import type { Call, CallResult } from '../../shared/wire/calls.ts'
import type { Explanation } from '../../shared/wire/explanation.ts'
import { type Era, OURS, RESULT_TOOL } from './protocol.ts'

type Block = { readonly type: 'text'; readonly text: string }
export type ToolResult = {
  readonly content: readonly (Block | z.infer<typeof Content>)[]
  readonly structuredContent?: Readonly<Record<string, unknown>>
  readonly isError?: true
  readonly _meta: Readonly<Record<string, unknown>>
}

/** The answer's form for a call that has not ended, which depends on the client's capabilities. */
export type PendingForm = 'task' | 'wait' | 'result'

/** `round`: how often this call has been answered with a `requestState` before. */
export function pendingForm(era: Era, tasks: boolean, round: number): PendingForm {
  if (era === 'legacy') return 'result'
  if (tasks) return 'task'
  return round < LIMITS.mcp_rounds ? 'wait' : 'result'
}

export type ResultOptions = {
  readonly publicUrl: string
  /** The call was proposed by an earlier request; this one attached to it. */
  readonly joined: boolean
  /** The most characters of a tool's output. */
  readonly chars: number
  /** Which part of a longer output to return; 1 is the first. */
  readonly part?: number
}

export const isPending = ({ ended_at_ms }: Call): boolean => ended_at_ms === undefined

export function resultOfCall(call: Call, options: ResultOptions): ToolResult {
  const notes = notesOn(call, options)
  const body = isPending(call) ? pending(call) : ended(call, options)
  return {
    ...body,
    content: [...notes.map(text), ...body.content],
    _meta: metaOf(call, options.publicUrl),
  }
}

const text = (line: string): Block => ({ type: 'text', text: line })

function notesOn(call: Call, { joined }: ResultOptions): string[] {
  const { id, edited, state } = call
  return [
    ...(joined
      ? [`Joined ${id}, which an identical request proposed before; nothing was proposed again.`]
      : []),
    ...(edited !== undefined && state === 'succeeded'
      ? [
          `The approver changed the arguments. This ran instead: ${cut(JSON.stringify(edited.arguments), 2_000)}`,
        ]
      : []),
  ]
}

type ResultBody = Omit<ToolResult, '_meta'>

function pending({ id, tool, state, approval }: Call): ResultBody {
  const waits =
    state === 'awaiting_approval' && approval !== undefined
      ? `waits for a human approver until ${clock(approval.expires_at)}`
      : state === 'running'
        ? 'is running'
        : 'is approved and waits for its executor'
  const where = approval === undefined ? '' : ` An approver can answer at ${approval.page}.`
  return {
    content: [
      text(
        `PENDING: not done yet. Call ${id} of \`${tool}\` ${waits}. Do not call \`${tool}\` again for this: ` +
          `call \`${RESULT_TOOL}\` with {"call":"${id}"} to get the result, or go on with other work.${where}`,
      ),
    ],
    structuredContent: {
      countersign: {
        status: state,
        call: id,
        ...(approval === undefined
          ? {}
          : { approval: { page: approval.page, expires_at: approval.expires_at } }),
      },
    },
  }
}

function ended(call: Call, options: ResultOptions): ResultBody {
  const { state, decision, result } = call
  const why = result?.error?.detail ?? ''
  switch (state) {
    case 'succeeded':
      return succeeded(call, options)
    case 'denied':
      return failed([`Denied by policy: ${decision.reason}.`, ...remedies(call)])
    case 'rejected':
      return failed([`An approver said no: ${sentence(why)}`, 'Do not propose it again unchanged.'])
    case 'expired':
      return failed([
        'Nobody answered in time, so it did not run.',
        'Propose it again only if it is still needed.',
      ])
    case 'released':
      return failed(['It was allowed. The agent’s own program has to run it; Countersign ran nothing.'])
    case 'lapsed':
      return failed([`It was allowed but did not run: ${sentence(why)}`, advice(call)])
    case 'cancelled':
      return failed([`It was cancelled. ${sentence(why)}`.trim()], outputOf(call, options))
    case 'indeterminate':
      return failed([
        `The outcome is unknown; it may have happened: ${sentence(why)}`,
        'Check what it did before trying again.',
      ])
    default:
      return failed(
        [
          `It ${state === 'timed_out' ? 'ran out of time' : 'failed'}: ${sentence(failureText(call))}`,
          advice(call),
        ],
        outputOf(call, options),
      )
  }
}

const failed = (lines: readonly string[], output: readonly Block[] = []): ResultBody => ({
  content: [text(lines.filter((line) => line !== '').join(' ')), ...output],
  isError: true,
})

function succeeded(call: Call, options: ResultOptions): ResultBody {
  if (isMcpResult(call.plan?.executor.output)) return ownResult(call, options)
  const structured = structuredOf(call)
  if (structured === undefined && declaresOutput(call))
    return failed(
      ['It ran, but its output was cut, so it no longer matches its schema.'],
      outputOf(call, options),
    )
  return {
    content: outputOf(call, options),
    ...(structured === undefined ? {} : { structuredContent: structured }),
  }
}

const Content = z.discriminatedUnion('type', [
  z.looseObject({ type: z.literal('text'), text: z.string() }),
  z.looseObject({ type: z.literal('image'), data: z.base64(), mimeType: z.string() }),
  z.looseObject({ type: z.literal('audio'), data: z.base64(), mimeType: z.string() }),
  z.looseObject({ type: z.literal('resource_link'), uri: z.string(), name: z.string() }),
  z.looseObject({ type: z.literal('resource'), resource: z.looseObject({ uri: z.string() }) }),
])
const OwnResult = z.strictObject({
  content: z.array(Content),
  structuredContent: z.record(z.string(), z.unknown()).optional(),
  isError: z.boolean().optional(),
})

/** The tool speaks MCP itself: its result is passed on as it is. */
function ownResult(call: Call, options: ResultOptions): ResultBody {
  const structured = structuredOf(call)
  const read = OwnResult.safeParse(structured)
  if (!read.success) {
    const cut = call.result?.truncated === true ? 'was cut, so it ' : ''
    return failed([`It ran, but its output ${cut}is not an MCP result.`], outputOf(call, options))
  }
  const { structuredContent, isError } = read.data
  const content = shortened(read.data.content, call, options)
  return {
    content,
    ...(structuredContent === undefined ? {} : { structuredContent }),
    ...(isError === true ? { isError } : {}),
  }
}

type OwnBlock = z.infer<typeof Content>

/** Text up to the limit. An image or a sound is not text, and a part of one is of no use. */
function shortened(
  blocks: readonly OwnBlock[],
  { id, run }: Call,
  { publicUrl, chars }: ResultOptions,
): readonly (OwnBlock | Block)[] {
  if (blocks.reduce((sum, block) => sum + textLength(block), 0) <= chars) return blocks
  const kept: OwnBlock[] = []
  let left = chars
  for (const block of blocks) {
    const length = textLength(block)
    if (length <= left) kept.push(block)
    else if (block.type === 'text' && left > 0) kept.push({ ...block, text: cut(block.text, left) })
    left = Math.max(0, left - length)
  }
  return [...kept, text(`The output is cut; all of it is at ${publicUrl}/v1/runs/${run}/calls/${id}.`)]
}

function textLength(block: OwnBlock): number {
  if (block.type === 'text') return block.text.length
  const embedded = block.type === 'resource' ? block.resource['text'] : undefined
  return typeof embedded === 'string' ? embedded.length : 0
}

const declaresOutput = ({ plan }: Call): boolean => plan?.executor.output !== undefined

/** The worker has checked the output of a tool that declares a schema: it is one JSON object. */
function structuredOf(call: Call): Record<string, unknown> | undefined {
  const { result } = call
  if (!declaresOutput(call) || result === undefined || result.truncated || result.encoding !== 'utf-8')
    return undefined
  return JSON.parse(result.output) as Record<string, unknown>
}

/** One part of the output in a separate block, and where the rest of it is. */
function outputOf({ id, run, result }: Call, { publicUrl, chars, part = 1 }: ResultOptions): Block[] {
  if (result === undefined) return []
  const { output, encoding, stderr, truncated, files } = result
  const at = `${publicUrl}/v1/runs/${run}/calls/${id}`
  const isText = encoding === 'utf-8'
  const shown = isText ? partOf(output, chars, part) : ''
  const notes = [
    ...(isText
      ? partNotes(id, Math.ceil(output.length / chars), part)
      : [`The output is not text; it is at ${at}.`]),
    ...(isText && truncated ? [`The output was longer than the limit; what was kept is at ${at}.`] : []),
    ...filesOf(files, at),
  ]
  return [
    ...(shown === '' ? [] : [text(shown)]),
    ...(!result.ok && stderr !== '' ? [text(`stderr: ${tail(stderr, LIMITS.mcp_stderr_chars)}`)] : []),
    ...notes.map(text),
  ]
}

/** Parts never split a character that is a pair of surrogates. */
function partOf(output: string, chars: number, part: number): string {
  const boundary = (at: number): number => (/[\udc00-\udfff]/.test(output.charAt(at)) ? at - 1 : at)
  return output.slice(boundary((part - 1) * chars), boundary(part * chars)).toWellFormed()
}

function partNotes(id: string, parts: number, part: number): string[] {
  if (part > Math.max(parts, 1)) return [`There is no part ${part}: the output has ${parts}.`]
  if (parts <= 1) return []
  const next = ` Call \`${RESULT_TOOL}\` with {"call":"${id}","part":${part + 1}} to read on.`
  return [`This is part ${part} of ${parts} of the output.${part < parts ? next : ''}`]
}

const filesOf = (files: CallResult['files'], at: string): string[] =>
  (files?.files ?? []).map(({ path, bytes, sha256 }) => `File ${path}, ${bytes} bytes: ${at}/files/${sha256}`)

const failureText = ({ result }: Call): string => {
  const { error, exit_code } = result ?? {}
  const code = exit_code === null || exit_code === undefined ? '' : ` (exit code ${exit_code})`
  return `${error?.detail || error?.code || 'no reason was given'}${code}`
}

/** The general advice of the code with which the call ended. */
function advice({ result }: Call): string {
  const code = result?.error?.code
  return code !== undefined && Object.hasOwn(FAILURES, code) ? capital(entryOf(code as Code).todo) : '' // checked
}

/**
 * The changes that would lift a denial. Only a denial for reasons of time or budget can end without
 * one.
 */
function remedies({ decision }: Call): string[] {
  const { explanation, code } = decision
  const ways = (explanation?.changes ?? []).map((together) =>
    together.map(({ words }) => words).join(' and '),
  )
  return [
    ...(ways.length === 0 ? [] : [`What would change it: ${ways.join('; or ')}.`]),
    ...(code === 'budget_spent' || code === 'policy_error' || changesWithTime(explanation)
      ? []
      : ['The same call will be denied again.']),
  ]
}

const changesWithTime = (explanation: Explanation | undefined): boolean =>
  (explanation?.changes ?? []).some((together) => together.every(({ by }) => by === 'time'))

/** A refused proposal: no call was made, and the model may be able to correct it. */
export function resultOfRefusal(failure: Failure): ToolResult {
  const { code, detail, errors = [] } = failure
  const { retry, after_s } = entryOf(code)
  const lines = errors.map(({ at, message }) => `${at}: ${message}`)
  return {
    ...failed([sentence(detail), ...lines.map(sentence), capital(adviceOf(failure))]),
    _meta: { [`${OURS}failure`]: { code, retry, ...(after_s === undefined ? {} : { after_s }) } },
  }
}

function metaOf(call: Call, publicUrl: string): Record<string, unknown> {
  const { id, run, digest, state, decision, attestation } = call
  const { effect, code, policies } = decision
  return {
    [`${OURS}call`]: { id, run, digest, state },
    [`${OURS}decision`]: { effect, code, policies },
    ...(attestation === undefined
      ? {}
      : {
          [`${OURS}attestation`]: {
            id: attestation.id,
            execution_sha256: attestation.execution_sha256,
            executor: attestation.executor,
            sandbox_enforcement: attestation.sandbox_enforcement,
            bundle: `${publicUrl}/v1/runs/${run}/calls/${id}/attestation`,
          },
        }),
  }
}

/** A call's current state, in the words of a progress message or of a task. */
export function statusLine({ state, approval }: Pick<Call, 'state' | 'approval'>): string {
  if (state === 'awaiting_approval')
    return approval === undefined
      ? 'waiting for approval'
      : `waiting for approval until ${clock(approval.expires_at)}: ${approval.page}`
  return state === 'granted' ? 'approved; waiting for its executor' : state.replaceAll('_', ' ')
}

const clock = (ms: number): string => `${new Date(ms).toISOString().slice(11, 16)}Z`
const sentence = (line: string): string => {
  const trimmed = line.trim()
  return trimmed === '' || /[.!?]$/.test(trimmed) ? trimmed : `${trimmed}.`
}
const capital = (line: string): string => sentence(`${line.charAt(0).toUpperCase()}${line.slice(1)}`)
const cut = (line: string, chars: number): string =>
  line.length <= chars
    ? line
    : `${line.slice(0, chars).toWellFormed()} … ${line.length - chars} characters more`
const tail = (line: string, chars: number): string =>
  line.length <= chars ? line : `… ${line.slice(-chars).toWellFormed()}`
