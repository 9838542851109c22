// Generated from the edge's route table by `npm run clients`; do not edit.

export const ROUTES = {
  createRun: { method: 'POST', path: '/v1/runs' },
  putFile: { method: 'PUT', path: '/v1/runs/{run}/files/{sha256}' },
  listFiles: { method: 'GET', path: '/v1/runs/{run}/files' },
  proposeCall: { method: 'POST', path: '/v1/runs/{run}/calls' },
  proposeCallInNewRun: { method: 'POST', path: '/v1/calls' },
  listCalls: { method: 'GET', path: '/v1/calls' },
  readCallById: { method: 'GET', path: '/v1/calls/{call}' },
  listRuns: { method: 'GET', path: '/v1/runs' },
  readRun: { method: 'GET', path: '/v1/runs/{run}' },
  cancelRun: { method: 'POST', path: '/v1/runs/{run}/cancel' },
  readCall: { method: 'GET', path: '/v1/runs/{run}/calls/{call}' },
  followCall: { method: 'GET', path: '/v1/runs/{run}/calls/{call}/output' },
  readFile: { method: 'GET', path: '/v1/runs/{run}/calls/{call}/files/{sha256}' },
  readAttestation: { method: 'GET', path: '/v1/runs/{run}/calls/{call}/attestation' },
  readSnapshot: { method: 'GET', path: '/v1/runs/{run}/calls/{call}/snapshot' },
  explainCall: { method: 'GET', path: '/v1/runs/{run}/calls/{call}/explanation' },
  cancelCall: { method: 'POST', path: '/v1/runs/{run}/calls/{call}/cancel' },
  readJournal: { method: 'GET', path: '/v1/runs/{run}/journal' },
  streamEvents: { method: 'GET', path: '/v1/runs/{run}/events' },
  listTools: { method: 'GET', path: '/v1/tools' },
  decide: { method: 'POST', path: '/v1/decisions' },
  evaluateAccess: { method: 'POST', path: '/access/v1/evaluation' },
  evaluateAccesses: { method: 'POST', path: '/access/v1/evaluations' },
  adviseClaudeCode: { method: 'POST', path: '/v1/hooks/claude-code' },
  mcp: { method: 'POST', path: '/mcp' },
  mcpInSession: { method: 'POST', path: '/mcp/s/{session}' },
  resetSession: { method: 'POST', path: '/v1/sessions/{session}/reset' },
  keys: { method: 'GET', path: '/.well-known/countersign/keys.json' },
} as const

/** The stable codes of refusals and endings. A newer edge may send others. */
export type Code =
  | 'already_answered'
  | 'already_claimed'
  | 'already_ended'
  | 'approval_cancelled'
  | 'approval_expired'
  | 'archive_damaged'
  | 'attestation_invalid'
  | 'bad_signature'
  | 'body_too_large'
  | 'body_too_slow'
  | 'budget_spent'
  | 'calls_quota_exceeded'
  | 'cancelled'
  | 'capability_denied'
  | 'channel_refused'
  | 'clock_skew'
  | 'conflict'
  | 'cross_origin'
  | 'delegate_refused'
  | 'denied'
  | 'digest_mismatch'
  | 'disabled'
  | 'edit_too_wide'
  | 'egress_denied'
  | 'enrolment_invalid'
  | 'export_mismatch'
  | 'export_refused'
  | 'export_unavailable'
  | 'forbidden'
  | 'foreign_origin'
  | 'grant_invalid'
  | 'headers_too_large'
  | 'held'
  | 'idempotency_key_reused'
  | 'internal'
  | 'invalid_arguments'
  | 'invalid_input'
  | 'invalid_output'
  | 'invalid_policy'
  | 'invalid_request'
  | 'invalid_schema'
  | 'invalid_skill'
  | 'json_bad_text'
  | 'json_duplicate_key'
  | 'json_forbidden_key'
  | 'json_too_deep'
  | 'json_too_many'
  | 'json_unsafe_number'
  | 'key_revoked'
  | 'limit_reached'
  | 'link_invalid'
  | 'link_revoked'
  | 'log_behind'
  | 'method_not_allowed'
  | 'never_claimed'
  | 'no_answer'
  | 'no_export_target'
  | 'no_such_file'
  | 'not_acceptable'
  | 'not_claimable'
  | 'not_found'
  | 'not_json'
  | 'once_only'
  | 'outdated'
  | 'part_denied'
  | 'policy_error'
  | 'proof_invalid'
  | 'publisher_unknown'
  | 'queue_full'
  | 'quota_exceeded'
  | 'removed'
  | 'replayed'
  | 'restored'
  | 'run_cancelled'
  | 'run_ended'
  | 'runtime_failure'
  | 'sandbox_failed'
  | 'sandbox_unavailable'
  | 'secret_in_run_folder'
  | 'signed_out'
  | 'skill_conflict'
  | 'skill_disabled'
  | 'skill_error'
  | 'slack_refused'
  | 'spawn_failed'
  | 'stale_epoch'
  | 'stale_fence'
  | 'storage_full'
  | 'surer_only'
  | 'tenant_suspended'
  | 'timed_out'
  | 'too_many_files'
  | 'too_many_pending'
  | 'too_many_streams'
  | 'too_many_tries'
  | 'tool_breaks_policies'
  | 'tool_changed'
  | 'unauthenticated'
  | 'unavailable'
  | 'unsupported_media_type'
  | 'unsupported_platform'
  | 'upstream_error'
  | 'upstream_unavailable'
  | 'upstream_wants_input'
  | 'version_conflict'
  | 'worker_in_use'
  | 'worker_lost'
  | 'workers_quota_exceeded'
  | 'workspace_lost'
  | 'workspace_scope_denied'

