// What is meant by mistakes that many make, where the engine offers the nearest name there is, however far, or nothing. Pure: it knows
// the words of the engine and of our schema; what it does not know is left as the engine says it.

const TIME_OF_DAY = 'the time of day is a duration, in UTC: `context.now.toTime() >= duration("8h30m")`'
const COUNTERS =
  'counters are of the run and of the session: `context.budget.run.calls`, `context.budget.session.tool.spent`'

/** By what the engine says. */
const MEANT: readonly (readonly [RegExp, string])[] = [
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
    'sums are of one tool: `context.budget.session.tool.spent`',
  ],
  [/^attribute `budget\.(?!run\b|session\b)/, COUNTERS],
]

/** What to write instead; undefined where the engine's own hint is the best there is. */
export const meantBy = (message: string): string | undefined =>
  MEANT.find(([says]) => says.test(message))?.[1]
