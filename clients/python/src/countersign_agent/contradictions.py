"""Compares a statement with the grant and the plan that it names, as the edge does before it signs.

These are the rules of shared/evidence/contradictions.ts, in the same order and the same files. A test
changes statements in thousands of ways and compares the findings of both. A table has a rule for each
field of a statement, and a statement with another field is refused.
"""

from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple
from urllib.parse import urlsplit

from .canonical import canonical, digest_of
from .checks import EDGE, ISOLATE, NOTHING, UNSTARTED, UPSTREAM, Finding, Known
from .checks import below, is_edge_plan, is_process_plan, mcp_of, whole
from .connection_rules import connections_of
from .usage_rules import numbers, streams, used

SANDBOXES = {"B": "sandbox_tier_b_linux_rlimits", "C": "sandbox_tier_c_linux_bubblewrap"}
CLOCK_SLACK_MS = 5_000
#: The time that a worker has to set a call up, and to end and collect it after its time.
SETTLE_GRACE_MS = 10_000
#: Outcomes that leave open whether anything was started.
MAYBE_UNBEGUN = ("refused", "infra", "cancelled")
#: States that a call reaches without an executor.
UNRUN = ("denied", "rejected", "expired", "cancelled", "lapsed", "released")
ENDS_OF_SKILLS = ("returned", "skill_error", "trap", "fuel_exhausted", "capability_denied")
ENDS_OF_UPSTREAMS = ("returned", "upstream_error", "upstream_wants_input", "no_answer")
ENDS_OF_PROCESSES = ("exit", "signal", "memory_cap", "cpu_cap", "workspace_cap")
ENDS = {"A": ENDS_OF_SKILLS, "B": ENDS_OF_PROCESSES, "C": ENDS_OF_PROCESSES, "M": ENDS_OF_UPSTREAMS}
ENDS_OF_SOME = {kind for kinds in ENDS.values() for kind in kinds}
#: State and error of the outcomes that have one pair; ``_ending_of`` has the others.
ENDINGS: Mapping[str, Tuple[str, Optional[str]]] = {
    "timeout": ("timed_out", "timed_out"),
    "output_cap": ("failed", "quota_exceeded"),
    "memory_cap": ("failed", "quota_exceeded"),
    "cpu_cap": ("failed", "quota_exceeded"),
    "workspace_cap": ("failed", "quota_exceeded"),
    "returned": ("succeeded", None),
    "trap": ("failed", "runtime_failure"),
    "fuel_exhausted": ("failed", "quota_exceeded"),
    "skill_error": ("failed", "skill_error"),
    "capability_denied": ("failed", "capability_denied"),
    "invalid_output": ("failed", "invalid_output"),
    "upstream_error": ("failed", "upstream_error"),
    "upstream_wants_input": ("failed", "upstream_wants_input"),
    "no_answer": ("indeterminate", "no_answer"),
    "cancelled": ("cancelled", "cancelled"),
    "infra": ("failed", "sandbox_failed"),
}


def contradictions(statement: Any, grant: Any, plan: Any, now_ms: Optional[int] = None) -> List[Finding]:
    """``now_ms``: when the edge journalled the end."""
    return list(_compared(statement, grant, plan, now_ms))


def _compared(statement: Any, grant: Any, plan: Any, now_ms: Optional[int]) -> Iterator[Finding]:
    predicate = statement["predicate"]
    facts, execution = predicate["facts"], predicate["execution"]
    subject = statement["subject"][0]
    if subject["name"] != facts["call"]:
        yield "/subject/0/name", "subject"
    if subject["digest"]["sha256"] != facts["digest"]:
        yield "/subject/0/digest/sha256", "subject"
    for finding in _predicate(predicate, grant, plan):
        yield below("/predicate", finding)
    _only(execution, EXECUTION)
    if any(name in execution and execution[name] is None for name in OPTIONAL):
        raise ValueError("an optional member is null")
    outcome, argv = execution["outcome"], execution["argv_sha256"]
    executor = execution["executor"]
    who = executor if executor in (EDGE, ISOLATE, UPSTREAM, UNSTARTED) else "sandbox"
    ran = who in (ISOLATE, UPSTREAM) or (who == "sandbox" and argv is not None and argv != NOTHING)
    unended = outcome is not None and outcome["kind"] in MAYBE_UNBEGUN
    known = Known(grant, plan, who, ran, unended, now_ms)
    for rule in dict.fromkeys(EXECUTION.values()):
        for finding in rule(execution, known):
            yield below("/predicate/execution", finding)