export type Actor = {
  readonly issuer: string
  readonly subject: string
  readonly client?: string
  readonly acting?: string
  readonly jti_sha256?: string
}

export type CallOrigin = {
  readonly reason?: string
  readonly actor?: Actor
  readonly via?: {
    readonly protocol: 'mcp'
    readonly revision: string
    readonly client?: string
  }
}

export type Credential = {
  readonly secret: string
  readonly host: string
  readonly header: string
  readonly format?: string
  readonly tls?: 'intercept'
}

export type ToolRef = {
  readonly name: string
  readonly version: number
  readonly digest: string
}

export type InputFile = {
  readonly path: string
  readonly sha256: string
  readonly bytes: number
}

export type Limits = {
  readonly timeout_ms: number
  readonly cpu_ms: number
  readonly memory_bytes: number
  readonly pids: number
  readonly open_files: number
  readonly file_bytes: number
  readonly workspace_bytes: number
  readonly workspace_inodes?: number
  readonly output_bytes: number
  readonly net_bytes?: number
  readonly net_connections?: number
}

export type SkillLimits = {
  readonly timeout_ms: number
  readonly fuel: number
  readonly memory_bytes: number
  readonly output_bytes: number
  readonly net_bytes?: number
  readonly net_connections?: number
}

export type UpstreamLimits = {
  readonly timeout_ms: number
  readonly output_bytes: number
  readonly net_bytes: number
  readonly net_connections: number
}

export type ProcessPlan = {
  readonly tier: 'B' | 'C'
  readonly executor: {
    readonly kind: 'process'
    readonly argv: readonly string[]
    readonly stdin: 'none' | 'args' | {
      readonly arg: string
    }
    readonly env: Readonly<Record<string, string>>
    readonly cwd: string
    readonly output?: Readonly<Record<string, unknown>>
    readonly mcp?: {
      readonly method: 'tools/call'
      readonly upstream: string
      readonly tool: string
      readonly definition: string
    } | {
      readonly method: 'tools/list'
      readonly upstream: string
    }
  }
  readonly egress: {
    readonly mode: 'none' | 'preflight' | 'strict'
    readonly hosts: readonly string[]
  }
  readonly profile?: string
  readonly secrets: readonly string[]
  readonly credentials?: readonly Credential[]
  readonly workspace: 'call' | 'run'
  readonly files?: readonly InputFile[]
  readonly outputs?: true
  readonly limits: Limits
  readonly cgroup?: true
}

