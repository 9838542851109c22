// Hints for common mistakes in policies, for which the engine suggests an unrelated name or
// nothing. Pure; matches the engine's messages, and leaves those that it does not know unchanged.

const TIME_OF_DAY = 'the time of day is a duration, in UTC: `context.now.toTime() >= duration("8h30m")`'
const COUNTERS =
  'counters belong to the run or the session: `context.budget.run.calls`, `context.budget.session.tool.spent`'

/** Hints by the engine's message. */
const HINTS: readonly (readonly [RegExp, string])[] = [
  [
    /^`(?:get|to|of)?(?:hours?|minutes?|seconds?|time|clock|time_?of_?day)` is not a valid (?:method|function)$/i,
    TIME_OF_DAY,
  ],
  [
    /^`(?:get)?(?:day|week_?day|day_?of_?week)` is not a valid (?:method|function)$/i,
    'the day of the week is `context.weekday`: Monday is 1, Sunday is 7',
  ],
  [/^unexpected type: .* but saw datetime$/, TIME_OF_DAY],
  [/^unexpected type: expected duration but saw String$/, 'write `duration("8h30m")`'],
  [
    /^attribute `budget\.(?:run|session)\.spent` /,
    'sums are counted per tool: `context.budget.session.tool.spent`',
  ],
  [/^attribute `budget\.(?!run\b|session\b)/, COUNTERS],
]

/** The text to write instead; undefined if the engine's own hint should be kept. */
export const hintFor = (message: string): string | undefined =>
  HINTS.find(([pattern]) => pattern.test(message))?.[1]