def _only(value: Mapping[str, Any], names: Any) -> None:
    unknown = set(value) - set(names)
    if unknown:
        raise ValueError(f"unknown members: {', '.join(sorted(unknown))}")


PREDICATE = (
    "attestation_id",
    "state",
    "error",
    "timed_out",
    "facts",
    "grant",
    "execution",
    "execution_sha256",
)


def _predicate(predicate: Any, grant: Any, plan: Any) -> Iterator[Finding]:
    _only(predicate, PREDICATE)
    facts, execution, state = predicate["facts"], predicate["execution"], predicate["state"]
    outcome, named, n = execution["outcome"], predicate["grant"], facts["call"].split("_")[2]
    if predicate["attestation_id"] != f"att_{facts['run'][4:]}_{n}":
        yield "/attestation_id", "id"
    # Countersign itself executes a call with a plan, so it never releases one to the agent.
    if state == "released" and plan is not None:
        yield "/state", "ending"
    if outcome is not None:
        fits = _ending_of(outcome)[0] == state
    else:
        fits = grant is None if state in UNRUN else state == "indeterminate"
    if not fits:
        yield "/state", "ending"
    if outcome is not None and _ending_of(outcome)[1] != predicate["error"]:
        yield "/error", "ending"
    if predicate["timed_out"] is not (state == "timed_out"):
        yield "/timed_out", "ending"
    yield from _facts(facts, grant, n)
    if (named is None) != (grant is None):
        yield "/grant", "grant"
    if named is not None and grant is not None:
        yield from _grant(named, grant, plan)
    if predicate["execution_sha256"] != digest_of({"digest": facts["digest"], "execution": execution}):
        yield "/execution_sha256", "digest"


def _facts(facts: Any, grant: Any, n: str) -> Iterator[Finding]:
    run, approval = facts["run"], facts["approval"]
    if grant is not None:
        yield from _differing(facts, grant["facts"], "/facts")
    if facts["call"] != f"call_{run[4:]}_{n}":
        yield "/facts/call", "facts"
    if approval is not None and approval["id"] != f"apr_{run[4:]}_{n}":
        yield "/facts/approval/id", "facts"


def _grant(named: Any, grant: Any, plan: Any) -> Iterator[Finding]:
    if named["sha256"] != digest_of(grant):
        yield "/grant/sha256", "grant"
    for name in ("worker", "fence", "deadline_ms"):
        if named[name] != grant[name]:
            yield f"/grant/{name}", "grant"
    if (named["worker"] == EDGE) != is_edge_plan(plan):
        yield "/grant/worker", "tier"


def _differing(one: Any, other: Any, at: str) -> Iterator[Finding]:
    """The innermost fields in which two values of the same shape differ."""
    if canonical(one) == canonical(other):
        return
    a, b = _members_of(one), _members_of(other)
    if a is None or b is None:
        yield at, "facts"
        return
    for key in dict.fromkeys([*a, *b]):
        if key not in a or key not in b:
            yield f"{at}/{key}", "facts"
        else:
            yield from _differing(a[key], b[key], f"{at}/{key}")


def _members_of(value: Any) -> Optional[Dict[str, Any]]:
    if isinstance(value, list):
        return {str(i): item for i, item in enumerate(value)}
    return value if isinstance(value, dict) else None


def _ending_of(outcome: Mapping[str, Any]) -> Tuple[str, Optional[str]]:
    kind = outcome["kind"]
    if kind == "exit":
        code = whole(outcome["code"])
        if code == 0:
            return "succeeded", None
        return "failed", "spawn_failed" if code in (126, 127) else "runtime_failure"
    if kind == "signal":
        quota = outcome["signal"] in ("SIGXCPU", "SIGXFSZ")
        return "failed", "quota_exceeded" if quota else "runtime_failure"
    if kind == "refused":
        return "failed", outcome["code"]
    return ENDINGS[kind]


# The rules of the execution's fields.


