# Generated from the edge's route table by `npm run clients`; do not edit.
"""Types of what an agent sends and reads. At run time they are plain dictionaries."""

from typing import Any, Dict, Final, List, Literal, Mapping, Optional, Tuple, TypedDict, Union

ROUTES: Final[Mapping[str, Tuple[str, str]]] = {
    "create_run": ("POST", "/v1/runs"),
    "put_file": ("PUT", "/v1/runs/{run}/files/{sha256}"),
    "list_files": ("GET", "/v1/runs/{run}/files"),
    "propose_call": ("POST", "/v1/runs/{run}/calls"),
    "propose_call_in_new_run": ("POST", "/v1/calls"),
    "list_calls": ("GET", "/v1/calls"),
    "read_call_by_id": ("GET", "/v1/calls/{call}"),
    "list_runs": ("GET", "/v1/runs"),
    "read_run": ("GET", "/v1/runs/{run}"),
    "cancel_run": ("POST", "/v1/runs/{run}/cancel"),
    "read_call": ("GET", "/v1/runs/{run}/calls/{call}"),
    "follow_call": ("GET", "/v1/runs/{run}/calls/{call}/output"),
    "read_file": ("GET", "/v1/runs/{run}/calls/{call}/files/{sha256}"),
    "read_attestation": ("GET", "/v1/runs/{run}/calls/{call}/attestation"),
    "read_snapshot": ("GET", "/v1/runs/{run}/calls/{call}/snapshot"),
    "explain_call": ("GET", "/v1/runs/{run}/calls/{call}/explanation"),
    "cancel_call": ("POST", "/v1/runs/{run}/calls/{call}/cancel"),
    "read_journal": ("GET", "/v1/runs/{run}/journal"),
    "stream_events": ("GET", "/v1/runs/{run}/events"),
    "list_tools": ("GET", "/v1/tools"),
    "decide": ("POST", "/v1/decisions"),
    "evaluate_access": ("POST", "/access/v1/evaluation"),
    "evaluate_accesses": ("POST", "/access/v1/evaluations"),
    "advise_claude_code": ("POST", "/v1/hooks/claude-code"),
    "mcp": ("POST", "/mcp"),
    "mcp_in_session": ("POST", "/mcp/s/{session}"),
    "reset_session": ("POST", "/v1/sessions/{session}/reset"),
    "keys": ("GET", "/.well-known/countersign/keys.json"),
}

# The stable codes of refusals and endings. A newer edge may send others.
Code = Literal[
    "already_answered",
    "already_claimed",
    "already_ended",
    "approval_cancelled",
    "approval_expired",
    "archive_damaged",
    "attestation_invalid",
    "bad_signature",
    "body_too_large",
    "body_too_slow",
    "budget_spent",
    "calls_quota_exceeded",
    "cancelled",
    "capability_denied",
    "channel_refused",
    "clock_skew",
    "conflict",
    "cross_origin",
    "delegate_refused",
    "denied",
    "digest_mismatch",
    "disabled",
    "edit_too_wide",
    "egress_denied",
    "enrolment_invalid",
    "export_mismatch",
    "export_refused",
    "export_unavailable",
    "forbidden",
    "foreign_origin",
    "grant_invalid",
    "headers_too_large",
    "held",
    "idempotency_key_reused",
    "internal",
    "invalid_arguments",
    "invalid_input",
    "invalid_output",
    "invalid_policy",
    "invalid_request",
    "invalid_schema",
    "invalid_skill",
    "json_bad_text",
    "json_duplicate_key",
    "json_forbidden_key",
    "json_too_deep",
    "json_too_many",
    "json_unsafe_number",
    "key_revoked",
    "limit_reached",
    "link_invalid",
    "link_revoked",
    "log_behind",
    "method_not_allowed",
    "never_claimed",
    "no_answer",
    "no_export_target",
    "no_such_file",
    "not_acceptable",
    "not_claimable",
    "not_found",
    "not_json",
    "once_only",
    "outdated",
    "part_denied",
    "policy_error",
    "proof_invalid",
    "publisher_unknown",
    "queue_full",
    "quota_exceeded",
    "removed",
    "replayed",
    "restored",
    "run_cancelled",
    "run_ended",
    "runtime_failure",
    "sandbox_failed",
    "sandbox_unavailable",
    "secret_in_run_folder",
    "signed_out",
    "skill_conflict",
    "skill_disabled",
    "skill_error",
    "slack_refused",
    "spawn_failed",
    "stale_epoch",
    "stale_fence",
    "storage_full",
    "surer_only",
    "tenant_suspended",
    "timed_out",
    "too_many_files",
    "too_many_pending",
    "too_many_streams",
    "too_many_tries",
    "tool_breaks_policies",
    "tool_changed",
    "unauthenticated",
    "unavailable",
    "unsupported_media_type",
    "unsupported_platform",
    "upstream_error",
    "upstream_unavailable",
    "upstream_wants_input",
    "version_conflict",
    "worker_in_use",
    "worker_lost",
    "workers_quota_exceeded",
    "workspace_lost",
    "workspace_scope_denied",
]

_ActorRequired = TypedDict("_ActorRequired", {
    "issuer": str,
    "subject": str,
})
_ActorOptional = TypedDict("_ActorOptional", {
    "client": str,
    "acting": str,
    "jti_sha256": str,
}, total=False)


class Actor(_ActorRequired, _ActorOptional):
    """Fields of `Actor`."""


_CallOriginViaRequired = TypedDict("_CallOriginViaRequired", {
    "protocol": Literal["mcp"],
    "revision": str,
})
_CallOriginViaOptional = TypedDict("_CallOriginViaOptional", {
    "client": str,
}, total=False)


class CallOriginVia(_CallOriginViaRequired, _CallOriginViaOptional):
    """Fields of `CallOriginVia`."""


_CallOriginRequired = TypedDict("_CallOriginRequired", {
})
_CallOriginOptional = TypedDict("_CallOriginOptional", {
    "reason": str,
    "actor": "Actor",
    "via": CallOriginVia,
}, total=False)


class CallOrigin(_CallOriginRequired, _CallOriginOptional):
    """Fields of `CallOrigin`."""


_CredentialRequired = TypedDict("_CredentialRequired", {
    "secret": str,
    "host": str,
    "header": str,
})
_CredentialOptional = TypedDict("_CredentialOptional", {
    "format": str,
    "tls": Literal["intercept"],
}, total=False)


class Credential(_CredentialRequired, _CredentialOptional):
    """Fields of `Credential`."""


_ToolRefRequired = TypedDict("_ToolRefRequired", {
    "name": str,
    "version": int,
    "digest": str,
})
_ToolRefOptional = TypedDict("_ToolRefOptional", {
}, total=False)


class ToolRef(_ToolRefRequired, _ToolRefOptional):
    """Fields of `ToolRef`."""


_InputFileRequired = TypedDict("_InputFileRequired", {
    "path": str,
    "sha256": str,
    "bytes": int,
})
_InputFileOptional = TypedDict("_InputFileOptional", {
}, total=False)


class InputFile(_InputFileRequired, _InputFileOptional):
    """Fields of `InputFile`."""


_LimitsRequired = TypedDict("_LimitsRequired", {
    "timeout_ms": int,
    "cpu_ms": int,
    "memory_bytes": int,
    "pids": int,
    "open_files": int,
    "file_bytes": int,
    "workspace_bytes": int,
    "output_bytes": int,
})
_LimitsOptional = TypedDict("_LimitsOptional", {
    "workspace_inodes": int,
    "net_bytes": int,
    "net_connections": int,
}, total=False)


class Limits(_LimitsRequired, _LimitsOptional):
    """Fields of `Limits`."""


_SkillLimitsRequired = TypedDict("_SkillLimitsRequired", {
    "timeout_ms": int,
    "fuel": int,
    "memory_bytes": int,
    "output_bytes": int,
})
_SkillLimitsOptional = TypedDict("_SkillLimitsOptional", {
    "net_bytes": int,
    "net_connections": int,
}, total=False)


