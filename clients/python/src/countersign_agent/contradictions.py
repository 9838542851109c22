"""Compares a statement with the grant and the plan that it names, as the edge does before it signs.

These are the rules of shared/evidence/contradictions.ts, in the same order. A test changes
statements in thousands of ways and compares the findings of both. A table has a rule for each field
of a statement, and a statement with another field is refused.
"""

import hashlib
import re
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple
from urllib.parse import urlsplit

from .canonical import canonical, digest_of

#: The name of each check, as a list of checks shows it.
CHECK_NAMES = {
    "subject": "the subject is this call",
    "id": "the attestation’s id is this call’s",
    "facts": "the facts are those of the grant",
    "grant": "the grant is the edge’s, for this call and worker",
    "ending": "the ending fits the outcome",
    "digest": "the execution digest matches",
    "tier": "it ran where the plan says: in its sandbox, in an isolate of the edge, or at the upstream",
    "started": "profile, command line and output fit whether anything was started",
    "counted": "it had a cgroup if the plan requires one, and only if the worker had proven cgroups",
    "limits": "it ran within the plan’s limits",
    "outcome": "the outcome fits what the execution used, wrote and reached",
    "output": "the output is described consistently, and kept if the plan says so",
    "connections": "connections were allowed only to the plan’s hosts",
    "exchange": "the exchange with the upstream is that of the plan, and fits the outcome",
    "times": "it ran within the time of its grant",
}

EDGE, ISOLATE, UPSTREAM, UNSTARTED = "edge", "wasm_isolate", "mcp_client", "worker"
SANDBOXES = {"B": "sandbox_tier_b_linux_rlimits", "C": "sandbox_tier_c_linux_bubblewrap"}
#: The limits of a plan that is older than these limits.
DEFAULT_NETWORK = {"net_connections": 1_000, "net_bytes": 256 * 1024 * 1024}
MAX_LISTED_CONNECTIONS = 128
MAX_SUMMED_CONNECTIONS = 128
CLOCK_SLACK_MS = 5_000
#: The time that a worker has to set a call up, and to end and collect it after its time.
SETTLE_GRACE_MS = 10_000
#: A process whose stream has more than this many times ``output_bytes`` is stopped.
FLOOD_FACTOR = 8
#: The most bytes of a skill's log: its characters, each with its most bytes in UTF-8.
SKILL_LOG_BYTES = 3 * 64 * 1024
#: Fuel for one host call, and for code of a skill that can't be suspended.
HOST_CALL_FUEL, ALONE_FUEL = 2_000, 1_000_000
NOTHING = hashlib.sha256(b"").hexdigest()

#: Outcomes that leave open whether anything was started.
MAYBE_UNBEGUN = ("refused", "infra", "cancelled")
#: States that a call reaches without an executor.
UNRUN = ("denied", "rejected", "expired", "cancelled", "lapsed", "released")
ENDS_OF_SKILLS = ("returned", "skill_error", "trap", "fuel_exhausted", "capability_denied")
ENDS_OF_UPSTREAMS = ("returned", "upstream_error", "upstream_wants_input", "no_answer")
ENDS_OF_PROCESSES = ("exit", "signal", "memory_cap", "cpu_cap", "workspace_cap")
ENDS = {"A": ENDS_OF_SKILLS, "B": ENDS_OF_PROCESSES, "C": ENDS_OF_PROCESSES, "M": ENDS_OF_UPSTREAMS}
ENDS_OF_SOME = {kind for kinds in ENDS.values() for kind in kinds}
#: Outcomes of a process that nobody stopped.
UNSTOPPED = ("exit", "signal", "memory_cap", "invalid_output")
_SANDBOX_REFUSALS = ("sandbox_unavailable", "invalid_input")
#: Refusals that come after something was started, but before the tool.
REFUSED_LATE = {
    "A": ("skill_disabled",),
    "B": _SANDBOX_REFUSALS,
    "C": (*_SANDBOX_REFUSALS, "workspace_scope_denied", "upstream_unavailable", "tool_changed"),
    "M": ("upstream_unavailable",),
}
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

