"""Verifies the attestation of a call offline, with only public keys and the standard library.

It makes the checks of ``countersign verify``: the keys, the canonical form, exactly the right
signatures, all digests, an approval where policy asked for one, nothing without a grant, a report of the
execution that contradicts neither itself nor its grant nor its plan, and a journal that tells of it and
whose end is in the log.
"""

from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple, Union

from .canonical import canonical, digest_of, parse
from .checks import CHECK_NAMES, EDGE, ISOLATE, UPSTREAM
from .contradictions import contradictions
from .envelope import bytes_of, key_of, signed_by_exactly
from .journal_checks import BUNDLE_ENTRIES, HASHED, journal_checks
from .keys import chain_holds, key_at
from .log_checks import NOTE_CHARS, log_checks
from .removal import parts_removed
from .snapshot_checks import snapshot_checks

STATEMENT_TYPE = "application/vnd.in-toto+json"
GRANT_TYPE = "application/vnd.countersign.grant+json"
PREDICATE_TYPE = "https://countersign.dev/attestation/v1"
#: Executors that are the edge itself; a worker executes all else and signs too.
EDGE_EXECUTORS = (EDGE, ISOLATE, UPSTREAM)


@dataclass(frozen=True)
class Check:
    name: str
    ok: bool
    #: The place of the first fault, as a JSON pointer into the statement.
    at: Optional[str] = None


@dataclass
class Verdict:
    """``ok`` only if every check holds. Read the statement only then."""

    checks: List[Check] = field(default_factory=list)
    statement: Optional[Dict[str, Any]] = None

    @property
    def ok(self) -> bool:
        return len(self.checks) > 0 and all(check.ok for check in self.checks)

    def holds(self, name: str, condition: bool, at: Optional[str] = None) -> bool:
        self.checks.append(Check(name, condition, at))
        return condition


Document = Union[str, bytes, Mapping[str, Any]]


def verify(bundle: Document, keys: Document, *, call: Optional[str] = None) -> Verdict:
    """Verifies a bundle, as text or parsed. ``call``: the id of the call that it must be about."""
    verdict = Verdict()
    try:
        _verify(verdict, _value(bundle), _value(keys), call)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError):
        verdict.holds("the bundle and the key file are well-formed", False)
    return verdict


def _value(document: Document) -> Any:
    return parse(document) if isinstance(document, (str, bytes, bytearray)) else document


def _verify(verdict: Verdict, bundle: Any, keys: Any, call: Optional[str]) -> None:
    holds = verdict.holds
    if not holds("the formats are known", _formats(bundle, keys)):
        return
    payload = bytes_of(bundle["envelope"]["payload"])
    statement = parse(payload)
    if not holds("the payload is an in-toto statement of our predicate", _is_ours(statement)):
        return
    if not holds("the payload is in canonical form", payload == canonical(statement).encode()):
        return
    verdict.statement = statement
    predicate = statement["predicate"]
    facts, execution, grant = predicate["facts"], predicate["execution"], predicate["grant"]
    holds("the key file belongs to the tenant of the attestation", keys["tenant"] == facts["tenant"])

    signers = [one["keyid"] for one in bundle["envelope"]["signatures"]]
    edge = next((kid for kid in signers if any(key["role"] == "edge" and key["kid"] == kid for key in keys["keys"])), None)
    if edge is None:
        holds("an edge key from the key file signed it", False)
        return
    # A countersignature may come late, so only its earliest time is known.
    ended = execution["ended_at_ms"]
    edge_key = key_at(keys, edge, "edge", None, ended)
    if not holds("the edge’s key is trusted for that time", edge_key is not None, ENDED):
        return
    required = {edge: key_of(edge_key)}
    executed = execution["executor"] != EDGE
    if execution["executor"] not in EDGE_EXECUTORS:
        named = grant["worker"] if grant is not None else None
        own = [key["kid"] for key in keys["keys"] if key["role"] == "worker" and key.get("worker") == named]
        if not own:
            holds("the worker that the grant names has a key in the key file", False)
            return
        used = next((kid for kid in own if kid in signers), own[0])
        worker_key = key_at(keys, used, "worker", named, ended)
        if not holds("the worker’s key is trusted for that time", worker_key is not None, ENDED):
            return
        required[used] = key_of(worker_key)
    by = "the worker and the edge" if len(required) == 2 else "the edge"
    if not holds(f"exactly {by} signed it", signed_by_exactly(bundle["envelope"], STATEMENT_TYPE, required)):
        return

    about = bundle["call"]
    same = all(canonical(facts[n]) == canonical(about[n]) for n in NAMED)
    holds("the facts name the same call", same)
    asked = facts["decision"]["effect"] == "ask" and grant is not None
    holds("an approval exists where policy asks for one", not asked or _approved(facts))
    allowed = grant is not None and facts["decision"]["effect"] != "deny"
    holds("nothing ran without a grant", not executed or allowed)
    if grant is None:
        holds("no grant is included where none was issued", bundle["grant"] is None)
    granted = None if grant is None else _grant_in(bundle["grant"], keys)
    removed = None
    if "removed" in bundle:
        removed = parts_removed(bundle["removed"], facts, keys)
        holds(REMOVAL_SIGNED, removed is not None)
    # Only whoever has the arguments can check the rest. The edge did, before it signed.
    if removed is not None and "arguments" in removed:
        same = grant is None or (granted is not None and digest_of(granted) == grant["sha256"])
        holds(CHECK_NAMES["grant"], same, "/predicate/grant")
        holds(ARGUMENTS_REMOVED, about["arguments"] is None and about["plan"] is None)
    else:
        _verify_plan(verdict, statement, about, granted, bundle["journal"][-1]["at_ms"])
    for name, held in _of_run(bundle, statement, keys):
        holds(name, held)
    if call is not None:
        holds("the bundle is about the expected call", facts["call"] == call)