class SkillLimits(_SkillLimitsRequired, _SkillLimitsOptional):
    """Fields of `SkillLimits`."""


_UpstreamLimitsRequired = TypedDict("_UpstreamLimitsRequired", {
    "timeout_ms": int,
    "output_bytes": int,
    "net_bytes": int,
    "net_connections": int,
})
_UpstreamLimitsOptional = TypedDict("_UpstreamLimitsOptional", {
}, total=False)


class UpstreamLimits(_UpstreamLimitsRequired, _UpstreamLimitsOptional):
    """Fields of `UpstreamLimits`."""


_ProcessPlanExecutorStdinRequired = TypedDict("_ProcessPlanExecutorStdinRequired", {
    "arg": str,
})
_ProcessPlanExecutorStdinOptional = TypedDict("_ProcessPlanExecutorStdinOptional", {
}, total=False)


class ProcessPlanExecutorStdin(_ProcessPlanExecutorStdinRequired, _ProcessPlanExecutorStdinOptional):
    """Fields of `ProcessPlanExecutorStdin`."""


_ProcessPlanExecutorMcp1Required = TypedDict("_ProcessPlanExecutorMcp1Required", {
    "method": Literal["tools/call"],
    "upstream": str,
    "tool": str,
    "definition": str,
})
_ProcessPlanExecutorMcp1Optional = TypedDict("_ProcessPlanExecutorMcp1Optional", {
}, total=False)


class ProcessPlanExecutorMcp1(_ProcessPlanExecutorMcp1Required, _ProcessPlanExecutorMcp1Optional):
    """Fields of `ProcessPlanExecutorMcp1`."""


_ProcessPlanExecutorMcp2Required = TypedDict("_ProcessPlanExecutorMcp2Required", {
    "method": Literal["tools/list"],
    "upstream": str,
})
_ProcessPlanExecutorMcp2Optional = TypedDict("_ProcessPlanExecutorMcp2Optional", {
}, total=False)


class ProcessPlanExecutorMcp2(_ProcessPlanExecutorMcp2Required, _ProcessPlanExecutorMcp2Optional):
    """Fields of `ProcessPlanExecutorMcp2`."""


_ProcessPlanExecutorRequired = TypedDict("_ProcessPlanExecutorRequired", {
    "kind": Literal["process"],
    "argv": List[str],
    "stdin": Union[Literal["none"], Literal["args"], ProcessPlanExecutorStdin],
    "env": Dict[str, str],
    "cwd": str,
})
_ProcessPlanExecutorOptional = TypedDict("_ProcessPlanExecutorOptional", {
    "output": Dict[str, Any],
    "mcp": Union[ProcessPlanExecutorMcp1, ProcessPlanExecutorMcp2],
}, total=False)


class ProcessPlanExecutor(_ProcessPlanExecutorRequired, _ProcessPlanExecutorOptional):
    """Fields of `ProcessPlanExecutor`."""


_ProcessPlanEgressRequired = TypedDict("_ProcessPlanEgressRequired", {
    "mode": Literal["none", "preflight", "strict"],
    "hosts": List[str],
})
_ProcessPlanEgressOptional = TypedDict("_ProcessPlanEgressOptional", {
}, total=False)


class ProcessPlanEgress(_ProcessPlanEgressRequired, _ProcessPlanEgressOptional):
    """Fields of `ProcessPlanEgress`."""


_ProcessPlanRequired = TypedDict("_ProcessPlanRequired", {
    "tier": Literal["B", "C"],
    "executor": ProcessPlanExecutor,
    "egress": ProcessPlanEgress,
    "secrets": List[str],
    "workspace": Literal["call", "run"],
    "limits": "Limits",
})
_ProcessPlanOptional = TypedDict("_ProcessPlanOptional", {
    "profile": str,
    "credentials": List["Credential"],
    "files": List["InputFile"],
    "outputs": Literal[True],
    "cgroup": Literal[True],
}, total=False)


class ProcessPlan(_ProcessPlanRequired, _ProcessPlanOptional):
    """Fields of `ProcessPlan`."""


_SkillPlanExecutorRequired = TypedDict("_SkillPlanExecutorRequired", {
    "kind": Literal["skill"],
    "skill": str,
    "version": str,
    "digest": str,
    "tool": str,
    "capabilities": List[Literal["log", "clock", "random", "http", "secrets", "kv", "channel"]],
})
_SkillPlanExecutorOptional = TypedDict("_SkillPlanExecutorOptional", {
    "methods": List[Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]],
    "kv": List[str],
    "channels": List[str],
    "output": Dict[str, Any],
}, total=False)


class SkillPlanExecutor(_SkillPlanExecutorRequired, _SkillPlanExecutorOptional):
    """Fields of `SkillPlanExecutor`."""


_SkillPlanEgressRequired = TypedDict("_SkillPlanEgressRequired", {
    "mode": Literal["strict"],
    "hosts": List[str],
})
_SkillPlanEgressOptional = TypedDict("_SkillPlanEgressOptional", {
}, total=False)


class SkillPlanEgress(_SkillPlanEgressRequired, _SkillPlanEgressOptional):
    """Fields of `SkillPlanEgress`."""


_SkillPlanRequired = TypedDict("_SkillPlanRequired", {
    "tier": Literal["A"],
    "executor": SkillPlanExecutor,
    "egress": SkillPlanEgress,
    "secrets": List[str],
    "limits": "SkillLimits",
})
_SkillPlanOptional = TypedDict("_SkillPlanOptional", {
    "credentials": List["Credential"],
}, total=False)


class SkillPlan(_SkillPlanRequired, _SkillPlanOptional):
    """Fields of `SkillPlan`."""


_UpstreamPlanExecutorMirroredItemRequired = TypedDict("_UpstreamPlanExecutorMirroredItemRequired", {
    "header": str,
    "path": List[str],
})
_UpstreamPlanExecutorMirroredItemOptional = TypedDict("_UpstreamPlanExecutorMirroredItemOptional", {
}, total=False)


class UpstreamPlanExecutorMirroredItem(_UpstreamPlanExecutorMirroredItemRequired, _UpstreamPlanExecutorMirroredItemOptional):
    """Fields of `UpstreamPlanExecutorMirroredItem`."""


_UpstreamPlanExecutorAuth1Required = TypedDict("_UpstreamPlanExecutorAuth1Required", {
    "kind": Literal["header"],
    "secret": str,
    "header": str,
})
_UpstreamPlanExecutorAuth1Optional = TypedDict("_UpstreamPlanExecutorAuth1Optional", {
    "format": str,
}, total=False)


class UpstreamPlanExecutorAuth1(_UpstreamPlanExecutorAuth1Required, _UpstreamPlanExecutorAuth1Optional):
    """Fields of `UpstreamPlanExecutorAuth1`."""


_UpstreamPlanExecutorAuth2Required = TypedDict("_UpstreamPlanExecutorAuth2Required", {
    "kind": Literal["client_credentials"],
    "secret": str,
    "client_id": str,
    "token_url": str,
})
_UpstreamPlanExecutorAuth2Optional = TypedDict("_UpstreamPlanExecutorAuth2Optional", {
    "scope": str,
}, total=False)


class UpstreamPlanExecutorAuth2(_UpstreamPlanExecutorAuth2Required, _UpstreamPlanExecutorAuth2Optional):
    """Fields of `UpstreamPlanExecutorAuth2`."""


_UpstreamPlanExecutorRequired = TypedDict("_UpstreamPlanExecutorRequired", {
    "kind": Literal["upstream"],
    "upstream": str,
    "url": str,
    "tool": str,
    "definition": str,
})
_UpstreamPlanExecutorOptional = TypedDict("_UpstreamPlanExecutorOptional", {
    "mirrored": List[UpstreamPlanExecutorMirroredItem],
    "auth": Union[UpstreamPlanExecutorAuth1, UpstreamPlanExecutorAuth2],
    "output": Dict[str, Any],
}, total=False)


