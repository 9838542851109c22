// The part of the table of limits (limits.ts) about policy sets and rehearsals.

const KiB = 1024

export const POLICY_LIMITS = {
  /** Policies of a set, the floor's included. A statement can name them all. */
  policies: 1_100,
  policy_bytes: 64 * KiB,
  /**
   * Cases of one file, time for all of them, and the size of the policy sets that they change, each
   * of which is validated.
   */
  policy_cases: 200,
  policy_cases_ms: 5_000,
  policy_case_bytes: 256 * KiB,
  /** Versions of a policy set that were never active. Versions that were active are always kept. */
  policy_versions: 1_000,
  /**
   * Nesting of brackets and operators in one policy. About 100 levels overflow the engine's fixed
   * stack.
   */
  policy_depth: 48,
  /** Conditions joined in one policy. About 3,000 overflow the engine's fixed stack. */
  policy_conditions: 256,
  /**
   * Arguments of a tool that policies can read. Each is part of a type that every rule about all
   * tools is validated against.
   */
  policy_attributes: 256,
  /**
   * Cost of validating a new set: the parts of each rule times its tools, 0.3 µs each, during which
   * all others wait.
   */
  policy_checks: 3_000_000,
  /**
   * Cost of reporting the mistakes in one rule, in µs: each mistake is reported for each action
   * that the rule covers.
   */
  policy_check_us: 2_000_000,
  /**
   * Characters of `like` patterns times characters of a request. In the worst case the engine
   * compares each pair, at about 1 ns.
   */
  policy_looks: 100_000_000,
  /**
   * A rehearsal of a policy set: how far back, how many calls and runs, how long, and how many
   * changed decisions are listed.
   */
  rehearsal_days: 90,
  rehearsal_calls: 5_000,
  /** Each run is an object that wakes up and takes about 0.1 MB. */
  rehearsal_runs: 1_000,
  rehearsal_ms: 20_000,
  rehearsal_flips: 200,
  /**
   * Calls of one run that a rehearsal reads at a time. Live calls of the same run wait in the
   * meantime.
   */
  rehearsal_calls_at_once: 50,
  /**
   * For longer runs a rehearsal does not recompute usage at each call. With this many calls it
   * blocks live calls for about 30 ms.
   */
  rehearsal_run_calls: 1_000,
} as const
