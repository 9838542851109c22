"""Judges Ed25519 signatures by the one rule of shared/evidence/ed25519.ts, in arithmetic of its own: a peer that the tests compare with.

Reads lines `x message signature` (hex) from standard input; writes `equation rule` for each, as 0 or 1.
"""

import hashlib
import sys

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
I = pow(2, (P - 1) // 4, P)


def add(p, q):
    (x1, y1, z1, t1), (x2, y2, z2, t2) = p, q
    a, b = (y1 - x1) * (y2 - x2) % P, (y1 + x1) * (y2 + x2) % P
    c, d = 2 * t1 * t2 * D % P, 2 * z1 * z2 % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


NEUTRAL = (0, 1, 1, 0)


def times(n, p):
    q = NEUTRAL
    while n:
        if n & 1:
            q = add(q, p)
        p, n = add(p, p), n >> 1
    return q


def equal(p, q):
    return (p[0] * q[2] - q[0] * p[2]) % P == 0 and (p[1] * q[2] - q[1] * p[2]) % P == 0


def point(text):
    """The point that a lenient reader sees, and whether this is its canonical spelling."""
    number = int.from_bytes(text, "little")
    sign, written = number >> 255, number & (2**255 - 1)
    y = written % P
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if x * x % P != square:
        x = x * I % P
    if x * x % P != square:
        return None, False
    if x & 1 != sign:
        x = -x % P
    return (x, y, 1, x * y % P), written < P and x & 1 == sign


BASE, _ = point((4 * pow(5, -1, P) % P).to_bytes(32, "little"))


def judged(key, message, signature):
    (a, a_canonical), (r, r_canonical) = point(key), point(signature[:32])
    s = int.from_bytes(signature[32:], "little")
    if a is None or r is None:
        return False, False
    h = int.from_bytes(hashlib.sha512(signature[:32] + key + message).digest(), "little") % L
    equation = equal(times(s % L, BASE), add(r, times(h, a)))
    large = not equal(times(8, a), NEUTRAL) and not equal(times(8, r), NEUTRAL)
    return equation, equation and a_canonical and r_canonical and large and s < L


for line in sys.stdin:
    key, message, signature = (bytes.fromhex(part) for part in line.rstrip("\n").split(" "))
    equation, rule = judged(key, message, signature)
    print(int(equation), int(rule))
