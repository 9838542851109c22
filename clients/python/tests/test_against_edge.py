"""The client against a running edge. test/clients/python.test.ts starts one and names it in the
environment: COUNTERSIGN_URL, COUNTERSIGN_KEY, COUNTERSIGN_OPERATOR_KEY, ASKING_TOOL, SLOW_TOOL.
"""

import json
import os
import threading
import time
import unittest
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, Dict, List, Tuple

from countersign_agent import ConnectionFailed, Countersign, ProblemError, has_ended, verify

URL = os.environ["COUNTERSIGN_URL"]
KEY = os.environ["COUNTERSIGN_KEY"]
ASKING = os.environ["ASKING_TOOL"]
SLOW = os.environ["SLOW_TOOL"]


def as_operator(method: str, path: str, body: Any = None) -> Any:
    request = urllib.request.Request(
        URL + path,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={
            "authorization": f"Bearer {os.environ['COUNTERSIGN_OPERATOR_KEY']}",
            "content-type": "application/json",
        },
    )
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.load(response)


def answer(call: Any, decision: str) -> None:
    approval = call["approval"]["id"]
    digest = as_operator("GET", f"/v1/approvals/{approval}")["digest"]
    as_operator("POST", f"/v1/approvals/{approval}/decision", {"decision": decision, "digest": digest})


class Interceptor:
    """A proxy before the edge: forwards requests, and drops or replaces some answers."""

    def __init__(self) -> None:
        self.seen: List[Tuple[str, str, Dict[str, str]]] = []
        self.faults: List[Any] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _pass(self) -> None:
                headers = {name.lower(): value for name, value in self.headers.items()}
                body = self.rfile.read(int(headers.get("content-length", "0")))
                outer.seen.append((self.command, self.path, headers))
                fault = outer.faults.pop(0) if outer.faults and self.command == "POST" else None
                if isinstance(fault, tuple):
                    status, more, content = fault
                    self._answer(status, more, content)
                    return
                request = urllib.request.Request(
                    URL + self.path, data=body or None, method=self.command, headers=headers
                )
                with urllib.request.urlopen(request, timeout=90) as response:
                    content = response.read()
                if fault == "drop":
                    self.close_connection = True
                    self.connection.close()
                    return
                self._answer(response.status, {"content-type": "application/json"}, content)

            def _answer(self, status: int, headers: Dict[str, str], content: bytes) -> None:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = _pass

            def log_message(self, *_: Any) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Calls(unittest.TestCase):
    def setUp(self) -> None:
        self.agent = Countersign(URL, KEY)

    def test_a_call_returns_with_its_output_and_its_attestation_verifies(self) -> None:
        call = self.agent.call("text_stats", {"text": "who signs, answers\n"})
        self.assertEqual(call["state"], "succeeded")
        self.assertEqual(call["result"]["output"].split(), ["1", "3", "19"])
        keys = self.agent.keys()
        verdict = self.agent.verify(call, keys)
        self.assertEqual([check for check in verdict.checks if not check.ok], [])
        self.assertTrue(verdict.ok)
        self.assertFalse(self.agent.verify(call, {**keys, "keys": []}).ok)
        bundle = self.agent.attestation(call)
        self.assertFalse(verify(bundle, keys, call="call_other").ok)
        changed = {**bundle, "call": {**bundle["call"], "arguments": {"text": "other"}}}
        self.assertFalse(verify(changed, keys).ok)

    def test_a_call_that_needs_an_approval_ends_after_the_answer(self) -> None:
        call = self.agent.propose(ASKING, {})
        self.assertEqual(call["state"], "awaiting_approval")
        self.assertEqual(self.agent.wait(call, timeout_s=0.2)["state"], "awaiting_approval")
        threading.Timer(0.2, answer, (call, "approve")).start()
        ended = self.agent.wait(call)
        self.assertEqual((ended["state"], ended["result"]["output"]), ("succeeded", "done\n"))
        self.assertTrue(self.agent.verify(ended, self.agent.keys()).ok)

    def test_a_rejected_call_is_no_error_and_its_attestation_verifies(self) -> None:
        call = self.agent.propose(ASKING, {})
        answer(call, "deny")
        ended = self.agent.wait(call)
        self.assertEqual(ended["state"], "rejected")
        self.assertTrue(self.agent.verify(ended, self.agent.keys()).ok)

    def test_output_is_followed_while_the_tool_runs(self) -> None:
        call = self.agent.propose(SLOW, {"seconds": "0"})
        events = list(self.agent.stream(call))
        text = "".join(data["data"] for event, data, _ in events if event == "stdout")
        self.assertEqual(text, "line 1\nline 2\nline 3\n")
        self.assertEqual((events[-1][0], events[-1][1]["state"]), ("end", "succeeded"))

    def test_a_running_call_is_cancelled_and_a_cancelled_call_stays_so(self) -> None:
        call = self.agent.propose(SLOW, {"seconds": "60"})
        self.agent.cancel(call)
        ended = self.agent.wait(call)
        self.assertEqual(ended["state"], "cancelled")
        self.assertEqual(self.agent.cancel(call)["state"], "cancelled")

    def test_a_file_is_uploaded_and_listed(self) -> None:
        run = self.agent.create_run({"session": "python-1"})
        held = self.agent.files.put(run["id"], b"a line\n")
        self.assertEqual([one["sha256"] for one in self.agent.files.list(run["id"])], [held["sha256"]])

    def test_a_decision_without_a_proposal_names_the_effect(self) -> None:
        self.assertEqual(self.agent.decide(ASKING, {})["decision"]["effect"], "ask")
        self.assertIn(ASKING, [tool["name"] for tool in self.agent.tools()])


