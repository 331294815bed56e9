"""Plans through the proxy of `litellm` in front of scripted models: Claude, GPT and llama.cpp's server.

    target/real-model/venv/bin/python tests/real-model/gateways.py target/debug/goalmill target/real-model

The proxy is the real program; behind it a server speaks the APIs of Anthropic and OpenAI, records each request and answers with
one plan. Printed for each model: bytes of the request and of its schema at the proxy and behind it, the form, `strict`, and the
steps of the plan. It fails if a schema for a service has more than 60,000 bytes, at the proxy or behind it, or a model gives no plan. Run by hand; no model and no key is used."""
import http.client
import http.server
import json
import os
import pathlib
import re
import sys
import tempfile
import threading
import urllib.error

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from processes import Processes, call, free_port, wait

PROGRAM, FOLDER = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
SCHEMA_BYTES_MAX = 60_000
PLAN = {"steps": [
    {"id": "s1", "description": "Find three facts about bees", "agent_type": "research_agent", "action": "research",
     "inputs": {"topic": "bees"}, "dependencies": []},
    {"id": "s2", "description": "Write a paragraph about the facts", "agent_type": "writer_agent", "action": "write",
     "inputs": {"title": "Bees", "goal": "A paragraph about {{ steps.s1.outputs.findings | tojson }}"}, "dependencies": ["s1"]},
]}
GOAL = "Find three facts about bees, then write a paragraph about them"
FEATURES = ["conditions", "statuses", "approvals", "questions", "maps", "loops", "waits", "undo", "always"]
# Name at the proxy, name behind it, and what the proxy calls the provider.
MODELS = [("claude", "claude-sonnet-4-5-20250929", "anthropic"), ("gpt", "gpt-4o", "openai"), ("local", "smollm2", "hosted_vllm")]


def schema_of(body):
    """The schema that a request has, and where it stands."""
    own = (body.get("response_format") or {}).get("json_schema")
    if own:
        return own.get("schema"), "json_schema", own.get("strict")
    own = body.get("output_format") or (body.get("output_config") or {}).get("format")
    if own:
        return own.get("schema"), "output_format", None
    tools = body.get("tools") or [{}]
    tool = tools[0].get("function", tools[0])
    parameters = tool.get("parameters") or tool.get("input_schema")
    return parameters, "tool" if parameters else "text", tool.get("strict")


def plan_for(body):
    """The plan in the form that the schema asks for: in the strict form agent, action and inputs stand in `work`."""
    if '"work"' not in json.dumps(schema_of(body)[0]):
        return json.dumps(PLAN)
    does = ("agent_type", "action", "inputs")
    steps = [{**{key: value for key, value in step.items() if key not in does}, "work": {key: step[key] for key in does}} for step in PLAN["steps"]]
    return json.dumps({"steps": steps})


def form_of(schema):
    text = json.dumps(schema)
    if "prefixItems" in text:
        return "grammar"
    return "strict" if '"work"' in text else "prompt"


class Recorder(http.server.BaseHTTPRequestHandler):
    """Keeps each request in `seen`; answers as the subclass says."""
    protocol_version = "HTTP/1.1"
    seen = None

    def log_message(self, *_):
        pass

    def send(self, kind, data, status=200):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def body(self):
        sent = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.seen.append((self.path, len(sent), json.loads(sent or b"{}")))
        return sent


def of_openai(body):
    call = {"name": (body.get("tools") or [{}])[0].get("function", {}).get("name"), "arguments": plan_for(body)}
    calls = {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": call}]}
    content = {"role": "assistant", "content": None, **calls} if body.get("tools") else {"role": "assistant", "content": plan_for(body)}
    finish = "tool_calls" if body.get("tools") else "stop"
    usage = {"prompt_tokens": 100, "completion_tokens": 80, "total_tokens": 180}
    head = {"id": "a1", "created": 1, "model": body["model"]}
    if not body.get("stream"):
        choice = {"index": 0, "message": content, "finish_reason": finish}
        return "application/json", json.dumps({**head, "object": "chat.completion", "choices": [choice], "usage": usage}).encode()
    chunks = [{"choices": [{"index": 0, "delta": content, "finish_reason": None}]},
              {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}], "usage": usage}]
    lines = [json.dumps({**head, "object": "chat.completion.chunk", **chunk}) for chunk in chunks] + ["[DONE]"]
    return "text/event-stream", "".join(f"data: {line}\n\n" for line in lines).encode()


def of_anthropic(body):
    tools = body.get("tools")
    block = {"type": "tool_use", "id": "t1", "name": tools[0]["name"], "input": json.loads(plan_for(body))} if tools else {"type": "text", "text": plan_for(body)}
    stop, usage = "tool_use" if tools else "end_turn", {"input_tokens": 100, "output_tokens": 80}
    head = {"id": "m1", "type": "message", "role": "assistant", "model": body["model"], "usage": usage}
    if not body.get("stream"):
        return "application/json", json.dumps({**head, "content": [block], "stop_reason": stop, "stop_sequence": None}).encode()
    piece = {"type": "input_json_delta", "partial_json": plan_for(body)} if tools else {"type": "text_delta", "text": plan_for(body)}
    start = {**block, "input": {}} if tools else {**block, "text": ""}
    events = [{"type": "message_start", "message": {**head, "content": [], "stop_reason": None, "stop_sequence": None}},
              {"type": "content_block_start", "index": 0, "content_block": start},
              {"type": "content_block_delta", "index": 0, "delta": piece}, {"type": "content_block_stop", "index": 0},
              {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage}, {"type": "message_stop"}]
    return "text/event-stream", "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()


