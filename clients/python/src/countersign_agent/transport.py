"""Sends requests to the edge, and sends them again where that is safe and can help.

Every request of this client is safe to send twice: a proposal carries its ``Idempotency-Key``, and
all others have the same effect twice as once.
"""

import email.utils
import http.client
import json
import random
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Callable, Dict, Mapping, Optional, Union

from .api import ROUTES
from .errors import ConnectionFailed, ProblemError

Key = Union[str, Callable[[], str]]

#: The edge waits no longer than this for a call to end.
WAIT_S = 60
#: The time limit of a request, in addition to the wait that the caller asked for.
ANSWER_S = 30.0
FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 30.0
MAX_PROBLEM_BYTES = 65_536
#: Statuses with which an intermediary says that a later attempt may succeed.
PASSING = frozenset({408, 429, 502, 503, 504})


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the key to an address that nobody configured."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> None:
        raise ConnectionFailed(f"{req.host} redirects; give the client the final address")


class Transport:
    def __init__(self, url: str, key: Key, tries: int = 6, total_s: float = 120.0) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ValueError("`url` must be the http or https address of an edge")
        self._base = f"{parts.scheme}://{parts.netloc}"
        self._key = key
        self._tries = tries
        self._total_s = total_s
        # Only a proxy that the environment names; no redirects, no cookies.
        self._opener = urllib.request.build_opener(_NoRedirects())

    def json(self, route: str, **outgoing: Any) -> Any:
        with self.send(route, **outgoing) as response:
            try:
                return json.loads(response.read())
            except (ValueError, http.client.HTTPException, OSError) as error:
                raise ConnectionFailed(f"the answer to {route} is not complete JSON") from error

    def send(
        self,
        route: str,
        *,
        params: Mapping[str, str] = {},
        query: Mapping[str, str] = {},
        body: Any = None,
        headers: Mapping[str, str] = {},
        wait_s: Optional[int] = None,
        timeout_s: Optional[float] = None,
    ) -> http.client.HTTPResponse:
        """Returns a successful response; raises anything else, after retrying where that can help."""
        method, path = ROUTES[route]
        filled = re.sub(r"\{(\w+)\}", lambda name: urllib.parse.quote(params[name[1]], safe=""), path)
        url = self._base + filled + (f"?{urllib.parse.urlencode(query)}" if query else "")
        timeout = timeout_s if timeout_s is not None else ANSWER_S + (wait_s or 0)
        until = time.monotonic() + self._total_s
        tried = 0
        while True:
            tried += 1
            request = urllib.request.Request(
                url, data=_encoded(body), method=method, headers=self._headers(body, headers, wait_s)
            )
            failed: Union[ConnectionFailed, ProblemError]
            try:
                return self._opener.open(request, timeout=timeout)  # type: ignore[no-any-return]
            except urllib.error.HTTPError as error:
                failed = problem_of(error)
            except (OSError, http.client.HTTPException) as error:
                failed = ConnectionFailed(f"{self._base} did not answer")
                failed.__cause__ = error
            pause = _pause_after(failed, tried)
            if pause is None or tried >= self._tries or time.monotonic() + pause > until:
                raise failed
            time.sleep(pause)

    def _headers(self, body: Any, more: Mapping[str, str], wait_s: Optional[int]) -> Dict[str, str]:
        key = self._key if isinstance(self._key, str) else self._key()
        headers = {"authorization": f"Bearer {key}", "accept": "*/*", **more}
        if body is not None:
            raw = isinstance(body, (bytes, bytearray))
            headers["content-type"] = "application/octet-stream" if raw else "application/json"
        if wait_s is not None:
            headers["prefer"] = f"wait={wait_s}"
        return headers


def _encoded(body: Any) -> Optional[bytes]:
    if body is None or isinstance(body, (bytes, bytearray)):
        return body
    return json.dumps(body, ensure_ascii=False, allow_nan=False).encode()


def problem_of(response: urllib.error.HTTPError) -> ProblemError:
    body: Dict[str, Any] = {}
    with response:
        if "json" in response.headers.get("content-type", ""):
            try:
                read = json.loads(response.read(MAX_PROBLEM_BYTES))
                body = read if isinstance(read, dict) else {}
            except (ValueError, OSError, http.client.HTTPException):
                body = {}
    known = isinstance(body.get("code"), str)
    problem = {
        "code": body["code"] if known else "unknown",
        "detail": str(body.get("detail", "")) if known else f"status {response.code}, no problem document",
        "todo": str(body.get("todo", "")) if known else "check the address of the edge",
        "retry": body.get("retry") is True if known else response.code in PASSING,
        "errors": body["errors"] if isinstance(body.get("errors"), list) else [],
    }
    retry_after = _retry_after(response.headers.get("retry-after"))
    return ProblemError(response.code, problem, retry_after, response.headers.get("request-id"))


def _retry_after(header: Optional[str]) -> Optional[float]:
    """``Retry-After`` is a number of seconds or a date."""
    if header is None:
        return None
    if re.fullmatch(r"[0-9]{1,6}", header):
        return float(header)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(header).timestamp() - time.time())
    except (TypeError, ValueError):
        return None


def _pause_after(failed: Union[ConnectionFailed, ProblemError], tried: int) -> Optional[float]:
    """How long to pause before the next attempt; None if retrying can't help."""
    backoff = random.random() * min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**tried)
    if isinstance(failed, ConnectionFailed):
        return backoff
    if not failed.retry:
        return None
    asked = failed.retry_after or 0.0
    return None if asked > LONGEST_PAUSE_S else max(asked, backoff)