export type SkillPlan = {
  readonly tier: 'A'
  readonly executor: {
    readonly kind: 'skill'
    readonly skill: string
    readonly version: string
    readonly digest: string
    readonly tool: string
    readonly capabilities: readonly ('log' | 'clock' | 'random' | 'http' | 'secrets' | 'kv' | 'channel')[]
    readonly methods?: readonly ('GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE')[]
    readonly kv?: readonly string[]
    readonly channels?: readonly string[]
    readonly output?: Readonly<Record<string, unknown>>
  }
  readonly egress: {
    readonly mode: 'strict'
    readonly hosts: readonly string[]
  }
  readonly secrets: readonly string[]
  readonly credentials?: readonly Credential[]
  readonly limits: SkillLimits
}

export type UpstreamPlan = {
  readonly tier: 'M'
  readonly executor: {
    readonly kind: 'upstream'
    readonly upstream: string
    readonly url: string
    readonly tool: string
    readonly definition: string
    readonly mirrored?: readonly {
      readonly header: string
      readonly path: readonly string[]
    }[]
    readonly auth?: {
      readonly kind: 'header'
      readonly secret: string
      readonly header: string
      readonly format?: string
    } | {
      readonly kind: 'client_credentials'
      readonly secret: string
      readonly client_id: string
      readonly token_url: string
      readonly scope?: string
    }
    readonly output?: Readonly<Record<string, unknown>>
  }
  readonly egress: {
    readonly mode: 'strict'
    readonly hosts: readonly string[]
  }
  readonly secrets: readonly string[]
  readonly credentials?: readonly Credential[]
  readonly limits: UpstreamLimits
}

export type Budget = {
  readonly max_calls_per_run: number
  readonly execution_timeout_ms: number
  readonly max_denied_per_run: number
}

export type RunSpec = {
  readonly session?: string
  readonly channel?: string
  readonly device?: string
  readonly budget?: {
    readonly max_calls_per_run?: number
    readonly execution_timeout_ms?: number
    readonly max_denied_per_run?: number
  }
}

export type Run = {
  readonly id: string
  readonly agent: string
  readonly session: string
  readonly channel: string | null
  readonly device: string | null
  readonly state: 'open' | 'cancelled'
  readonly budget: Budget
  readonly used: {
    readonly calls: number
    readonly denied: number
  }
  readonly created_at_ms: number
  readonly journal: {
    readonly seq: number
    readonly head: string
  }
}

export type ProposedCall = {
  readonly tool: string
  readonly args: Readonly<Record<string, unknown>>
  /** What the agent is doing and why, in its own words. Approvers see it, marked as unverified; the journal and the attestation contain it, with secrets masked. It is not part of what is decided, so policies and the `Idempotency-Key` ignore it. */
  readonly reason?: string
  /** Input files for a tool with `input_files`: files that were uploaded to the run before, each with its path below `/input`. */
  readonly files?: readonly {
    readonly path: string
    readonly sha256: string
  }[]
}

export type ProposedCallInNewRun = {
  readonly tool: string
  readonly args: Readonly<Record<string, unknown>>
  /** What the agent is doing and why, in its own words. Approvers see it, marked as unverified; the journal and the attestation contain it, with secrets masked. It is not part of what is decided, so policies and the `Idempotency-Key` ignore it. */
  readonly reason?: string
  readonly run?: RunSpec
  /** Not allowed: files belong to a run, and this request creates a new one. */
  readonly files?: never
}

export type HypotheticalCall = {
  readonly tool: string
  readonly args: Readonly<Record<string, unknown>>
  readonly run?: RunSpec
  readonly files?: readonly InputFile[]
  readonly agent?: string
}

export type CallState = 'proposed' | 'denied' | 'awaiting_approval' | 'rejected' | 'expired' | 'cancelled' | 'granted' | 'lapsed' | 'released' | 'running' | 'succeeded' | 'failed' | 'timed_out' | 'indeterminate'

export type Change = {
  readonly fact: string
  readonly is?: string | number | boolean | readonly (string | number | boolean)[]
  readonly needs: {
    readonly op: '==' | '!=' | '<' | '<=' | '>' | '>=' | 'has' | 'lacks' | 'like' | 'not like' | 'present' | 'absent' | 'empty' | 'not empty'
    readonly value?: string | number | boolean | readonly (string | number | boolean)[]
  }
  readonly by: 'agent' | 'human' | 'operator' | 'time'
  readonly words: string
}

