"""The document of public keys: when each key signed, and the chain that leads to the later edge keys."""

import base64
import hashlib
from typing import Any, Dict, List, Optional

from .canonical import canonical, parse
from .envelope import bytes_of, key_of, signed_by_exactly

LINK_TYPE = "application/vnd.countersign.key-link+json"
LINK = {"follows", "key", "from_ms", "until_ms", "distrusts"}
ENTRY = {"kid", "kty", "crv", "x", "role", "from_ms", "until_ms", "status"}
#: Tolerance for times that a worker attests.
SLACK_MS = 5_000


def key_at(
    keys: Any, kid: str, role: str, worker: Optional[str], after: int, before: Optional[int] = None
) -> Optional[str]:
    """The public key with this id, if it may have signed not before ``after`` and not after ``before``."""
    for key in keys["keys"]:
        if (key["kid"], key["role"], key.get("worker")) == (kid, role, worker):
            until, distrusted = key.get("until_ms"), key.get("distrusted_from_ms")
            if distrusted is not None and after >= distrusted:
                return None
            if until is not None and after > until + SLACK_MS:
                return None
            if before is not None and before < key.get("from_ms", 0) - SLACK_MS:
                return None
            return str(key["x"])
    return None


def chain_holds(keys: Any) -> bool:
    """Whether each edge key after the first was introduced by the one before it, with these times."""
    edges = [key for key in keys["keys"] if key["role"] == "edge"]
    return (
        set(keys) == {"format", "tenant", "keys", "chain"}
        and all(ENTRY <= set(key) <= ENTRY | {"worker", "distrusted_from_ms"} for key in keys["keys"])
        and all(key["kid"] == _kid(key["x"]) for key in keys["keys"])
        and len({key["kid"] for key in keys["keys"]}) == len(keys["keys"])
        and canonical(edges) == canonical(_edge_keys(edges[0]["x"], keys["chain"]))
    )


def _kid(x: str) -> str:
    return f"ed25519:{hashlib.sha256(base64.urlsafe_b64decode(x + '=')).hexdigest()[:16]}"


def _entry(x: str, from_ms: int) -> Dict[str, Any]:
    entry: Dict[str, Any] = {"kid": _kid(x), "kty": "OKP", "crv": "Ed25519", "x": x, "role": "edge"}
    return {**entry, "from_ms": from_ms, "until_ms": None, "status": "active"}


def _edge_keys(first: str, chain: Any) -> List[Dict[str, Any]]:
    entries, root = [_entry(first, 0)], None
    for envelope in chain:
        link, last = parse(bytes_of(envelope["payload"])), entries[-1]
        if root is not None and link.get("root") != root:
            raise ValueError("a link is not signed by the root that an earlier one names")
        root = link.get("root")
        both = {_kid(x): key_of(x) for x in (last["x"], link["key"], root) if x is not None}
        if set(link) - {"root"} != LINK or link["follows"] != last["x"] or len(both) < 2:
            raise ValueError("a link is malformed, or follows another key")
        if not signed_by_exactly(envelope, LINK_TYPE, both):
            raise ValueError("a link is not signed by the key before it and by the key that it names")
        if link["from_ms"] < last["from_ms"] or link["until_ms"] < link["from_ms"]:
            raise ValueError("a link goes back")
        if any(entry["x"] == link["key"] for entry in entries):
            raise ValueError("a link leads back to an earlier key")
        last.update(until_ms=link["until_ms"], status="retired")
        if link["distrusts"] is not None:
            kid, since = link["distrusts"]["kid"], link["distrusts"]["from_ms"]
            [known] = [entry for entry in entries if entry["kid"] == kid]
            since = min(since, known.get("distrusted_from_ms", since))
            known.update(status="distrusted", distrusted_from_ms=since)
        entries.append(_entry(link["key"], link["from_ms"]))
    return entries
