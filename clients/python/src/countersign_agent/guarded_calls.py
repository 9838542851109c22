"""The part that all adapters share: a model's tool call becomes a call of one run, under a key that
is made of the conversation and the model's own id of the call. A framework that runs a tool again
after a pause, in this process or another, thereby gets the call that was proposed before.
"""

import hashlib
import json
import re
from typing import Any, Dict, List, Mapping, Optional, Sequence

from .api import Call, Run, ToolSummary
from .client import Countersign, has_ended


class GuardedCalls:
    """``conversation`` names the run and its session; use the same name after a restart."""

    def __init__(self, agent: Countersign, conversation: str) -> None:
        if not re.fullmatch(r"[\x21-\x7e]{1,128}", conversation):
            raise ValueError("`conversation` must have 1 to 128 printable ASCII characters without spaces")
        self._agent = agent
        self._conversation = conversation
        self._run: Optional[Run] = None

    def tools(self, names: Optional[Sequence[str]] = None) -> List[ToolSummary]:
        """The definitions of the named tools; all that the agent may call by default."""
        known = self._agent.tools()
        have = [tool["name"] for tool in known]
        for name in names or ():
            if name not in have:
                raise ValueError(f"the agent has no tool `{name}`; it has {', '.join(have)}")
        return [tool for tool in known if names is None or tool["name"] in names]

    def propose(self, call_id: Optional[str], tool: str, args: Mapping[str, Any]) -> Call:
        """The call of the model's tool call, proposed if it is new: ended or pending."""
        if not call_id:
            raise ValueError("the tool call has no id, so it could run twice")
        if self._run is None:
            spec: Any = {"session": self._conversation}
            self._run = self._agent.create_run(spec, idempotency_key=self._key(""))
        call = self._agent.propose(tool, args, run=self._run, idempotency_key=self._key(call_id))
        return call if call["state"] == "awaiting_approval" else self.settled(call)

    def settled(self, call: Call) -> Call:
        """The call after its end."""
        return call if has_ended(call) else self._agent.wait(call)

    def _key(self, call_id: str) -> str:
        # The same bytes as in the TypeScript package, so that both find each other's calls.
        named = json.dumps([self._conversation, call_id], ensure_ascii=False, separators=(",", ":"))
        return f"guard-{hashlib.sha256(named.encode()).hexdigest()}"


def pending_of(call: Call) -> Dict[str, Any]:
    """A call that waits, as the program gets it and may show it to its user."""
    approval = call.get("approval")
    page = {} if approval is None else {"page": approval["page"], "expires_at": approval["expires_at"]}
    return {"call": call["id"], "run": call["run"], "tool": call["tool"], "state": call["state"], **page}