class UpstreamPlanExecutor(_UpstreamPlanExecutorRequired, _UpstreamPlanExecutorOptional):
    """Fields of `UpstreamPlanExecutor`."""


_UpstreamPlanEgressRequired = TypedDict("_UpstreamPlanEgressRequired", {
    "mode": Literal["strict"],
    "hosts": List[str],
})
_UpstreamPlanEgressOptional = TypedDict("_UpstreamPlanEgressOptional", {
}, total=False)


class UpstreamPlanEgress(_UpstreamPlanEgressRequired, _UpstreamPlanEgressOptional):
    """Fields of `UpstreamPlanEgress`."""


_UpstreamPlanRequired = TypedDict("_UpstreamPlanRequired", {
    "tier": Literal["M"],
    "executor": UpstreamPlanExecutor,
    "egress": UpstreamPlanEgress,
    "secrets": List[str],
    "limits": "UpstreamLimits",
})
_UpstreamPlanOptional = TypedDict("_UpstreamPlanOptional", {
    "credentials": List["Credential"],
}, total=False)


class UpstreamPlan(_UpstreamPlanRequired, _UpstreamPlanOptional):
    """Fields of `UpstreamPlan`."""


_BudgetRequired = TypedDict("_BudgetRequired", {
    "max_calls_per_run": int,
    "execution_timeout_ms": int,
    "max_denied_per_run": int,
})
_BudgetOptional = TypedDict("_BudgetOptional", {
}, total=False)


class Budget(_BudgetRequired, _BudgetOptional):
    """Fields of `Budget`."""


_RunSpecBudgetRequired = TypedDict("_RunSpecBudgetRequired", {
})
_RunSpecBudgetOptional = TypedDict("_RunSpecBudgetOptional", {
    "max_calls_per_run": int,
    "execution_timeout_ms": int,
    "max_denied_per_run": int,
}, total=False)


class RunSpecBudget(_RunSpecBudgetRequired, _RunSpecBudgetOptional):
    """Fields of `RunSpecBudget`."""


_RunSpecRequired = TypedDict("_RunSpecRequired", {
})
_RunSpecOptional = TypedDict("_RunSpecOptional", {
    "session": str,
    "channel": str,
    "device": str,
    "budget": RunSpecBudget,
}, total=False)


class RunSpec(_RunSpecRequired, _RunSpecOptional):
    """Fields of `RunSpec`."""


_RunUsedRequired = TypedDict("_RunUsedRequired", {
    "calls": int,
    "denied": int,
})
_RunUsedOptional = TypedDict("_RunUsedOptional", {
}, total=False)


class RunUsed(_RunUsedRequired, _RunUsedOptional):
    """Fields of `RunUsed`."""


_RunJournalRequired = TypedDict("_RunJournalRequired", {
    "seq": int,
    "head": str,
})
_RunJournalOptional = TypedDict("_RunJournalOptional", {
}, total=False)


class RunJournal(_RunJournalRequired, _RunJournalOptional):
    """Fields of `RunJournal`."""


_RunRequired = TypedDict("_RunRequired", {
    "id": str,
    "agent": str,
    "session": str,
    "channel": Optional[str],
    "device": Optional[str],
    "state": Literal["open", "cancelled"],
    "budget": "Budget",
    "used": RunUsed,
    "created_at_ms": int,
    "journal": RunJournal,
})
_RunOptional = TypedDict("_RunOptional", {
}, total=False)


class Run(_RunRequired, _RunOptional):
    """Fields of `Run`."""


_ProposedCallFilesItemRequired = TypedDict("_ProposedCallFilesItemRequired", {
    "path": str,
    "sha256": str,
})
_ProposedCallFilesItemOptional = TypedDict("_ProposedCallFilesItemOptional", {
}, total=False)


class ProposedCallFilesItem(_ProposedCallFilesItemRequired, _ProposedCallFilesItemOptional):
    """Fields of `ProposedCallFilesItem`."""


_ProposedCallRequired = TypedDict("_ProposedCallRequired", {
    "tool": str,
    "args": Dict[str, Any],
})
_ProposedCallOptional = TypedDict("_ProposedCallOptional", {
    "reason": str,
    "files": List[ProposedCallFilesItem],
}, total=False)


class ProposedCall(_ProposedCallRequired, _ProposedCallOptional):
    """Fields of `ProposedCall`."""


_ProposedCallInNewRunRequired = TypedDict("_ProposedCallInNewRunRequired", {
    "tool": str,
    "args": Dict[str, Any],
})
_ProposedCallInNewRunOptional = TypedDict("_ProposedCallInNewRunOptional", {
    "reason": str,
    "run": "RunSpec",
    "files": Any,
}, total=False)


class ProposedCallInNewRun(_ProposedCallInNewRunRequired, _ProposedCallInNewRunOptional):
    """Fields of `ProposedCallInNewRun`."""


_HypotheticalCallRequired = TypedDict("_HypotheticalCallRequired", {
    "tool": str,
    "args": Dict[str, Any],
})
_HypotheticalCallOptional = TypedDict("_HypotheticalCallOptional", {
    "run": "RunSpec",
    "files": List["InputFile"],
    "agent": str,
}, total=False)


class HypotheticalCall(_HypotheticalCallRequired, _HypotheticalCallOptional):
    """Fields of `HypotheticalCall`."""


CallState = Literal["proposed", "denied", "awaiting_approval", "rejected", "expired", "cancelled", "granted", "lapsed", "released", "running", "succeeded", "failed", "timed_out", "indeterminate"]

_ChangeNeedsRequired = TypedDict("_ChangeNeedsRequired", {
    "op": Literal["==", "!=", "<", "<=", ">", ">=", "has", "lacks", "like", "not like", "present", "absent", "empty", "not empty"],
})
_ChangeNeedsOptional = TypedDict("_ChangeNeedsOptional", {
    "value": Union[Union[str, float, bool], List[Union[str, float, bool]]],
}, total=False)


class ChangeNeeds(_ChangeNeedsRequired, _ChangeNeedsOptional):
    """Fields of `ChangeNeeds`."""


_ChangeRequired = TypedDict("_ChangeRequired", {
    "fact": str,
    "needs": ChangeNeeds,
    "by": Literal["agent", "human", "operator", "time"],
    "words": str,
})
_ChangeOptional = TypedDict("_ChangeOptional", {
    "is": Union[Union[str, float, bool], List[Union[str, float, bool]]],
}, total=False)


class Change(_ChangeRequired, _ChangeOptional):
    """Fields of `Change`."""


_ExplanationPoliciesItemRequired = TypedDict("_ExplanationPoliciesItemRequired", {
    "id": str,
    "effect": Literal["permit", "forbid"],
    "reason": Optional[str],
    "advice": Optional[str],
})
_ExplanationPoliciesItemOptional = TypedDict("_ExplanationPoliciesItemOptional", {
    "place": str,
    "text": str,
}, total=False)


class ExplanationPoliciesItem(_ExplanationPoliciesItemRequired, _ExplanationPoliciesItemOptional):
    """Fields of `ExplanationPoliciesItem`."""


_ExplanationPlansItemRequired = TypedDict("_ExplanationPlansItemRequired", {
    "tier": Literal["A", "B", "C", "M"],
    "egress": Literal["none", "preflight", "strict"],
    "policies": List[str],
})
_ExplanationPlansItemOptional = TypedDict("_ExplanationPlansItemOptional", {
    "asks": Literal[True],
}, total=False)


class ExplanationPlansItem(_ExplanationPlansItemRequired, _ExplanationPlansItemOptional):
    """Fields of `ExplanationPlansItem`."""


