// The text that a model reads about a call: the tool's output, or why there is none and what would
// help.

import type { Call } from './api.ts'
import { ProblemError } from './errors.ts'

/** Whether policy or people refused the call. */
export const wasRefused = ({ state }: Call): boolean =>
  state === 'rejected' || state === 'expired' || state === 'denied'

/** The text that the model reads about an ended call: the tool's output, or why there is none. */
export function textFor(call: Call): string {
  const { state, result, edited } = call
  if (state === 'succeeded') {
    const output = result === undefined ? '' : outputOf(result)
    const note = 'An approver changed the arguments before the call ran. It ran with'
    return edited === undefined ? output : `${note} ${JSON.stringify(edited.arguments)}.\n${output}`
  }
  return `${sentenceFor(call)}${result === undefined || result.stderr === '' ? '' : `\n${result.stderr}`}`
}

const outputOf = ({ output, encoding, truncated }: NonNullable<Call['result']>): string =>
  `${encoding === 'base64' ? '(base64) ' : ''}${output}${truncated ? '\n(the output was cut)' : ''}`

function sentenceFor({ state, decision, result }: Call): string {
  const detail = result?.error === undefined ? '' : `: ${result.error.code}, ${result.error.detail}`
  switch (state) {
    case 'denied':
      return [`Denied by policy: ${decision.reason}`, ...changesOf(decision)].join('\n')
    case 'rejected':
      return `A human approver said no${detail}. Do not try this again unless the user asks for it.`
    case 'expired':
      return 'Nobody approved this call in time. It did not run.'
    case 'released':
      return 'The call was allowed. The agent’s own program has to run it; Countersign ran nothing.'
    case 'lapsed':
      return 'No worker took this call in time. It did not run; it can be tried again.'
    case 'cancelled':
      return `The call was cancelled${detail}.`
    case 'indeterminate':
      return 'The outcome is unknown: the call may have had its effect. Check before trying again.'
    case 'timed_out':
      return `The call ran out of time${detail}.`
    default:
      return `The call ended as ${state}${detail}.`
  }
}

/** The explanation's first alternative to a denial; it contains only what the agent may know. */
function changesOf({ explanation }: Call['decision']): string[] {
  const [first] = explanation?.changes ?? []
  return first === undefined || first.length === 0
    ? ['The same call will be denied again.']
    : [`It would be allowed if: ${first.map(({ words }) => words).join('; ')}.`]
}

/** The text that the model reads about a refused proposal. Rethrows every other error. */
export function refusalText(error: unknown): string {
  if (!(error instanceof ProblemError)) throw error
  const fields = error.errors.map(({ at, message }) => `\n- ${at}: ${message}`).join('')
  return `Refused: ${error.detail}${fields}${error.todo === '' ? '' : `\n${error.todo}`}`
}
