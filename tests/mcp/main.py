"""Tests of `goalmill mcp` with the client of the Python package `mcp`, in both of its protocol modes, and with the client
of the npm package `@modelcontextprotocol/sdk` (client.mjs)."""
import asyncio
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

from mcp import Client, MCPError, StdioServerParameters
from mcp.types import ElicitResult

PROGRAM, NODE_CLIENT = (str(pathlib.Path(path).resolve()) for path in sys.argv[1:3])
READS = {"preview_plan", "plan_status", "plan_results", "list_plans", "list_agents", "route"}
WRITES = {"submit_goal", "decide_approval", "answer_question", "cancel_plan"}
GOAL = "Plan a 3-day trip to Paris in May with a $2000 budget"


class Goalmill:
    """`goalmill dev` on a free port, in a folder of its own."""

    def __init__(self, folder):
        (folder / "goalmill.toml").write_text("")
        self.environment = {**os.environ, "HOME": str(folder), "NO_COLOR": "1"}
        self.log = open(folder / "log", "w+")
        words = [PROGRAM, "dev", "--listen", "127.0.0.1:0", "--metrics", "off", "--config", str(folder / "goalmill.toml")]
        self.process = subprocess.Popen(words, stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL, env=self.environment)
        end = time.monotonic() + 60
        while "/v1" not in self.text():
            if self.process.poll() is not None or time.monotonic() > end:
                sys.exit(f"goalmill dev does not start: {self.text()}")
            time.sleep(0.05)
        self.url = re.search(r"(http://127\.0\.0\.1:\d+)/v1", self.text()).group(1)

    def text(self):
        return pathlib.Path(self.log.name).read_text()

    def words(self, *options):
        return ["--server", self.url, "mcp", *options]

    def post(self, path, body):
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)


def client(goalmill, *options, mode, answer=None):
    server = StdioServerParameters(command=PROGRAM, args=goalmill.words(*options), env=goalmill.environment)
    extra = {} if answer is None else {"elicitation_callback": answer}
    return Client(server, mode=mode, **extra)


async def call(session, tool, **arguments):
    result = await session.call_tool(tool, arguments)
    return result.is_error, result.structured_content


async def reads(goalmill, mode):
    async with client(goalmill, mode=mode) as session:
        tools = (await session.list_tools()).tools
        assert {tool.name for tool in tools} == READS, tools
        assert all(tool.annotations.read_only_hint for tool in tools)
        failed, preview = await call(session, "preview_plan", goal=GOAL)
        assert not failed and preview["valid"] and preview["plan"]["steps"], preview
        failed, agents = await call(session, "list_agents")
        assert not failed and any(agent["agent_type"] == "hotel_agent" for agent in agents["items"]), agents
        failed, found = await call(session, "route", task="find a hotel in Paris")
        assert not failed and found["candidates"], found
        failed, wrong = await call(session, "plan_status", plan_id="p0-nothing")
        assert failed and "p0-nothing" in wrong["detail"], wrong
        failed, wrong = await call(session, "preview_plan", gaol=GOAL)
        assert failed and "gaol" in json.dumps(wrong), wrong
        try:
            await session.call_tool("submit_goal", {"goal": GOAL})
            raise AssertionError("a server that only reads has submitted a goal")
        except MCPError as error:
            assert "submit_goal" in str(error), error


async def runs(goalmill, mode):
    async with client(goalmill, "--allow-writes", mode=mode) as session:
        assert {tool.name for tool in (await session.list_tools()).tools} == READS | WRITES
        failed, accepted = await call(session, "submit_goal", goal=GOAL, idempotency_key=f"mcp-{mode}")
        assert not failed, accepted
        plan = accepted["plan_id"]
        _, again = await call(session, "submit_goal", goal=GOAL, idempotency_key=f"mcp-{mode}")
        assert again["plan_id"] == plan, again
        for _ in range(600):
            _, status = await call(session, "plan_status", plan_id=plan)
            if status["plan"]["status"] in ("completed", "partial", "failed", "cancelled"):
                break
            await asyncio.sleep(0.1)
        assert status["plan"]["status"] == "completed", status
        _, results = await call(session, "plan_results", plan_id=plan)
        assert results["results"], results
        templates = (await session.list_resource_templates()).resource_templates
        assert {template.uri_template for template in templates} == {"goalmill://plans/{plan_id}", "goalmill://plans/{plan_id}/events"}
        log = await session.read_resource(f"goalmill://plans/{plan}/events")
        assert json.loads(log.contents[0].text)["items"][0]["type"] == "goal_accepted"
        failed, refused = await call(session, "decide_approval", plan_id=plan)
        assert failed and "goalmill plan approve" in refused["detail"], refused


async def asks_the_person(goalmill, mode):
    asked = []

    async def answer(context, params):
        asked.append(params.message)
        return ElicitResult(action="accept", content={"decision": "approve", "reason": "good"})

    async def decline(context, params):
        return ElicitResult(action="decline")

    async with client(goalmill, "--allow-writes", mode=mode, answer=decline) as session:
        _, accepted = await call(session, "submit_goal", goal=GOAL, require_approval=True)
        plan = accepted["plan_id"]
        for _ in range(600):
            _, status = await call(session, "plan_status", plan_id=plan)
            if status["plan"]["status"] == "awaiting_approval":
                break
            await asyncio.sleep(0.1)
        _, decided = await call(session, "decide_approval", plan_id=plan)
        assert decided.get("decision") == "none", decided
        _, status = await call(session, "plan_status", plan_id=plan)
        assert status["plan"]["status"] == "awaiting_approval", status
    async with client(goalmill, "--allow-writes", mode=mode, answer=answer) as session:
        failed, decided = await call(session, "decide_approval", plan_id=plan)
        assert not failed and decided["decision"] == "approve", decided
        assert len(asked) == 1 and GOAL in asked[0], asked
        _, status = await call(session, "plan_status", plan_id=plan)
        assert status["plan"]["status"] != "awaiting_approval", status


async def node(goalmill, _):
    words = ["node", NODE_CLIENT, PROGRAM, *goalmill.words("--allow-writes")]
    process = await asyncio.create_subprocess_exec(*words, env=goalmill.environment, stdin=subprocess.DEVNULL)
    assert await asyncio.wait_for(process.wait(), 120) == 0, "the client of the npm package has failed"


async def main():
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix="goalmill-mcp-") as folder:
        goalmill = Goalmill(pathlib.Path(folder))
        try:
            cases = [(test, mode) for test in (reads, runs, asks_the_person) for mode in ("legacy", "auto")]
            for test, mode in [*cases, (node, "npm")]:
                try:
                    await asyncio.wait_for(test(goalmill, mode), 180)
                    passed += 1
                    print(f"ok {test.__name__} ({mode})")
                except BaseException as error:  # a group of errors has the one that counts inside
                    while isinstance(error, BaseExceptionGroup):
                        error = error.exceptions[0]
                    failed += 1
                    print(f"FAILED {test.__name__} ({mode}): {type(error).__name__}: {error}")
        finally:
            goalmill.process.terminate()
            goalmill.process.wait(30)
    print(f"{passed} passed, {failed} failed")
    return failed == 0


sys.exit(0 if asyncio.run(main()) else 1)