_ExplanationRequired = TypedDict("_ExplanationRequired", {
    "policies": List[ExplanationPoliciesItem],
    "plans": List[ExplanationPlansItem],
    "changes": List[List["Change"]],
    "fixed": List[str],
})
_ExplanationOptional = TypedDict("_ExplanationOptional", {
    "errors": List[str],
}, total=False)


class Explanation(_ExplanationRequired, _ExplanationOptional):
    """Fields of `Explanation`."""


_DecisionRequired = TypedDict("_DecisionRequired", {
    "effect": Literal["allow", "ask", "deny"],
    "code": Literal["allowed", "approval_required", "denied", "egress_denied", "workspace_scope_denied", "secret_in_run_folder", "budget_spent", "policy_error", "tool_changed"],
    "policies": List[str],
    "reason": str,
    "policy_set": str,
    "snapshot": str,
})
_DecisionOptional = TypedDict("_DecisionOptional", {
    "explanation": "Explanation",
}, total=False)


class Decision(_DecisionRequired, _DecisionOptional):
    """Fields of `Decision`."""


_OutputFilesLeftItemRequired = TypedDict("_OutputFilesLeftItemRequired", {
    "path": str,
    "why": Literal["name", "no_file", "too_much", "no_room", "not_sent", "secret"],
})
_OutputFilesLeftItemOptional = TypedDict("_OutputFilesLeftItemOptional", {
}, total=False)


class OutputFilesLeftItem(_OutputFilesLeftItemRequired, _OutputFilesLeftItemOptional):
    """Fields of `OutputFilesLeftItem`."""


_OutputFilesRequired = TypedDict("_OutputFilesRequired", {
    "files": List["InputFile"],
    "left": List[OutputFilesLeftItem],
    "more": int,
})
_OutputFilesOptional = TypedDict("_OutputFilesOptional", {
}, total=False)


class OutputFiles(_OutputFilesRequired, _OutputFilesOptional):
    """Fields of `OutputFiles`."""


_CallResultErrorRequired = TypedDict("_CallResultErrorRequired", {
    "code": str,
    "detail": str,
})
_CallResultErrorOptional = TypedDict("_CallResultErrorOptional", {
}, total=False)


class CallResultError(_CallResultErrorRequired, _CallResultErrorOptional):
    """Fields of `CallResultError`."""


_CallResultRequired = TypedDict("_CallResultRequired", {
    "ok": bool,
    "output": str,
    "encoding": Literal["utf-8", "base64"],
    "stderr": str,
    "exit_code": Optional[int],
    "truncated": bool,
})
_CallResultOptional = TypedDict("_CallResultOptional", {
    "files": "OutputFiles",
    "error": CallResultError,
}, total=False)


class CallResult(_CallResultRequired, _CallResultOptional):
    """Fields of `CallResult`."""


Plan = Union["ProcessPlan", "SkillPlan", "UpstreamPlan"]

_CallApprovalRequired = TypedDict("_CallApprovalRequired", {
    "id": str,
    "status": str,
    "expires_at": int,
    "page": str,
})
_CallApprovalOptional = TypedDict("_CallApprovalOptional", {
}, total=False)


class CallApproval(_CallApprovalRequired, _CallApprovalOptional):
    """Fields of `CallApproval`."""


_CallRunningRequired = TypedDict("_CallRunningRequired", {
    "worker": str,
    "since_ms": int,
    "cancel_requested": bool,
})
_CallRunningOptional = TypedDict("_CallRunningOptional", {
}, total=False)


class CallRunning(_CallRunningRequired, _CallRunningOptional):
    """Fields of `CallRunning`."""


_CallEditedRequired = TypedDict("_CallEditedRequired", {
    "arguments": Dict[str, Any],
    "from": str,
})
_CallEditedOptional = TypedDict("_CallEditedOptional", {
}, total=False)


class CallEdited(_CallEditedRequired, _CallEditedOptional):
    """Fields of `CallEdited`."""


_CallAttestationRequired = TypedDict("_CallAttestationRequired", {
    "id": str,
    "execution_sha256": str,
    "executor": str,
    "sandbox_enforcement": str,
})
_CallAttestationOptional = TypedDict("_CallAttestationOptional", {
    "cgroup": bool,
}, total=False)


class CallAttestation(_CallAttestationRequired, _CallAttestationOptional):
    """Fields of `CallAttestation`."""


_CallRemovedOutputsRequired = TypedDict("_CallRemovedOutputsRequired", {
    "at_ms": int,
    "rule": int,
    "days": int,
})
_CallRemovedOutputsOptional = TypedDict("_CallRemovedOutputsOptional", {
}, total=False)


class CallRemovedOutputs(_CallRemovedOutputsRequired, _CallRemovedOutputsOptional):
    """Fields of `CallRemovedOutputs`."""


_CallRemovedArgumentsRequired = TypedDict("_CallRemovedArgumentsRequired", {
    "at_ms": int,
    "rule": int,
    "days": int,
})
_CallRemovedArgumentsOptional = TypedDict("_CallRemovedArgumentsOptional", {
}, total=False)


class CallRemovedArguments(_CallRemovedArgumentsRequired, _CallRemovedArgumentsOptional):
    """Fields of `CallRemovedArguments`."""


_CallRemovedEvidenceEntryRequired = TypedDict("_CallRemovedEvidenceEntryRequired", {
    "seq": int,
    "hash": str,
})
_CallRemovedEvidenceEntryOptional = TypedDict("_CallRemovedEvidenceEntryOptional", {
}, total=False)


class CallRemovedEvidenceEntry(_CallRemovedEvidenceEntryRequired, _CallRemovedEvidenceEntryOptional):
    """Fields of `CallRemovedEvidenceEntry`."""


_CallRemovedEvidenceHeadRequired = TypedDict("_CallRemovedEvidenceHeadRequired", {
    "seq": int,
    "hash": str,
})
_CallRemovedEvidenceHeadOptional = TypedDict("_CallRemovedEvidenceHeadOptional", {
}, total=False)


class CallRemovedEvidenceHead(_CallRemovedEvidenceHeadRequired, _CallRemovedEvidenceHeadOptional):
    """Fields of `CallRemovedEvidenceHead`."""


_CallRemovedEvidenceRequired = TypedDict("_CallRemovedEvidenceRequired", {
    "at_ms": int,
    "rule": int,
    "days": int,
    "statement_sha256": str,
    "entry": CallRemovedEvidenceEntry,
    "head": CallRemovedEvidenceHead,
})
_CallRemovedEvidenceOptional = TypedDict("_CallRemovedEvidenceOptional", {
}, total=False)


class CallRemovedEvidence(_CallRemovedEvidenceRequired, _CallRemovedEvidenceOptional):
    """Fields of `CallRemovedEvidence`."""


_CallRemovedRequired = TypedDict("_CallRemovedRequired", {
})
_CallRemovedOptional = TypedDict("_CallRemovedOptional", {
    "outputs": CallRemovedOutputs,
    "arguments": CallRemovedArguments,
    "evidence": CallRemovedEvidence,
}, total=False)


class CallRemoved(_CallRemovedRequired, _CallRemovedOptional):
    """Fields of `CallRemoved`."""


_CallRequired = TypedDict("_CallRequired", {
    "id": str,
    "run": str,
    "tool": str,
    "state": "CallState",
    "digest": str,
    "decision": "Decision",
    "created_at_ms": int,
})
_CallOptional = TypedDict("_CallOptional", {
    "approval": CallApproval,
    "plan": "Plan",
    "running": CallRunning,
    "edited": CallEdited,
    "result": "CallResult",
    "attestation": CallAttestation,
    "origin": "CallOrigin",
    "ended_at_ms": int,
    "removed": CallRemoved,
}, total=False)


class Call(_CallRequired, _CallOptional):
    """Fields of `Call`."""


_DryRunRequired = TypedDict("_DryRunRequired", {
    "decision": "Decision",
    "digest": Optional[str],
    "plan": Optional["Plan"],
})
_DryRunOptional = TypedDict("_DryRunOptional", {
}, total=False)


