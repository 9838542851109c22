// Follows a call on the command line: its output and standard error line by line, its states and
// its end. After a restart of the edge it reconnects and continues where it was.

import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import { LIVE_EVENTS, type LiveEvent } from '../../shared/wire/output-events.ts'
import type { CommandContext, CommandResult, Live, Trouble } from '../shell/command.ts'
import { alreadyPrinted, command, trouble } from '../shell/command.ts'
import { CALL_EXITS, parseCallId } from '../shell/json-input.ts'
import { RetryBackoff } from '../shell/reconnect.ts'
import { readEvents, type ServerSentEvent } from '../shell/server-sent-events.ts'
import { inline, type Paint, quoted } from '../shell/terminal-text.ts'
import { exitsWithZero, showCall } from './render.ts'

const BROKEN = trouble('unreachable', 'the connection broke')
const NOT_UNDERSTOOD = trouble(
  'unexpected_answer',
  'the edge sent an event that this version of countersign does not understand',
  'use the countersign version that belongs to this edge',
)

/** Returns when the call has ended or the command was interrupted. */
async function follow(
  { api, paint }: Pick<CommandContext, 'api' | 'paint'>,
  live: Live,
  params: { run: string; call: string },
): Promise<Result<true, Trouble>> {
  const backoff = new RetryBackoff(live)
  const renderer = new LineRenderer(paint)
  let after = '0.0.0'
  while (!live.until.aborted) {
    const opened = await api('followCall', { params, query: { after }, signal: live.until })
    if (live.until.aborted) break
    if (!opened.ok) {
      if (await backoff.waitToRetry(opened.error)) continue
      return opened
    }
    for await (const event of readEvents(opened.value)) {
      backoff.reset()
      const liveEvent = parseLiveEvent(event)
      if (liveEvent === undefined) return err(NOT_UNDERSTOOD)
      live.tell({ event: liveEvent.event, ...liveEvent.data }, renderer.text(liveEvent))
      if (liveEvent.event === 'end') return ok(true)
      after = event.id
    }
    if (!live.until.aborted) await backoff.waitToRetry(BROKEN)
  }
  return ok(true)
}

/**
 * Validates an event by the schema of its name; ignores fields that a newer edge may have added.
 */
function parseLiveEvent({ event, data }: ServerSentEvent): LiveEvent | undefined {
  if (!Object.hasOwn(LIVE_EVENTS, event)) return undefined
  const value: unknown = JSON.parse(data)
  const read = LIVE_EVENTS[event as keyof typeof LIVE_EVENTS].safeParse(value) // checked on the line above
  const other = read.error?.issues.some(({ code }) => code !== 'unrecognized_keys') ?? false
  return other ? undefined : ({ event, data: value } as LiveEvent) // its schema has validated it
}

const BARS = { stdout: '│', stderr: '┆' } as const

/** Renders events as whole lines; holds back an incomplete last line until its end arrives. */
class LineRenderer {
  readonly #paint: Paint
  #rest = { stdout: '', stderr: '' }

  constructor(paint: Paint) {
    this.#paint = paint
  }

  text({ event, data }: LiveEvent): string {
    if (event === 'end') return this.#flush()
    if (event !== 'state')
      return this.#lines(
        event,
        Buffer.from(data.data, data.encoding === 'base64' ? 'base64' : 'utf8').toString(),
      )
    const { state, attempt, cancel_requested } = data
    if (state === 'awaiting_approval') return `${this.#paint.warn(state)}\n`
    if (state === 'granted' && attempt > 0)
      return `${this.#flush()}${this.#paint.warn('its worker was lost; the call runs again from the start')}\n`
    return state === 'running' && cancel_requested
      ? `${this.#paint.warn('cancelling: it runs until its worker stops it')}\n`
      : ''
  }

  /**
   * Treats a carriage return as a line end, so that every step of a progress display is shown at
   * once.
   */
  #lines(stream: 'stdout' | 'stderr', text: string): string {
    const all = this.#rest[stream] + text
    const end = Math.max(all.lastIndexOf('\n'), all.lastIndexOf('\r', all.length - 2)) + 1 // a final `\r` may be half of `\r\n`
    this.#rest[stream] = all.slice(end)
    const ended = all
      .slice(0, end)
      .replace(/^\r+(?!\n)/, '')
      .replace(/\r+\n?/g, '\n')
    return ended === '' ? '' : this.#shown(stream, ended)
  }

  #flush(): string {
    const { stdout, stderr } = this.#rest
    this.#rest = { stdout: '', stderr: '' }
    return `${stdout === '' ? '' : this.#shown('stdout', stdout)}${stderr === '' ? '' : this.#shown('stderr', stderr)}`
  }

  #shown(stream: 'stdout' | 'stderr', text: string): string {
    const lines = quoted(text, BARS[stream])
    return stream === 'stdout' ? lines : this.#paint.dim(lines)
  }
}

/**
 * Follows a call until it ends, for at most `within_s` seconds; then shows the call without its
 * output.
 */
export async function followToEnd(
  given: Pick<CommandContext, 'api' | 'paint' | 'live'>,
  params: { run: string; call: string },
  within_s?: number,
): CommandResult {
  const live = given.live()
  live.tell({ event: 'call', run: params.run, id: params.call }, given.paint.dim(`${inline(params.call)}\n`))
  const until =
    within_s === undefined ? live.until : AbortSignal.any([live.until, AbortSignal.timeout(within_s * 1000)])
  const ended = await follow(given, { ...live, until }, params)
  const read = ended.ok ? await given.api('readCall', { params }) : ended
  if (!read.ok) return read
  const { result, ...call } = read.value
  const rest = result === undefined ? call : { ...call, result: { ...result, output: '', stderr: '' } }
  live.tell({ event: 'call', ...call }, showCall(rest, given.paint))
  return ok(alreadyPrinted(exitsWithZero(call)))
}

export const followOne = command({
  words: ['calls', 'follow'],
  args: { CALL: 'the call’s id' },
  flags: {},
  does: 'Show the output of a call as it is written, until the call ends or Ctrl-C; `--json` prints one line per event',
  key: 'either',
  exits: CALL_EXITS,
  async run(given) {
    const params = parseCallId(given.args.CALL)
    return params.ok ? followToEnd(given, params.value) : params
  },
})
