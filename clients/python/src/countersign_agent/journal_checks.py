"""Compares a statement with the journal of its run. As shared/evidence/journal-checks.ts."""

from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from .canonical import canonical, digest_of
from .checks import whole

#: The most entries of a bundle; beyond them, those of other calls may be missing.
BUNDLE_ENTRIES = 200
LINKED = "the journal entries are linked up to the end of the call"
APART = (
    "each entry shown fits its hash; others are left out, and only those after the last gap are linked"
    " to the log"
)
HASHED = ("seq", "at_ms", "kind", "call", "body", "prev")
ANSWERS = ("approved", "rejected", "denied", "edited")

Entries = Sequence[Dict[str, Any]]


def journal_checks(statement: Any, entries: Entries) -> Iterator[Tuple[str, bool]]:
    predicate = statement["predicate"]
    facts, grant, state = predicate["facts"], predicate["grant"], predicate["state"]
    own = [entry for entry in entries if entry["call"] == facts["call"]]
    first, last = entries[0], entries[-1]
    yield _linked(entries)
    yield "the journal begins with the proposal of this call", _is_proposed(facts, own, first)
    answered = _same(_approval_in(own), facts["approval"])
    yield "the journal has the answers that the facts name, each given in time", answered
    claimed, claim = _claim_in(own)
    under = {name: facts["decision"][name] for name in ("policy_set", "snapshot")}
    if grant is None:
        held = claim is None and (state != "released" or _same(_members(last, *under), under))
    else:
        named = {name: grant[name] for name in ("worker", "fence", "deadline_ms")}
        held = _same(claim, {**named, **under})
    yield "the journal has the claim under this grant", claimed and held
    outcome = predicate["execution"]["outcome"]
    end = {"attestation": predicate["attestation_id"], "execution_sha256": predicate["execution_sha256"]}
    if outcome is not None:
        end.update(worker=None if grant is None else grant["worker"], error=predicate["error"])
    ends = [entry for entry in own if "attestation" in entry["body"]]
    kind = last["kind"] == state or (last["kind"] == "withdrawn" and state == "cancelled")
    ended = len(ends) == 1 and ends[0] is last and kind and _same(_members(last, *end), end)
    yield "the last entry ends the call and names this attestation", ended
    kinds = [entry["kind"] for entry in own]
    since = kinds[len(kinds) - kinds[::-1].index("claimed") :] if "claimed" in kinds else kinds
    cancelled = outcome is not None and outcome["kind"] == "cancelled"
    yield "a call that its executor cancelled was to be cancelled", not cancelled or "cancel_requested" in since


def _linked(entries: Entries) -> Tuple[str, bool]:
    first, last = whole(entries[0]["seq"]), whole(entries[-1]["seq"])
    apart = last - first >= BUNDLE_ENTRIES
    seq, head = first - 1, entries[0]["prev"]
    for entry in entries:
        if apart and whole(entry["seq"]) > seq + 1:
            seq, head = entry["seq"] - 1, entry["prev"]
        linked = whole(entry["seq"]) == seq + 1 and entry["prev"] == head
        if not linked or entry["hash"] != digest_of({name: entry[name] for name in HASHED}):
            return LINKED, False
        seq, head = entry["seq"], entry["hash"]
    return APART if apart else LINKED, True


def _is_proposed(facts: Any, own: Entries, first: Any) -> bool:
    """If an operator changes the arguments of a waiting call, it counts as a new proposal."""
    proposal = {"tool": facts["tool"]["name"], "version": facts["tool"]["version"]}
    if "origin" in facts:
        proposal["origin"] = facts["origin"]
    if first["call"] != facts["call"] or not _same(_members(first, "tool", "version", "origin"), proposal):
        return False
    edited = next((entry for entry in reversed(own) if entry["kind"] == "edited"), first)
    digests = {name: facts[name] for name in ("digest", "args_sha256")}
    return _same(_members(edited, *digests), digests)


def _approval_in(own: Entries) -> Any:
    """The approval according to the journal; False if an answer came too late."""
    body = own[0]["body"] if own else {}
    if "approval" not in body:
        return None
    answers: List[Any] = list(body.get("answers", []))
    for entry in own[1:]:
        answer = entry["body"]
        if entry["kind"] not in ANSWERS or not isinstance(answer.get("by"), str):
            continue
        if whole(entry["at_ms"]) >= body["expires_at"]:
            return False
        # Answers to earlier arguments don't count, and one to this call replaces a standing one.
        kept = [] if entry["kind"] == "edited" else [one for one in answers if one["by"] != answer["by"]]
        answers = [*kept, answer]
    scopes = [one.get("scope") for one in answers]
    return {
        "id": body["approval"],
        "scope": next((scope for scope in ("session", "timeboxed") if scope in scopes), "once"),
        "answers": [
            {name: one[name] for name in ("by", "decision", "channel", "at_ms", "standing") if name in one}
            for one in answers
        ],
    }


def _claim_in(own: Entries) -> Tuple[bool, Optional[Dict[str, Any]]]:
    """Whether the claims follow each other, and the one under which the call ran at its end, if it did."""
    claim, fence = None, 0
    for entry in own:
        if entry["kind"] == "worker_lost":
            claim = None
        if entry["kind"] == "claimed":
            fence += 1
            if claim is not None or entry["body"].get("fence") != fence:
                return False, None
            claim = _members(entry, "worker", "fence", "deadline_ms", "policy_set", "snapshot")
    return True, claim


def _members(entry: Any, *names: str) -> Dict[str, Any]:
    return {name: entry["body"][name] for name in names if name in entry["body"]}


def _same(found: Any, expected: Any) -> bool:
    return canonical(found) == canonical(expected)
