# A client that knows nothing but an OpenAPI document: operations are called by their ids, and every
# answer is compared with what the document says of it. `openapi_client.py DOCUMENT TOOL`.

import json
import os
import sys
import urllib.error
import urllib.parse
import urllib.request

with open(sys.argv[1], encoding="utf-8") as file:
    DOCUMENT = json.load(file)
UNDESCRIBED = []


def resolve(schema):
    while "$ref" in schema:
        target = DOCUMENT
        for part in schema["$ref"][2:].split("/"):
            target = target[part]
        schema = target
    return schema


OPERATIONS = {
    operation["operationId"]: (
        method,
        path,
        {**operation, "parameters": item.get("parameters", []) + operation.get("parameters", [])},
    )
    for path, item in DOCUMENT["paths"].items()
    for method, operation in item.items()
    if method != "parameters"
}


def compare(schema, value, at):
    """Notes what the document doesn't describe."""
    schema = resolve(schema)
    if any(key in schema for key in ("anyOf", "oneOf", "allOf")):
        return
    kind = schema.get("type")
    if kind == "object" and isinstance(value, dict) and "properties" in schema:
        for name in schema.get("required", []):
            if name not in value:
                UNDESCRIBED.append(f"{at} lacks {name}")
        for name, item in value.items():
            if name in schema["properties"]:
                compare(schema["properties"][name], item, f"{at}/{name}")
            elif not schema.get("additionalProperties"):
                UNDESCRIBED.append(f"{at}/{name}")
    elif kind == "array" and isinstance(value, list):
        for item in value:
            compare(schema["items"], item, f"{at}/-")


def call(operation_id, parameters=None, body=None):
    method, path, operation = OPERATIONS[operation_id]
    headers, query = {"authorization": f"Bearer {os.environ['COUNTERSIGN_KEY']}"}, {}
    for parameter in map(resolve, operation["parameters"]):
        value = (parameters or {}).get(parameter["name"])
        if value is None:
            continue
        if parameter["in"] == "path":
            path = path.replace("{" + parameter["name"] + "}", urllib.parse.quote(value))
        elif parameter["in"] == "query":
            query[parameter["name"]] = value
        else:
            headers[parameter["name"]] = value
    if "requestBody" in operation:
        headers["content-type"] = next(iter(resolve(operation["requestBody"])["content"]))
    url = DOCUMENT["servers"][0]["url"] + path + ("?" + urllib.parse.urlencode(query) if query else "")
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, method=method.upper(), headers=headers, data=data)
    try:
        answer = urllib.request.urlopen(request)
    except urllib.error.HTTPError as refused:
        answer = refused
    with answer:
        value = json.load(answer)
        described = resolve(operation["responses"].get(str(answer.status), operation["responses"]["default"]))
        for name in described["headers"]:
            if name.lower() != "retry-after" and answer.headers.get(name) is None:
                UNDESCRIBED.append(f"{operation_id} lacks the header {name}")
        compare(next(iter(described["content"].values()))["schema"], value, operation_id)
        return answer.status, value, answer.headers


tool = sys.argv[2]
status, proposed, headers = call(
    "proposeCallInNewRun", {"Idempotency-Key": "once", "Prefer": "wait=0"}, {"tool": tool, "args": {}}
)
_, again, _ = call("readCallById", {"call": proposed["id"]})
listed_status, page, _ = call("listCalls", {"limit": 5})
refused_status, refused, _ = call("readRun", {"run": "run_" + "0" * 26})
print(
    json.dumps(
        {
            "proposed": [status, proposed["state"]],
            "located": headers["Location"] == "/v1/calls/" + again["id"],
            "listed": [listed_status, isinstance(page["items"], list)],
            "refused": [refused_status, refused["code"]],
            "undescribed": UNDESCRIBED,
        }
    )
)
