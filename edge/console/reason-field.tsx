// The field for the reason of an answer or a change, which three forms of the console share.

import { LIMITS } from '../../shared/limits.ts'

/** `help` says who reads the reason. */
export function ReasonField({ help }: { help: string }) {
  return (
    <div class="field">
      <label for="why">Reason</label>
      <textarea
        id="why"
        name="reason"
        rows={2}
        maxlength={LIMITS.reason_chars}
        aria-describedby="why-help"
      ></textarea>
      <span class="quiet" id="why-help">
        {help}
      </span>
    </div>
  )
}
