// A call followed from the command line: its lines as they are written, progress told from output, its states and its end. Over a restart
// of the edge it goes on where it was.

import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import { LIVE_EVENTS, type LiveEvent } from '../../shared/wire/output-events.ts'
import type { Answer, Given, Live, Trouble } from '../shell/command.ts'
import { command, toldAlready, trouble } from '../shell/command.ts'
import { CALL_EXITS, whole } from '../shell/json-input.ts'
import { Patience } from '../shell/reconnect.ts'
import { eventsOf, type Told } from '../shell/server-sent-events.ts'
import { inline, type Paint, quoted } from '../shell/terminal-text.ts'
import { showCall, went } from './render.ts'

const BROKEN = trouble('unreachable', 'the stream broke off')
const OTHER = trouble(
  'unexpected_answer',
  'the edge told something else of the call than this version of countersign knows',
)

/** Until its end, or until nobody listens any more. */
async function follow(
  { api, paint }: Pick<Given, 'api' | 'paint'>,
  live: Live,
  params: { run: string; call: string },
): Promise<Result<true, Trouble>> {
  const patience = new Patience(live)
  const told = new Telling(paint)
  let after = '0.0.0'
  while (!live.until.aborted) {
    const opened = await api('followCall', { params, query: { after }, signal: live.until })
    if (live.until.aborted) break
    if (!opened.ok) {
      if (await patience.with(opened.error)) continue
      return opened
    }
    for await (const event of eventsOf(opened.value)) {
      patience.rewarded()
      const heard = understood(event)
      if (heard === undefined) return err(OTHER)
      live.tell({ event: heard.event, ...heard.data }, told.text(heard))
      if (heard.event === 'end') return ok(true)
      after = event.id
    }
    if (!live.until.aborted) await patience.with(BROKEN)
  }
  return ok(true)
}

/** By the schema of its name. A newer edge may say more in it than we know. */
function understood({ event, data }: Told): LiveEvent | undefined {
  if (!Object.hasOwn(LIVE_EVENTS, event)) return undefined
  const value: unknown = JSON.parse(data)
  const read = LIVE_EVENTS[event as keyof typeof LIVE_EVENTS].safeParse(value) // it is one of them, as was just seen
  const other = read.error?.issues.some(({ code }) => code !== 'unrecognized_keys') ?? false
  return other ? undefined : ({ event, data: value } as LiveEvent) // the schema of its name has read it
}

const BARS = { stdout: '│', stderr: '┆' } as const

/** Whole lines alone: the last one waits for its end. */
class Telling {
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
      return `${this.#flush()}${this.#paint.warn('its worker was lost; it is run again from its beginning')}\n`
    return state === 'running' && cancel_requested
      ? `${this.#paint.warn('cancelling: it runs until its worker stops it')}\n`
      : ''
  }

  /** A line that its program writes over, as progress often is, is a line: none waits for the last of them, and none is lost. */
  #lines(stream: 'stdout' | 'stderr', text: string): string {
    const all = this.#rest[stream] + text
    const end = Math.max(all.lastIndexOf('\n'), all.lastIndexOf('\r', all.length - 2)) + 1 // behind the last `\r` a `\n` may come
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

/** Followed to its end, or for so many seconds; then what there is to say of it beside its output. */
export async function followed(
  given: Pick<Given, 'api' | 'paint' | 'live'>,
  params: { run: string; call: string },
  within_s?: number,
): Answer {
  const live = given.live()
  live.tell({ event: 'call', run: params.run, id: params.call }, given.paint.dim(`${inline(params.call)}\n`))
  const until =
    within_s === undefined ? live.until : AbortSignal.any([live.until, AbortSignal.timeout(within_s * 1000)])
  const heard = await follow(given, { ...live, until }, params)
  const read = heard.ok ? await given.api('readCall', { params }) : heard
  if (!read.ok) return read
  const { result, ...call } = read.value
  const rest = result === undefined ? call : { ...call, result: { ...result, output: '', stderr: '' } }
  live.tell({ event: 'call', ...call }, showCall(rest, given.paint))
  return ok(toldAlready(went(call)))
}

export const followOne = command({
  words: ['calls', 'follow'],
  args: { CALL: 'the call’s id' },
  flags: {},
  does: 'Show what a call writes as it writes it, until its end or Ctrl-C; with `--json` each event is a line',
  key: 'either',
  exits: CALL_EXITS,
  async run(given) {
    const params = whole(given.args.CALL)
    return params.ok ? followed(given, params.value) : params
  },
})