#: A place in the statement, as a JSON pointer, and the key of its check.
Finding = Tuple[str, str]


class Known(NamedTuple):
    grant: Optional[Mapping[str, Any]]
    plan: Optional[Mapping[str, Any]]
    #: The executor if it needs no sandbox, else ``sandbox``.
    who: str
    #: The statement says that something was started.
    ran: bool
    #: The outcome leaves open whether anything was started.
    unended: bool


def contradictions(statement: Any, grant: Any, plan: Any) -> List[Finding]:
    return list(_compared(statement, grant, plan))


def _compared(statement: Any, grant: Any, plan: Any) -> Iterator[Finding]:
    predicate = statement["predicate"]
    facts, execution = predicate["facts"], predicate["execution"]
    subject = statement["subject"][0]
    if subject["name"] != facts["call"]:
        yield "/subject/0/name", "subject"
    if subject["digest"]["sha256"] != facts["digest"]:
        yield "/subject/0/digest/sha256", "subject"
    for finding in _predicate(predicate, grant, plan):
        yield _below("/predicate", finding)
    _only(execution, EXECUTION)
    if any(name in execution and execution[name] is None for name in OPTIONAL):
        raise ValueError("an optional member is null")
    outcome, argv = execution["outcome"], execution["argv_sha256"]
    executor = execution["executor"]
    who = executor if executor in (EDGE, ISOLATE, UPSTREAM, UNSTARTED) else "sandbox"
    ran = who in (ISOLATE, UPSTREAM) or (who == "sandbox" and argv is not None and argv != NOTHING)
    unended = outcome is not None and outcome["kind"] in MAYBE_UNBEGUN
    known = Known(grant, plan, who, ran, unended)
    for rule in dict.fromkeys(EXECUTION.values()):
        for finding in rule(execution, known):
            yield _below("/predicate/execution", finding)


def _below(path: str, finding: Finding) -> Finding:
    return f"{path}{finding[0]}", finding[1]


def _only(value: Mapping[str, Any], names: Any) -> None:
    unknown = set(value) - set(names)
    if unknown:
        raise ValueError(f"unknown members: {', '.join(sorted(unknown))}")


def _int(value: Any) -> int:
    if type(value) is not int:
        raise TypeError("not an integer")
    return value


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
    if (named["worker"] == EDGE) != _is_edge_plan(plan):
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
        code = _int(outcome["code"])
        if code == 0:
            return "succeeded", None
        return "failed", "spawn_failed" if code in (126, 127) else "runtime_failure"
    if kind == "signal":
        quota = outcome["signal"] in ("SIGXCPU", "SIGXFSZ")
        return "failed", "quota_exceeded" if quota else "runtime_failure"
    if kind == "refused":
        return "failed", outcome["code"]
    return ENDINGS[kind]


def _is_edge_plan(plan: Any) -> bool:
    return plan is not None and plan["tier"] in ("A", "M")


def _is_process_plan(plan: Any) -> bool:
    return plan is not None and not _is_edge_plan(plan)


def _mcp(plan: Any) -> Optional[Mapping[str, Any]]:
    """The request to an MCP server that a worker runs."""
    return plan["executor"].get("mcp") if _is_process_plan(plan) else None


# The rules of the execution's fields.


