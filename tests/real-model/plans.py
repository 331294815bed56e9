"""Plans of a real model, with and without a grammar: `goalmill eval` counts how many are valid, and what they take.

Without a grammar, a proxy refuses `response_format` and `tools` as a server does that knows neither, so that the prompt holds the
schema."""
import json
import pathlib
import subprocess

from processes import call, free_port, wait
from tool_proxy import ToolProxy

HERE = pathlib.Path(__file__).resolve().parent
# A plan of this model has as many steps as it may have: about 200 tokens each.
STEPS_MAX = 3
SETTINGS = """
[[models]]
name = "grammar"
model = "smollm2"
base_url = "{grammar}"
context_tokens = 8192
output_tokens_max = 700
concurrency = 1
retries = 0
first_byte_ms = 600000
idle_ms = 600000
call_ms = 600000
[[models]]
name = "plain"
model = "smollm2"
base_url = "{plain}"
context_tokens = 8192
output_tokens_max = 300
concurrency = 1
retries = 0
first_byte_ms = 600000
idle_ms = 600000
call_ms = 600000
[planner]
order = ["llm"]
timeout_ms = 600000
[planner.llm]
output_tokens_max = 700
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


class PlanScheduler:
    """A scheduler whose only agents are `CARDS`, with the models `grammar` and `plain`."""

    def __init__(self, processes, program, host):
        self.program = program
        config = processes.folder / "plans.toml"
        plain = ToolProxy(host, refuses=("response_format", "tools")).url
        config.write_text(SETTINGS.format(grammar=f"http://{host}/v1", plain=plain, steps_max=STEPS_MAX))
        redis, log = processes.start_redis(), processes.folder / "plans.log"
        port = free_port()
        processes.start("plans", str(program), "scheduler", "--redis", f"redis://127.0.0.1:{redis}",
                        "--listen", f"127.0.0.1:{port}", "--metrics", "off", "--config", str(config))
        self.url = f"http://127.0.0.1:{port}"
        wait(lambda: call(f"{self.url}/readyz", text=True) is not None, f"{log.name} starts")
        for agent in CARDS:
            call(f"{self.url}/v1/agents", agent)

    def evaluate(self, model, goals, *flags):
        """The exit code, and the figures of the model."""
        done = subprocess.run([str(self.program), "eval", str(HERE / goals), "--models", model, "--server", self.url, "-o", "json", *flags],
                              capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=1800)
        report = json.loads(done.stdout)
        for answer in report["answers"]:
            if issue := next(iter(answer.get("issues", [])), None):
                print(f"  {answer['outcome']}: {answer['text']}: {issue['code']} {issue['detail'][:100]}", flush=True)
        return done.returncode, report["models"][0]


def test_plans(scheduler, model, goals, *flags):
    """The plans of a file; with a least share in the flags, the test fails below it."""
    code, figures = scheduler.evaluate(model, goals, *flags)
    told = (f"{figures['valid_at_first']} of {figures['asked']} valid at the first answer, {figures['valid_after_repair']} after repair, "
            f"median {figures['seconds_median']:.1f} s, at most {figures['seconds_max']:.1f} s")
    assert code == 0, told
    return told
