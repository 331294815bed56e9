"""Tests of MCP with packages that were not written here.

`goalmill mcp` is called by the client of the Python package `mcp`, in both of its protocol modes, and by that of the npm package
`@modelcontextprotocol/sdk` (client.mjs). The executor `mcp` calls the npm package `@modelcontextprotocol/server-everything`, over
standard input and output and over HTTP, and a server of the Python package (server.py)."""
import asyncio
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

from mcp import Client, MCPError, StdioServerParameters
from mcp.types import ElicitResult

PROGRAM, FOLDER = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
NODE_CLIENT = FOLDER / "client.mjs"
EVERYTHING = FOLDER / "node_modules/@modelcontextprotocol/server-everything/dist/index.js"
PYTHON_SERVER = pathlib.Path(__file__).resolve().parent / "server.py"
READS = {"preview_plan", "plan_status", "plan_results", "list_plans", "list_agents", "route"}
WRITES = {"submit_goal", "decide_approval", "answer_question", "cancel_plan"}
GOAL = "Plan a 3-day trip to Paris in May with a $2000 budget"


class Goalmill:
    """`goalmill dev` on a free port, in a folder of its own."""

    def __init__(self, folder):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
        everything = [str(EVERYTHING), "streamableHttp"]
        self.server = subprocess.Popen(["node", *everything], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                       stdin=subprocess.DEVNULL, env={**os.environ, "PORT": str(port)})
        (folder / "goalmill.toml").write_text(f"""
[worker.agents.everything]
kind = "mcp"
argv = ["node", "{EVERYTHING}", "stdio"]
[worker.agents.remote]
kind = "mcp"
url = "http://127.0.0.1:{port}/mcp"
[worker.agents.python]
kind = "mcp"
argv = ["{sys.executable}", "{PYTHON_SERVER}"]
tools = ["add", "fail", "grow", "vanish", "refuse"]
""")
        self.environment = {**os.environ, "HOME": str(folder), "NO_COLOR": "1"}
        self.log = open(folder / "log", "w+")
        words = [str(PROGRAM), "dev", "--listen", "127.0.0.1:0", "--metrics", "off", "--config", str(folder / "goalmill.toml")]
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

    def call(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"content-type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path} answers {error.code}: {error.read().decode()}") from error

    async def run_plan(self, steps):
        """A plan's steps by id, when it has ended."""
        plan = self.call("/v1/plans", {"steps": steps})["plan_id"]
        for _ in range(900):
            view = self.call(f"/v1/plans/{plan}")
            if view["status"] in ("completed", "partial", "failed", "cancelled"):
                return view["status"], {step["id"]: step for step in view["steps"]}
            await asyncio.sleep(0.1)
        raise AssertionError(f"plan {plan} does not end: {view}")

    async def agent(self, name, action):
        """The action of an agent type, once it is registered."""
        for _ in range(600):
            for agent in self.call("/v1/agents")["items"]:
                for found in agent.get("actions", []):
                    if (agent["agent_type"], found["name"]) == (name, action):
                        return found
            await asyncio.sleep(0.1)
        raise AssertionError(f"agent type {name} does not get the action {action}")


def client(goalmill, *options, mode, answer=None):
    server = StdioServerParameters(command=str(PROGRAM), args=goalmill.words(*options), env=goalmill.environment)
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
    words = ["node", str(NODE_CLIENT), str(PROGRAM), *goalmill.words("--allow-writes")]
    process = await asyncio.create_subprocess_exec(*words, env=goalmill.environment, stdin=subprocess.DEVNULL)
    assert await asyncio.wait_for(process.wait(), 120) == 0, "the client of the npm package has failed"


async def serves_steps(goalmill, _):
    for name in ("everything", "remote"):
        action = await goalmill.agent(name, "get-sum")
        assert set(action["inputs"]["properties"]) == {"a", "b"}, action
    status, steps = await goalmill.run_plan([
        {"id": "sum", "agent_type": "everything", "action": "get-sum", "inputs": {"a": 2, "b": 3}},
        {"id": "far", "agent_type": "remote", "action": "echo", "inputs": {"message": "{{ steps.sum.outputs.text }}"}, "dependencies": ["sum"]},
        {"id": "weather", "agent_type": "remote", "action": "get-structured-content", "inputs": {"location": "Chicago"}},
        {"id": "image", "agent_type": "everything", "action": "get-tiny-image"}])
    assert status == "completed", steps
    assert "5" in steps["sum"]["outputs"]["text"], steps["sum"]
    assert steps["sum"]["outputs"]["text"] in steps["far"]["outputs"]["text"], steps["far"]
    assert "temperature" in steps["weather"]["outputs"], steps["weather"]
    assert any(part["type"] == "image" for part in steps["image"]["outputs"]["content"]), steps["image"]


async def follows_the_server(goalmill, _):
    await goalmill.agent("python", "add")
    status, steps = await goalmill.run_plan([{"id": "a", "agent_type": "python", "action": "grow", "inputs": {}}])
    assert status == "completed", steps
    action = await goalmill.agent("python", "refuse")
    assert action["name"] == "refuse"


async def fails_as_the_server_does(goalmill, _):
    await goalmill.agent("python", "add")
    for step, code in (({"action": "divide"}, "MCP_UNKNOWN_TOOL"), ({"action": "add", "inputs": {"a": "x", "b": 2}}, "MCP_TOOL_ERROR")):
        _, steps = await goalmill.run_plan([{"id": "a", "agent_type": "python", **step}])
        assert steps["a"]["failure"]["code"] == code, steps
    _, steps = await goalmill.run_plan([{"id": "a", "agent_type": "python", "action": "fail"}])
    assert steps["a"]["failure"]["code"] == "MCP_TOOL_ERROR" and "fail" in steps["a"]["failure"]["message"], steps
    status, steps = await goalmill.run_plan([
        {"id": "gone", "agent_type": "python", "action": "vanish", "inputs": {}, "retry": {"max": 1, "initial": 0.1}, "on_failure": "skip"},
        {"id": "back", "agent_type": "python", "action": "add", "inputs": {"a": 1, "b": 2}, "dependencies": ["gone"]}])
    assert steps["gone"]["failure"]["code"] == "MCP_UNREACHABLE", steps["gone"]
    assert steps["back"]["status"] == "completed" and steps["back"]["outputs"]["result"] == 3, steps["back"]


async def main():
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix="goalmill-mcp-") as folder:
        goalmill = Goalmill(pathlib.Path(folder))
        try:
            cases = [(test, mode) for test in (reads, runs, asks_the_person) for mode in ("legacy", "auto")]
            for test, mode in [*cases, (node, "npm"), (serves_steps, "npm"), (follows_the_server, "python"), (fails_as_the_server_does, "python")]:
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
            goalmill.server.terminate()
            goalmill.process.terminate()
            goalmill.process.wait(30)
    print(f"{passed} passed, {failed} failed")
    return failed == 0


sys.exit(0 if asyncio.run(main()) else 1)