class DryRun(_DryRunRequired, _DryRunOptional):
    """Fields of `DryRun`."""


_HeldFileRequired = TypedDict("_HeldFileRequired", {
    "sha256": str,
    "bytes": int,
    "named": bool,
    "until_ms": int,
})
_HeldFileOptional = TypedDict("_HeldFileOptional", {
}, total=False)


class HeldFile(_HeldFileRequired, _HeldFileOptional):
    """Fields of `HeldFile`."""


_ToolSummaryRequired = TypedDict("_ToolSummaryRequired", {
    "name": str,
    "version": int,
    "digest": str,
    "description": str,
    "input_schema": Dict[str, Any],
    "capabilities": List[Literal["process_exec", "network", "secrets_read", "filesystem_read", "filesystem_write", "artifacts_read"]],
    "sensitive": bool,
    "input_files": bool,
})
_ToolSummaryOptional = TypedDict("_ToolSummaryOptional", {
    "output_schema": Dict[str, Any],
}, total=False)


class ToolSummary(_ToolSummaryRequired, _ToolSummaryOptional):
    """Fields of `ToolSummary`."""


_EnvelopeSignaturesItemRequired = TypedDict("_EnvelopeSignaturesItemRequired", {
    "keyid": str,
    "sig": str,
})
_EnvelopeSignaturesItemOptional = TypedDict("_EnvelopeSignaturesItemOptional", {
}, total=False)


class EnvelopeSignaturesItem(_EnvelopeSignaturesItemRequired, _EnvelopeSignaturesItemOptional):
    """Fields of `EnvelopeSignaturesItem`."""


_EnvelopeRequired = TypedDict("_EnvelopeRequired", {
    "payloadType": str,
    "payload": str,
    "signatures": List[EnvelopeSignaturesItem],
})
_EnvelopeOptional = TypedDict("_EnvelopeOptional", {
}, total=False)


class Envelope(_EnvelopeRequired, _EnvelopeOptional):
    """Fields of `Envelope`."""


_BundleCallRequired = TypedDict("_BundleCallRequired", {
    "tenant": str,
    "run": str,
    "call": str,
    "tool": "ToolRef",
    "arguments": Any,
    "plan": Optional["Plan"],
})
_BundleCallOptional = TypedDict("_BundleCallOptional", {
}, total=False)


class BundleCall(_BundleCallRequired, _BundleCallOptional):
    """Fields of `BundleCall`."""


_BundleJournalItemRequired = TypedDict("_BundleJournalItemRequired", {
    "seq": int,
    "at_ms": int,
    "kind": str,
    "call": Optional[str],
    "body": Dict[str, Any],
    "prev": str,
    "hash": str,
})
_BundleJournalItemOptional = TypedDict("_BundleJournalItemOptional", {
}, total=False)


class BundleJournalItem(_BundleJournalItemRequired, _BundleJournalItemOptional):
    """Fields of `BundleJournalItem`."""


_BundleLogRequired = TypedDict("_BundleLogRequired", {
    "index": int,
    "proof": List[str],
    "checkpoint": str,
})
_BundleLogOptional = TypedDict("_BundleLogOptional", {
}, total=False)


class BundleLog(_BundleLogRequired, _BundleLogOptional):
    """Fields of `BundleLog`."""


_BundleRequired = TypedDict("_BundleRequired", {
    "format": Literal["countersign-bundle/v2"],
    "envelope": "Envelope",
    "grant": Optional["Envelope"],
    "call": BundleCall,
    "snapshot": "PolicySnapshot",
    "journal": List[BundleJournalItem],
    "log": BundleLog,
})
_BundleOptional = TypedDict("_BundleOptional", {
    "removed": "Envelope",
}, total=False)


class Bundle(_BundleRequired, _BundleOptional):
    """Fields of `Bundle`."""


_KeysKeysItemRequired = TypedDict("_KeysKeysItemRequired", {
    "kid": str,
    "kty": Literal["OKP"],
    "crv": Literal["Ed25519"],
    "x": str,
    "role": Literal["edge", "worker"],
    "from_ms": int,
    "until_ms": Optional[int],
    "status": Literal["active", "retired", "revoked", "distrusted"],
})
_KeysKeysItemOptional = TypedDict("_KeysKeysItemOptional", {
    "worker": str,
    "distrusted_from_ms": int,
}, total=False)


class KeysKeysItem(_KeysKeysItemRequired, _KeysKeysItemOptional):
    """Fields of `KeysKeysItem`."""


_KeysRequired = TypedDict("_KeysRequired", {
    "format": Literal["countersign-keys/v2"],
    "tenant": str,
    "keys": List[KeysKeysItem],
    "chain": List["Envelope"],
})
_KeysOptional = TypedDict("_KeysOptional", {
}, total=False)


class Keys(_KeysRequired, _KeysOptional):
    """Fields of `Keys`."""


_StatementSubjectItem0DigestRequired = TypedDict("_StatementSubjectItem0DigestRequired", {
    "sha256": str,
})
_StatementSubjectItem0DigestOptional = TypedDict("_StatementSubjectItem0DigestOptional", {
}, total=False)


class StatementSubjectItem0Digest(_StatementSubjectItem0DigestRequired, _StatementSubjectItem0DigestOptional):
    """Fields of `StatementSubjectItem0Digest`."""


_StatementSubjectItem0Required = TypedDict("_StatementSubjectItem0Required", {
    "name": str,
    "digest": StatementSubjectItem0Digest,
})
_StatementSubjectItem0Optional = TypedDict("_StatementSubjectItem0Optional", {
}, total=False)


class StatementSubjectItem0(_StatementSubjectItem0Required, _StatementSubjectItem0Optional):
    """Fields of `StatementSubjectItem0`."""


_StatementPredicateFactsEgressRequired = TypedDict("_StatementPredicateFactsEgressRequired", {
    "mode": Literal["none", "preflight", "strict"],
    "hosts": List[str],
})
_StatementPredicateFactsEgressOptional = TypedDict("_StatementPredicateFactsEgressOptional", {
}, total=False)


class StatementPredicateFactsEgress(_StatementPredicateFactsEgressRequired, _StatementPredicateFactsEgressOptional):
    """Fields of `StatementPredicateFactsEgress`."""


_StatementPredicateFactsDecisionRequired = TypedDict("_StatementPredicateFactsDecisionRequired", {
    "effect": Literal["allow", "ask", "deny"],
    "policies": List[str],
    "policy_set": str,
    "snapshot": str,
})
_StatementPredicateFactsDecisionOptional = TypedDict("_StatementPredicateFactsDecisionOptional", {
}, total=False)


class StatementPredicateFactsDecision(_StatementPredicateFactsDecisionRequired, _StatementPredicateFactsDecisionOptional):
    """Fields of `StatementPredicateFactsDecision`."""


_StatementPredicateFactsApprovalAnswersItemRequired = TypedDict("_StatementPredicateFactsApprovalAnswersItemRequired", {
    "by": str,
    "decision": Literal["approve", "deny"],
    "channel": str,
    "at_ms": int,
})
_StatementPredicateFactsApprovalAnswersItemOptional = TypedDict("_StatementPredicateFactsApprovalAnswersItemOptional", {
    "standing": str,
}, total=False)


class StatementPredicateFactsApprovalAnswersItem(_StatementPredicateFactsApprovalAnswersItemRequired, _StatementPredicateFactsApprovalAnswersItemOptional):
    """Fields of `StatementPredicateFactsApprovalAnswersItem`."""


_StatementPredicateFactsApprovalRequired = TypedDict("_StatementPredicateFactsApprovalRequired", {
    "id": str,
    "scope": Literal["once", "session", "timeboxed"],
    "answers": List[StatementPredicateFactsApprovalAnswersItem],
})
_StatementPredicateFactsApprovalOptional = TypedDict("_StatementPredicateFactsApprovalOptional", {
}, total=False)


