"""An agent without a framework: a chat model chooses calls, Countersign decides and runs them."""
import json
import os
import urllib.request

from countersign_agent import Countersign, text_for

agent = Countersign(os.environ["COUNTERSIGN_URL"], os.environ["COUNTERSIGN_KEY"])
run = agent.create_run({"session": "first-agent"})
tools = [{"name": one["name"], "description": one["description"], "parameters": one["input_schema"]}
         for one in agent.tools()]
messages = [{"role": "user", "content": "How many words are in the text 'who signs, answers'?"}]
while messages[-1]["role"] != "assistant" or messages[-1].get("tool_calls"):
    body = {"model": os.environ["MODEL"], "messages": messages,
            "tools": [{"type": "function", "function": tool} for tool in tools]}
    headers = {"authorization": f"Bearer {os.environ['MODEL_KEY']}",
               "content-type": "application/json"}
    request = urllib.request.Request(
        os.environ["MODEL_URL"] + "/chat/completions", json.dumps(body).encode(), headers)
    messages.append(json.load(urllib.request.urlopen(request))["choices"][0]["message"])
    for wanted in messages[-1].get("tool_calls") or []:
        name, args = wanted["function"]["name"], json.loads(wanted["function"]["arguments"])
        call = agent.call(name, args, run=run, idempotency_key=wanted["id"])  # waits for humans too
        messages.append({"role": "tool", "tool_call_id": wanted["id"], "content": text_for(call)})
print(messages[-1]["content"])
