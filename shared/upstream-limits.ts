// The bounds of protect mode, each with its reason: a part of the table in limits.ts.

const KiB = 1024
const MiB = 1024 * KiB

export const UPSTREAMS = {
  /**
   * Upstreams of a tenant, tools of one (all are held in memory while its list is compared), and the
   * JSON of one tool's definition.
   */
  upstreams: 50,
  upstream_tools: 256,
  upstream_definition_bytes: 128 * KiB,
  upstream_url_chars: 1_024,
  /** The longest name that the protocol recommends. */
  upstream_tool_chars: 128,
  /** A description as agents see it; a longer one fills their context and hides things. */
  upstream_description_chars: 4 * KiB,
  /** A tool list that was compared this long ago is compared again before a call. */
  upstream_look_ms: 60_000,
  /** Time, pages and bytes of one look at an upstream's tools; and a token endpoint's answer. */
  upstream_look_timeout_ms: 10_000,
  /** Time in which a worker lists the tools of a server; the program may be large and start slowly. */
  upstream_listing_ms: 45_000,
  /**
   * All that a server writes to standard output in one call, in the worker's memory message by
   * message. Time that it has to exit after its last answer, before it is killed.
   */
  stdio_bytes: 16 * MiB,
  stdio_exit_ms: 500,
  upstream_pages: 16,
  upstream_list_bytes: 4 * MiB,
  upstream_token_bytes: 64 * KiB,
  /** Progress and log messages of one call, which are stored one by one, and their characters. */
  upstream_notes: 200,
  upstream_notes_chars: 64 * KiB,
  /** Calls of upstreams in flight: each holds its run's object and up to `net_bytes`. */
  upstream_calls: 64,
} as const

/** Default and highest limits of a call of an upstream. `net_bytes` are in the edge's memory. */
export const DEFAULT_UPSTREAM_LIMITS = {
  timeout_ms: 60_000,
  output_bytes: 64 * KiB,
  net_bytes: 4 * MiB,
  net_connections: 12,
} as const
export const MAX_UPSTREAM_LIMITS = {
  timeout_ms: 10 * 60_000,
  output_bytes: 1 * MiB,
  net_bytes: 8 * MiB,
  net_connections: 12,
} as const
