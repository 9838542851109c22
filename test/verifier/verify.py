"""Verifies Countersign's evidence by docs/evidence.md alone, with Python's standard library and openssl.
usage: python3 verify.py SCHEMAS [BUNDLE KEYS]. Without files it reads JSON objects {"bundle": TEXT, "keys": TEXT}, one per
line. Prints the name of the first check that fails, as JSON, or null. test/shared/vectors/vectors.test.ts compares it."""
import base64, decimal, functools, hashlib, json, pathlib, re, subprocess, sys, tempfile
# ── JSON: strict reading, and the canonical form of RFC 8785 ──
def exact(text):
    """A number whose text is exactly the value of a double."""
    value = float(text)
    inexact = abs(value) == float("inf") or decimal.Decimal(text) != decimal.Decimal(repr(value))
    if inexact or (value == 0 and text[0] == "-") or (value == int(value) and abs(value) > 2**53 - 1):
        raise ValueError("no safe number")
    return int(value) if value == int(value) else value
def members(pairs):
    if len({name for name, _ in pairs}) < len(pairs) or "__proto__" in dict(pairs): raise ValueError("two of one name, or `__proto__`")
    return dict(pairs)
UNREADABLE = (ValueError, ArithmeticError, RecursionError)
def read(data):
    """The value of strict JSON; else one of UNREADABLE. The product also limits size and depth."""
    value = json.loads(data.decode(), object_pairs_hook=members, parse_float=exact, parse_int=exact, parse_constant=exact)
    if re.search(rb"(?<!\\)(?:\\\\)*\\u0000", canonical(value).encode()): raise ValueError("U+0000")  # a lone surrogate can't be encoded
    return value
def canonical(value):
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16-be"))
        return "{" + ",".join(f"{canonical(name)}:{canonical(value[name])}" for name in names) + "}"
    if isinstance(value, list): return "[" + ",".join(map(canonical, value)) + "]"
    if isinstance(value, float):  # never whole, so below 2^53
        text = repr(value)
        return text.replace("e-0", "e-") if abs(value) < 1e-6 else format(decimal.Decimal(text), "f")
    return json.dumps(value, ensure_ascii=False)
def sha256(data): return hashlib.sha256(data).digest()
def digest(value): return sha256(canonical(value).encode()).hex()
# ── JSON Schema: the keywords that our schemas use ──
TYPES = {"null": type(None), "boolean": bool, "integer": int, "number": float, "string": str, "array": list, "object": dict}
SCHEMAS = {file.stem: json.loads(file.read_text("utf-8")) for file in pathlib.Path(sys.argv[1] if sys.argv[1:] else sys.exit(__doc__)).glob("*.json")}
def fits(name, value): return matches(SCHEMAS[name], value, SCHEMAS[name].get("$defs"))
def matches(rule, value, named):
    if "$ref" in rule: return matches(named[rule["$ref"].split("/")[-1]], value, named)
    kind = next(name for name, of in TYPES.items() if isinstance(value, of))
    choices = [rule[word] for word in ("anyOf", "oneOf") if word in rule]
    if (not all(any(matches(one, value, named) for one in choice) for choice in choices)
            or rule.get("type", kind) not in (kind, "number" if kind == "integer" else kind)
            or rule.get("const", value) != value or value not in rule.get("enum", [value])):
        return False
    if kind in ("integer", "number"):
        return rule.get("minimum", value) <= value <= rule.get("maximum", value)
    if kind == "string":  # its length is that of UTF-16
        size, pattern = len(value.encode("utf-16-le")) // 2, re.sub(r"\$$", r"\\Z", rule.get("pattern", ""))
        return rule.get("minLength", 0) <= size <= rule.get("maxLength", size) and re.search(pattern, value) is not None
    if kind == "array":
        each = rule.get("prefixItems", []) + [rule.get("items") or {}] * len(value)
        return rule.get("minItems", 0) <= len(value) <= rule.get("maxItems", len(value)) and all(
            matches(one, inner, named) for one, inner in zip(each, value))
    if kind == "object":
        known, more = rule.get("properties", {}), rule.get("additionalProperties", {})
        return set(rule.get("required", ())) <= set(value) and all(
            (name in known or more is not False) and matches(rule.get("propertyNames", {}), name, named)
            and matches(known.get(name, more), inner, named) for name, inner in value.items())
    return True
