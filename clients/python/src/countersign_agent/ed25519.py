"""Verifies Ed25519 signatures (RFC 8032), which Python's standard library can't.

One rule, the same as the edge's: canonical encodings, no point of small order, a reduced S, and the
equation without the cofactor. Everything here is public, so nothing has to run in constant time.
"""

import hashlib
from functools import lru_cache
from typing import Optional, Tuple

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
SQRT_MINUS_ONE = pow(2, (P - 1) // 4, P)

#: Extended coordinates: x = X/Z, y = Y/Z, xy = T/Z.
Point = Tuple[int, int, int, int]
NEUTRAL: Point = (0, 1, 1, 0)


@lru_cache(maxsize=256)
def is_signed_by(public_key: bytes, message: bytes, signature: bytes) -> bool:
    """Whether the holder of ``public_key`` signed exactly these bytes."""
    if len(public_key) != 32 or len(signature) != 64:
        return False
    key, nonce = _decoded(public_key), _decoded(signature[:32])
    s = int.from_bytes(signature[32:], "little")
    if key is None or nonce is None or s >= L:
        return False
    if _equal(_times(8, key), NEUTRAL) or _equal(_times(8, nonce), NEUTRAL):
        return False
    k = int.from_bytes(hashlib.sha512(signature[:32] + public_key + message).digest(), "little") % L
    return _equal(_times(s, BASE), _add(nonce, _times(k, key)))


def is_public_key(encoded: bytes) -> bool:
    """Whether these bytes are the one encoding of a point of large order."""
    point = _decoded(encoded) if len(encoded) == 32 else None
    return point is not None and not _equal(_times(8, point), NEUTRAL)


def _decoded(encoded: bytes) -> Optional[Point]:
    """The point, or nothing if the bytes are not its only encoding."""
    number = int.from_bytes(encoded, "little")
    sign, y = number >> 255, number & (2**255 - 1)
    if y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if x * x % P != square:
        x = x * SQRT_MINUS_ONE % P
    if x * x % P != square or (x == 0 and sign == 1):
        return None
    if x & 1 != sign:
        x = P - x
    return x, y, 1, x * y % P


def _add(p: Point, q: Point) -> Point:
    a = (p[1] - p[0]) * (q[1] - q[0]) % P
    b = (p[1] + p[0]) * (q[1] + q[0]) % P
    c = 2 * p[3] * q[3] * D % P
    d = 2 * p[2] * q[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def _times(factor: int, point: Point) -> Point:
    total = NEUTRAL
    while factor > 0:
        if factor & 1:
            total = _add(total, point)
        point = _add(point, point)
        factor >>= 1
    return total


def _equal(p: Point, q: Point) -> bool:
    return (p[0] * q[2] - q[0] * p[2]) % P == 0 and (p[1] * q[2] - q[1] * p[2]) % P == 0


def _base() -> Point:
    point = _decoded((4 * pow(5, -1, P) % P).to_bytes(32, "little"))
    assert point is not None, "the base point of RFC 8032"
    return point


BASE: Point = _base()
