"""Checks that a log, whose head the edge has signed, has the end of a call.

The head is a C2SP checkpoint in a signed note, the proof that of RFC 9162 §2.1.3.2. As
shared/evidence/checkpoint.ts and merkle.ts.
"""

import base64
import hashlib
import re
from typing import Any, Iterable, Iterator, Optional, Tuple

from .checks import whole
from .ed25519 import is_signed_by

ORIGIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9./:_-]{0,200}")
SIZE = re.compile(r"0|[1-9][0-9]{0,15}")
SIGNATURE = re.compile(r"— ([^\s+]{1,201}) (\S{1,512})")
HASH = re.compile(r"[0-9a-f]{64}")
NOTE_CHARS = 16_384
SIGNATURE_LINES = 16
MAX_SAFE = 2**53 - 1


def log_checks(log: Any, entry_hash: str, tenant: str, keys: Iterable[bytes]) -> Iterator[Tuple[str, bool]]:
    note = log["checkpoint"]
    origin = note.partition("\n")[0]
    of_tenant = origin.split("/")[1:] == [tenant]
    head = next((head for key in keys if (head := _head_in(note, origin, key)) is not None), None)
    yield "the edge signed the checkpoint of the tenant’s log", of_tenant and head is not None
    leaf = hashlib.sha256(b"\0" + bytes.fromhex(entry_hash)).digest()
    included = head is not None and _is_included(leaf, whole(log["index"]), *head, log["proof"])
    yield "the end of the call is in the log under this checkpoint", included


def _head_in(note: str, origin: str, key: bytes) -> Optional[Tuple[int, bytes]]:
    """Size and root of the log, if its key signed them. Signatures by others are ignored."""
    text, cut, signatures = note.rpartition("\n\n")
    if len(note) > NOTE_CHARS or cut == "" or not signatures.endswith("\n"):
        return None
    lines = text.split("\n")
    if len(lines) != 3 or not ORIGIN.fullmatch(origin) or not SIZE.fullmatch(lines[1]):
        return None
    size, root = int(lines[1]), _base64(lines[2])
    if size > MAX_SAFE or root is None or len(root) != 32:
        return None
    name = f"{origin}\n".encode()
    key_hash = hashlib.sha256(name + b"\x01" + key).digest()[:4]
    signed, lines = False, signatures[:-1].split("\n")
    if len(lines) > SIGNATURE_LINES:
        return None
    for line in lines:
        match = SIGNATURE.fullmatch(line)
        encoded = None if match is None else _base64(match[2])
        if match is None or encoded is None or len(encoded) <= 4:
            return None
        if match[1] != origin or encoded[:4] != key_hash:
            continue
        if not is_signed_by(key, f"{text}\n".encode(), encoded[4:]):
            return None
        signed = True
    return (size, root) if signed else None


def _base64(text: str) -> Optional[bytes]:
    try:
        decoded = base64.b64decode(text, validate=True)
    except ValueError:
        return None
    return decoded if base64.b64encode(decoded).decode() == text else None


def _is_included(leaf: bytes, index: int, size: int, root: bytes, proof: Any) -> bool:
    if not 0 <= index < size or not all(HASH.fullmatch(sibling) for sibling in proof):
        return False
    node, last, value = index, size - 1, leaf
    for sibling in map(bytes.fromhex, proof):
        if last == 0:
            return False
        if node % 2 == 1 or node == last:
            value = _node(sibling, value)
            while node % 2 == 0 and node != 0:  # levels where this node has no sibling
                node, last = node // 2, last // 2
        else:
            value = _node(value, sibling)
        node, last = node // 2, last // 2
    return last == 0 and value == root


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()
