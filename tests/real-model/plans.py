"""Plans of a real model, with and without a grammar: how many are valid at the first answer, and what they take.

The scheduler asks a proxy in front of the model's server. The proxy counts answers and tokens. Without a grammar, it refuses
`response_format` and `tools` as a server does that knows neither, so that the prompt holds the schema."""
import http.client
import http.server
import json
import threading
import time
import urllib.error
import urllib.request

from processes import call, free_port, wait

# Work that a small office gives away. No goal is like the example of the prompt.
GOALS = [
    "Find three suppliers of office chairs and note their prices",
    "Tell the team that the server is updated on Monday night",
    "Summarize the customer complaints of May",
    "Prepare the agenda of the budget meeting",
    "Check whether invoice 4711 was paid",
    "Collect the open tickets of the web shop and sort them by age",
    "Write a job advertisement for an accountant",
    "Compare the sales of two quarters and report the difference",
    "Remind all tenants of the fire drill",
    "Look up the opening hours of the town archive",
    "Draft a reply to the complaint about the late delivery",
    "List the laptops whose warranty ends this year",
    "Publish the minutes of the board meeting",
    "Find a date for the training and invite the department",
    "Count the visitors of the fair by country",
    "Describe the new travel rules in plain words",
    "Search for grants for energy saving and summarize the best one",
    "Archive the contracts that ended last year",
    "Ask the warehouse for the stock of printer paper",
    "Report the downtime of the mail server in April",
]
# Without a grammar, answers are as long as they may be.
GOALS_WITHOUT_GRAMMAR = 5
STEPS_MAX = 3
SETTINGS = """
[[models]]
name = "small"
model = "smollm2"
base_url = "{base_url}"
context_tokens = 8192
output_tokens_max = 500
concurrency = 1
retries = 0
first_byte_ms = 600000
idle_ms = 600000
call_ms = 600000
[planner]
order = ["llm"]
timeout_ms = 600000
[planner.llm]
output_tokens_max = 500
temperature = 0.2
rounds_max = 1
stalled_max = 2
[limits]
planned_steps_max = {steps_max}
"""


def card(agent, description, *actions):
    def schema(fields):
        kinds = {name: {"type": "integer" if name in ("count", "limit") else "string"} for name in fields}
        return {"type": "object", "properties": kinds, "required": fields, "additionalProperties": False}
    return {"agent_type": agent, "description": description, "actions": [
        {"name": name, "description": text, "inputs": schema(takes), "outputs": schema(gives)} for name, text, takes, gives in actions]}


CARDS = [
    card("researcher", "Looks things up",
         ("search_web", "Searches the web", ["query"], ["text"]),
         ("search_documents", "Searches the documents of the office", ["query", "limit"], ["text", "count"])),
    card("analyst", "Works with tables",
         ("query_table", "Reads rows of a table", ["table", "filter"], ["text", "count"]),
         ("compare", "Compares two texts", ["first", "second"], ["text"])),
    card("writer", "Writes texts",
         ("draft_text", "Writes a text about a topic", ["topic"], ["text"]),
         ("summarize", "Shortens a text", ["text"], ["text"])),
    card("office", "Sends and stores",
         ("send_message", "Sends a message", ["recipient", "text"], ["text"]),
         ("store_file", "Stores a text as a file", ["name", "text"], ["text"])),
]


class CountingProxy:
    """Listens on a free port, passes requests on to `host`, and counts answers and tokens."""

    def __init__(self, host, has_grammar):
        self.answers = self.prompt_tokens = self.answer_tokens = 0
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                sent = self.rfile.read(int(self.headers.get("content-length", 0)))
                refused = [name for name in ("response_format", "tools") if name in json.loads(sent)]
                if refused and not has_grammar:
                    status, answer = 400, json.dumps({"error": {"message": f"{refused[0]} is not supported"}}).encode()
                else:
                    upstream = http.client.HTTPConnection(host, timeout=600)
                    upstream.request("POST", self.path, sent, {"content-type": "application/json"})
                    response = upstream.getresponse()
                    status, answer = response.status, response.read()
                    upstream.close()
                    proxy.count(status, answer)
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"

    def count(self, status, answer):
        if status != 200:
            print(f"plans: the server refuses: {status} {answer[:300]}", flush=True)
            return
        usage = json.loads(answer)["usage"]
        self.answers += 1
        self.prompt_tokens += usage["prompt_tokens"]
        self.answer_tokens += usage["completion_tokens"]


def preview(url, goal):
    """The previewed plan, or the problem."""
    request = urllib.request.Request(f"{url}/v1/plans:preview", json.dumps({"goal": goal}).encode(), {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=900) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        return {"valid": False, **json.load(error)}


def start_scheduler(processes, program, name, base_url):
    """The address of a scheduler whose only agents are `CARDS`."""
    config = processes.folder / f"{name}.toml"
    config.write_text(SETTINGS.format(base_url=base_url, steps_max=STEPS_MAX))
    redis, log = processes.start_redis(), processes.folder / f"{name}.log"
    port = free_port()
    processes.start(name, str(program), "scheduler", "--redis", f"redis://127.0.0.1:{redis}", "--listen", f"127.0.0.1:{port}",
                    "--metrics", "off", "--config", str(config))
    url = f"http://127.0.0.1:{port}"
    wait(lambda: call(f"{url}/readyz", text=True) is not None, f"{name} starts")
    for agent in CARDS:
        call(f"{url}/v1/agents", agent)
    return url


def measure(processes, program, host, name, goals, has_grammar):
    """One row of the table."""
    proxy = CountingProxy(host, has_grammar)
    url = start_scheduler(processes, program, name, proxy.url)
    at_first, after_repair, began, problems = 0, 0, time.monotonic(), []
    for goal in goals:
        before = proxy.answers
        plan = preview(url, goal)
        if plan["valid"] and proxy.answers == before + 1:
            at_first += 1
        elif plan["valid"]:
            after_repair += 1
            problems.append(f"{goal}: valid after {proxy.answers - before} answers")
        else:
            problems.append(f"{goal}: {plan.get('detail', plan)}")
    seconds, count = time.monotonic() - began, len(goals)
    print(f"| {name} | {count} | {at_first} | {after_repair} | {proxy.prompt_tokens / count:.0f} + {proxy.answer_tokens / count:.0f} "
          f"| {seconds / count:.0f} |", *problems, sep="\n  ", flush=True)
    return at_first


def measure_all(processes, program, host):
    """How many goals lack a valid first answer beyond the twentieth part that may."""
    print("| plans | goals | valid at the first answer | valid after repair | tokens of a goal | seconds of a goal |\n|---|---|---|---|---|---|", flush=True)
    valid = measure(processes, program, host, "grammar", GOALS, True)
    measure(processes, program, host, "no-grammar", GOALS[:GOALS_WITHOUT_GRAMMAR], False)
    return max(0, len(GOALS) * 19 // 20 - valid)
