"""The edge's signed word that a retention rule has removed parts of a call. As shared/evidence/removal.ts."""

from typing import Any, Dict, Optional

from .canonical import canonical, parse
from .envelope import bytes_of, key_of, signed_by_exactly

TOMBSTONE_TYPE = "application/vnd.countersign.tombstone+json"
NAMED = ("tenant", "call", "digest")


def parts_removed(envelope: Any, facts: Any, keys: Any) -> Optional[Dict[str, Any]]:
    """What was removed of this call. None if no trusted edge key has signed a tombstone of it."""
    kid, payload = envelope["signatures"][0]["keyid"], bytes_of(envelope["payload"])
    trusted = [key for key in keys["keys"] if key["role"] == "edge" and key["status"] != "distrusted"]
    signers = {key["kid"]: key_of(key["x"]) for key in trusted if key["kid"] == kid}
    if not signers or not signed_by_exactly(envelope, TOMBSTONE_TYPE, signers):
        return None
    tombstone = parse(payload)
    removed: Dict[str, Any] = tombstone["removed"]
    holds = (
        payload == canonical(tombstone).encode()
        and set(tombstone) == {"of", *NAMED, "removed"}
        and tombstone["of"] == "parts"
        and all(tombstone[name] == facts[name] for name in NAMED)
        and set(removed) <= {"outputs", "arguments"}
        and all(_is_removal(one) for one in removed.values())
    )
    return removed if holds else None


def _is_removal(removed: Any) -> bool:
    """The time of the removal, the number of the rule, and its days: integers, of which no bool is one."""
    return set(removed) == {"at_ms", "rule", "days"} and all(
        type(number) is int and number >= least
        for number, least in ((removed["at_ms"], 0), (removed["rule"], 1), (removed["days"], 1))
    )