class StatementPredicateFactsApproval(_StatementPredicateFactsApprovalRequired, _StatementPredicateFactsApprovalOptional):
    """Fields of `StatementPredicateFactsApproval`."""


_StatementPredicateFactsRequired = TypedDict("_StatementPredicateFactsRequired", {
    "tenant": str,
    "run": str,
    "call": str,
    "agent": str,
    "session": str,
    "tool": "ToolRef",
    "digest": str,
    "args_sha256": str,
    "plan_sha256": Optional[str],
    "limits": Optional[Union["Limits", "SkillLimits", "UpstreamLimits"]],
    "egress": Optional[StatementPredicateFactsEgress],
    "decision": StatementPredicateFactsDecision,
    "approval": Optional[StatementPredicateFactsApproval],
})
_StatementPredicateFactsOptional = TypedDict("_StatementPredicateFactsOptional", {
    "origin": "CallOrigin",
}, total=False)


class StatementPredicateFacts(_StatementPredicateFactsRequired, _StatementPredicateFactsOptional):
    """Fields of `StatementPredicateFacts`."""


_StatementPredicateGrantRequired = TypedDict("_StatementPredicateGrantRequired", {
    "sha256": str,
    "worker": Union[str, Literal["edge"]],
    "fence": int,
    "deadline_ms": int,
})
_StatementPredicateGrantOptional = TypedDict("_StatementPredicateGrantOptional", {
}, total=False)


class StatementPredicateGrant(_StatementPredicateGrantRequired, _StatementPredicateGrantOptional):
    """Fields of `StatementPredicateGrant`."""


_StatementPredicateExecutionOutcome1Required = TypedDict("_StatementPredicateExecutionOutcome1Required", {
    "kind": Literal["exit"],
    "code": int,
})
_StatementPredicateExecutionOutcome1Optional = TypedDict("_StatementPredicateExecutionOutcome1Optional", {
}, total=False)


class StatementPredicateExecutionOutcome1(_StatementPredicateExecutionOutcome1Required, _StatementPredicateExecutionOutcome1Optional):
    """Fields of `StatementPredicateExecutionOutcome1`."""


_StatementPredicateExecutionOutcome2Required = TypedDict("_StatementPredicateExecutionOutcome2Required", {
    "kind": Literal["signal"],
    "signal": str,
})
_StatementPredicateExecutionOutcome2Optional = TypedDict("_StatementPredicateExecutionOutcome2Optional", {
}, total=False)


class StatementPredicateExecutionOutcome2(_StatementPredicateExecutionOutcome2Required, _StatementPredicateExecutionOutcome2Optional):
    """Fields of `StatementPredicateExecutionOutcome2`."""


_StatementPredicateExecutionOutcome3Required = TypedDict("_StatementPredicateExecutionOutcome3Required", {
    "kind": Literal["timeout"],
})
_StatementPredicateExecutionOutcome3Optional = TypedDict("_StatementPredicateExecutionOutcome3Optional", {
}, total=False)


class StatementPredicateExecutionOutcome3(_StatementPredicateExecutionOutcome3Required, _StatementPredicateExecutionOutcome3Optional):
    """Fields of `StatementPredicateExecutionOutcome3`."""


_StatementPredicateExecutionOutcome4Required = TypedDict("_StatementPredicateExecutionOutcome4Required", {
    "kind": Literal["output_cap"],
})
_StatementPredicateExecutionOutcome4Optional = TypedDict("_StatementPredicateExecutionOutcome4Optional", {
}, total=False)


class StatementPredicateExecutionOutcome4(_StatementPredicateExecutionOutcome4Required, _StatementPredicateExecutionOutcome4Optional):
    """Fields of `StatementPredicateExecutionOutcome4`."""


_StatementPredicateExecutionOutcome5Required = TypedDict("_StatementPredicateExecutionOutcome5Required", {
    "kind": Literal["memory_cap"],
})
_StatementPredicateExecutionOutcome5Optional = TypedDict("_StatementPredicateExecutionOutcome5Optional", {
}, total=False)


class StatementPredicateExecutionOutcome5(_StatementPredicateExecutionOutcome5Required, _StatementPredicateExecutionOutcome5Optional):
    """Fields of `StatementPredicateExecutionOutcome5`."""


_StatementPredicateExecutionOutcome6Required = TypedDict("_StatementPredicateExecutionOutcome6Required", {
    "kind": Literal["cpu_cap"],
})
_StatementPredicateExecutionOutcome6Optional = TypedDict("_StatementPredicateExecutionOutcome6Optional", {
}, total=False)


class StatementPredicateExecutionOutcome6(_StatementPredicateExecutionOutcome6Required, _StatementPredicateExecutionOutcome6Optional):
    """Fields of `StatementPredicateExecutionOutcome6`."""


_StatementPredicateExecutionOutcome7Required = TypedDict("_StatementPredicateExecutionOutcome7Required", {
    "kind": Literal["workspace_cap"],
})
_StatementPredicateExecutionOutcome7Optional = TypedDict("_StatementPredicateExecutionOutcome7Optional", {
}, total=False)


class StatementPredicateExecutionOutcome7(_StatementPredicateExecutionOutcome7Required, _StatementPredicateExecutionOutcome7Optional):
    """Fields of `StatementPredicateExecutionOutcome7`."""


_StatementPredicateExecutionOutcome8Required = TypedDict("_StatementPredicateExecutionOutcome8Required", {
    "kind": Literal["invalid_output"],
    "detail": str,
})
_StatementPredicateExecutionOutcome8Optional = TypedDict("_StatementPredicateExecutionOutcome8Optional", {
}, total=False)


class StatementPredicateExecutionOutcome8(_StatementPredicateExecutionOutcome8Required, _StatementPredicateExecutionOutcome8Optional):
    """Fields of `StatementPredicateExecutionOutcome8`."""


_StatementPredicateExecutionOutcome9Required = TypedDict("_StatementPredicateExecutionOutcome9Required", {
    "kind": Literal["cancelled"],
})
_StatementPredicateExecutionOutcome9Optional = TypedDict("_StatementPredicateExecutionOutcome9Optional", {
}, total=False)


class StatementPredicateExecutionOutcome9(_StatementPredicateExecutionOutcome9Required, _StatementPredicateExecutionOutcome9Optional):
    """Fields of `StatementPredicateExecutionOutcome9`."""


_StatementPredicateExecutionOutcome10Required = TypedDict("_StatementPredicateExecutionOutcome10Required", {
    "kind": Literal["returned"],
})
_StatementPredicateExecutionOutcome10Optional = TypedDict("_StatementPredicateExecutionOutcome10Optional", {
}, total=False)


class StatementPredicateExecutionOutcome10(_StatementPredicateExecutionOutcome10Required, _StatementPredicateExecutionOutcome10Optional):
    """Fields of `StatementPredicateExecutionOutcome10`."""


_StatementPredicateExecutionOutcome11Required = TypedDict("_StatementPredicateExecutionOutcome11Required", {
    "kind": Literal["skill_error"],
    "detail": str,
})
_StatementPredicateExecutionOutcome11Optional = TypedDict("_StatementPredicateExecutionOutcome11Optional", {
}, total=False)


class StatementPredicateExecutionOutcome11(_StatementPredicateExecutionOutcome11Required, _StatementPredicateExecutionOutcome11Optional):
    """Fields of `StatementPredicateExecutionOutcome11`."""


_StatementPredicateExecutionOutcome12Required = TypedDict("_StatementPredicateExecutionOutcome12Required", {
    "kind": Literal["trap"],
    "detail": str,
})
_StatementPredicateExecutionOutcome12Optional = TypedDict("_StatementPredicateExecutionOutcome12Optional", {
}, total=False)


