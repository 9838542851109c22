"""Verifies the attestation of a call offline, with only public keys and the standard library.

Checked here: the keys, the canonical form, exactly the right signatures, all digests (of the call,
its arguments, its plan, its grant and its execution), that statement, grant and call name the same
call, that an approval exists where policy asked for one, and that nothing ran without a grant.

Not checked here, but by ``countersign verify`` and by the TypeScript package: whether the report of
an execution, which edge and worker both signed, contradicts itself or its plan (limits, times,
connections, output). ``Verdict.unchecked`` says so.
"""

import base64
import binascii
import re
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Tuple, Union

from .canonical import canonical, digest_of, parse
from .ed25519 import is_public_key, is_signed_by

STATEMENT_TYPE = "application/vnd.in-toto+json"
GRANT_TYPE = "application/vnd.countersign.grant+json"
PREDICATE_TYPE = "https://countersign.dev/attestation/v1"
#: Executors that are the edge itself; a worker executes all else and signs too.
EDGE_EXECUTORS = ("edge", "wasm_isolate")
BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?")
UNCHECKED = "whether the signed report of the execution contradicts itself or its plan"


@dataclass(frozen=True)
class Check:
    name: str
    ok: bool


@dataclass
class Verdict:
    """``ok`` only if every check holds. Read the statement only then."""

    checks: List[Check] = field(default_factory=list)
    statement: Optional[Dict[str, Any]] = None
    unchecked: Tuple[str, ...] = (UNCHECKED,)

    @property
    def ok(self) -> bool:
        return len(self.checks) > 0 and all(check.ok for check in self.checks)

    def holds(self, name: str, condition: bool) -> bool:
        self.checks.append(Check(name, condition))
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
    payload = _base64(bundle["envelope"]["payload"])
    statement = parse(payload)
    if not holds("the payload is an in-toto statement of our predicate", _is_ours(statement)):
        return
    if not holds("the payload is in canonical form", payload == canonical(statement).encode()):
        return
    verdict.statement = statement
    predicate = statement["predicate"]
    facts, execution, grant = predicate["facts"], predicate["execution"], predicate["grant"]
    holds("the key file belongs to the tenant of the attestation", keys["tenant"] == facts["tenant"])

    edges = {key["kid"]: _key(key["x"]) for key in keys["keys"] if key["role"] == "edge"}
    signers = [one["keyid"] for one in bundle["envelope"]["signatures"]]
    edge = next((kid for kid in signers if kid in edges), None)
    if edge is None:
        holds("an edge key from the key file signed it", False)
        return
    required = {edge: edges[edge]}
    executed = execution["executor"] != "edge"
    if execution["executor"] not in EDGE_EXECUTORS:
        named = grant["worker"] if grant is not None else None
        worker = next(
            (key for key in keys["keys"] if key["role"] == "worker" and key.get("worker") == named), None
        )
        if worker is None:
            holds("the worker that the grant names has a key in the key file", False)
            return
        required[worker["kid"]] = _key(worker["x"])
    by = "the worker and the edge" if len(required) == 2 else "the edge"
    if not holds(f"exactly {by} signed it", _signed_by_exactly(bundle["envelope"], STATEMENT_TYPE, required)):
        return

    about = bundle["call"]
    names = ("tenant", "run", "call", "tool", "arguments", "plan")
    covered = digest_of({name: about[name] for name in names})
    holds("the digest covers these arguments and this plan", facts["digest"] == covered)
    same = all(canonical(facts[n]) == canonical(about[n]) for n in ("tenant", "run", "call", "tool"))
    holds("the facts name the same call", same)
    subject = statement["subject"][0]
    named = subject["name"] == facts["call"] and subject["digest"]["sha256"] == facts["digest"]
    holds("the subject is this call", named)
    holds("the digest of the arguments matches", facts["args_sha256"] == digest_of(about["arguments"]))
    plan = about["plan"]
    holds("the digest of the plan matches", facts["plan_sha256"] == (None if plan is None else digest_of(plan)))
    bounds = plan or {}
    bounded = all(canonical(facts[n]) == canonical(bounds.get(n)) for n in ("limits", "egress"))
    holds("limits and egress are the plan’s", bounded)
    digest = digest_of({"digest": facts["digest"], "execution": execution})
    holds("the digest of the execution matches", predicate["execution_sha256"] == digest)
    asked = facts["decision"]["effect"] == "ask" and grant is not None
    holds("an approval exists where policy asks for one", not asked or _approved(facts))
    allowed = grant is not None and facts["decision"]["effect"] != "deny"
    holds("nothing ran without a grant", not executed or allowed)
    granted = _grant_fits(bundle["grant"], grant, facts, edge, edges[edge])
    holds("the grant is the edge’s, for this call and worker", granted)
    if call is not None:
        holds("the bundle is about the expected call", facts["call"] == call)


def _formats(bundle: Any, keys: Any) -> bool:
    """Checks for known formats without other members, which could be mistaken for evidence."""
    envelopes = [one for one in (bundle["envelope"], bundle["grant"]) if one is not None]
    return (
        bundle["format"] == "countersign-bundle/v1"
        and keys["format"] == "countersign-keys/v1"
        and set(bundle) == {"format", "envelope", "grant", "call"}
        and set(bundle["call"]) == {"tenant", "run", "call", "tool", "arguments", "plan"}
        and set(bundle["call"]["tool"]) == {"name", "version", "digest"}
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


def _grant_fits(envelope: Any, named: Any, facts: Any, kid: str, edge: bytes) -> bool:
    if envelope is None or named is None:
        return envelope is None and named is None
    if not _signed_by_exactly(envelope, GRANT_TYPE, {kid: edge}):
        return False
    grant = parse(_base64(envelope["payload"]))
    return (
        named["sha256"] == digest_of(grant)
        and all(named[name] == grant[name] for name in ("worker", "fence", "deadline_ms"))
        and canonical(grant["facts"]) == canonical(facts)
    )


def _signed_by_exactly(envelope: Any, kind: str, keys: Mapping[str, bytes]) -> bool:
    """Checks for one signature by each key and no other, which could be mistaken for an endorsement."""
    signatures = envelope["signatures"]
    if envelope["payloadType"] != kind or len(signatures) != len(keys):
        return False
    payload = _base64(envelope["payload"])
    signed = b"DSSEv1 %d %s %d %s" % (len(kind.encode()), kind.encode(), len(payload), payload)
    seen = set()
    for one in signatures:
        key = keys.get(one["keyid"])
        if key is None or one["keyid"] in seen or not is_signed_by(key, signed, _base64(one["sig"])):
            return False
        seen.add(one["keyid"])
    return True


def _base64(text: str) -> bytes:
    """Canonical base64 only, so that no byte of an envelope can change unnoticed."""
    if not BASE64.fullmatch(text):
        raise ValueError("not canonical base64")
    return base64.b64decode(text, validate=True)


def _key(x: str) -> bytes:
    if not re.fullmatch(r"[A-Za-z0-9_-]{43}", x):
        raise ValueError("not a public key")
    try:
        encoded = base64.urlsafe_b64decode(f"{x}=")
    except binascii.Error as error:
        raise ValueError("not a public key") from error
    if base64.urlsafe_b64encode(encoded).decode().rstrip("=") != x or not is_public_key(encoded):
        raise ValueError("not a public key")
    return encoded
