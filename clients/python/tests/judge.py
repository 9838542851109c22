"""Reads questions as JSON lines and writes what this package answers, for a comparison with the edge."""

import json
import sys

from countersign_agent import verify
from countersign_agent.contradictions import contradictions
from countersign_agent.canonical import digest_of, parse
from countersign_agent.ed25519 import is_public_key, is_signed_by


def answered(question: dict) -> object:
    if "signature" in question:
        key = bytes.fromhex(question["key"])
        return is_public_key(key) and is_signed_by(
            key, bytes.fromhex(question["message"]), bytes.fromhex(question["signature"])
        )
    if "statement" in question:
        return contradictions(question["statement"], question["grant"], question["plan"])
    if "json" in question:
        try:
            return digest_of(parse(question["json"]))
        except (ValueError, RecursionError):
            return None
    return verify(question["bundle"], question["keys"]).ok


for line in sys.stdin:
    print(json.dumps(answered(json.loads(line))))
