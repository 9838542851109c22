"""Rules about what an execution wrote and used. As shared/evidence/usage-rules.ts."""

from typing import Any, Iterator

from .checks import EDGE, ISOLATE, NOTHING, UNSTARTED, Finding, Known, mcp_of, whole

#: A process whose stream has more than this many times ``output_bytes`` is stopped.
FLOOD_FACTOR = 8
#: The most bytes of a skill's log: its characters, each with its most bytes in UTF-8.
SKILL_LOG_BYTES = 3 * 64 * 1024
#: Fuel for one host call, and for code of a skill that can't be suspended.
HOST_CALL_FUEL, ALONE_FUEL = 2_000, 1_000_000
#: Outcomes of a process that nobody stopped.
UNSTOPPED = ("exit", "signal", "memory_cap", "invalid_output")
#: Refusals that come after something was started, but before the tool.
REFUSED_LATE = {
    "A": ("skill_disabled",),
    "B": ("sandbox_unavailable", "invalid_input"),
    "C": (
        "sandbox_unavailable",
        "invalid_input",
        "workspace_scope_denied",
        "upstream_unavailable",
        "tool_changed",
    ),
    "M": ("upstream_unavailable",),
}


def streams(execution: Any, known: Known) -> Iterator[Finding]:
    for name in ("stdout", "stderr"):
        at, summary = f"/{name}", execution[name]
        if (summary is None) != (known.who in (EDGE, UNSTARTED)):
            yield at, "started"
        if summary is None:
            continue
        size, kept = whole(summary["bytes"]), whole(summary["kept"])
        if size > 0 and not known.ran:
            yield at, "started"
        is_log = known.who == ISOLATE and name == "stderr"
        if kept > size or kept > (SKILL_LOG_BYTES if is_log else _output_bytes(execution)):
            yield at, "output"
        if summary["truncated"] is not (kept < size):
            yield at, "output"
        if (size == 0) != (summary["sha256"] == NOTHING):
            yield f"{at}/sha256", "output"


def used(skill: Any, plan: Any) -> Iterator[Finding]:
    """A skill's use, compared with its plan."""
    limits, capabilities = plan["limits"], plan["executor"]["capabilities"]
    for name, most in (("fuel_used", "fuel"), ("memory_bytes", "memory_bytes")):
        if whole(skill[name]) > whole(limits[most]):
            yield f"/skill/{name}", "limits"
    # Each host call is paid for; the last one may be what exhausts the fuel.
    calls = 1 + whole(limits["fuel"]) // HOST_CALL_FUEL
    for name, count in skill["host_calls"].items():
        granted = any(name.startswith(f"{capability}.") for capability in capabilities)
        if not granted or whole(count) > calls:
            yield f"/skill/host_calls/{name}", "limits"


def numbers(execution: Any, known: Known) -> Iterator[Finding]:
    """Whether the numbers of an execution allow its outcome."""
    outcome, plan = execution["outcome"], known.plan
    kind = None if outcome is None else outcome["kind"]
    if kind == "refused":
        yield from _executed_though_refused(execution, known)
    # Code that can't be suspended has a part of the fuel, so it may run out of that earlier.
    fuel = min(whole(plan["limits"]["fuel"]), ALONE_FUEL) if plan is not None and plan["tier"] == "A" else 0
    if kind == "fuel_exhausted" and whole((execution.get("skill") or {}).get("fuel_used", 0)) < fuel:
        yield "/outcome", "outcome"
    if known.who != "sandbox" or kind is None or mcp_of(plan) is not None:
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
    if len(execution["connections"]) > 0 and tier != "M" and mcp_of(plan) is None:
        yield "/connections", "outcome"
    if (execution.get("upstream") or {}).get("request_sha256") is not None:
        yield "/upstream/request_sha256", "outcome"
    if "files" in execution:
        yield "/files", "outcome"
    skill = execution.get("skill")
    if skill is None:
        return
    for name in ("fuel_used", "memory_bytes"):
        if whole(skill[name]) > 0:
            yield f"/skill/{name}", "outcome"
    if len(skill["host_calls"]) > 0:
        yield "/skill/host_calls", "outcome"


def _size(summary: Any) -> int:
    return 0 if summary is None else whole(summary["bytes"])


def _output_bytes(execution: Any) -> int:
    return whole((execution.get("limits") or {}).get("output_bytes", 0))
