"""The adapter for Pydantic AI against a running edge and a STAND-IN for the framework (stand_in/).

Not proven here: that Pydantic AI itself behaves as its documentation says.
"""

import os
import sys
import threading
import unittest
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "stand_in"))

from pydantic_ai import DeferredToolRequests, ScriptedAgent, ToolCallPart  # noqa: E402
from test_against_edge import ASKING, KEY, URL, answer  # noqa: E402

from countersign_agent import Countersign  # noqa: E402
from countersign_agent.pydantic_ai import guard  # noqa: E402


class StandIn(unittest.TestCase):
    def setUp(self) -> None:
        self.agent = Countersign(URL, KEY)
        self.conversation = f"py-{uuid.uuid4()}"

    def test_stand_in_a_call_that_needs_no_approval_returns_its_output(self) -> None:
        guarded = guard(self.agent, conversation=self.conversation, tools=["text_stats"])
        part = ToolCallPart("text_stats", {"text": "a b\n"}, "call-1")
        self.assertEqual(ScriptedAgent(guarded.tools).run(part).split(), ["1", "2", "4"])

    def test_stand_in_a_pending_approval_defers_the_call_and_its_result_continues_the_run(self) -> None:
        guarded = guard(self.agent, conversation=self.conversation)
        part = ToolCallPart(ASKING, "{}", "call-2")
        requests = ScriptedAgent(guarded.tools).run(part)
        self.assertIsInstance(requests, DeferredToolRequests)
        pending = requests.metadata["call-2"]
        self.assertEqual(pending["state"], "awaiting_approval")
        call = self.agent.read({"id": pending["call"], "run": pending["run"]})
        threading.Timer(0.2, answer, (call, "approve")).start()
        # As after a restart: nothing but the conversation and the requests is left.
        later = guard(Countersign(URL, KEY), conversation=self.conversation)
        results = later.results(requests)
        self.assertEqual(ScriptedAgent(later.tools).run(part, results), "done\n")
        self.assertEqual(self.agent.read(call)["state"], "succeeded")

    def test_stand_in_a_rejected_call_continues_the_run_with_the_reason(self) -> None:
        guarded = guard(self.agent, conversation=self.conversation)
        part = ToolCallPart(ASKING, {}, "call-3")
        requests = ScriptedAgent(guarded.tools).run(part)
        pending = requests.metadata["call-3"]
        answer(self.agent.read({"id": pending["call"], "run": pending["run"]}), "deny")
        self.assertIn("A human approver said no", guarded.results(requests).calls["call-3"])

    def test_stand_in_arguments_that_do_not_fit_are_explained_to_the_model(self) -> None:
        guarded = guard(self.agent, conversation=self.conversation)
        text = ScriptedAgent(guarded.tools).run(ToolCallPart("text_stats", {"text": 1}, "call-4"))
        self.assertTrue(text.startswith("Refused: "), text)


if __name__ == "__main__":
    unittest.main()
