"""The text that a model reads about a call: the tool's output, or why there is none."""

import json
from typing import List

from .api import Call
from .errors import ProblemError

SENTENCES = {
    "rejected": "A human approver said no{detail}. "
    "Do not try this again unless the user asks for it.",
    "expired": "Nobody approved this call in time. It did not run.",
    "lapsed": "No worker took this call in time. It did not run; it can be tried again.",
    "released": "The call was allowed. The agent's own program has to run it; "
    "Countersign ran nothing.",
    "cancelled": "The call was cancelled{detail}.",
    "indeterminate": "The outcome is unknown: the call may have had its effect. "
    "Check before trying again.",
    "timed_out": "The call ran out of time{detail}.",
}


def text_for(call: Call) -> str:
    """The text that the model reads about an ended call."""
    result = call.get("result")
    if call["state"] == "succeeded" and result is not None:
        encoding = "(base64) " if result["encoding"] == "base64" else ""
        cut = "\n(the output was cut)" if result["truncated"] else ""
        output = f"{encoding}{result['output']}{cut}"
        edited = call.get("edited")
        if edited is None:
            return output
        changed = json.dumps(edited["arguments"], ensure_ascii=False)
        note = "An approver changed the arguments before the call ran. It ran with"
        return f"{note} {changed}.\n{output}"
    if call["state"] == "denied":
        return "\n".join([f"Denied by policy: {call['decision']['reason']}", *_changes(call)])
    error = None if result is None else result.get("error")
    detail = "" if error is None else f": {error['code']}, {error['detail']}"
    sentence = SENTENCES.get(call["state"], f"The call ended as {call['state']}{{detail}}.")
    stderr = f"\n{result['stderr']}" if result is not None and result["stderr"] else ""
    return sentence.replace("{detail}", detail) + stderr


def _changes(call: Call) -> List[str]:
    """The first alternative of the explanation: it would change a denial."""
    explanation = call["decision"].get("explanation")
    alternatives = [] if explanation is None else explanation["changes"]
    if not alternatives or not alternatives[0]:
        return ["The same call will be denied again."]
    return [f"It would be allowed if: {'; '.join(change['words'] for change in alternatives[0])}."]


def refusal_text(error: ProblemError) -> str:
    """The text that the model reads about a refused proposal."""
    fields = "".join(f"\n- {one.get('at', '')}: {one.get('message', '')}" for one in error.errors)
    return f"Refused: {error.detail}{fields}" + (f"\n{error.todo}" if error.todo else "")