class Upstream(Recorder):
    """The providers."""

    def do_GET(self):
        self.send("application/json", json.dumps({"object": "list", "data": [{"id": "smollm2", "owned_by": "llamacpp"}]}).encode())

    def do_POST(self):
        body = json.loads(self.body())
        self.send(*(of_anthropic(body) if self.path.endswith("/messages") else of_openai(body)))


class Tap(Recorder):
    """Between Goalmill and the proxy."""
    proxy = None

    def forward(self, method, sent):
        upstream = http.client.HTTPConnection(self.proxy, timeout=120)
        headers = {name: value for name, value in self.headers.items() if name.lower() in ("content-type", "authorization")}
        upstream.request(method, self.path, sent, headers)
        answer = upstream.getresponse()
        self.send(answer.headers.get("content-type", "application/json"), answer.read(), answer.status)

    def do_GET(self):
        self.forward("GET", None)

    def do_POST(self):
        self.forward("POST", self.body())


def serve(handler):
    handler.seen = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"127.0.0.1:{server.server_address[1]}"


def settings(base_url, direct):
    models = [(name, name, f"http://{base_url}/v1") for name, _, _ in MODELS] + [("direct", "smollm2", f"http://{direct}/v1")]
    one = '[[models]]\nname = "{}"\nmodel = "{}"\nbase_url = "{}"\napi_key_env = "REAL_MODEL_KEY"\n'
    return "".join(one.format(*model) for model in models) + '[planner]\norder = ["llm"]\n'


def main():
    upstream = serve(Upstream)
    os.environ |= {"REAL_MODEL_KEY": "none", "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true"}
    with tempfile.TemporaryDirectory() as folder:
        processes = Processes(pathlib.Path(folder))
        try:
            sys.exit(run(processes, upstream))
        finally:
            processes.stop()


def run(processes, upstream):
    port = free_port()
    lines = ["model_list:"]
    for name, behind, provider in MODELS:
        base = f"http://{upstream}" + ("" if provider == "anthropic" else "/v1")
        lines += [f"  - model_name: {name}", "    litellm_params:", f"      model: {provider}/{behind}", f"      api_base: {base}", "      api_key: none"]
    config = processes.folder / "litellm.yaml"
    config.write_text("\n".join(lines) + "\n")
    processes.start("litellm", str(FOLDER / "venv/bin/litellm"), "--config", str(config), "--port", str(port), "--host", "127.0.0.1")
    Tap.proxy = f"127.0.0.1:{port}"
    tap = serve(Tap)
    wait(lambda: "data" in call(f"http://{Tap.proxy}/v1/models"), "litellm starts", 300)
    own = processes.folder / "goalmill.toml"
    own.write_text(settings(tap, upstream))
    processes.start("goalmill", str(PROGRAM), "dev", "--listen", "127.0.0.1:0", "--metrics", "off", "--config", str(own))
    log = processes.folder / "goalmill.log"
    wait(lambda: "/v1" in log.read_text(), "goalmill starts")
    url = re.search(r"(http://127\.0\.0\.1:\d+)/v1", log.read_text()).group(1)
    failures = []
    some = [feature for feature in FEATURES if feature != "undo"]
    for name, features in [(name, FEATURES) for name, _, _ in MODELS] + [("direct", FEATURES), ("claude", some), ("claude", [])]:
        Tap.seen.clear(), Upstream.seen.clear()
        planning = {"planner": "llm", "planner_only": True, "model": name, "model_only": True, "features": features}
        try:
            preview = call(f"{url}/v1/plans:preview", {"description": GOAL, "planning": planning})
        except urllib.error.HTTPError as error:
            preview = {"problem": error.read().decode()}
        steps = [step.get("action") for step in (preview.get("plan") or {}).get("steps", [])]
        for side, seen in (("asked", Tap.seen), ("behind", Upstream.seen)):
            for path, bytes_sent, body in seen:
                schema, mode, strict = schema_of(body)
                size = len(json.dumps(schema, separators=(",", ":"))) if schema else 0
                print(f"{name:7} {side:6} {path:20} request {bytes_sent:7} schema {size:7} {mode:13} {form_of(schema):7} strict {strict}")
                # For Claude `litellm` writes each definition at every place that refers to it.
                if name != "direct" and size > SCHEMA_BYTES_MAX:
                    failures.append(f"{name}: the schema has {size} bytes ({side})")
        print(f"{name:7} plan   {steps} with {len(features)} features")
        if steps != ["research", "write"]:
            failures.append(f"{name}: {json.dumps(preview)[:600]}")
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


main()
