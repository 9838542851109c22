"""Signed envelopes (DSSE) and public keys, in the one encoding that is accepted."""

import base64
import binascii
import re
from typing import Any, Mapping

from .ed25519 import is_public_key, is_signed_by

BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?")


def signed_by_exactly(envelope: Any, kind: str, keys: Mapping[str, bytes]) -> bool:
    """Checks for one signature by each key and no other: another one could look like an endorsement."""
    signatures = envelope["signatures"]
    if envelope["payloadType"] != kind or len(signatures) != len(keys):
        return False
    payload = bytes_of(envelope["payload"])
    signed = b"DSSEv1 %d %s %d %s" % (len(kind.encode()), kind.encode(), len(payload), payload)
    seen = set()
    for one in signatures:
        key = keys.get(one["keyid"])
        if key is None or one["keyid"] in seen or not is_signed_by(key, signed, bytes_of(one["sig"])):
            return False
        seen.add(one["keyid"])
    return True


def bytes_of(text: str) -> bytes:
    """Canonical base64 only, so that no byte of an envelope can change unnoticed."""
    if not BASE64.fullmatch(text):
        raise ValueError("not canonical base64")
    return base64.b64decode(text, validate=True)


def key_of(x: str) -> bytes:
    if not re.fullmatch(r"[A-Za-z0-9_-]{43}", x):
        raise ValueError("not a public key")
    try:
        encoded = base64.urlsafe_b64decode(f"{x}=")
    except binascii.Error as error:
        raise ValueError("not a public key") from error
    if base64.urlsafe_b64encode(encoded).decode().rstrip("=") != x or not is_public_key(encoded):
        raise ValueError("not a public key")
    return encoded
