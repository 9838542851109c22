// When an object of runs may be sealed, if its last change is long enough ago. Pure.

/**
 * `isDelivered`: there are calls, and log, lists, inbox, channels and webhook have everything of them.
 * `nextDue`: when something next happens without a request, to a call, a waiting client or a file.
 */
export const mayRest = (isDelivered: boolean, nextDue: number | null): boolean =>
  isDelivered && nextDue === null