class Failures(unittest.TestCase):
    def setUp(self) -> None:
        self.between = Interceptor()
        self.addCleanup(self.between.close)
        self.agent = Countersign(self.between.url, lambda: KEY)

    def test_a_proposal_whose_answer_is_lost_is_sent_again_under_its_own_key_and_runs_once(self) -> None:
        run = self.agent.create_run()
        self.between.faults.append("drop")
        call = self.agent.call("text_stats", {"text": "b"}, run=run)
        self.assertEqual(call["state"], "succeeded")
        sent = [seen[2] for seen in self.between.seen if seen[0] == "POST" and seen[1].endswith("/calls")]
        self.assertEqual(len(sent), 2)
        self.assertEqual(len({headers["idempotency-key"] for headers in sent}), 1)
        self.assertEqual(as_operator("GET", f"/v1/runs/{run['id']}")["used"]["calls"], 1)

    def test_a_refusal_that_names_a_time_is_followed_by_another_try_after_it(self) -> None:
        body = {"code": "queue_full", "detail": "full", "todo": "wait", "retry": True}
        headers = {"content-type": "application/problem+json", "retry-after": "1"}
        self.between.faults.append((503, headers, json.dumps(body).encode()))
        begun = time.monotonic()
        self.assertEqual(self.agent.call("text_stats", {"text": "c"})["state"], "succeeded")
        self.assertGreaterEqual(time.monotonic() - begun, 1)

    def test_a_refusal_that_no_later_try_can_mend_is_raised_at_once(self) -> None:
        with self.assertRaises(ProblemError) as raised:
            Countersign(URL, KEY).call("text_stats", {"text": 7})
        error = raised.exception
        self.assertEqual((error.code, error.status, error.retry), ("invalid_arguments", 422, False))
        self.assertIn("text", error.errors[0]["at"])

    def test_a_redirect_is_refused(self) -> None:
        self.between.faults.append((307, {"location": URL}, b""))
        with self.assertRaises(ConnectionFailed):
            self.agent.propose("text_stats", {"text": "d"})

    def test_an_edge_that_does_not_answer_is_given_up(self) -> None:
        gone = Interceptor()
        gone.close()
        with self.assertRaises(ConnectionFailed):
            Countersign(gone.url, KEY, tries=2).tools()

    def test_a_call_that_was_refused_has_not_ended(self) -> None:
        self.assertFalse(has_ended({"state": "running"}))


if __name__ == "__main__":
    unittest.main()
