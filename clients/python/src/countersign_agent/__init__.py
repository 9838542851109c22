"""Propose an agent's tool calls to Countersign, wait for approvals, verify what ran."""

from .call_text import text_for
from .client import Countersign, Files, has_ended
from .errors import ConnectionFailed, CountersignError, ProblemError
from .verify import Check, Verdict, verify

__all__ = [
    "Check",
    "ConnectionFailed",
    "Countersign",
    "CountersignError",
    "Files",
    "ProblemError",
    "Verdict",
    "has_ended",
    "text_for",
    "verify",
]
