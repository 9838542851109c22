"""Strict JSON, and its canonical form (RFC 8785): the bytes that digests and signatures cover."""

import hashlib
import json
import math
import re
from typing import Any, Dict, List, Tuple, Union

MAX_SAFE = 2**53 - 1


def parse(text: Union[str, bytes, bytearray]) -> Any:
    """JSON that every parser reads alike: no member appears twice, no number is rounded."""
    return json.loads(
        text if isinstance(text, str) else bytes(text).decode("utf-8"),
        object_pairs_hook=_distinct,
        parse_int=_exact_int,
        parse_float=_finite,
        parse_constant=_refused,
    )


def _distinct(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs) or "__proto__" in members:
        raise ValueError("a member appears twice or has a forbidden name")
    return members


def _exact_int(text: str) -> int:
    value = int(text)
    if abs(value) > MAX_SAFE or text == "-0":
        raise ValueError("a number is too large or is -0")
    return value


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number is too large")
    return value


def _refused(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def canonical(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return _number(value)
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, (list, tuple)):
        return f"[{','.join(canonical(item) for item in value)}]"
    if isinstance(value, dict):
        # By UTF-16 code units, as RFC 8785 §3.2.3 orders names.
        names = sorted(value, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
        return "{" + ",".join(f"{_string(name)}:{canonical(value[name])}" for name in names) + "}"
    raise TypeError(f"a {type(value).__name__} has no canonical form")


def digest_of(value: Any) -> str:
    return hashlib.sha256(canonical(value).encode("utf-8")).hexdigest()


ESCAPES = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


def _string(text: str) -> str:
    escaped = re.sub(r'[\x00-\x1f"\\]', lambda m: ESCAPES.get(m[0]) or f"\\u{ord(m[0]):04x}", text)
    return f'"{escaped}"'


def _number(value: Union[int, float]) -> str:
    """The text of a double as ECMAScript writes it: the fewest digits that give the same double."""
    if isinstance(value, int):
        return str(value)
    if not math.isfinite(value):
        raise ValueError("a number that is not finite has no canonical form")
    if value == 0:
        return "0"
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0)
    point -= len(whole + fraction) - len((whole + fraction).lstrip("0"))
    digits = digits.rstrip("0") or "0"
    sign = "-" if value < 0 else ""
    if 0 < point <= 21:
        padded = digits.ljust(point, "0")
        return sign + padded[:point] + (f".{padded[point:]}" if len(padded) > point else "")
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    power = point - 1
    tail = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{tail}e{'+' if power >= 0 else '-'}{abs(power)}"