def _outcome(execution: Any, known: Known) -> Iterator[Finding]:
    outcome, plan = execution["outcome"], known.plan
    yield from _numbers(execution, known)
    if (outcome is None) != (known.who == EDGE):  # only an executor sees an outcome
        yield "/outcome", "ending"
    if outcome is None:
        return
    kind = outcome["kind"]
    # A worker calls an MCP server in tier C as the edge calls a remote one.
    ends = ENDS["C" if plan is None else plan["tier"]] if _mcp(plan) is None else ENDS_OF_UPSTREAMS
    if kind in ENDS_OF_SOME and kind not in ends:
        yield "/outcome", "tier"
    # A skill returns JSON, also if its tool declares no schema.
    declared = plan is not None and (plan["tier"] == "A" or "output" in plan["executor"])
    if kind == "invalid_output" and not declared:
        yield "/outcome", "output"
    if not known.ran and not known.unended:
        yield "/outcome", "started"


def _numbers(execution: Any, known: Known) -> Iterator[Finding]:
    """Whether the numbers of an execution allow its outcome."""
    outcome, plan = execution["outcome"], known.plan
    kind = None if outcome is None else outcome["kind"]
    if kind == "refused":
        yield from _executed_though_refused(execution, known)
    # Code that can't be suspended has a part of the fuel, so it may run out of that earlier.
    fuel = min(_int(plan["limits"]["fuel"]), ALONE_FUEL) if plan is not None and plan["tier"] == "A" else 0
    if kind == "fuel_exhausted" and _int((execution.get("skill") or {}).get("fuel_used", 0)) < fuel:
        yield "/outcome", "outcome"
    if known.who != "sandbox" or kind is None or _mcp(plan) is not None:
        return
    most = _output_bytes(execution)
    flooded = any(_size(execution[name]) > FLOOD_FACTOR * most for name in ("stdout", "stderr"))
    if flooded and kind in UNSTOPPED:
        yield "/outcome", "outcome"
    # An output that was cut can't be the whole value that the tool's contract promises.
    declared = plan is not None and "output" in plan["executor"]
    if declared and _size(execution["stdout"]) > most and kind == "exit" and outcome["code"] == 0:
        yield "/outcome", "outcome"


def _executed_though_refused(execution: Any, known: Known) -> Iterator[Finding]:
    """Signs that a call was executed, although its outcome says that it was refused."""
    plan, tier = known.plan, None if known.plan is None else known.plan["tier"]
    if known.ran and tier is not None and execution["outcome"]["code"] not in REFUSED_LATE[tier]:
        yield "/outcome/code", "outcome"
    if _size(execution["stdout"]) > 0:
        yield "/stdout", "outcome"
    if tier == "A" and _size(execution["stderr"]) > 0:
        yield "/stderr", "outcome"
    # The server may be reached before the tool is called: to look at it, to log in.
    if len(execution["connections"]) > 0 and tier != "M" and _mcp(plan) is None:
        yield "/connections", "outcome"
    if (execution.get("upstream") or {}).get("request_sha256") is not None:
        yield "/upstream/request_sha256", "outcome"
    if "files" in execution:
        yield "/files", "outcome"
    skill = execution.get("skill")
    if skill is None:
        return
    for name in ("fuel_used", "memory_bytes"):
        if _int(skill[name]) > 0:
            yield f"/skill/{name}", "outcome"
    if len(skill["host_calls"]) > 0:
        yield "/skill/host_calls", "outcome"


def _size(summary: Any) -> int:
    return 0 if summary is None else _int(summary["bytes"])


def _output_bytes(execution: Any) -> int:
    return _int((execution.get("limits") or {}).get("output_bytes", 0))


def _streams(execution: Any, known: Known) -> Iterator[Finding]:
    for name in ("stdout", "stderr"):
        at, summary = f"/{name}", execution[name]
        if (summary is None) != (known.who in (EDGE, UNSTARTED)):
            yield at, "started"
        if summary is None:
            continue
        size, kept = _int(summary["bytes"]), _int(summary["kept"])
        if size > 0 and not known.ran:
            yield at, "started"
        is_log = known.who == ISOLATE and name == "stderr"
        if kept > size or kept > (SKILL_LOG_BYTES if is_log else _output_bytes(execution)):
            yield at, "output"
        if summary["truncated"] is not (kept < size):
            yield at, "output"
        if (size == 0) != (summary["sha256"] == NOTHING):
            yield f"{at}/sha256", "output"


