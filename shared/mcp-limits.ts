// Bounds of the MCP endpoint, as a part of `LIMITS`. Code reads them there.

export const MCP_LIMITS = {
  /**
   * How long an MCP request is held for a call that has not ended: for clients that can hold a
   * task, for legacy clients, for those that retry with a `requestState`, and the longest. Clients give
   * up after 60 s, and close a silent connection sooner.
   */
  mcp_hold_task_s: 2,
  mcp_hold_legacy_s: 30,
  mcp_hold_s: 45,
  mcp_hold_most_s: 170,
  /** A call that ends within this time is answered without a stream. */
  mcp_quick_ms: 200,
  /** How often a held request sends a comment and its caller is checked again. */
  mcp_heartbeat_ms: 5_000,
  /** How often one call may be answered with a `requestState`. Clients stop at the tenth answer. */
  mcp_rounds: 9,
  /**
   * Held requests of one agent and of a tenant, those of hooks included. Above that, a call is
   * answered as pending at once.
   */
  mcp_holds_agent: 32,
  mcp_holds_tenant: 1_024,
  /** Requests of one run that a client may cancel by their ids; then the oldest is forgotten. */
  mcp_requests_run: 1_024,
  /** Tasks that one `subscriptions/listen` follows. */
  mcp_listened_tasks: 32,
  /** The id of a JSON-RPC request, a progress token, and the name of a client. */
  mcp_id_chars: 256,
  mcp_client_chars: 64,
  /** Tools on one page of a list. */
  mcp_tools_page: 250,
  /** An ended call whose answer nobody received is the answer to an equal call for this long. */
  mcp_join_ms: 10 * 60_000,
  /** A waiting call is cancelled this long after its client closed the connection. */
  mcp_abandoned_ms: 2 * 60_000,
  /** Text of a tool's output in a result. A model pays for each word; the call has all of it. */
  mcp_output_chars: 16 * 1024,
  /** The end of what a failed tool wrote to stderr, and one line of a progress message. */
  mcp_stderr_chars: 2_000,
  mcp_progress_chars: 200,
  /** How long a task's answer can be fetched after its call could have ended. */
  mcp_task_ms: 24 * 3600_000,
} as const
