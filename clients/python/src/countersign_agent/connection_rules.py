"""Rules about connections, compared with hosts and limits. As shared/evidence/connection-rules.ts."""

import re
from typing import Any, Iterator

from .checks import Finding, Known, below, is_edge_plan, whole

#: The limits of a plan that is older than these limits.
DEFAULT_NETWORK = {"net_connections": 1_000, "net_bytes": 256 * 1024 * 1024}
MAX_LISTED_CONNECTIONS = 128
MAX_SUMMED_CONNECTIONS = 128


def connections_of(execution: Any, known: Known) -> Iterator[Finding]:
    connections, plan = execution["connections"], known.plan
    relayed = plan is not None and plan["tier"] == "C" and len(plan["egress"]["hosts"]) > 0
    proxied = is_edge_plan(plan) or relayed
    if len(connections) > 0 and not (known.ran and proxied):
        yield "/connections", "connections"
        return
    allowed = sum(whole(one.get("folded", 1)) for one in connections if one["verdict"] == "allowed")
    if allowed > _most("net_connections", None if plan is None else plan["limits"], plan):
        yield "/connections", "limits"
    # The connection that exceeds the limit of bytes is ended, with a verdict that says so.
    capped = [one for one in connections if one["verdict"] == "cap"]
    most = _most("net_bytes", execution.get("limits"), plan)
    if _bytes_of(connections) > most and _bytes_of(capped) == 0:
        yield "/connections", "limits"
    for i, one in enumerate(connections):
        for finding in _connected(one, i, plan):
            yield below(f"/connections/{i}", finding)


def _most(name: str, limits: Any, plan: Any) -> int:
    # A skill without this limit makes no requests.
    usual = 0 if plan is not None and plan["tier"] == "A" else DEFAULT_NETWORK[name]
    return whole((limits or {}).get(name, usual))


def _bytes_of(connections: Any) -> int:
    return sum(whole(one["bytes_in"]) + whole(one["bytes_out"]) for one in connections)


#: Verdicts after the check of the host list, and verdicts without a connection.
LISTED = ("allowed", "address_refused", "unresolvable", "sni_mismatch", "failed")
UNCONNECTED = ("host_not_listed", "address_refused", "unresolvable", "malformed", "unknown_client")


def _connected(one: Any, i: int, plan: Any) -> Iterator[Finding]:
    host, port, verdict, folded = one["host"], whole(one["port"]), one["verdict"], one.get("folded")
    if folded is not None and i < MAX_LISTED_CONNECTIONS and verdict != "unknown_client":
        yield "/folded", "connections"
    # The last sums name no host.
    first = MAX_LISTED_CONNECTIONS + MAX_SUMMED_CONNECTIONS
    nameless = folded is not None and host == "" and port == 0 and i >= first
    patterns = [] if plan is None else plan["egress"]["hosts"]
    listed = any(matches_host(pattern, host, port) for pattern in patterns)
    contradicts = not listed if verdict in LISTED else verdict == "host_not_listed" and listed
    if not nameless and contradicts:
        yield "", "connections"
    moved = whole(one["bytes_in"]) + whole(one["bytes_out"])
    if verdict in UNCONNECTED and (one["address"] != "" or moved > 0):
        yield "", "connections"
    # The edge can't see the addresses of its own requests.
    if is_edge_plan(plan) and one["address"] != "":
        yield "/address", "connections"
    added = [] if plan is None else plan.get("credentials", [])
    given = {known["secret"] for known in added if known["host"] == f"{host}:{port}"}
    if not set(one.get("credentials", [])) <= given:
        yield "/credentials", "connections"


def matches_host(pattern: str, host: str, port: int) -> bool:
    name, *ports = pattern.split(":")
    if port not in (80, 443) if not ports else ports[0] != str(port):
        return False
    if not name.startswith("."):
        return host == name
    is_address = ":" in host or re.fullmatch("[0-9.]+", host) is not None
    return not is_address and host.endswith(name) and len(host) > len(name)
