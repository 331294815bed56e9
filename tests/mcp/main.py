"""Tests of MCP with packages that were not written here.

As a server, over standard input and output and over HTTP: `goalmill mcp` and `/mcp` are called by the client of the Python package `mcp`, in both of
its protocol modes, and by that of the npm package `@modelcontextprotocol/sdk` (client.mjs), with and without tokens.
As a client, over both: the executor `mcp` calls a server of the Python package (server.py), and servers of the npm package as they are published:
`@modelcontextprotocol/server-everything`, and `@modelcontextprotocol/server-filesystem`, which serves the steps of a plan."""
import asyncio
import json
import os
import pathlib
import re
import secrets
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import httpx2
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitResult

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from processes import free_port

PROGRAM, FOLDER = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
NODE_CLIENT = FOLDER / "client.mjs"
PACKAGES = FOLDER / "node_modules/@modelcontextprotocol"
EVERYTHING, FILESYSTEM = (PACKAGES / name / "dist/index.js" for name in ("server-everything", "server-filesystem"))
PYTHON_SERVER, WEB_CRYPTO = (pathlib.Path(__file__).resolve().parent / name for name in ("server.py", "web_crypto.cjs"))
READS = {"preview_plan", "plan_status", "plan_results", "list_plans", "list_agents", "route"}
WRITES = {"submit_goal", "run_plan", "decide_approval", "answer_question", "send_event", "cancel_plan"}
GOAL = "Plan a 3-day trip to Paris in May with a $2000 budget"
FINAL = ("completed", "partial", "failed", "cancelled")
TRANSPORTS, MODES = ("stdio", "http"), ("legacy", "auto")
# Of the server that is called over HTTP.
SECRET = secrets.token_hex(16)


class Goalmill:
    """`goalmill dev` on a free port, in a folder of its own."""

    def __init__(self, folder, settings, environment):
        folder.mkdir()
        (folder / "goalmill.toml").write_text(settings)
        self.environment = {**os.environ, "HOME": str(folder), "NO_COLOR": "1", "GOALMILL_TOKEN": ""}
        self.log = open(folder / "log", "w+")
        words = [str(PROGRAM), "dev", "--listen", "127.0.0.1:0", "--metrics", "off", "--config", str(folder / "goalmill.toml")]
        self.process = subprocess.Popen(words, stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL,
                                        env={**self.environment, **environment})
        end = time.monotonic() + 60
        while "/v1" not in self.text():
            if self.process.poll() is not None or time.monotonic() > end:
                sys.exit(f"goalmill dev does not start: {self.text()}")
            time.sleep(0.05)
        self.url = re.search(r"(http://127\.0\.0\.1:\d+)/v1", self.text()).group(1)

    def stop(self):
        self.process.terminate()
        self.process.wait(30)

    def text(self):
        return pathlib.Path(self.log.name).read_text()

    def words(self, writes):
        return ["--server", self.url, "mcp", *(["--allow-writes"] if writes else [])]

    def call(self, path, body=None, token=None):
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {token}"} if token else {})
        request = urllib.request.Request(self.url + path, data, headers)
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
            if view["status"] in FINAL:
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


class World:
    """The servers of all tests: `open` lets everybody write, `guarded` needs tokens and only reads over HTTP."""

    def __init__(self, folder):
        self.folder, self.servers = folder, []
        everything, python = free_port(), free_port()
        self.start("node", "--require", str(WEB_CRYPTO), str(EVERYTHING), "streamableHttp", PORT=str(everything))
        self.start(sys.executable, str(PYTHON_SERVER), str(python), SECRET=SECRET)
        (folder / "files").mkdir()
        tools = 'tools = ["add", "later", "fail", "grow", "vanish", "refuse"]'
        self.open = Goalmill(folder / "open", f"""
[api.mcp]
access = "write"
[worker.agents.everything]
kind = "mcp"
argv = ["node", "{EVERYTHING}", "stdio"]
[worker.agents.everything_http]
kind = "mcp"
url = "http://127.0.0.1:{everything}/mcp"
[worker.agents.python]
kind = "mcp"
argv = ["{sys.executable}", "{PYTHON_SERVER}"]
{tools}
[worker.agents.python_http]
kind = "mcp"
url = "http://127.0.0.1:{python}/mcp"
headers = {{ authorization = "Bearer {SECRET}" }}
[worker.agents.python_without_token]
kind = "mcp"
url = "http://127.0.0.1:{python}/mcp"
[worker.agents.files]
kind = "mcp"
argv = ["node", "{FILESYSTEM}", "{folder / "files"}"]
""", {})
        admin = secrets.token_hex(32)
        self.guarded = Goalmill(folder / "guarded", """
[api]
authentication = "required"
admin_token_env = "GOALMILL_ADMIN_TOKEN"
""", {"GOALMILL_ADMIN_TOKEN": admin, "GOALMILL_TOKEN": admin})
        new = lambda namespace: {"actor": namespace, "roles": ["viewer", "submitter"], "namespace": namespace}
        self.red, self.blue = (self.guarded.call("/v1/tokens", new(name), admin)["token"] for name in ("red", "blue"))

    def start(self, *words, **environment):
        self.servers.append(subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
                                             env={**os.environ, **environment}))

    def stop(self):
        for server in self.servers:
            server.terminate()
        for goalmill in (self.open, self.guarded):
            goalmill.stop()