export type Explanation = {
  readonly policies: readonly {
    readonly id: string
    readonly effect: 'permit' | 'forbid'
    readonly reason: string | null
    readonly advice: string | null
    readonly place?: string
    readonly text?: string
  }[]
  readonly plans: readonly {
    readonly tier: 'A' | 'B' | 'C' | 'M'
    readonly egress: 'none' | 'preflight' | 'strict'
    readonly policies: readonly string[]
    readonly asks?: true
  }[]
  readonly changes: readonly (readonly Change[])[]
  readonly fixed: readonly string[]
  readonly errors?: readonly string[]
}

export type Decision = {
  readonly effect: 'allow' | 'ask' | 'deny'
  readonly code: 'allowed' | 'approval_required' | 'denied' | 'egress_denied' | 'workspace_scope_denied' | 'secret_in_run_folder' | 'budget_spent' | 'policy_error' | 'tool_changed'
  readonly policies: readonly string[]
  readonly reason: string
  readonly policy_set: string
  readonly snapshot: string
  readonly explanation?: Explanation
}

export type OutputFiles = {
  readonly files: readonly InputFile[]
  readonly left: readonly {
    readonly path: string
    readonly why: 'name' | 'no_file' | 'too_much' | 'no_room' | 'not_sent' | 'secret'
  }[]
  readonly more: number
}

export type CallResult = {
  readonly ok: boolean
  readonly output: string
  readonly encoding: 'utf-8' | 'base64'
  readonly stderr: string
  readonly exit_code: number | null
  readonly files?: OutputFiles
  readonly truncated: boolean
  readonly error?: {
    readonly code: string
    readonly detail: string
  }
}

export type Plan = ProcessPlan | SkillPlan | UpstreamPlan

export type Call = {
  readonly id: string
  readonly run: string
  readonly tool: string
  readonly state: CallState
  readonly digest: string
  readonly decision: Decision
  readonly approval?: {
    readonly id: string
    readonly status: string
    readonly expires_at: number
    readonly page: string
  }
  readonly plan?: Plan
  readonly running?: {
    readonly worker: string
    readonly since_ms: number
    readonly cancel_requested: boolean
  }
  readonly edited?: {
    readonly arguments: Readonly<Record<string, unknown>>
    readonly from: string
  }
  readonly result?: CallResult
  readonly attestation?: {
    readonly id: string
    readonly execution_sha256: string
    readonly executor: string
    readonly sandbox_enforcement: string
    readonly cgroup?: boolean
  }
  readonly origin?: CallOrigin
  readonly created_at_ms: number
  readonly ended_at_ms?: number
  readonly removed?: {
    readonly outputs?: {
      readonly at_ms: number
      readonly rule: number
      readonly days: number
    }
    readonly arguments?: {
      readonly at_ms: number
      readonly rule: number
      readonly days: number
    }
    readonly evidence?: {
      readonly at_ms: number
      readonly rule: number
      readonly days: number
      readonly statement_sha256: string
      readonly entry: {
        readonly seq: number
        readonly hash: string
      }
      readonly head: {
        readonly seq: number
        readonly hash: string
      }
    }
  }
}

export type DryRun = {
  readonly decision: Decision
  readonly digest: string | null
  readonly plan: Plan | null
}

export type HeldFile = {
  readonly sha256: string
  readonly bytes: number
  readonly named: boolean
  readonly until_ms: number
}

export type ToolSummary = {
  readonly name: string
  readonly version: number
  readonly digest: string
  readonly description: string
  readonly input_schema: Readonly<Record<string, unknown>>
  readonly output_schema?: Readonly<Record<string, unknown>>
  readonly capabilities: readonly ('process_exec' | 'network' | 'secrets_read' | 'filesystem_read' | 'filesystem_write' | 'artifacts_read')[]
  readonly sensitive: boolean
  readonly input_files: boolean
}

