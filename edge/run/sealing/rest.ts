// Whether an object of runs whose last change is long enough ago may be sealed. Pure.

/**
 * `isDelivered`: there are calls, and log, lists, inbox, channels and webhook have received all about them.
 * `nextDue`: when something next happens without a request, to a call, a waiting client or a file.
 */
export const mayRest = (isDelivered: boolean, nextDue: number | null): boolean =>
  isDelivered && nextDue === null