class StatementPredicateExecutionOutcome12(_StatementPredicateExecutionOutcome12Required, _StatementPredicateExecutionOutcome12Optional):
    """Fields of `StatementPredicateExecutionOutcome12`."""


_StatementPredicateExecutionOutcome13Required = TypedDict("_StatementPredicateExecutionOutcome13Required", {
    "kind": Literal["fuel_exhausted"],
})
_StatementPredicateExecutionOutcome13Optional = TypedDict("_StatementPredicateExecutionOutcome13Optional", {
}, total=False)


class StatementPredicateExecutionOutcome13(_StatementPredicateExecutionOutcome13Required, _StatementPredicateExecutionOutcome13Optional):
    """Fields of `StatementPredicateExecutionOutcome13`."""


_StatementPredicateExecutionOutcome14Required = TypedDict("_StatementPredicateExecutionOutcome14Required", {
    "kind": Literal["capability_denied"],
    "detail": str,
})
_StatementPredicateExecutionOutcome14Optional = TypedDict("_StatementPredicateExecutionOutcome14Optional", {
}, total=False)


class StatementPredicateExecutionOutcome14(_StatementPredicateExecutionOutcome14Required, _StatementPredicateExecutionOutcome14Optional):
    """Fields of `StatementPredicateExecutionOutcome14`."""


_StatementPredicateExecutionOutcome15Required = TypedDict("_StatementPredicateExecutionOutcome15Required", {
    "kind": Literal["upstream_error"],
    "detail": str,
})
_StatementPredicateExecutionOutcome15Optional = TypedDict("_StatementPredicateExecutionOutcome15Optional", {
}, total=False)


class StatementPredicateExecutionOutcome15(_StatementPredicateExecutionOutcome15Required, _StatementPredicateExecutionOutcome15Optional):
    """Fields of `StatementPredicateExecutionOutcome15`."""


_StatementPredicateExecutionOutcome16Required = TypedDict("_StatementPredicateExecutionOutcome16Required", {
    "kind": Literal["upstream_wants_input"],
    "detail": str,
})
_StatementPredicateExecutionOutcome16Optional = TypedDict("_StatementPredicateExecutionOutcome16Optional", {
}, total=False)


class StatementPredicateExecutionOutcome16(_StatementPredicateExecutionOutcome16Required, _StatementPredicateExecutionOutcome16Optional):
    """Fields of `StatementPredicateExecutionOutcome16`."""


_StatementPredicateExecutionOutcome17Required = TypedDict("_StatementPredicateExecutionOutcome17Required", {
    "kind": Literal["no_answer"],
    "detail": str,
})
_StatementPredicateExecutionOutcome17Optional = TypedDict("_StatementPredicateExecutionOutcome17Optional", {
}, total=False)


class StatementPredicateExecutionOutcome17(_StatementPredicateExecutionOutcome17Required, _StatementPredicateExecutionOutcome17Optional):
    """Fields of `StatementPredicateExecutionOutcome17`."""


_StatementPredicateExecutionOutcome18Required = TypedDict("_StatementPredicateExecutionOutcome18Required", {
    "kind": Literal["refused"],
    "code": Literal["disabled", "unsupported_platform", "invalid_input", "workspace_scope_denied", "egress_denied", "sandbox_unavailable", "grant_invalid", "workspace_lost", "quota_exceeded", "skill_disabled", "tool_changed", "upstream_unavailable"],
    "detail": str,
})
_StatementPredicateExecutionOutcome18Optional = TypedDict("_StatementPredicateExecutionOutcome18Optional", {
}, total=False)


class StatementPredicateExecutionOutcome18(_StatementPredicateExecutionOutcome18Required, _StatementPredicateExecutionOutcome18Optional):
    """Fields of `StatementPredicateExecutionOutcome18`."""


_StatementPredicateExecutionOutcome19Required = TypedDict("_StatementPredicateExecutionOutcome19Required", {
    "kind": Literal["infra"],
    "detail": str,
})
_StatementPredicateExecutionOutcome19Optional = TypedDict("_StatementPredicateExecutionOutcome19Optional", {
}, total=False)


class StatementPredicateExecutionOutcome19(_StatementPredicateExecutionOutcome19Required, _StatementPredicateExecutionOutcome19Optional):
    """Fields of `StatementPredicateExecutionOutcome19`."""


_StatementPredicateExecutionStdoutRequired = TypedDict("_StatementPredicateExecutionStdoutRequired", {
    "bytes": int,
    "sha256": str,
    "kept": int,
    "truncated": bool,
})
_StatementPredicateExecutionStdoutOptional = TypedDict("_StatementPredicateExecutionStdoutOptional", {
}, total=False)


class StatementPredicateExecutionStdout(_StatementPredicateExecutionStdoutRequired, _StatementPredicateExecutionStdoutOptional):
    """Fields of `StatementPredicateExecutionStdout`."""


_StatementPredicateExecutionStderrRequired = TypedDict("_StatementPredicateExecutionStderrRequired", {
    "bytes": int,
    "sha256": str,
    "kept": int,
    "truncated": bool,
})
_StatementPredicateExecutionStderrOptional = TypedDict("_StatementPredicateExecutionStderrOptional", {
}, total=False)


class StatementPredicateExecutionStderr(_StatementPredicateExecutionStderrRequired, _StatementPredicateExecutionStderrOptional):
    """Fields of `StatementPredicateExecutionStderr`."""


_StatementPredicateExecutionConnectionsItemRequired = TypedDict("_StatementPredicateExecutionConnectionsItemRequired", {
    "host": str,
    "port": int,
    "address": str,
    "bytes_out": int,
    "bytes_in": int,
    "verdict": Literal["allowed", "host_not_listed", "address_refused", "unresolvable", "malformed", "unknown_client", "sni_mismatch", "cap", "failed"],
})
_StatementPredicateExecutionConnectionsItemOptional = TypedDict("_StatementPredicateExecutionConnectionsItemOptional", {
    "folded": int,
    "credentials": List[str],
}, total=False)


class StatementPredicateExecutionConnectionsItem(_StatementPredicateExecutionConnectionsItemRequired, _StatementPredicateExecutionConnectionsItemOptional):
    """Fields of `StatementPredicateExecutionConnectionsItem`."""


_StatementPredicateExecutionSkillModulesItemRequired = TypedDict("_StatementPredicateExecutionSkillModulesItemRequired", {
    "name": str,
    "sha256": str,
})
_StatementPredicateExecutionSkillModulesItemOptional = TypedDict("_StatementPredicateExecutionSkillModulesItemOptional", {
}, total=False)


class StatementPredicateExecutionSkillModulesItem(_StatementPredicateExecutionSkillModulesItemRequired, _StatementPredicateExecutionSkillModulesItemOptional):
    """Fields of `StatementPredicateExecutionSkillModulesItem`."""


_StatementPredicateExecutionSkillRequired = TypedDict("_StatementPredicateExecutionSkillRequired", {
    "digest": str,
    "component_sha256": str,
    "modules": List[StatementPredicateExecutionSkillModulesItem],
    "fuel_used": int,
    "memory_bytes": int,
    "host_calls": Dict[str, int],
})
_StatementPredicateExecutionSkillOptional = TypedDict("_StatementPredicateExecutionSkillOptional", {
}, total=False)


class StatementPredicateExecutionSkill(_StatementPredicateExecutionSkillRequired, _StatementPredicateExecutionSkillOptional):
    """Fields of `StatementPredicateExecutionSkill`."""


_StatementPredicateExecutionUpstreamRequired = TypedDict("_StatementPredicateExecutionUpstreamRequired", {
    "name": str,
    "origin": str,
    "era": Optional[Literal["modern", "legacy"]],
    "definition_sha256": str,
    "request_sha256": Optional[str],
    "response_sha256": Optional[str],
})
_StatementPredicateExecutionUpstreamOptional = TypedDict("_StatementPredicateExecutionUpstreamOptional", {
}, total=False)