def client(goalmill, transport, *, mode, writes=False, answer=None, token=None):
    extra = {} if answer is None else {"elicitation_callback": answer}
    if transport == "stdio":
        environment = {**goalmill.environment, "GOALMILL_TOKEN": token or ""}
        return Client(StdioServerParameters(command=str(PROGRAM), args=goalmill.words(writes), env=environment), mode=mode, **extra)
    headers = {"authorization": f"Bearer {token}"} if token else {}
    http = httpx2.AsyncClient(headers=headers, timeout=60)
    return Client(streamable_http_client(f"{goalmill.url}/mcp", http_client=http), mode=mode, **extra)


async def call(session, tool, **arguments):
    result = await session.call_tool(tool, arguments)
    return result.is_error, result.structured_content


async def reads(world, transport, mode):
    async with client(world.guarded, transport, mode=mode, token=world.red) as session:
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


async def runs(world, transport, mode):
    async with client(world.open, transport, writes=True, mode=mode) as session:
        assert {tool.name for tool in (await session.list_tools()).tools} == READS | WRITES
        key = f"mcp-{transport}-{mode}"
        failed, accepted = await call(session, "submit_goal", goal=GOAL, idempotency_key=key)
        assert not failed, accepted
        plan = accepted["plan_id"]
        _, again = await call(session, "submit_goal", goal=GOAL, idempotency_key=key)
        assert again["plan_id"] == plan, again
        await reaches(session, plan, *FINAL)
        _, status = await call(session, "plan_status", plan_id=plan)
        assert status["plan"]["status"] == "completed", status
        _, results = await call(session, "plan_results", plan_id=plan)
        assert results["results"], results
        templates = (await session.list_resource_templates()).resource_templates
        assert {template.uri_template for template in templates} == {"goalmill://plans/{plan_id}", "goalmill://plans/{plan_id}/events"}
        log = await session.read_resource(f"goalmill://plans/{plan}/events")
        assert json.loads(log.contents[0].text)["items"][0]["type"] == "goal_accepted"
        failed, refused = await call(session, "decide_approval", plan_id=plan)
        assert failed and "goalmill plan approve" in refused["detail"], refused


async def reaches(session, plan, *statuses):
    for _ in range(600):
        _, status = await call(session, "plan_status", plan_id=plan)
        if status["plan"]["status"] in statuses:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"plan {plan} does not reach {statuses}: {status}")


async def asks_the_person(world, transport, mode):
    asked = []

    async def answer(context, params):
        asked.append(params.message)
        return ElicitResult(action="accept", content={"decision": "approve", "reason": "good"})

    async def decline(context, params):
        return ElicitResult(action="decline")

    async with client(world.open, transport, writes=True, mode=mode, answer=decline) as session:
        _, accepted = await call(session, "submit_goal", goal=GOAL, require_approval=True)
        plan = accepted["plan_id"]
        await reaches(session, plan, "awaiting_approval")
        _, decided = await call(session, "decide_approval", plan_id=plan)
        assert decided.get("decision") == "none", decided
        await reaches(session, plan, "awaiting_approval")
    async with client(world.open, transport, writes=True, mode=mode, answer=answer) as session:
        failed, decided = await call(session, "decide_approval", plan_id=plan)
        assert not failed and decided["decision"] == "approve", decided
        assert len(asked) == 1 and GOAL in asked[0], asked
        _, status = await call(session, "plan_status", plan_id=plan)
        assert status["plan"]["status"] != "awaiting_approval", status