def _outcome(execution: Any, known: Known) -> Iterator[Finding]:
    outcome, plan = execution["outcome"], known.plan
    yield from numbers(execution, known)
    if (outcome is None) != (known.who == EDGE):  # only an executor sees an outcome
        yield "/outcome", "ending"
    if outcome is None:
        return
    kind = outcome["kind"]
    # A worker calls an MCP server in tier C as the edge calls a remote one.
    ends = ENDS["C" if plan is None else plan["tier"]] if mcp_of(plan) is None else ENDS_OF_UPSTREAMS
    if kind in ENDS_OF_SOME and kind not in ends:
        yield "/outcome", "tier"
    # A skill returns JSON, also if its tool declares no schema.
    declared = plan is not None and (plan["tier"] == "A" or "output" in plan["executor"])
    if kind == "invalid_output" and not declared:
        yield "/outcome", "output"
    if not known.ran and not known.unended:
        yield "/outcome", "started"


def _executor(execution: Any, known: Known) -> Iterator[Finding]:
    plan, executor = known.plan, execution["executor"]
    tier = None if plan is None else plan["tier"]
    expected = {
        EDGE: True,
        ISOLATE: tier == "A",
        UPSTREAM: tier == "M",
        UNSTARTED: is_process_plan(plan) and known.unended,
        "sandbox": is_process_plan(plan),
    }[known.who]
    named = known.who != "sandbox" or not is_process_plan(plan) or executor == SANDBOXES.get(str(tier))
    if not expected or not named:
        yield "/executor", "tier"
    mode = None if plan is None else plan["egress"]["mode"]
    enforcement = {EDGE: "policy", ISOLATE: "isolate", UPSTREAM: "remote", UNSTARTED: "none", "sandbox": mode}
    if execution["sandbox_enforcement"] != enforcement[known.who]:
        yield "/sandbox_enforcement", "tier"


def _cgroup(execution: Any, known: Known) -> Iterator[Finding]:
    cgroup, proven = execution.get("cgroup"), (known.grant or {}).get("proven") or {}
    if cgroup is not None and not (known.ran and known.who == "sandbox"):
        yield "/cgroup", "started"
    if cgroup is True and proven.get("cgroups") is False:
        yield "/cgroup", "counted"
    required = is_process_plan(known.plan) and (known.plan or {}).get("cgroup") is True
    if known.ran and required and cgroup is not True:
        yield "/cgroup", "counted"


def _digests(execution: Any, known: Known) -> Iterator[Finding]:
    for name in ("profile_sha256", "argv_sha256"):
        digest = execution[name]
        # For a sandbox that was prepared but not started, both are the digest of nothing.
        fits = (
            digest is not None and (digest == NOTHING) == (not known.ran)
            if known.who == "sandbox"
            else digest is None
        )
        if not fits:
            yield f"/{name}", "started"
    proven = ((known.grant or {}).get("proven") or {}).get("profile_sha256")
    if known.ran and proven is not None and execution["profile_sha256"] != proven:
        yield "/profile_sha256", "tier"


def _limits(execution: Any, known: Known) -> Iterator[Finding]:
    limits, plan, grant = execution.get("limits"), known.plan, known.grant
    at_edge = known.who in (ISOLATE, UPSTREAM)
    if (limits is not None) != (at_edge or known.who == "sandbox"):
        yield "/limits", "started"
        return
    if limits is None or plan is None:
        return
    for name in dict.fromkeys([*plan["limits"], *limits]):
        one, most = limits.get(name), plan["limits"].get(name)
        # A worker may lower them.
        lower = most is None or (one is not None and whole(one) <= whole(most))
        if one != most if at_edge else not lower:
            yield f"/limits/{name}", "limits"
    if grant is None:
        return
    if whole(limits["timeout_ms"]) > whole(grant["deadline_ms"]) - whole(grant["issued_at_ms"]):
        yield "/limits/timeout_ms", "times"


def _skill(execution: Any, known: Known) -> Iterator[Finding]:
    skill, plan = execution.get("skill"), known.plan
    if (skill is not None) != (known.who == ISOLATE):
        yield "/skill", "tier"
    if skill is None or plan is None or plan["tier"] != "A":
        return
    if skill["digest"] != plan["executor"]["digest"]:
        yield "/skill/digest", "tier"
    yield from used(skill, plan)


