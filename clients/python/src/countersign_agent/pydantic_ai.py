"""Tools for Pydantic AI. A call that needs an approval becomes the framework's own deferred call:
the run ends with ``DeferredToolRequests``, and continues with the results of the calls.

Written against the documented interface of Pydantic AI: ``Tool.from_schema``, ``CallDeferred``,
``DeferredToolRequests.calls`` and ``DeferredToolResults``. Its tests use a stand-in for those four
names, because the framework could not be installed where they were written.
"""

from typing import Any, List, Optional, Sequence

from .call_text import refusal_text, text_for
from .client import Countersign
from .errors import ProblemError
from .guarded_calls import GuardedCalls, pending_of


class GuardedTools:
    """``tools`` are for the agent, whose ``output_type`` must list ``DeferredToolRequests``."""

    def __init__(self, calls: GuardedCalls, tools: List[Any]) -> None:
        self._calls = calls
        self.tools = tools

    def results(self, requests: Any) -> Any:
        """Waits for the end of the deferred calls: the value for ``deferred_tool_results``."""
        from pydantic_ai import DeferredToolResults  # type: ignore[import-not-found]

        names = {tool.name for tool in self.tools}
        ended = {}
        for part in requests.calls:
            if part.tool_name not in names:
                continue
            try:
                call = self._calls.propose(part.tool_call_id, part.tool_name, part.args_as_dict())
                ended[part.tool_call_id] = text_for(self._calls.settled(call))
            except ProblemError as error:
                ended[part.tool_call_id] = refusal_text(error)
        return DeferredToolResults(calls=ended)


def guard(agent: Countersign, *, conversation: str, tools: Optional[Sequence[str]] = None) -> GuardedTools:
    from pydantic_ai import CallDeferred, Tool

    calls = GuardedCalls(agent, conversation)

    def made(name: str, description: str, schema: Any) -> Any:
        def run(ctx: Any, /, **args: Any) -> str:
            try:
                call = calls.propose(ctx.tool_call_id, name, args)
            except ProblemError as error:
                return refusal_text(error)
            if call["state"] == "awaiting_approval":
                raise CallDeferred(metadata=pending_of(call))
            return text_for(call)

        return Tool.from_schema(
            function=run, name=name, description=description, json_schema=schema, takes_ctx=True
        )

    known = calls.tools(tools)
    return GuardedTools(calls, [made(one["name"], one["description"], one["input_schema"]) for one in known])