def _connections(execution: Any, known: Known) -> Iterator[Finding]:
    connections, plan = execution["connections"], known.plan
    relayed = plan is not None and plan["tier"] == "C" and len(plan["egress"]["hosts"]) > 0
    proxied = _is_edge_plan(plan) or relayed
    if len(connections) > 0 and not (known.ran and proxied):
        yield "/connections", "connections"
        return
    allowed = sum(_int(one.get("folded", 1)) for one in connections if one["verdict"] == "allowed")
    if allowed > _most("net_connections", None if plan is None else plan["limits"], plan):
        yield "/connections", "limits"
    # The connection that exceeds the limit of bytes is ended, with a verdict that says so.
    capped = [one for one in connections if one["verdict"] == "cap"]
    most = _most("net_bytes", execution.get("limits"), plan)
    if _bytes_of(connections) > most and _bytes_of(capped) == 0:
        yield "/connections", "limits"
    for i, one in enumerate(connections):
        for finding in _connected(one, i, plan):
            yield _below(f"/connections/{i}", finding)


def _most(name: str, limits: Any, plan: Any) -> int:
    # A skill without this limit makes no requests.
    usual = 0 if plan is not None and plan["tier"] == "A" else DEFAULT_NETWORK[name]
    return _int((limits or {}).get(name, usual))


def _bytes_of(connections: Any) -> int:
    return sum(_int(one["bytes_in"]) + _int(one["bytes_out"]) for one in connections)


#: Verdicts after the check of the host list, and verdicts without a connection.
LISTED = ("allowed", "address_refused", "unresolvable", "sni_mismatch", "failed")
UNCONNECTED = ("host_not_listed", "address_refused", "unresolvable", "malformed", "unknown_client")


def _connected(one: Any, i: int, plan: Any) -> Iterator[Finding]:
    host, port, verdict, folded = one["host"], _int(one["port"]), one["verdict"], one.get("folded")
    if folded is not None and i < MAX_LISTED_CONNECTIONS and verdict != "unknown_client":
        yield "/folded", "connections"
    # The last sums name no host.
    first = MAX_LISTED_CONNECTIONS + MAX_SUMMED_CONNECTIONS
    nameless = folded is not None and host == "" and port == 0 and i >= first
    patterns = [] if plan is None else plan["egress"]["hosts"]
    listed = any(_matches_host(pattern, host, port) for pattern in patterns)
    contradicts = not listed if verdict in LISTED else verdict == "host_not_listed" and listed
    if not nameless and contradicts:
        yield "", "connections"
    moved = _int(one["bytes_in"]) + _int(one["bytes_out"])
    if verdict in UNCONNECTED and (one["address"] != "" or moved > 0):
        yield "", "connections"
    # The edge can't see the addresses of its own requests.
    if _is_edge_plan(plan) and one["address"] != "":
        yield "/address", "connections"
    added = [] if plan is None else plan.get("credentials", [])
    given = {known["secret"] for known in added if known["host"] == f"{host}:{port}"}
    if not set(one.get("credentials", [])) <= given:
        yield "/credentials", "connections"


def _matches_host(pattern: str, host: str, port: int) -> bool:
    name, *ports = pattern.split(":")
    if port not in (80, 443) if not ports else ports[0] != str(port):
        return False
    if not name.startswith("."):
        return host == name
    is_address = ":" in host or re.fullmatch("[0-9.]+", host) is not None
    return not is_address and host.endswith(name) and len(host) > len(name)


