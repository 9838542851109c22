// Bounds of witnesses of the log, each with its reason. They are a part of `LIMITS`, where code reads
// them.

const KiB = 1024

export const WITNESS_LIMITS = {
  /**
   * How long a witness may take to receive a request, and its connections. One that sends a body
   * byte by byte may hold one of them that long.
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
} as const
