"""The checks that compare a statement with its grant and plan: their names, what one finds, and what
is known of the statement when a rule runs. As shared/evidence/checks.ts.
"""

import hashlib
from typing import Any, Mapping, NamedTuple, Optional, Tuple

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
#: The digest of nothing.
NOTHING = hashlib.sha256(b"").hexdigest()

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
    #: The edge's clock when it journalled the end, if there is a journal.
    now_ms: Optional[int] = None


def below(path: str, finding: Finding) -> Finding:
    return f"{path}{finding[0]}", finding[1]


def whole(value: Any) -> int:
    if type(value) is not int:
        raise TypeError("not an integer")
    return value


def is_edge_plan(plan: Any) -> bool:
    return plan is not None and plan["tier"] in ("A", "M")


def is_process_plan(plan: Any) -> bool:
    return plan is not None and not is_edge_plan(plan)


def mcp_of(plan: Any) -> Optional[Mapping[str, Any]]:
    """The request to an MCP server that a worker runs."""
    return plan["executor"].get("mcp") if is_process_plan(plan) else None