REMOVAL_SIGNED = "the edge signed the removal of what is missing"
#: A bundle without arguments passes with this check in place of those that need them.
ARGUMENTS_REMOVED = (
    "the arguments were removed by the tenant’s retention rule: only their digest is signed, and nothing"
    " compares the plan"
)


def _of_run(bundle: Any, statement: Any, keys: Any) -> Iterator[Tuple[str, bool]]:
    """The checks of snapshot, journal and log."""
    facts, journal = statement["predicate"]["facts"], bundle["journal"]
    yield from snapshot_checks(bundle["snapshot"], facts, bundle["call"]["plan"])
    yield from journal_checks(statement, journal)
    # A checkpoint has no time, so a key that was stolen at some time may not sign one.
    edges = [key for key in keys["keys"] if key["role"] == "edge" and key["status"] != "distrusted"]
    trusted = [key_of(key["x"]) for key in edges]
    yield from log_checks(bundle["log"], journal[-1]["hash"], facts["tenant"], trusted)


def _verify_plan(verdict: Verdict, statement: Any, about: Any, granted: Any, journalled_ms: int) -> None:
    """The checks that need the arguments and the plan."""
    holds, facts = verdict.holds, statement["predicate"]["facts"]
    covered = digest_of({name: about[name] for name in (*NAMED, "arguments", "plan")})
    holds("the digest covers these arguments and this plan", facts["digest"] == covered)
    holds("the arguments digest matches", facts["args_sha256"] == digest_of(about["arguments"]))
    plan = about["plan"]
    holds("the plan digest matches", facts["plan_sha256"] == (None if plan is None else digest_of(plan)))
    bounds = plan or {}
    bounded = all(canonical(facts[n]) == canonical(bounds.get(n)) for n in ("limits", "egress"))
    holds("limits and egress are the plan’s", bounded)
    found = contradictions(statement, granted, plan, journalled_ms)
    for what, name in CHECK_NAMES.items():
        at = next((at for at, key in found if key == what), None)
        holds(name, at is None, at)


NAMED = ("tenant", "run", "call", "tool")
PROOF_HASHES = 64


def _formats(bundle: Any, keys: Any) -> bool:
    """Checks for known formats without other members, which could be mistaken for evidence."""
    envelopes = [one for one in (bundle["envelope"], bundle["grant"], bundle.get("removed")) if one is not None]
    return (
        bundle["format"] == "countersign-bundle/v2"
        and keys["format"] == "countersign-keys/v2"
        and chain_holds(keys)
        and set(bundle) - {"removed"} == {"format", "envelope", "grant", "call", "snapshot", "journal", "log"}
        and set(bundle["call"]) == {*NAMED, "arguments", "plan"}
        and set(bundle["call"]["tool"]) == {"name", "version", "digest"}
        and bundle["snapshot"]["format"] == "countersign-snapshot/v1"
        and 1 <= len(bundle["journal"]) <= BUNDLE_ENTRIES
        and all(set(entry) == {*HASHED, "hash"} for entry in bundle["journal"])
        and set(bundle["log"]) == {"index", "proof", "checkpoint"}
        and len(bundle["log"]["proof"]) <= PROOF_HASHES
        and len(bundle["log"]["checkpoint"]) <= NOTE_CHARS
        and all(set(one) == {"payloadType", "payload", "signatures"} for one in envelopes)
        and all(set(sig) == {"keyid", "sig"} for one in envelopes for sig in one["signatures"])
    )


def _is_ours(statement: Any) -> bool:
    return (
        statement["_type"] == "https://in-toto.io/Statement/v1"
        and statement["predicateType"] == PREDICATE_TYPE
        and len(statement["subject"]) == 1
    )


def _approved(facts: Any) -> bool:
    approval = facts["approval"]
    return approval is not None and any(answer["decision"] == "approve" for answer in approval["answers"])


ENDED = "/predicate/execution/ended_at_ms"
GRANT = {"facts", "worker", "fence", "issued_at_ms", "deadline_ms", "folder", "proven"}


def _grant_in(envelope: Any, keys: Any) -> Optional[Dict[str, Any]]:
    """The grant, if the edge signed it when it was issued, maybe with an earlier key than the attestation."""
    if envelope is None:
        return None
    grant = parse(bytes_of(envelope["payload"]))
    kid, at = envelope["signatures"][0]["keyid"], grant["issued_at_ms"]
    key = key_at(keys, kid, "edge", None, at, at)
    if key is None or not signed_by_exactly(envelope, GRANT_TYPE, {kid: key_of(key)}):
        return None
    return grant if set(grant) <= GRANT else None