def _upstream(execution: Any, known: Known) -> Iterator[Finding]:
    upstream, outcome, plan = execution.get("upstream"), execution["outcome"], known.plan
    request = mcp_of(plan)
    called = request if request is not None and request["method"] == "tools/call" else None
    on_worker = known.who == "sandbox" and called is not None
    if (upstream is not None) != (known.who == UPSTREAM or on_worker):
        yield "/upstream", "exchange"
    if upstream is None:
        return
    if called is not None:
        expected = {"name": called["upstream"], "origin": "stdio", "definition_sha256": called["definition"]}
        for name, value in expected.items():
            if upstream[name] != value:
                yield f"/upstream/{name}", "exchange"
    if plan is not None and plan["tier"] == "M":
        executor = plan["executor"]
        if upstream["name"] != executor["upstream"]:
            yield "/upstream/name", "exchange"
        if upstream["origin"] != _origin_of(executor["url"]):
            yield "/upstream/origin", "exchange"
        if upstream["definition_sha256"] != executor["definition"]:
            yield "/upstream/definition_sha256", "exchange"
        reached = any(whole(one["bytes_out"]) > 0 for one in execution["connections"])
        if upstream["request_sha256"] is not None and not reached:
            yield "/upstream/request_sha256", "exchange"
    era, sent, answered = upstream["era"], upstream["request_sha256"], upstream["response_sha256"]
    kind = "" if outcome is None else outcome["kind"]
    if (sent is None) != (era is None):
        yield "/upstream/era", "exchange"
    if sent is None and (answered is not None or kind not in ("refused", "cancelled", "infra")):
        yield "/upstream/request_sha256", "exchange"
    if kind in ("returned", "invalid_output") if answered is None else kind == "no_answer":
        yield "/upstream/response_sha256", "exchange"


def _origin_of(url: str) -> str:
    parts = urlsplit(url)
    usual = {"https": 443, "http": 80}.get(parts.scheme)
    port = "" if parts.port in (None, usual) else f":{parts.port}"
    return f"{parts.scheme}://{parts.hostname}{port}"


def _files(execution: Any, known: Known) -> Iterator[Finding]:
    kept = is_process_plan(known.plan) and (known.plan or {}).get("outputs") is True
    if "files" in execution and not (known.ran and kept):
        yield "/files", "output"


def _times(execution: Any, known: Known) -> Iterator[Finding]:
    started, ended, grant = execution["started_at_ms"], whole(execution["ended_at_ms"]), known.grant
    if (started is None) != (known.who in (EDGE, UNSTARTED)):
        yield "/started_at_ms", "started"
    if started is not None and whole(started) > ended:
        yield "/started_at_ms", "times"
    if grant is None:
        return
    earliest = whole(grant["issued_at_ms"]) - CLOCK_SLACK_MS
    if started is not None and started < earliest:
        yield "/started_at_ms", "times"
    if known.who in (ISOLATE, UPSTREAM) and started is not None and started != grant["issued_at_ms"]:
        yield "/started_at_ms", "times"  # one clock, one reading
    longest = whole((execution.get("limits") or {}).get("timeout_ms", 0)) + SETTLE_GRACE_MS + CLOCK_SLACK_MS
    if known.who == "sandbox" and started is not None and ended - started > longest:
        yield "/ended_at_ms", "times"
    # The edge uses its own clock for a call that it ends itself, which may be after the deadline.
    deadline = whole(grant["deadline_ms"])
    latest = deadline if known.now_ms is None else min(deadline, whole(known.now_ms))
    late = known.who in ("sandbox", UNSTARTED) and ended > latest + CLOCK_SLACK_MS
    if ended < earliest or late:
        yield "/ended_at_ms", "times"


Rule = Callable[[Any, Known], Iterator[Finding]]
OPTIONAL = ("cgroup", "limits", "skill", "upstream", "files")
#: The rule of each field.
EXECUTION: Mapping[str, Rule] = {
    "outcome": _outcome,
    "stdout": streams,
    "stderr": streams,
    "connections": connections_of,
    "executor": _executor,
    "sandbox_enforcement": _executor,
    "cgroup": _cgroup,
    "profile_sha256": _digests,
    "argv_sha256": _digests,
    "limits": _limits,
    "skill": _skill,
    "upstream": _upstream,
    "files": _files,
    "started_at_ms": _times,
    "ended_at_ms": _times,
}