export type Envelope = {
  readonly payloadType: string
  readonly payload: string
  readonly signatures: readonly {
    readonly keyid: string
    readonly sig: string
  }[]
}

export type Bundle = {
  readonly format: 'countersign-bundle/v2'
  readonly envelope: Envelope
  readonly grant: Envelope | null
  readonly call: {
    readonly tenant: string
    readonly run: string
    readonly call: string
    readonly tool: ToolRef
    readonly arguments: unknown
    readonly plan: Plan | null
  }
  readonly removed?: Envelope
  readonly snapshot: PolicySnapshot
  readonly journal: readonly {
    readonly seq: number
    readonly at_ms: number
    readonly kind: string
    readonly call: string | null
    readonly body: Readonly<Record<string, unknown>>
    readonly prev: string
    readonly hash: string
  }[]
  readonly log: {
    readonly index: number
    readonly proof: readonly string[]
    readonly checkpoint: string
  }
}

export type Keys = {
  readonly format: 'countersign-keys/v2'
  readonly tenant: string
  readonly keys: readonly {
    readonly kid: string
    readonly kty: 'OKP'
    readonly crv: 'Ed25519'
    readonly x: string
    readonly role: 'edge' | 'worker'
    readonly worker?: string
    readonly from_ms: number
    readonly until_ms: number | null
    readonly status: 'active' | 'retired' | 'revoked' | 'distrusted'
    readonly distrusted_from_ms?: number
  }[]
  readonly chain: readonly Envelope[]
}

export type Statement = {
  readonly _type: 'https://in-toto.io/Statement/v1'
  readonly subject: readonly [{
    readonly name: string
    readonly digest: {
      readonly sha256: string
    }
  }]
  readonly predicateType: 'https://countersign.dev/attestation/v1'
  readonly predicate: {
    readonly attestation_id: string
    readonly state: CallState
    readonly error: string | null
    readonly timed_out: boolean
    readonly facts: {
      readonly tenant: string
      readonly run: string
      readonly call: string
      readonly agent: string
      readonly session: string
      readonly tool: ToolRef
      readonly digest: string
      readonly args_sha256: string
      readonly plan_sha256: string | null
      readonly limits: Limits | SkillLimits | UpstreamLimits | null
      readonly egress: {
        readonly mode: 'none' | 'preflight' | 'strict'
        readonly hosts: readonly string[]
      } | null
      readonly decision: {
        readonly effect: 'allow' | 'ask' | 'deny'
        readonly policies: readonly string[]
        readonly policy_set: string
        readonly snapshot: string
      }
      readonly approval: {
        readonly id: string
        readonly scope: 'once' | 'session' | 'timeboxed'
        readonly answers: readonly {
          readonly by: string
          readonly decision: 'approve' | 'deny'
          readonly channel: string
          readonly at_ms: number
          readonly standing?: string
        }[]
      } | null
      readonly origin?: CallOrigin
    }
    readonly grant: {
      readonly sha256: string
      readonly worker: string | 'edge'
      readonly fence: number
      readonly deadline_ms: number
    } | null
    readonly execution: {
      readonly outcome: {
        readonly kind: 'exit'
        readonly code: number
      } | {
        readonly kind: 'signal'
        readonly signal: string
      } | {
        readonly kind: 'timeout'
      } | {
        readonly kind: 'output_cap'
      } | {
        readonly kind: 'memory_cap'
      } | {
        readonly kind: 'cpu_cap'
      } | {
        readonly kind: 'workspace_cap'
      } | {
        readonly kind: 'invalid_output'
        readonly detail: string
      } | {
        readonly kind: 'cancelled'
      } | {
        readonly kind: 'returned'
      } | {
        readonly kind: 'skill_error'
        readonly detail: string
      } | {
        readonly kind: 'trap'
        readonly detail: string
      } | {
        readonly kind: 'fuel_exhausted'
      } | {
        readonly kind: 'capability_denied'
        readonly detail: string
      } | {
        readonly kind: 'upstream_error'
        readonly detail: string
      } | {
        readonly kind: 'upstream_wants_input'
        readonly detail: string
      } | {
        readonly kind: 'no_answer'
        readonly detail: string
      } | {
        readonly kind: 'refused'
        readonly code: 'disabled' | 'unsupported_platform' | 'invalid_input' | 'workspace_scope_denied' | 'egress_denied' | 'sandbox_unavailable' | 'grant_invalid' | 'workspace_lost' | 'quota_exceeded' | 'skill_disabled' | 'tool_changed' | 'upstream_unavailable'
        readonly detail: string
      } | {
        readonly kind: 'infra'
        readonly detail: string
      } | null
      readonly stdout: {
        readonly bytes: number
        readonly sha256: string
        readonly kept: number
        readonly truncated: boolean
      } | null
      readonly stderr: {
        readonly bytes: number
        readonly sha256: string
        readonly kept: number
        readonly truncated: boolean
      } | null
      readonly connections: readonly {
        readonly host: string
        readonly port: number
        readonly address: string
        readonly bytes_out: number
        readonly bytes_in: number
        readonly folded?: number
        readonly credentials?: readonly string[]
        readonly verdict: 'allowed' | 'host_not_listed' | 'address_refused' | 'unresolvable' | 'malformed' | 'unknown_client' | 'sni_mismatch' | 'cap' | 'failed'
      }[]
      readonly executor: string
      readonly sandbox_enforcement: string
      readonly cgroup?: boolean
      readonly profile_sha256: string | null
      readonly argv_sha256: string | null
      readonly limits?: Limits | SkillLimits | UpstreamLimits
      readonly skill?: {
        readonly digest: string
        readonly component_sha256: string
        readonly modules: readonly {
          readonly name: string
          readonly sha256: string
        }[]
        readonly fuel_used: number
        readonly memory_bytes: number
        readonly host_calls: Readonly<Record<string, number>>
      }
      readonly upstream?: {
        readonly name: string
        readonly origin: string
        readonly era: 'modern' | 'legacy' | null
        readonly definition_sha256: string
        readonly request_sha256: string | null
        readonly response_sha256: string | null
      }
      readonly files?: OutputFiles
      readonly started_at_ms: number | null
      readonly ended_at_ms: number
    }
    readonly execution_sha256: string
  }
}

