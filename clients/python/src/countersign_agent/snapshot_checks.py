"""Compares facts and plan with the policy snapshot that they name. As shared/evidence/policy-snapshot.ts."""

from typing import Any, Iterator, List, Tuple

from .canonical import canonical, digest_of
from .checks import whole
from .connection_rules import matches_host

WEB_PORTS = (80, 443)


def snapshot_checks(snapshot: Any, facts: Any, plan: Any) -> Iterator[Tuple[str, bool]]:
    """``plan``: None, too, if the retention rule has removed it."""
    tool, decision = facts["tool"], facts["decision"]
    # A call whose agent or tool was gone at its claim is denied under the policies of that moment.
    unnamed = decision["effect"] == "deny" and len(decision["policies"]) == 0
    decided = (
        digest_of(snapshot) == decision["snapshot"]
        and snapshot["tool"]["name"] == tool["name"]
        and (snapshot["policy_set"] == decision["policy_set"] or unnamed)
    )
    yield "the policy snapshot is the one that the facts name", decided
    allowed = decision["effect"] == "deny" or (
        ("*" in snapshot["allowed_tools"] or tool["name"] in snapshot["allowed_tools"])
        and canonical(snapshot["tool"]) == canonical(tool)
        and _fits(snapshot, plan)
    )
    yield "the snapshot allows this tool and plan", allowed


def _fits(snapshot: Any, plan: Any) -> bool:
    if plan is None or plan["tier"] == "M":
        return True
    secrets = {*plan["secrets"], *(one["secret"] for one in plan.get("credentials", []))}
    if plan["tier"] == "A":
        runtime = snapshot["wasm_runtime"]
        return (
            runtime is not None
            and all(whole(plan["limits"][name]) <= whole(runtime[name]) for name in ("fuel", "memory_bytes"))
            and _reaches(runtime["allowed_hosts"], plan)
            and secrets <= set(runtime["allowed_secrets"])
            and set(plan["executor"].get("kv", [])) <= set(runtime["allowed_prefixes"])
        )
    runner = snapshot["process_runner"]
    if runner is None:
        return False
    programs = runner["allowed_executables"]
    return (
        plan["tier"] in runner["tiers"]
        and plan["workspace"] == runner["workspace"]
        and (programs is None or plan["executor"]["argv"][0] in programs)
        and _reaches(runner["allowed_hosts"], plan)
        and secrets <= set(runner["secrets"])
        and all(whole(most) <= whole(runner["limits"].get(name, 0)) for name, most in plan["limits"].items())
    )


def _reaches(patterns: List[str], plan: Any) -> bool:
    return all(any(_covers(pattern, host) for pattern in patterns) for host in plan["egress"]["hosts"])


def _covers(pattern: str, wanted: str) -> bool:
    """Whether a host of a plan, or its pattern, is within a pattern."""
    host, _, port = wanted.partition(":")
    ports = WEB_PORTS if port == "" else (int(port),)
    return pattern == wanted or all(matches_host(pattern, host, one) for one in ports)