class StatementPredicateExecutionUpstream(_StatementPredicateExecutionUpstreamRequired, _StatementPredicateExecutionUpstreamOptional):
    """Fields of `StatementPredicateExecutionUpstream`."""


_StatementPredicateExecutionRequired = TypedDict("_StatementPredicateExecutionRequired", {
    "outcome": Optional[Union[StatementPredicateExecutionOutcome1, StatementPredicateExecutionOutcome2, StatementPredicateExecutionOutcome3, StatementPredicateExecutionOutcome4, StatementPredicateExecutionOutcome5, StatementPredicateExecutionOutcome6, StatementPredicateExecutionOutcome7, StatementPredicateExecutionOutcome8, StatementPredicateExecutionOutcome9, StatementPredicateExecutionOutcome10, StatementPredicateExecutionOutcome11, StatementPredicateExecutionOutcome12, StatementPredicateExecutionOutcome13, StatementPredicateExecutionOutcome14, StatementPredicateExecutionOutcome15, StatementPredicateExecutionOutcome16, StatementPredicateExecutionOutcome17, StatementPredicateExecutionOutcome18, StatementPredicateExecutionOutcome19]],
    "stdout": Optional[StatementPredicateExecutionStdout],
    "stderr": Optional[StatementPredicateExecutionStderr],
    "connections": List[StatementPredicateExecutionConnectionsItem],
    "executor": str,
    "sandbox_enforcement": str,
    "profile_sha256": Optional[str],
    "argv_sha256": Optional[str],
    "started_at_ms": Optional[int],
    "ended_at_ms": int,
})
_StatementPredicateExecutionOptional = TypedDict("_StatementPredicateExecutionOptional", {
    "cgroup": bool,
    "limits": Union["Limits", "SkillLimits", "UpstreamLimits"],
    "skill": StatementPredicateExecutionSkill,
    "upstream": StatementPredicateExecutionUpstream,
    "files": "OutputFiles",
}, total=False)


class StatementPredicateExecution(_StatementPredicateExecutionRequired, _StatementPredicateExecutionOptional):
    """Fields of `StatementPredicateExecution`."""


_StatementPredicateRequired = TypedDict("_StatementPredicateRequired", {
    "attestation_id": str,
    "state": "CallState",
    "error": Optional[str],
    "timed_out": bool,
    "facts": StatementPredicateFacts,
    "grant": Optional[StatementPredicateGrant],
    "execution": StatementPredicateExecution,
    "execution_sha256": str,
})
_StatementPredicateOptional = TypedDict("_StatementPredicateOptional", {
}, total=False)


class StatementPredicate(_StatementPredicateRequired, _StatementPredicateOptional):
    """Fields of `StatementPredicate`."""


_StatementRequired = TypedDict("_StatementRequired", {
    "_type": Literal["https://in-toto.io/Statement/v1"],
    "subject": Tuple[StatementSubjectItem0],
    "predicateType": Literal["https://countersign.dev/attestation/v1"],
    "predicate": StatementPredicate,
})
_StatementOptional = TypedDict("_StatementOptional", {
}, total=False)


class Statement(_StatementRequired, _StatementOptional):
    """Fields of `Statement`."""


_JournalEntryShadowRequired = TypedDict("_JournalEntryShadowRequired", {
    "version": int,
    "since_ms": int,
    "from": Literal["allow", "ask", "deny"],
    "to": Literal["allow", "ask", "deny"],
    "code": str,
    "policies": List[str],
    "salt": str,
})
_JournalEntryShadowOptional = TypedDict("_JournalEntryShadowOptional", {
}, total=False)


class JournalEntryShadow(_JournalEntryShadowRequired, _JournalEntryShadowOptional):
    """Fields of `JournalEntryShadow`."""


_JournalEntryRequired = TypedDict("_JournalEntryRequired", {
    "seq": int,
    "at_ms": int,
    "kind": str,
    "call": Optional[str],
    "body": Dict[str, Any],
    "prev": str,
    "hash": str,
})
_JournalEntryOptional = TypedDict("_JournalEntryOptional", {
    "shadow": JournalEntryShadow,
}, total=False)


class JournalEntry(_JournalEntryRequired, _JournalEntryOptional):
    """Fields of `JournalEntry`."""


_PolicySnapshotProcessRunnerRequired = TypedDict("_PolicySnapshotProcessRunnerRequired", {
    "tiers": List[Literal["B", "C"]],
    "workspace": Literal["call", "run"],
    "allowed_executables": Optional[List[str]],
    "egress_mode": Literal["none", "preflight", "strict"],
    "allowed_hosts": List[str],
    "secrets": List[str],
    "limits": "Limits",
})
_PolicySnapshotProcessRunnerOptional = TypedDict("_PolicySnapshotProcessRunnerOptional", {
}, total=False)


class PolicySnapshotProcessRunner(_PolicySnapshotProcessRunnerRequired, _PolicySnapshotProcessRunnerOptional):
    """Fields of `PolicySnapshotProcessRunner`."""


_PolicySnapshotWasmRuntimeRequired = TypedDict("_PolicySnapshotWasmRuntimeRequired", {
    "fuel": int,
    "memory_bytes": int,
    "table_elements": int,
    "instances": int,
    "allowed_hosts": List[str],
    "allowed_secrets": List[str],
    "allowed_prefixes": List[str],
})
_PolicySnapshotWasmRuntimeOptional = TypedDict("_PolicySnapshotWasmRuntimeOptional", {
}, total=False)


class PolicySnapshotWasmRuntime(_PolicySnapshotWasmRuntimeRequired, _PolicySnapshotWasmRuntimeOptional):
    """Fields of `PolicySnapshotWasmRuntime`."""


_PolicySnapshotRequired = TypedDict("_PolicySnapshotRequired", {
    "format": Literal["countersign-snapshot/v1"],
    "policy_set": str,
    "allowed_tools": List[str],
    "groups": List[str],
    "channels": Optional[List[str]],
    "budget": "Budget",
    "tool": "ToolRef",
    "process_runner": Optional[PolicySnapshotProcessRunner],
    "wasm_runtime": Optional[PolicySnapshotWasmRuntime],
})
_PolicySnapshotOptional = TypedDict("_PolicySnapshotOptional", {
}, total=False)


class PolicySnapshot(_PolicySnapshotRequired, _PolicySnapshotOptional):
    """Fields of `PolicySnapshot`."""


_LiveStateRequired = TypedDict("_LiveStateRequired", {
    "state": "CallState",
    "attempt": int,
    "cancel_requested": bool,
})
_LiveStateOptional = TypedDict("_LiveStateOptional", {
}, total=False)


class LiveState(_LiveStateRequired, _LiveStateOptional):
    """Fields of `LiveState`."""


_LiveOutputRequired = TypedDict("_LiveOutputRequired", {
    "offset": int,
    "encoding": Literal["utf-8", "base64"],
    "data": str,
})
_LiveOutputOptional = TypedDict("_LiveOutputOptional", {
}, total=False)


class LiveOutput(_LiveOutputRequired, _LiveOutputOptional):
    """Fields of `LiveOutput`."""


_LiveEndErrorRequired = TypedDict("_LiveEndErrorRequired", {
    "code": str,
    "detail": str,
})
_LiveEndErrorOptional = TypedDict("_LiveEndErrorOptional", {
}, total=False)


class LiveEndError(_LiveEndErrorRequired, _LiveEndErrorOptional):
    """Fields of `LiveEndError`."""


_LiveEndRequired = TypedDict("_LiveEndRequired", {
    "ok": bool,
    "exit_code": Optional[int],
    "truncated": bool,
    "state": "CallState",
})
_LiveEndOptional = TypedDict("_LiveEndOptional", {
    "files": "OutputFiles",
    "error": LiveEndError,
}, total=False)


class LiveEnd(_LiveEndRequired, _LiveEndOptional):
    """Fields of `LiveEnd`."""