export type JournalEntry = {
  readonly seq: number
  readonly at_ms: number
  readonly kind: string
  readonly call: string | null
  readonly body: Readonly<Record<string, unknown>>
  readonly prev: string
  readonly hash: string
  readonly shadow?: {
    readonly version: number
    readonly since_ms: number
    readonly from: 'allow' | 'ask' | 'deny'
    readonly to: 'allow' | 'ask' | 'deny'
    readonly code: string
    readonly policies: readonly string[]
    readonly salt: string
  }
}

export type PolicySnapshot = {
  readonly format: 'countersign-snapshot/v1'
  readonly policy_set: string
  readonly allowed_tools: readonly string[]
  readonly groups: readonly string[]
  readonly channels: readonly string[] | null
  readonly budget: Budget
  readonly tool: ToolRef
  readonly process_runner: {
    readonly tiers: readonly ('B' | 'C')[]
    readonly workspace: 'call' | 'run'
    readonly allowed_executables: readonly string[] | null
    readonly egress_mode: 'none' | 'preflight' | 'strict'
    readonly allowed_hosts: readonly string[]
    readonly secrets: readonly string[]
    readonly limits: Limits
  } | null
  readonly wasm_runtime: {
    readonly fuel: number
    readonly memory_bytes: number
    readonly table_elements: number
    readonly instances: number
    readonly allowed_hosts: readonly string[]
    readonly allowed_secrets: readonly string[]
    readonly allowed_prefixes: readonly string[]
  } | null
}

export type LiveState = {
  readonly state: CallState
  readonly attempt: number
  readonly cancel_requested: boolean
}

export type LiveOutput = {
  readonly offset: number
  readonly encoding: 'utf-8' | 'base64'
  readonly data: string
}

export type LiveEnd = {
  readonly ok: boolean
  readonly exit_code: number | null
  readonly files?: OutputFiles
  readonly truncated: boolean
  readonly error?: {
    readonly code: string
    readonly detail: string
  }
  readonly state: CallState
}