async def keeps_namespaces_apart(world, transport, mode):
    plan = world.guarded.call("/v1/goals", {"goal": GOAL}, world.red)["plan_id"]
    async with client(world.guarded, transport, mode=mode, token=world.red) as session:
        failed, status = await call(session, "plan_status", plan_id=plan)
        assert not failed and status["plan"]["namespace"] == "red", status
        assert (await session.read_resource(f"goalmill://plans/{plan}")).contents
    async with client(world.guarded, transport, mode=mode, token=world.blue) as session:
        for tool in ("plan_status", "plan_results"):
            failed, wrong = await call(session, tool, plan_id=plan)
            assert failed and wrong["code"] == "PLAN_NOT_FOUND", wrong
        for uri in (f"goalmill://plans/{plan}", f"goalmill://plans/{plan}/events"):
            try:
                await session.read_resource(uri)
                raise AssertionError(f"another namespace has read {uri}")
            except MCPError as error:
                assert "no plan" in str(error), error
        _, plans = await call(session, "list_plans")
        assert plans["items"] == [], plans


async def needs_a_token(world, transport, mode):
    """Over standard input and output each call is refused; over HTTP the client cannot even begin."""
    for token in (None, "gm_wrong_wrong"):
        try:
            async with client(world.guarded, transport, mode=mode, token=token) as session:
                assert transport == "stdio", "a client without a token has begun over HTTP"
                failed, wrong = await call(session, "list_agents")
                assert failed and wrong["code"] == "UNAUTHENTICATED", wrong
        except* MCPError:
            assert transport == "http"
            try:
                world.guarded.call("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, token)
            except AssertionError as error:
                assert "401" in str(error) and "UNAUTHENTICATED" in str(error), error
            else:
                raise AssertionError("a request without a token is answered")


async def node_client(world, transport, _):
    goalmill = world.open
    words = ["stdio", str(PROGRAM), *goalmill.words(True)] if transport == "stdio" else ["http", f"{goalmill.url}/mcp"]
    await run_node_client(goalmill, "open", *words)
    guarded = world.guarded
    words = ["stdio", str(PROGRAM), *guarded.words(False)] if transport == "stdio" else ["http", f"{guarded.url}/mcp"]
    plan = guarded.call("/v1/goals", {"goal": GOAL}, world.red)["plan_id"]
    for kind, token in (("red", world.red), ("blue", world.blue), ("nobody", "")):
        await run_node_client(guarded, kind, *words, GOALMILL_TOKEN=token, PLAN=plan)


async def run_node_client(goalmill, kind, *words, **environment):
    process = await asyncio.create_subprocess_exec("node", str(NODE_CLIENT), kind, *words, stdin=subprocess.DEVNULL,
                                                   env={**goalmill.environment, **environment})
    assert await asyncio.wait_for(process.wait(), 120) == 0, f"the client of the npm package has failed as {kind}"


async def serves_steps(world, transport, _):
    """`@modelcontextprotocol/server-everything`: texts, structured content and images."""
    name = "everything" if transport == "stdio" else "everything_http"
    action = await world.open.agent(name, "get-sum")
    assert set(action["inputs"]["properties"]) == {"a", "b"}, action
    status, steps = await world.open.run_plan([
        {"id": "sum", "agent_type": name, "action": "get-sum", "inputs": {"a": 2, "b": 3}},
        {"id": "far", "agent_type": name, "action": "echo", "inputs": {"message": "{{ steps.sum.outputs.text }}"}, "dependencies": ["sum"]},
        {"id": "weather", "agent_type": name, "action": "get-structured-content", "inputs": {"location": "Chicago"}},
        {"id": "image", "agent_type": name, "action": "get-tiny-image"}])
    assert status == "completed", steps
    assert "5" in steps["sum"]["outputs"]["text"], steps["sum"]
    assert steps["sum"]["outputs"]["text"] in steps["far"]["outputs"]["text"], steps["far"]
    assert "temperature" in steps["weather"]["outputs"], steps["weather"]
    assert any(part["type"] == "image" for part in steps["image"]["outputs"]["content"]), steps["image"]


async def keeps_files(world, _, __):
    """`@modelcontextprotocol/server-filesystem`: a plan writes a report from its own outputs, and finds it on the disk."""
    folder = world.folder / "files"
    await world.open.agent("files", "write_file")
    step = lambda name, action, after, **inputs: {"id": name, "agent_type": "files", "action": action, "inputs": inputs, "dependencies": after}
    report, copy = str(folder / "report/bees.md"), str(folder / "report/copy.md")
    status, steps = await world.open.run_plan([
        step("folder", "create_directory", [], path=str(folder / "report")),
        step("write", "write_file", ["folder"], path=report, content="# Bees\n\nThey dance.\n"),
        step("edit", "edit_file", ["write"], path=report, edits=[{"oldText": "They dance.", "newText": "They dance and sleep."}]),
        step("read", "read_text_file", ["edit"], path=report),
        step("copy", "write_file", ["read"], path=copy, content="{{ steps.read.outputs.content }}"),
        step("list", "list_directory", ["copy"], path=str(folder / "report"))])
    assert status == "completed", steps
    text = "# Bees\n\nThey dance and sleep.\n"
    assert steps["read"]["outputs"]["content"] == text, steps["read"]
    assert steps["list"]["outputs"]["content"].splitlines() == ["[FILE] bees.md", "[FILE] copy.md"], steps["list"]
    assert [pathlib.Path(path).read_text() for path in (report, copy)] == [text, text]
    status, steps = await world.open.run_plan([step("outside", "read_text_file", [], path="/etc/hostname")])
    assert steps["outside"]["failure"]["code"] == "MCP_TOOL_ERROR", steps


async def follows_the_server(world, transport, _):
    name = "python" if transport == "stdio" else "python_http"
    await world.open.agent(name, "add")
    status, steps = await world.open.run_plan([{"id": "a", "agent_type": name, "action": "grow", "inputs": {}}])
    assert status == "completed", steps
    action = await world.open.agent(name, "refuse")
    assert action["name"] == "refuse"


async def fails_as_the_server_does(world, transport, _):
    name = "python" if transport == "stdio" else "python_http"
    await world.open.agent(name, "add")
    try:
        await world.open.run_plan([{"id": "a", "agent_type": name, "action": "divide"}])
        raise RuntimeError("a tool that the server does not have is accepted")
    except AssertionError as refused:
        assert "422" in str(refused) and "UNKNOWN_ACTION" in str(refused), refused
    _, steps = await world.open.run_plan([{"id": "a", "agent_type": name, "action": "add", "inputs": {"a": "x", "b": 2}}])
    assert steps["a"]["failure"]["code"] == "MCP_TOOL_ERROR", steps
    _, steps = await world.open.run_plan([{"id": "a", "agent_type": name, "action": "fail"}])
    assert steps["a"]["failure"]["code"] == "MCP_TOOL_ERROR" and "fail" in steps["a"]["failure"]["message"], steps


async def calls_back(world, transport, _):
    """A tool accepts a task, and reports its outcome to the address in `_meta`."""
    name = "python" if transport == "stdio" else "python_http"
    await world.open.agent(name, "later")
    status, steps = await world.open.run_plan([
        {"id": "sum", "agent_type": name, "action": "later", "inputs": {"a": 2, "b": 3}, "callback": True}])
    assert status == "completed" and steps["sum"]["outputs"] == {"result": 5}, steps


async def comes_back(world, _, __):
    await world.open.agent("python", "add")
    status, steps = await world.open.run_plan([
        {"id": "gone", "agent_type": "python", "action": "vanish", "inputs": {}, "retry": {"max": 1, "initial": 0.1}, "on_failure": "skip"},
        {"id": "back", "agent_type": "python", "action": "add", "inputs": {"a": 1, "b": 2}, "dependencies": ["gone"]}])
    assert steps["gone"]["failure"]["code"] == "MCP_UNREACHABLE", steps["gone"]
    assert steps["back"]["status"] == "completed" and steps["back"]["outputs"]["result"] == 3, steps["back"]


async def is_refused_without_the_token(world, _, __):
    """The Python server over HTTP needs a token: an agent type with it works, one without it never gets a tool."""
    await world.open.agent("python_http", "add")
    agents = {agent["agent_type"]: agent for agent in world.open.call("/v1/agents")["items"]}
    assert not agents.get("python_without_token", {}).get("actions"), agents
    assert SECRET not in world.open.text()


CASES = [
    *((test, transport, mode) for test in (reads, runs, asks_the_person, keeps_namespaces_apart, needs_a_token)
      for transport in TRANSPORTS for mode in MODES),
    *((test, transport, "npm") for test in (node_client, serves_steps) for transport in TRANSPORTS),
    (keeps_files, "stdio", "npm"),
    *((test, transport, "python") for test in (follows_the_server, calls_back, fails_as_the_server_does) for transport in TRANSPORTS),
    (comes_back, "stdio", "python"),
    (is_refused_without_the_token, "http", "python"),
]


async def main():
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix="goalmill-mcp-") as folder:
        world = World(pathlib.Path(folder).resolve())
        try:
            for test, transport, mode in CASES:
                try:
                    await asyncio.wait_for(test(world, transport, mode), 180)
                    passed += 1
                    print(f"ok {test.__name__} ({transport}, {mode})", flush=True)
                except BaseException as error:  # a group of errors has the one that counts inside
                    while isinstance(error, BaseExceptionGroup):
                        error = error.exceptions[0]
                    failed += 1
                    print(f"FAILED {test.__name__} ({transport}, {mode}): {type(error).__name__}: {error}", flush=True)
        finally:
            world.stop()
    print(f"{passed} passed, {failed} failed")
    return failed == 0


sys.exit(0 if asyncio.run(main()) else 1)
