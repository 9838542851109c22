"""The client of an agent: proposes calls, waits for their end, verifies what was attested."""

import hashlib
import http.client
import json
import time
import uuid
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple, Union, cast

from .api import Bundle, Call, DryRun, HeldFile, Keys, Run, RunSpec, ToolSummary
from .errors import ConnectionFailed, ProblemError
from .transport import WAIT_S, Key, Transport
from .verify import Verdict, verify

#: The edge sends a comment every 15 s, so a stream that is silent for longer is dead.
IDLE_S = 45.0
MAX_RECONNECTS = 5

#: A call, or anything with its two ids.
CallRef = Mapping[str, Any]


def has_ended(call: Mapping[str, Any]) -> bool:
    """Whether a call has ended. It never changes its ending."""
    return "ended_at_ms" in call


def _new_key() -> str:
    """A random key that begins with the time (UUID version 7).

    The edge keeps calls of one time together, which saves disk and time.
    """
    now = f"{int(time.time() * 1000):012x}"
    return f"{now[:8]}-{now[8:]}-7{str(uuid.uuid4())[15:]}"


class Files:
    """Input and output files of a run, each named by the SHA-256 of its bytes."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def put(self, run: str, content: bytes) -> Dict[str, Any]:
        """Uploads an input file. Name it in ``files`` of a call of the same run."""
        digest = hashlib.sha256(content).hexdigest()
        params = {"run": run, "sha256": digest}
        return cast(Dict[str, Any], self._transport.json("put_file", params=params, body=content))

    def list(self, run: str) -> "List[HeldFile]":
        return cast("List[HeldFile]", self._transport.json("list_files", params={"run": run})["items"])

    def read(self, call: CallRef, digest: str) -> bytes:
        """An input or output file of a call, by its digest, which is checked."""
        params = {"run": call["run"], "call": call["id"], "sha256": digest}
        with self._transport.send("read_file", params=params) as response:
            content = response.read()
        if hashlib.sha256(content).hexdigest() != digest:
            raise ConnectionFailed(f"the bytes that arrived are not those of the file {digest}")
        return content


class Countersign:
    """``url``: the edge. ``key``: the agent's key, or a function that returns the current one."""

    def __init__(self, url: str, key: Key, *, tries: int = 6, total_s: float = 120.0) -> None:
        self._transport = Transport(url, key, tries, total_s)
        self.files = Files(self._transport)

    def create_run(
        self, spec: Optional[RunSpec] = None, *, idempotency_key: Optional[str] = None
    ) -> Run:
        """Opens a run: one task with one budget, in which several calls can be proposed."""
        headers = {"idempotency-key": idempotency_key or str(uuid.uuid4())}
        return cast(Run, self._transport.json("create_run", body=spec or {}, headers=headers))

    def propose(
        self,
        tool: str,
        args: Mapping[str, Any],
        *,
        run: Union[str, Run, None] = None,
        spec: Optional[RunSpec] = None,
        reason: Optional[str] = None,
        files: Optional[List[Dict[str, str]]] = None,
        idempotency_key: Optional[str] = None,
        wait_s: Optional[int] = None,
    ) -> Call:
        """Proposes a call and returns it as it is: denied, pending, running or ended.

        ``reason`` says what you are doing and why, for the people who approve. The same
        ``idempotency_key`` with the same call never runs twice; by default it is a random one.
        """
        body: Dict[str, Any] = {"tool": tool, "args": args}
        if reason is not None:
            body["reason"] = reason
        headers = {"idempotency-key": idempotency_key or _new_key()}
        wait = None if wait_s is None else min(wait_s, WAIT_S)
        if run is None:
            if spec is not None:
                body["run"] = spec
            answer = self._transport.json("propose_call_in_new_run", body=body, headers=headers, wait_s=wait)
        else:
            if files is not None:
                body["files"] = files
            params = {"run": run if isinstance(run, str) else run["id"]}
            answer = self._transport.json(
                "propose_call", params=params, body=body, headers=headers, wait_s=wait
            )
        return cast(Call, answer)

    def read(self, call: CallRef, *, wait_s: Optional[int] = None) -> Call:
        """Reads a call; with ``wait_s``, once it has ended or that time is over."""
        wait = None if wait_s is None else min(wait_s, WAIT_S)
        return cast(Call, self._transport.json("read_call", params=_ids(call), wait_s=wait))

    def wait(self, call: CallRef, *, timeout_s: Optional[float] = None) -> Call:
        """Waits for the end. Every call ends: approvals expire, executions have a deadline.

        With ``timeout_s`` it returns the call as it is then.
        """
        until = float("inf") if timeout_s is None else time.monotonic() + timeout_s
        while True:
            asked = time.monotonic()
            left = max(0.0, until - asked)
            now = self.read(call, wait_s=WAIT_S if left > WAIT_S else int(left) + (left % 1 > 0))
            if has_ended(now) or time.monotonic() >= until:
                return now
            # An intermediary may answer before the time is up: pause, so that this does not spin.
            if time.monotonic() - asked < 1:
                time.sleep(min(1.0, max(0.0, until - time.monotonic())))

    def call(
        self, tool: str, args: Mapping[str, Any], *, timeout_s: Optional[float] = None, **options: Any
    ) -> Call:
        """Proposes a call and waits for its end. ``options`` are those of ``propose``."""
        begun = time.monotonic()
        options.setdefault("wait_s", WAIT_S if timeout_s is None else min(WAIT_S, int(timeout_s) + 1))
        call = self.propose(tool, args, **options)
        if has_ended(call):
            return call
        left = None if timeout_s is None else max(0.0, timeout_s - (time.monotonic() - begun))
        return self.wait(call, timeout_s=left)

    def stream(
        self, call: CallRef, *, after: Optional[str] = None
    ) -> Iterator[Tuple[str, Dict[str, Any], str]]:
        """Follows a call: ``(event, data, id)`` for ``state``, ``stdout``, ``stderr``, ``end``.

        If the connection breaks, it reconnects and continues after the last event.
        """
        last, broken = after, 0
        while True:
            headers = {"accept": "text/event-stream", **({} if last is None else {"last-event-id": last})}
            with self._transport.send(
                "follow_call", params=_ids(call), headers=headers, timeout_s=IDLE_S
            ) as response:
                try:
                    for position, event, data in _events(response):
                        last, broken = position, 0
                        yield event, json.loads(data), position
                        if event == "end":
                            return
                except (OSError, http.client.HTTPException) as error:
                    if broken >= MAX_RECONNECTS:
                        raise ConnectionFailed("the stream of the call broke too many times") from error
            if broken >= MAX_RECONNECTS:
                raise ConnectionFailed("the stream of the call ended too many times before the call did")
            time.sleep(0.25 * 2**broken)
            broken += 1

    def cancel(self, call: CallRef) -> Call:
        """Cancels a call. One that runs is stopped by its worker; wait for its end."""
        try:
            return cast(Call, self._transport.json("cancel_call", params=_ids(call)))
        except ProblemError as error:
            # It ended before we could cancel it, or the answer to our first request was lost.
            if error.code != "already_ended":
                raise
            return self.read(call)

    def tools(self) -> List[ToolSummary]:
        """The tools that this agent may call."""
        return cast(List[ToolSummary], self._transport.json("list_tools")["items"])

    def decide(self, tool: str, args: Mapping[str, Any]) -> DryRun:
        """How a call would be decided now, and why. Proposes nothing and changes nothing."""
        return cast(DryRun, self._transport.json("decide", body={"tool": tool, "args": args}))

    def attestation(self, call: CallRef) -> Bundle:
        """The attestation of an ended call, with everything that its verification needs."""
        return cast(Bundle, self._transport.json("read_attestation", params=_ids(call)))

    def keys(self, tenant: str = "default") -> Keys:
        """The public keys of a tenant, as the edge shows them.

        Keep them: keys that the edge itself sends at the moment of verification prove nothing
        against that edge.
        """
        return cast(Keys, self._transport.json("keys", query={"tenant": tenant}))

    def verify(self, call: CallRef, keys: Mapping[str, Any]) -> Verdict:
        """Reads the attestation of an ended call and verifies it against keys that you trust."""
        return verify(self.attestation(call), keys, call=call["id"])


def _ids(call: CallRef) -> Dict[str, str]:
    return {"run": call["run"], "call": call["id"]}


#: Larger than any event of the edge: a piece of output is at most 64 KiB before its encoding.
MAX_LINE_BYTES = 1_048_576


def _events(response: http.client.HTTPResponse) -> Iterator[Tuple[str, str, str]]:
    """The server-sent events of a response, as ``(id, event, data)``."""
    fields: Dict[str, str] = {}
    for line in iter(lambda: response.readline(MAX_LINE_BYTES), b""):
        text = line.decode().rstrip("\r\n")
        if text == "":
            if "data" in fields:
                yield fields.get("id", ""), fields.get("event", "message"), fields["data"]
            fields = {}
            continue
        name, _, value = text.partition(":")
        if name in ("id", "event"):
            fields[name] = value[1:] if value.startswith(" ") else value
        elif name == "data":
            part = value[1:] if value.startswith(" ") else value
            fields["data"] = f"{fields['data']}\n{part}" if "data" in fields else part
