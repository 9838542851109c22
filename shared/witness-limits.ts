// Bounds of witnesses of the log, each with its reason. They are a part of `LIMITS`, where code reads
// them.

const KiB = 1024

export const WITNESS_LIMITS = {
  /**
   * How long a witness may take to receive a request, and how many connections it accepts. A client
   * that sends a body byte by byte can hold a connection for that long.
   */
  witness_request_ms: 10_000,
  witness_connections: 256,
  /** A request to a witness: 63 lines of 45 bytes and a note. */
  witness_body_bytes: 32 * KiB,
  /** Lines of a consistency proof, as tlog-witness bounds them: one for each bit of a size. */
  witness_proof_lines: 63,
  /** Logs that a witness keeps a head of. An edge has one log for each tenant. */
  witness_logs: 10_000,
  /** Entries in the configuration of a witness, and keys that may sign one log. */
  witness_entries: 256,
  witness_keys: 16,
  /**
   * Time for an edge to send its document of keys, and the pause until a witness reads it again. Anybody
   * can make a witness read it, with a checkpoint whose signature is unknown.
   */
  witness_keys_ms: 4_000,
  witness_keys_pause_ms: 60_000,
  /** Witnesses of an installation. A note may have 16 signatures, of which some are the edge's. */
  witnesses: 12,
  witness_url_chars: 1_024,
  /** The edge sends heads of a log at most this often, so a busy log sends few. */
  witness_delay_ms: 1_000,
  /** Time for a witness's answer, and how much of it is read: a line for each of its keys. */
  witness_answer_ms: 5_000,
  witness_answer_bytes: 8 * KiB,
  /**
   * The longest pause before a witness that fails or refuses is asked again. The first is two seconds.
   * Each request wakes an object, so one a day is what a witness that never comes back may cost.
   */
  witness_pause_max_ms: 24 * 3_600_000,
  /** The longest pause after the log has grown, because a log in use is to be shown soon. */
  witness_pause_grown_ms: 5 * 60_000,
  /**
   * An object that wakes asks the witnesses of a log again if they last answered before this time, so
   * that a rollback is found although no call is made.
   */
  witness_fresh_ms: 60_000,
} as const