# ── Ed25519: canonical encodings of points of large order only, then openssl ──
P, L = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
def is_sound(encoded):
    y = int.from_bytes(encoded, "little") & (2**255 - 1)
    square = y * y % P
    x_square = (square - 1) * pow(D * square + 1, -1, P) % P
    has_small_order = y == 0 or x_square == 0 or (x_square + square) % P == 0  # order 4; 1 or 2; 8
    return len(encoded) == 32 and y < P and not has_small_order and pow(x_square, (P - 1) // 2, P) == 1
@functools.cache
def is_signed(key, message, signature):
    if len(signature) != 64 or int.from_bytes(signature[32:], "little") >= L or not (
            is_sound(key) and is_sound(signature[:32])):
        return False
    with tempfile.TemporaryDirectory() as folder:
        for name, data in (("k", bytes.fromhex("302a300506032b6570032100") + key), ("m", message), ("s", signature)):
            pathlib.Path(folder, name).write_bytes(data)
        command = "openssl pkeyutl -verify -rawin -pubin -keyform DER -inkey k -in m -sigfile s".split()
        return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode == 0
# ── Envelopes and keys ──
unbase64 = base64.b64decode  # the schemas demand canonical base64
def key_bytes(x): return base64.urlsafe_b64decode(x + "=") if re.fullmatch("[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]", x) else b""
def is_signed_by_exactly(envelope, kind, keys):
    """Whether each of these keys signed once, and nobody else. `keys`: bytes by id."""
    payload = unbase64(envelope["payload"])
    signed = f"DSSEv1 {len(kind)} {kind} {len(payload)} ".encode() + payload
    by = {one["keyid"]: unbase64(one["sig"]) for one in envelope["signatures"]}
    return (envelope["payloadType"] == kind and by.keys() == keys.keys() and len(by) == len(envelope["signatures"])
            and all(key is not None and is_signed(key, signed, by[kid]) for kid, key in keys.items()))
def opened(envelope, schema):
    """The payload, or None if it does not match its schema."""
    try:
        value = read(unbase64(envelope["payload"]))
    except UNREADABLE: return None
    return value if fits(schema, value) else None
def are_keys(value):
    """Whether the edge keys are those of the chain, and each id that of its key."""
    edges, found, lost = [one for one in value["keys"] if one["role"] == "edge"], [], {}
    links, starts, ends, root = [opened(envelope, "key-link") for envelope in value["chain"]], [0], [], None
    for before, after, envelope, link in zip(edges, edges[1:], value["chain"], links):
        found, by = [*found, before["kid"]], {one["kid"]: key_bytes(one["x"]) for one in (before, after)}
        by |= {"ed25519:" + sha256(key_bytes(x)).hex()[:16]: key_bytes(x) for x in [link and link.get("root")] if x}
        if (link is None or (link["follows"], link["key"]) != (before["x"], after["x"])
                or not starts[-1] <= link["from_ms"] <= link["until_ms"] or (link["distrusts"] or before)["kid"] not in found
                or root not in (None, link.get("root")) or not is_signed_by_exactly(envelope, "application/vnd.countersign.key-link+json", by)):
            return False
        starts, ends, root = starts + [link["from_ms"]], ends + [link["until_ms"]], link.get("root")
        for one in [link["distrusts"]] if link["distrusts"] else []:
            lost[one["kid"]] = min(one["from_ms"], lost.get(one["kid"], 2**53))
    return edges != [] and len(value["chain"]) == len(edges) - 1 and all(
        (one["from_ms"], one["until_ms"], one.get("distrusted_from_ms")) == (start, end, lost.get(one["kid"]))
        and one["status"] == ("distrusted" if one["kid"] in lost else "active" if end is None else "retired")
        for one, start, end in zip(edges, starts, ends + [None])) and all(
        is_sound(key_bytes(one["x"])) and one["kid"] == "ed25519:" + sha256(key_bytes(one["x"])).hex()[:16]
        for one in value["keys"]) and len({one["x"] for one in value["keys"]}) == len(value["keys"])
def key_at(keys, kid, worker, after, before=2**53):
    """The bytes of a key of a worker, or of the edge (None), if it may have signed then; else None."""
    owner = (kid, "worker" if worker else "edge", worker)
    for one in [one for one in keys["keys"] if (one["kid"], one["role"], one.get("worker")) == owner]:
        until = 2**53 if one["until_ms"] is None else one["until_ms"] + SLACK
        if after < one.get("distrusted_from_ms", 2**53) and after <= until and before >= one["from_ms"] - SLACK:
            return key_bytes(one["x"])
def by_edge(envelope, name, keys):
    """The payload of this schema, if only an edge key signed it that may have: a grant when it was issued; else None."""
    value, kid = opened(envelope, name), envelope["signatures"][0]["keyid"]
    at, lost = (value or {}).get("issued_at_ms"), [one["kid"] for one in keys["keys"] if one["status"] == "distrusted"]
    key = key_at(keys, kid, None, at, at) if at is not None else None if kid in lost else key_at(keys, kid, None, 0)
    return value if is_signed_by_exactly(envelope, f"application/vnd.countersign.{name}+json", {kid: key}) else None
# ── The checks of a statement against its grant and plan ──
SLACK, NOTHING, CLAIM = 5_000, sha256(b"").hex(), ("worker", "fence", "deadline_ms")
STARTED, POLICY, ANSWERS = "profile_sha256 argv_sha256", "policy_set snapshot", "approved rejected denied edited"
EDGE, ISOLATE, CLIENT, UNSTARTED = "edge", "wasm_isolate", "mcp_client", "worker"
SANDBOXES = {"B": "sandbox_tier_b_linux_rlimits", "C": "sandbox_tier_c_linux_bubblewrap"}
UNRUN = "denied rejected expired cancelled lapsed released".split()
PROCESSES = "exit signal memory_cap cpu_cap workspace_cap".split()
UPSTREAMS = "returned upstream_error upstream_wants_input no_answer".split()
SKILLS = "returned skill_error trap fuel_exhausted capability_denied".split()
ENDS = {"A": SKILLS, "B": PROCESSES, "C": PROCESSES, "M": UPSTREAMS, None: PROCESSES}
STATES = {
    "exit 0": ("succeeded", None), **dict.fromkeys(("exit 126", "exit 127"), ("failed", "spawn_failed")),
    "returned": ("succeeded", None), "no_answer": ("indeterminate", "no_answer"), "infra": ("failed", "sandbox_failed"),
    **{name: (name.replace("timeout", "timed_out"),) * 2 for name in ("timeout", "cancelled")},
    **dict.fromkeys("output_cap memory_cap cpu_cap workspace_cap fuel_exhausted SIGXCPU SIGXFSZ".split(),
                    ("failed", "quota_exceeded")),
    **dict.fromkeys(("exit", "signal", "trap"), ("failed", "runtime_failure"))}
LATE = {"A": ["skill_disabled"], "B": ["sandbox_unavailable", "invalid_input"], "M": ["upstream_unavailable"]}
LATE["C"] = [*LATE["B"], "workspace_scope_denied", "upstream_unavailable", "tool_changed"]
LISTED = "allowed address_refused unresolvable sni_mismatch failed".split()
UNCONNECTED = "host_not_listed address_refused unresolvable malformed unknown_client".split()
def picked(names, value): return {name: value.get(name) for name in names}
def ending(outcome):
    names = outcome.get("signal"), f"{outcome['kind']} {outcome.get('code')}", outcome["kind"]
    return next((STATES[name] for name in names if name in STATES), ("failed", outcome.get("code", outcome["kind"])))
def covers(pattern, name, port):
    """Whether a pattern of hosts covers a name at a port; a pattern without a port covers none, 80 and 443."""
    wanted, _, only = pattern.partition(":")
    below = wanted[:1] == "." and name.endswith(wanted) and name != wanted and not re.search(r"^[0-9.]+\Z|:", name)
    return (port == only if only else port in ("", "80", "443")) and (below or name == wanted)
def plan_checks(statement, grant, plan, settled_ms):
    """Yields name and result of each check. A check relies on those before it."""
    p = statement["predicate"]
    facts, x, named = p["facts"], p["execution"], p["grant"]
    outcome, limits, connections, streams = x["outcome"], x.get("limits"), x["connections"], (x["stdout"], x["stderr"])
    skill, upstream, start, end = x.get("skill"), x.get("upstream"), x["started_at_ms"], x["ended_at_ms"]
    kind, tier, number = (outcome or {}).get("kind"), plan and plan["tier"], facts["call"][5:]
    who = x["executor"] if x["executor"] in (EDGE, ISOLATE, CLIENT, UNSTARTED) else "sandbox"
    boxed, at_edge, unstarted = who == "sandbox", who in (ISOLATE, CLIENT), who in (EDGE, UNSTARTED)
    process, unended = tier in ("B", "C"), kind in ("refused", "infra", "cancelled")
    ran = at_edge or (boxed and x["argv_sha256"] not in (None, NOTHING))
    mcp, proven = process and plan["executor"].get("mcp"), (grant or {}).get("proven", {})
    tool = plan["executor"] if tier == "M" else mcp if mcp and mcp["method"] == "tools/call" else None
    output, mode = (plan["executor"].get("output"), plan["egress"]["mode"]) if plan else (None, None)
    yield "the subject is this call", statement["subject"] == [{"name": facts["call"], "digest": {"sha256": facts["digest"]}}]
    yield "the attestation’s id is this call’s", p["attestation_id"] == "att_" + facts["run"][4:] + number[26:]
    yield "the facts are those of the grant", (grant is None or grant["facts"] == facts) and (
        facts["run"] == "run_" + number[:26] and (facts["approval"] or {"id": "apr_" + number})["id"] == "apr_" + number)
    yield "the grant is the edge’s, for this call and worker", named == (
        grant and {"sha256": digest(grant), **picked(CLAIM, grant)})
    yield "the ending fits the outcome", p["timed_out"] == (p["state"] == "timed_out") and (outcome is None) == (
        who == EDGE) and not (p["state"] == "released" and plan) and (ending(outcome) == (p["state"], p["error"])
        if outcome else grant is None if p["state"] in UNRUN else p["state"] == "indeterminate")
    yield "the execution digest matches", p["execution_sha256"] == digest({"digest": facts["digest"], "execution": x})
    where, enforcement = {
        EDGE: (True, "policy"), ISOLATE: (tier == "A", "isolate"), CLIENT: (tier == "M", "remote"), UNSTARTED: (
            process and unended, "none")}.get(who, (process and x["executor"] == SANDBOXES[tier], mode))
    yield "it ran where the plan says: in its sandbox, in an isolate of the edge, or at the upstream", (
        (grant is None or (grant["worker"] == EDGE) == (tier in ("A", "M")))
        and (kind in (UPSTREAMS if mcp else ENDS[tier]) or not any(kind in ends for ends in ENDS.values()))
        and where and x["sandbox_enforcement"] == enforcement
        and (not ran or x["profile_sha256"] == proven.get("profile_sha256", x["profile_sha256"]))
        and (skill is not None and skill["digest"] == plan["executor"]["digest"] if who == ISOLATE else skill is None))
    yield "profile, command line and output fit whether anything was started", (
        (outcome is None or ran or unended) and ("cgroup" not in x or (ran and boxed))
        and all((one is None) == unstarted and (one is None or one["bytes"] == 0 or ran) for one in streams)
        and all(x[k] is not None and (x[k] == NOTHING) != ran if boxed else x[k] is None for k in STARTED.split())
        and (limits is None) == unstarted and (start is None) == unstarted)
    yield "it had a cgroup if the plan requires one, and only if the worker had proven cgroups", (
        proven.get("cgroups", True) if x.get("cgroup") else not (ran and process and plan.get("cgroup")))
    reaches = plan and (tier in ("A", "M") or (tier == "C" and plan["egress"]["hosts"] != []))
    net_bytes, net_connections = (0, 0) if tier == "A" else (2**28, 1_000)
    most, given = plan["limits"] if plan else {}, limits or {}
    used = skill or {"fuel_used": 0, "memory_bytes": 0, "host_calls": {}}
    size = [one["bytes_in"] + one["bytes_out"] for one in connections]
    capped = any(n for n, one in zip(size, connections) if one["verdict"] == "cap")
    allowed = sum(one.get("folded", 1) for one in connections if one["verdict"] == "allowed")
    wrote, keeps = [one["bytes"] if one else 0 for one in streams], given.get("output_bytes", 0)
    yield "it ran within the plan’s limits", (
        (given == most if at_edge else not given or all(given.get(k, 2**53) <= most[k] for k in most))
        and (not (ran and reaches) or (allowed <= most.get("net_connections", net_connections)
                                       and (capped or sum(size) <= given.get("net_bytes", net_bytes))))
        and (not skill or (skill["fuel_used"] <= most["fuel"] and skill["memory_bytes"] <= most["memory_bytes"]))
        and all(any(name.startswith(one + ".") for one in plan["executor"]["capabilities"])
                and count <= 1 + most["fuel"] // 2_000 for name, count in used["host_calls"].items()))
    yield "the outcome fits what the execution used, wrote and reached", (
        (kind != "refused" or (
            (not ran or outcome["code"] in LATE[tier]) and wrote[0] == 0 and (tier != "A" or wrote[1] == 0)
            and (not connections or tier == "M" or mcp) and (not upstream or upstream["request_sha256"] is None)
            and "files" not in x and not any(used[k] for k in ("fuel_used", "memory_bytes", "host_calls"))))
        and (kind != "fuel_exhausted" or used["fuel_used"] >= min(most["fuel"], 1_000_000))
        and not (boxed and not mcp and max(wrote) > 8 * keeps and kind in ("exit", "signal", "memory_cap", "invalid_output"))
        and not (boxed and not mcp and output is not None and wrote[0] > keeps and outcome == {"kind": "exit", "code": 0}))
    yield "the output is described consistently, and kept if the plan says so", (
        all(one["kept"] <= min(one["bytes"], 196_608 if who == ISOLATE and one is streams[1] else keeps)
            and one["truncated"] == (one["kept"] < one["bytes"]) and (one["bytes"] == 0) == (one["sha256"] == NOTHING)
            for one in streams if one)
        and (kind != "invalid_output" or tier == "A" or output is not None)
        and ("files" not in x or (ran and process and plan.get("outputs") is True)))
    yield "connections were allowed only to the plan’s hosts", connections == [] or (
        ran and reaches and all(connected(plan, *one) for one in enumerate(connections)))
    sent, answer = (upstream["request_sha256"], upstream["response_sha256"]) if upstream else (None, None)
    origin = re.match("https?://[^/?#]*", tool["url"])[0] if tier == "M" else "stdio"
    yield "the exchange with the upstream is that of the plan, and fits the outcome", (
        (upstream is not None) == (who == CLIENT or (boxed and tool is not None)) and (upstream is None or (
            picked(("name", "origin", "definition_sha256"), upstream)
            == {"name": tool["upstream"], "origin": origin, "definition_sha256": tool["definition"]}
            and (tier != "M" or sent is None or any(one["bytes_out"] for one in connections))
            and (sent is None) == (upstream["era"] is None) and (sent is not None or (answer is None and unended))
            and (kind not in ("returned", "invalid_output") if answer is None else kind != "no_answer"))))
    issued, deadline = (grant["issued_at_ms"], grant["deadline_ms"]) if grant else (0, 2**53)
    latest = 2**53 if who == EDGE or at_edge else min(deadline, settled_ms)
    yield "it ran within the time of its grant", (start is None or start <= end) and (grant is None or (
        (limits is None or limits["timeout_ms"] <= deadline - issued) and issued - SLACK <= end <= latest + SLACK
        and (start is None or (start >= issued - SLACK and (not at_edge or start == issued)))
        and (start is None or not boxed or end - start <= given["timeout_ms"] + 10_000 + SLACK)))
def connected(plan, i, one):
    host, port, verdict, folded = one["host"], str(one["port"]), one["verdict"], "folded" in one
    listed = any(covers(pattern, host, port) for pattern in plan["egress"]["hosts"])
    added = [(known["secret"], known["host"]) for known in plan.get("credentials", ())]
    return (not (folded and i < 128 and verdict != "unknown_client")
            and (folded and i >= 256 and host + port == "0" or not (
                listed if verdict == "host_not_listed" else verdict in LISTED and not listed))
            and not (verdict in UNCONNECTED and (one["address"] or one["bytes_in"] + one["bytes_out"]))
            and not (plan["tier"] in ("A", "M") and one["address"])
            and all((name, f"{host}:{port}") in added for name in one.get("credentials", ())))
# ── Snapshot, journal, log ──
def snapshot_checks(snapshot, facts, plan):
    decision, tool = facts["decision"], facts["tool"]
    unexplained = (decision["effect"], decision["policies"]) == ("deny", [])
    yield "the policy snapshot is the one that the facts name", digest(snapshot) == decision["snapshot"] and (
        snapshot["tool"]["name"] == tool["name"] and (unexplained or snapshot["policy_set"] == decision["policy_set"]))
    yield "the snapshot allows this tool and plan", decision["effect"] == "deny" or (
        {tool["name"], "*"} & {*snapshot["allowed_tools"]} and snapshot["tool"] == tool
        and (plan is None or plan["tier"] == "M" or allows(snapshot, plan)))
def allows(snapshot, plan):
    rule, executor = snapshot["wasm_runtime" if plan["tier"] == "A" else "process_runner"], plan["executor"]
    secrets = {*plan["secrets"], *(one["secret"] for one in plan.get("credentials", ()))}
    if rule is None or not all(any(host == one or covers(one, *host.partition(":")[::2]) for one in rule["allowed_hosts"])
                               for host in plan["egress"]["hosts"]):
        return False
    if plan["tier"] == "A":
        return (secrets <= {*rule["allowed_secrets"]} and {*executor.get("kv", ())} <= {*rule["allowed_prefixes"]}
                and all(plan["limits"][name] <= rule[name] for name in ("fuel", "memory_bytes")))
    programs = rule["allowed_executables"]
    return (plan["tier"] in rule["tiers"] and plan["workspace"] == rule["workspace"] and secrets <= {*rule["secrets"]}
            and (programs is None or executor["argv"][0] in programs)
            and all(most <= rule["limits"].get(name, 0) for name, most in plan["limits"].items()))
def journal_checks(p, entries):
    facts, first, last, outcome = p["facts"], entries[0], entries[-1], p["execution"]["outcome"]
    own, body, end = [one for one in entries if one["call"] == facts["call"]], first["body"], last["body"]
    yield "the journal entries are linked up to the end of the call", all(
        one["hash"] == digest({k: v for k, v in one.items() if k != "hash"}) for one in entries) and all(
        b["prev"] == a["hash"] if b["seq"] == a["seq"] + 1 else b["seq"] > a["seq"] and last["seq"] - first["seq"] >= 200
        for a, b in zip(entries, entries[1:]))
    proposed = ([one for one in own if one["kind"] == "edited"] or [first])[-1]["body"]
    yield "the journal begins with the proposal of this call", (
        first["call"] == facts["call"] and body.get("origin") == facts.get("origin")
        and (body.get("tool"), body.get("version")) == (facts["tool"]["name"], facts["tool"]["version"])
        and (proposed.get("digest"), proposed.get("args_sha256")) == (facts["digest"], facts["args_sha256"]))
    yield "the journal has the answers that the facts name, each given in time", answered(own) == facts["approval"]
    turns = [one for one in own if one["kind"] in ("claimed", "worker_lost")]
    fences = [one["body"].get("fence") for one in turns if one["kind"] == "claimed"]
    held = turns[-1] if turns and turns[-1]["kind"] == "claimed" else None
    under = end if p["state"] == "released" else held and held["body"]
    yield "the journal has the claim under this grant", (
        fences == list(range(1, len(fences) + 1)) and not any(
            a["kind"] == b["kind"] == "claimed" for a, b in zip(turns, turns[1:]))
        and (held and picked(CLAIM, held["body"])) == (p["grant"] and picked(CLAIM, p["grant"]))
        and (under is None or picked(POLICY.split(), under) == picked(POLICY.split(), facts["decision"])))
    yield "the last entry ends the call and names this attestation", (
        [one for one in own if "attestation" in one["body"]] == [last]
        and (end["attestation"], end.get("execution_sha256")) == (p["attestation_id"], p["execution_sha256"])
        and last["kind"] in (p["state"], {"cancelled": "withdrawn"}.get(p["state"]))
        and (outcome is None or (end.get("worker"), end.get("error")) == (p["grant"]["worker"], p["error"])))
    yield "a call that its executor cancelled was to be cancelled", (outcome or {}).get("kind") != "cancelled" or (
        "cancel_requested" in [one["kind"] for one in own[own.index(held) if held else 0:]])
def answered(own):
    """The approval as the facts have it, from the journal's answers; False if one came too late."""
    body = own[0]["body"]
    answers = body.get("answers", [])
    for one in [one for one in own[1:] if one["kind"] in ANSWERS.split() and "by" in one["body"]]:
        others = [old for old in answers if old["by"] != one["body"]["by"] and one["kind"] != "edited"]
        answers = others + [one["body"]]
        if one["at_ms"] >= body.get("expires_at", 0): return False
    scope = next((name for name in ("session", "timeboxed") if name in [one["scope"] for one in answers]), "once")
    listed = [{k: one[k] for k in ("by", "decision", "channel", "at_ms", "standing") if k in one} for one in answers]
    return {"id": body["approval"], "scope": scope, "answers": listed} if "approval" in body else None
BASE64 = "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?"
def opened_note(note, tenant, keys):
    """Size and root of a checkpoint of the tenant's log that a key of the edge has signed; else -1."""
    head, _, signatures = note.rpartition("\n\n")
    lines = re.fullmatch(rf"([A-Za-z0-9][A-Za-z0-9.:_-]*/{tenant})\n(0|[1-9][0-9]{{0,15}})\n({BASE64})", head)
    form = rf"(?:— [^\s+]{{1,201}} (?=\S{{7}}){BASE64}\n){{1,16}}"
    if lines and len(lines[3]) == 44 and int(lines[2]) < 2**53 and re.fullmatch(form, signatures):
        for one in [one for one in keys["keys"] if one["role"] == "edge" and one["status"] != "distrusted"]:
            key = key_bytes(one["x"])
            mark = sha256(lines[1].encode() + b"\n\1" + key)[:4]
            made = [unbase64(sig) for by, sig in re.findall(r"— (\S+) (\S+)\n", signatures) if by == lines[1]]
            if mark in [sig[:4] for sig in made] and all(
                    is_signed(key, head.encode() + b"\n", sig[4:]) for sig in made if sig[:4] == mark):
                return int(lines[2]), unbase64(lines[3])
    return -1, b""
def root_of(index, size, leaf, proof):
    """The root to which an inclusion proof leads (RFC 9162, 2.1.3); None if it is too short or too long."""
    if size == 1 or not proof: return leaf if size == 1 and not proof else None
    left = 1 << (size - 1).bit_length() - 1
    inner = root_of(*((index, left) if index < left else (index - left, size - left)), leaf, proof[:-1])
    return inner and sha256(b"\1" + (inner + proof[-1] if index < left else proof[-1] + inner))
# ── A bundle ──
def checks(bundle, keys):
    """Yields name and result of each check, in the order of docs/evidence.md."""
    envelope, call, statement = bundle["envelope"], bundle["call"], opened(bundle["envelope"], "statement")
    yield "the payload is an in-toto statement of our predicate", statement is not None
    p = statement["predicate"]
    facts, named, executor, end = p["facts"], p["grant"], p["execution"]["executor"], p["execution"]["ended_at_ms"]
    yield "the key file belongs to the tenant of the attestation", keys["tenant"] == facts["tenant"]
    yield "the payload is in canonical form", unbase64(envelope["payload"]) == canonical(statement).encode()
    kids, edges = [one["keyid"] for one in envelope["signatures"]], [k["kid"] for k in keys["keys"] if k["role"] == "edge"]
    edge = next((kid for kid in kids if kid in edges), None)
    yield "an edge key from the key file signed it", edge is not None
    signers = {edge: key_at(keys, edge, None, end)}
    yield "the edge’s key is trusted for that time", signers[edge] is not None
    if executor not in (EDGE, ISOLATE, CLIENT):
        own = [one["kid"] for one in keys["keys"] if named and one.get("worker") == named["worker"]]
        yield "the worker that the grant names has a key in the key file", own != []
        worker = next((kid for kid in own if kid in kids), own[0])
        signers[worker] = key_at(keys, worker, named["worker"], end)
        yield "the worker’s key is trusted for that time", signers[worker] is not None
    by = "exactly the edge signed it" if len(signers) == 1 else "exactly the worker and the edge signed it"
    yield by, is_signed_by_exactly(envelope, "application/vnd.in-toto+json", signers)
    yield "the facts name the same call", all(facts[name] == call[name] for name in ("tenant", "run", "call", "tool"))
    approvals = [one["decision"] for one in (facts["approval"] or {"answers": []})["answers"]]
    effect, plan, entries, log = facts["decision"]["effect"], call["plan"], bundle["journal"], bundle["log"]
    yield "an approval exists where policy asks for one", effect != "ask" or named is None or "approve" in approvals
    yield "nothing ran without a grant", executor == EDGE or (named is not None and effect != "deny")
    yield "no grant is included where none was issued", named is not None or bundle["grant"] is None
    grant, gone = bundle["grant"] and by_edge(bundle["grant"], "grant", keys), {}
    if "removed" in bundle:
        said, of = by_edge(bundle["removed"], "tombstone", keys) or {}, picked(("tenant", "call", "digest"), facts)
        yield "the edge signed the removal of what is missing", {"of": "parts", **of}.items() <= said.items() and (
            unbase64(bundle["removed"]["payload"]) == canonical(said).encode())
        gone = said["removed"]
    if "arguments" in gone:
        yield "the grant is the edge’s, for this call and worker", (grant and digest(grant)) == (named and named["sha256"])
        yield ("the arguments were removed by the tenant’s retention rule: only their digest is signed, and nothing "
               "compares the plan"), call["arguments"] is None and plan is None
    else:
        yield "the digest covers these arguments and this plan", facts["digest"] == digest(call)
        yield "the arguments digest matches", facts["args_sha256"] == digest(call["arguments"])
        yield "the plan digest matches", facts["plan_sha256"] == (plan and digest(plan))
        yield "limits and egress are the plan’s", all(facts[k] == (plan and plan[k]) for k in ("limits", "egress"))
        yield from plan_checks(statement, grant, plan, entries[-1]["at_ms"])
    yield from snapshot_checks(bundle["snapshot"], facts, plan)
    yield from journal_checks(p, entries)
    size, root = opened_note(log["checkpoint"], facts["tenant"], keys)
    yield "the edge signed the checkpoint of the tenant’s log", size >= 0
    leaf, proof = sha256(b"\0" + bytes.fromhex(entries[-1]["hash"])), [bytes.fromhex(one) for one in log["proof"]]
    yield "the end of the call is in the log under this checkpoint", (
        log["index"] < size and root_of(log["index"], size, leaf, proof) == root)
def first_failure(bundle, keys):
    for name, schema, text in (("the key file", "keys", keys), ("the bundle", "bundle", bundle)):
        try:
            value = read(text.encode())
        except UNREADABLE:
            return name + " can be read"
        if not fits(schema, value) or (schema == "keys" and not are_keys(value)): return name + " is well-formed"
        keys = value if schema == "keys" else keys
    return next((name for name, holds in checks(value, keys) if not holds), None)
files = [pathlib.Path(name).read_text("utf-8") for name in sys.argv[2:]]
for asked in [dict(zip(("bundle", "keys"), files))] if files else map(json.loads, sys.stdin):
    print(json.dumps(first_failure(asked["bundle"], asked["keys"]), ensure_ascii=False))
