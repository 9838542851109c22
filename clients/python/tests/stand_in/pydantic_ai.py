"""A stand-in for the four names of Pydantic AI that the adapter uses, with the shapes and the rules
that its documentation gives. It is not Pydantic AI: what passes here is not proven there.
"""

import json
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Union


class CallDeferred(Exception):
    def __init__(self, metadata: Optional[Dict[str, Any]] = None) -> None:
        self.metadata = metadata
        super().__init__()


@dataclass
class RunContext:
    tool_call_id: str


@dataclass
class ToolCallPart:
    tool_name: str
    args: Union[str, Dict[str, Any]]
    tool_call_id: str

    def args_as_dict(self) -> Dict[str, Any]:
        return json.loads(self.args) if isinstance(self.args, str) else self.args


@dataclass
class DeferredToolRequests:
    calls: List[ToolCallPart] = field(default_factory=list)
    approvals: List[ToolCallPart] = field(default_factory=list)
    metadata: Dict[str, Dict[str, Any]] = field(default_factory=dict)


@dataclass
class DeferredToolResults:
    calls: Dict[str, Any] = field(default_factory=dict)
    approvals: Dict[str, Any] = field(default_factory=dict)


@dataclass
class Tool:
    function: Callable[..., Any]
    name: str
    description: str
    json_schema: Dict[str, Any]
    takes_ctx: bool

    @classmethod
    def from_schema(
        cls,
        function: Callable[..., Any],
        name: str,
        description: str,
        json_schema: Dict[str, Any],
        takes_ctx: bool = False,
    ) -> "Tool":
        return cls(function, name, description, json_schema, takes_ctx)


class ScriptedAgent:
    """Makes one tool call, as an agent would: a deferred call ends the run, its result continues it."""

    def __init__(self, tools: List[Tool]) -> None:
        self._tools = {tool.name: tool for tool in tools}

    def run(self, part: ToolCallPart, results: Optional[DeferredToolResults] = None) -> Any:
        if results is not None:
            return results.calls[part.tool_call_id]
        tool = self._tools[part.tool_name]
        assert tool.takes_ctx
        try:
            return tool.function(RunContext(part.tool_call_id), **part.args_as_dict())
        except CallDeferred as deferred:
            metadata = {part.tool_call_id: deferred.metadata or {}}
            return DeferredToolRequests(calls=[part], metadata=metadata)
