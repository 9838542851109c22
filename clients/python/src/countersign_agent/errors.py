"""The errors that the client raises. A denied or failed call is not one of them."""

from typing import Any, Dict, List, Optional


class CountersignError(Exception):
    """Any error of this package."""


class ProblemError(CountersignError):
    """The edge answered, and refused (RFC 9457)."""

    def __init__(
        self,
        status: int,
        body: Dict[str, Any],
        retry_after: Optional[float],
        request_id: Optional[str] = None,
    ) -> None:
        self.status = status
        #: Stable. "unknown" if the answer was not from an edge, but from something in between.
        self.code: str = body["code"]
        self.detail: str = body["detail"]
        #: What to do next.
        self.todo: str = body["todo"]
        #: Whether the same request can succeed later. The client has already tried again.
        self.retry: bool = body["retry"]
        self.errors: List[Dict[str, str]] = body["errors"]
        self.retry_after = retry_after
        #: Names this request in the edge's log.
        self.request_id = request_id
        super().__init__(f"{self.code}: {self.detail}" + (f" ({self.todo})" if self.todo else ""))


class ConnectionFailed(CountersignError):
    """The edge could not be reached, or something other than an edge answered."""