def _executor(execution: Any, known: Known) -> Iterator[Finding]:
    plan, executor = known.plan, execution["executor"]
    tier = None if plan is None else plan["tier"]
    expected = {
        EDGE: True,
        ISOLATE: tier == "A",
        UPSTREAM: tier == "M",
        UNSTARTED: _is_process_plan(plan) and known.unended,
        "sandbox": _is_process_plan(plan),
    }[known.who]
    named = known.who != "sandbox" or not _is_process_plan(plan) or executor == SANDBOXES.get(str(tier))
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
    required = _is_process_plan(known.plan) and (known.plan or {}).get("cgroup") is True
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
        lower = most is None or (one is not None and _int(one) <= _int(most))
        if one != most if at_edge else not lower:
            yield f"/limits/{name}", "limits"
    if grant is None:
        return
    if _int(limits["timeout_ms"]) > _int(grant["deadline_ms"]) - _int(grant["issued_at_ms"]):
        yield "/limits/timeout_ms", "times"


def _skill(execution: Any, known: Known) -> Iterator[Finding]:
    skill, plan = execution.get("skill"), known.plan
    if (skill is not None) != (known.who == ISOLATE):
        yield "/skill", "tier"
    if skill is None or plan is None or plan["tier"] != "A":
        return
    if skill["digest"] != plan["executor"]["digest"]:
        yield "/skill/digest", "tier"
    limits, capabilities = plan["limits"], plan["executor"]["capabilities"]
    for used, most in (("fuel_used", "fuel"), ("memory_bytes", "memory_bytes")):
        if _int(skill[used]) > _int(limits[most]):
            yield f"/skill/{used}", "limits"
    # Each host call is paid for; the last one may be what exhausts the fuel.
    calls = 1 + _int(limits["fuel"]) // HOST_CALL_FUEL
    for name, count in skill["host_calls"].items():
        granted = any(name.startswith(f"{capability}.") for capability in capabilities)
        if not granted or _int(count) > calls:
            yield f"/skill/host_calls/{name}", "limits"


def _upstream(execution: Any, known: Known) -> Iterator[Finding]:
    upstream, outcome, plan = execution.get("upstream"), execution["outcome"], known.plan
    request = _mcp(plan)
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
        reached = any(_int(one["bytes_out"]) > 0 for one in execution["connections"])
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
    kept = _is_process_plan(known.plan) and (known.plan or {}).get("outputs") is True
    if "files" in execution and not (known.ran and kept):
        yield "/files", "output"


def _times(execution: Any, known: Known) -> Iterator[Finding]:
    started, ended, grant = execution["started_at_ms"], _int(execution["ended_at_ms"]), known.grant
    if (started is None) != (known.who in (EDGE, UNSTARTED)):
        yield "/started_at_ms", "started"
    if started is not None and _int(started) > ended:
        yield "/started_at_ms", "times"
    if grant is None:
        return
    earliest = _int(grant["issued_at_ms"]) - CLOCK_SLACK_MS
    if started is not None and started < earliest:
        yield "/started_at_ms", "times"
    if known.who in (ISOLATE, UPSTREAM) and started is not None and started != grant["issued_at_ms"]:
        yield "/started_at_ms", "times"  # one clock, one reading
    longest = _int((execution.get("limits") or {}).get("timeout_ms", 0)) + SETTLE_GRACE_MS + CLOCK_SLACK_MS
    if known.who == "sandbox" and started is not None and ended - started > longest:
        yield "/ended_at_ms", "times"
    # The edge uses its own clock for a call that it ends itself, which may be after the deadline.
    late = known.who in ("sandbox", UNSTARTED) and ended > _int(grant["deadline_ms"]) + CLOCK_SLACK_MS
    if ended < earliest or late:
        yield "/ended_at_ms", "times"


Rule = Callable[[Any, Known], Iterator[Finding]]
OPTIONAL = ("cgroup", "limits", "skill", "upstream", "files")
#: The rule of each field.
EXECUTION: Mapping[str, Rule] = {
    "outcome": _outcome,
    "stdout": _streams,
    "stderr": _streams,
    "connections": _connections,
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
