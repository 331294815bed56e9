"""Agents, plans and the client against `goalmill dev` on a real Redis."""
from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import httpx
import pytest
import redis

from goalmill import ApiError, AsyncGoalmill, Goalmill, Plan, RunFailed, Step, ref, refs

from conftest import BINARY, ROOT, Installation, Model, until

Start = Callable[..., "subprocess.Popen[bytes]"]

TRIP = '''
import dataclasses
from goalmill import Agent, Context, AsyncContext, Partial, Retry, serve
import asyncio

@dataclasses.dataclass
class Hotel:
    name: str
    price: float

trip = Agent("trip_agent", description="Finds hotels.")

@trip.action(timeout=20)
def cities(country: str) -> dict[str, list[str]]:
    return {"names": [country + "-a", country + "-b", country + "-c"]}

@trip.action
async def hotel(city: str, ctx: AsyncContext) -> Hotel:
    """Finds a hotel."""
    prices = await asyncio.gather(*(ctx.call(f"ask {n}", price, city, n) for n in range(3)))
    if ctx.attempt == 1:
        raise Retry("once more")
    return Hotel(city, min(prices))

async def price(city: str, n: int) -> float:
    await asyncio.sleep(0.02 * (3 - n))
    return 100.0 - n

@trip.action
def fragile(ctx: Context):
    raise Partial({"found": 1}, "one of two did not answer")

@trip.action
def talk(ctx: Context):
    decision = ctx.approve("spend 5 USD?")
    colour = ctx.ask("which colour?", schema={"type": "string"})
    inner = ctx.submit_plan({"steps": [{"id": "a", "kind": "finish", "inputs": {"x": "{{ inputs.x }}"}}]}, inputs={"x": 7})
    event = ctx.wait_event("payment", key=ctx.plan, timeout=600)
    late = [ctx.wait_event("never", timeout=0.05), ctx.wait_event("never", timeout=0.05, default={"paid": False})]
    return {"decision": decision, "colour": colour, "inner": inner["outputs"], "event": event, "late": late}

serve(trip, slots=4)
'''


TYPES = """
import dataclasses, datetime, decimal, enum, typing, uuid
import pydantic
from goalmill import Agent

class Colour(enum.Enum):
    RED = "red"

class Address(pydantic.BaseModel):
    street: str

class Order(pydantic.BaseModel):
    id: uuid.UUID
    address: Address

class Point(typing.NamedTuple):
    x: int
    y: int = 0

@dataclasses.dataclass
class All:
    order: Order
    at: datetime.datetime
    day: datetime.date
    sum: decimal.Decimal
    colour: Colour
    point: Point
    tags: set[str]
    raw: bytes
    nothing: None = None

agent = Agent("types_agent")

@agent.action
def same(all: All) -> All:
    assert all.tags == {"a", "b"} and all.raw == b"\\xff" and all.order.address.street == "x" and all.point == Point(1)
    return all

@agent.action
def none(all: All, note: str) -> None:
    assert isinstance(all.order, Order) and all.sum + 1 == decimal.Decimal("2.10")

agent.serve(slots=2)
"""


def test_types_of_python_go_through_a_plan_and_back(server: Goalmill, agent: Start) -> None:
    agent(TYPES)
    given = {"order": {"id": "8f14e45f-ceea-467f-a830-9b1c1b2c3d4e", "address": {"street": "x"}}, "at": "2027-05-03T10:00:00+00:00",
             "day": "2027-05-03", "sum": "1.10", "colour": "red", "point": {"x": 1}, "tags": ["b", "a"], "raw": "/w=="}
    with Plan("types") as plan:
        first = Step("first", "types_agent", action="same", inputs=given, retry=0)
        Step("second", "types_agent", action="none", inputs={"all": first.out, "note": "x"}, retry=0)
    run = server.submit(plan)
    run.result(60)
    assert run.results()["results"]["first"] == {**given, "point": {"x": 1, "y": 0}, "tags": ["a", "b"], "nothing": None}
    assert run.results()["results"]["second"] == {}

    def warns(field: str, wrong: Any) -> bool:
        step = {"id": "s", "agent_type": "types_agent", "action": "same", "inputs": {**given, field: wrong}}
        found = server.validate({"steps": [step]}).get("warnings", [])
        return any(one["code"].startswith("INPUT_") and one["pointer"].startswith(f"/steps/0/inputs/{field}") for one in found)
    for field, wrong in {"order": {"id": 1, "address": {"street": 5}}, "colour": "blue", "sum": [], "point": {"z": 1}, "tags": "a", "raw": 1}.items():
        until(lambda: warns(field, wrong))  # the schemas of a new card are read soon


def test_functions_become_durable_agents(server: Goalmill, agent: Start) -> None:
    agent(TRIP)
    card = next(a for a in server.request("GET", "/v1/agents")["items"] if a["agent_type"] == "trip_agent")
    assert {action["name"]: action.get("outputs", {}).get("required") for action in card["actions"]}["hotel"] == ["name", "price"]
    with Plan("trip") as plan:
        cities = Step("cities", "trip_agent", action="cities", inputs={"country": "it"})
        hotels = Step("hotels", "trip_agent", action="hotel", for_each=cities.out.names, item="city", inputs={"city": ref("city")},
                      retry={"max": 2, "initial": 0.001})
        Step("best", kind="finish", inputs={"all": hotels.out, "first": f"{hotels.out[0].name} in {cities.out.names[0]}"})
    run = server.submit(plan)
    types = [event.type for event in run.events(timeout=60)]
    assert types[0] == "goal_accepted" and types[-1] == "plan_completed"
    result = run.result()
    assert result["all"] == [{"name": f"it-{c}", "price": 98.0} for c in "abc"] and result["first"] == "it-a in it-a"
    assert run.explain()["status"] == "completed"
    with Plan("one") as plan:
        Step("h", "trip_agent", action="hotel", inputs={"city": "Oslo"}, retry={"max": 2, "initial": 0.001})
    events = list(server.submit(plan).events(timeout=60))
    calls = [(event.attempt, event.data["name"]) for event in events if event.type == "call_recorded"]
    assert sorted(calls) == [(1, "ask 0"), (1, "ask 1"), (1, "ask 2")], "calls at the same time are recorded once"
    assert [event.attempt for event in events if event.type == "step_completed"] == [2]


def test_waits_of_calls_hold_no_worker(server: Goalmill, agent: Start) -> None:
    agent(TRIP)
    with Plan("talk") as plan:
        Step("t", "trip_agent", action="talk", timeout=30)
    run = server.submit(plan)

    def waits(status: str) -> bool:
        return bool(run.view()["steps"][0]["status"] == status)
    until(lambda: waits("awaiting_approval"))
    run.approve("fine", step="t")
    until(lambda: run.view()["steps"][0].get("question") or run._get("/questions")["items"])
    run.answer("red", step="t")
    until(lambda: server.request("GET", "/v1/waits")["items"])
    server.send_event("payment", {"amount": 5}, key=run.id)
    server.send_event("nothing", None, key=run.id)
    server.send_event("empty", key=run.id)
    with Plan("events") as events:
        Step("n", wait={"event": "nothing", "key": run.id})
        Step("e", wait={"event": "empty", "key": run.id})
        Step("m", wait={"event": "mine"})
    waited = server.submit(events)
    waited.send_event("mine", None)
    waited.result(60)
    assert waited.results()["results"] == {"n": None, "e": {}, "m": None}
    result = run.result(60)
    assert result["decision"]["approved"] is True and result["colour"] == "red" and result["event"] == {"amount": 5}
    assert result["inner"] == {"x": 7} and result["late"] == [None, {"paid": False}]


def test_a_partial_success_and_a_refused_input(server: Goalmill, agent: Start) -> None:
    agent(TRIP)
    with Plan("fragile") as plan:
        Step("f", "trip_agent", action="fragile")
    run = server.submit(plan)
    with pytest.raises(RunFailed) as ended:
        run.result(60)
    assert ended.value.status == "partial" and run.results()["results"]["f"] == {"found": 1}
    with Plan("wrong") as wrong:
        Step("w", "trip_agent", action="hotel", inputs={"town": "Rome"}, retry=0)
    with pytest.raises(RunFailed, match="w: INPUT_INVALID `/city` is missing"):
        server.submit(wrong).result(60)


def test_the_same_key_gives_the_same_plan_and_refusals_have_places(server: Goalmill) -> None:
    with Plan("once") as plan:
        Step("a", kind="finish", inputs={"x": 1})
    assert server.submit(plan, key="once-1").id == server.submit(plan, key="once-1").id
    with pytest.raises(ApiError) as refused:
        server.submit({"steps": [{"id": "a", "kind": "finish", "dependencies": ["b"]}]})
    assert refused.value.code and refused.value.errors[0]["pointer"] == "/steps/0/dependencies/0"
    assert "hint" in refused.value.errors[0] and "/steps/0/dependencies/0" in str(refused.value)


def test_a_goal_is_planned_and_a_plan_is_cancelled(server: Goalmill) -> None:
    run = server.submit("Plan a 3-day trip to Paris in May with a $2000 budget")
    assert run.wait(60) == "completed", run.explain()
    with Plan("long") as plan:
        Step("w", wait=3600)
    long = server.submit(plan)
    long.cancel("enough")
    with pytest.raises(RunFailed, match="cancelled"):
        long.result(60)
    with pytest.raises(TimeoutError):
        with Plan("longer") as plan:
            Step("w", wait=3600)
        server.submit(plan).result(0.3)


def test_a_stored_plan_is_submitted_by_its_name(server: Goalmill) -> None:
    with Plan("hello", input_schema=dict[str, str]) as hello:
        Step("end", kind="finish", inputs={"said": refs.inputs.text})
    version = server.put("hello", hello)["version"]
    assert server.submit(hello, inputs={"text": "{{ 1 }}"}).result(60) == {"said": "{{ 1 }}"}
    with pytest.raises(ApiError, match="has no input `text`"):
        server.submit(hello, inputs={"texts": "hi"})
    assert server.submit_stored(f"hello@{version}", {"text": "hi"}).result(60) == {"said": "hi"}
    with Plan("use") as using:
        inner = Step("inner", use="hello", inputs={"text": "ho"})
        Step("end", kind="finish", inputs={"inner": inner.out})
    assert server.submit(using).result(60) == {"inner": {"said": "ho"}}


PRINTER = '''
from goalmill import Agent, Context
printer = Agent("printer")

@printer.action("print", side_effect=True)
def start(pages: int, ctx: Context) -> None:
    with open("order", "w") as order:
        order.write(ctx.callback["url"] + " " + ctx.callback["token"])
    ctx.accepted()

printer.serve(slots=1)
'''


def test_an_outcome_comes_by_callback(installation: Installation, server: Goalmill, agent: Start) -> None:
    agent(PRINTER.replace('"order"', repr(str(installation.folder / "order"))))
    card = next(a for a in server.request("GET", "/v1/agents")["items"] if a["agent_type"] == "printer")
    assert card["actions"][0]["side_effect"] is True
    with Plan("print") as plan:
        printed = Step("p", "printer", action="print", inputs={"pages": 3}, callback=True, timeout=60)
        Step("end", kind="finish", inputs={"pages": printed.out.pages})
    run = server.submit(plan)
    until(lambda: run.view()["steps"][0]["status"] == "waiting")
    url, token = (installation.folder / "order").read_text().split()
    httpx.post(url, headers={"goalmill-callback-token": token}, json={"outputs": {"pages": 3}}).raise_for_status()
    assert run.result(60) == {"pages": 3}


PLANNER = '''
from typing import Any
from goalmill import Agent, Fatal, Plan, Step, serve
planner = Agent("py_planner", description="Plans greetings.", plans=True)

@planner.action
def plan(goal: dict[str, Any], agents: list[dict[str, Any]], draft: Any = None) -> Plan | str:
    if draft is None:
        return '{"steps": [{"id": "greet", "agent_type": "nobody"}]}'
    assert all(card["agent_type"] != "py_planner" for card in agents)
    with Plan("greet") as made:
        greet = Step("greet", refuse, on_failure="replan")
        Step("end", kind="finish", inputs={"text": goal["description"], "said": greet.out.said})
    return made

@planner.action
def revise(situation: dict[str, Any], limits: dict[str, int]) -> Plan:
    with Plan("other") as made:
        Step("other", kind="finish", inputs={"text": situation["goal"]["description"] + "!"})
    return made

worker = Agent("py_refusing")

@worker.action
def refuse() -> dict[str, str]:
    raise Fatal("not today", code="CLOSED")

serve(planner, worker, slots=2)
'''


def test_an_agent_plans_corrects_its_plan_and_revises_it(server: Goalmill, agent: Start) -> None:
    agent(PLANNER)
    planning = {"planner": "agent:py_planner"}
    until(lambda: "py_refusing" in str(server.preview("Greet the moon", planning=planning)))  # the scheduler has read the card
    run = server.submit("Greet the moon", planning=planning)
    assert run.result(60) == {"text": "Greet the moon!"}


def test_async_programs(installation: Installation) -> None:
    async def go() -> Any:
        client = AsyncGoalmill(installation.url)
        with Plan("async") as plan:
            Step("a", kind="finish", inputs={"x": 1})
        run = await client.submit(plan)
        types = [event.type async for event in run.events(timeout=60)]
        return types[-1], await run.result(), (await run.results())["status"], (await client.validate(plan))["valid"]
    assert asyncio.run(go()) == ("plan_completed", {"x": 1}, "completed", True)


FORKED = '''
import asyncio, os
from goalmill import AsyncGoalmill
client = AsyncGoalmill()

async def ask(side: str) -> None:
    for n in range(50):
        body = {"messages": [{"role": "user", "content": f"{side} {n}"}]}
        answer = await asyncio.to_thread(client.sync.request, "POST", "/chat/completions", body)
        assert answer["choices"][0]["message"]["content"] == f"answer to {side} {n}", answer

asyncio.run(ask("before"))
child = os.fork()
asyncio.run(ask("parent" if child else "child"))
assert not child or os.waitpid(child, 0)[1] == 0
'''


def test_a_client_works_on_both_sides_of_a_fork(model: Model) -> None:
    subprocess.run([sys.executable, "-c", FORKED], env={**os.environ, "GOALMILL_SERVER": model.url}, check=True, timeout=60)
    assert len(model.requests) == 150


MODEL_AGENT = '''
import os, httpx
from goalmill import Agent, Context, Outcome
agent = Agent("model_agent")

def ask(question: str, idempotency_key: str = "") -> Outcome[str]:
    answer = httpx.post(os.environ["MODEL"] + "/chat/completions", headers={"Idempotency-Key": idempotency_key},
                        json={"model": "m", "messages": [{"role": "user", "content": question}]}).json()
    usage = answer["usage"]
    return Outcome(answer["choices"][0]["message"]["content"], cost=0.25, prompt_tokens=usage["prompt_tokens"],
                   completion_tokens=usage["completion_tokens"])

@agent.action
def think(ctx: Context) -> list[str]:
    return [ctx.call("ask", ask, f"question {n}") for n in range(1, 21)]

agent.serve(slots=1)
'''


def kill_after_each_answer(installation: Installation, model: Model, source: str | Path, calls: int, **environment: str) -> Callable[[], None]:
    """`kill -9` of the agent as soon as it has the answer to a call for the first time, and a new agent."""
    killed: set[str] = set()
    process = installation.agent(source, MODEL=model.url, **environment)

    def answered(request: dict[str, Any]) -> None:
        nonlocal process
        asked = str(len(request["messages"])) + str(request["messages"][-1].get("content"))
        if asked in killed or len(killed) == calls:
            return
        killed.add(asked)
        process.kill()
        process.wait()
        process = installation.agent(source, MODEL=model.move(), **environment)
    model.answered = answered

    def end() -> None:
        with model.lock:  # the last agent may still be starting
            assert len(killed) == calls
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    return end


def test_kill_9_after_each_of_20_model_calls(installation: Installation, server: Goalmill, model: Model) -> None:
    end = kill_after_each_answer(installation, model, MODEL_AGENT, 20)
    with Plan("think") as plan:
        Step("t", "model_agent", action="think", timeout=600)
    run = server.submit(plan)
    assert run.result(180) == [f"answer to question {n}" for n in range(1, 21)]
    assert len(model.keys) == 20 and all(key.startswith(f"{run.id}:t/") for key in model.keys)
    # A busy machine may lose a lease, too: each lost attempt has one call in flight.
    lost = run.view()["steps"][0]["attempt"] - 1
    assert lost >= 20 and model.keys.total() <= 20 + lost, "more than the call in flight was repeated"
    usage = run.results()["usage"]
    assert (usage["cost"], usage["tokens"]) == (20 * 0.25, 20 * 42), "each call counts once"
    end()


def test_events_go_on_after_the_server_was_killed(installation: Installation, server: Goalmill) -> None:
    with Plan("restart") as plan:
        Step("w", wait={"event": "go", "key": "restart"})
    run = server.submit(plan)
    seen: list[int] = []
    reader = threading.Thread(target=lambda: seen.extend(event.seq for event in run.events(timeout=60)))
    reader.start()
    until(lambda: server.request("GET", "/v1/waits")["items"])
    installation.kill()
    installation.start()
    server.send_event("go", key="restart")
    reader.join(60)
    assert seen == list(range(1, len(seen) + 1)) and run.wait() == "completed"


def test_the_redis_user_of_workers_is_enough(installation: Installation, server: Goalmill) -> None:
    def workers() -> set[str]:
        return {w["worker"] for w in server.request("GET", "/v1/workers")["items"] if w["worker"].startswith("py-")}

    before = workers()
    line = next(line for line in (ROOT / "deploy/redis/users.acl").read_text().splitlines() if line.startswith("user worker "))
    redis.Redis(port=installation.redis_port).execute_command("ACL", "SETUSER", "worker", *re.findall(r"\([^)]*\)|\S+", line)[2:])
    source = TRIP.replace("serve(trip", f"serve(trip, url='redis://worker:CHANGE-worker@127.0.0.1:{installation.redis_port}'")
    process = installation.agent(source)
    with Plan("acl") as plan:
        Step("h", "trip_agent", action="hotel", inputs={"city": "Bern"}, retry={"max": 1, "initial": 0.001})
    assert server.submit(plan).result(60) == {"name": "Bern", "price": 98.0}
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    until(lambda: workers() <= before)


def test_a_token_and_a_namespace_are_sent() -> None:
    client = Goalmill("127.0.0.1:1", token="secret", namespace="research")
    assert client.http.headers["Authorization"] == "Bearer secret" and client.http.headers["Goalmill-Namespace"] == "research"
    assert str(client.http.base_url).startswith("http://")


def blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.S)


def test_the_examples_of_the_pages_run_as_printed(installation: Installation, tmp_path: Path) -> None:
    """In a fresh virtual environment with the wheel: the worker, then the program that submits the plan, as the pages print
    them."""
    subprocess.run(["bash", ROOT / "deploy/packages/wheel", BINARY, tmp_path], check=True, capture_output=True)
    wheel, = tmp_path.glob("*.whl")
    with ZipFile(wheel) as files:
        own = next(name.removesuffix("METADATA") for name in files.namelist() if name.endswith(".dist-info/METADATA"))
        assert {"goalmill/CHANGELOG.md", own + "licenses/LICENSE"} <= set(files.namelist())
        metadata = files.read(own + "METADATA").decode()
    assert "\nLicense-Expression: Apache-2.0\n" in metadata and "\nProject-URL: Homepage, https://goalmill.dev\n" in metadata
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv/bin/python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel], check=True)
    version = subprocess.run([tmp_path / "venv/bin/goalmill", "version"], check=True, capture_output=True, text=True)
    assert version.stdout.startswith("goalmill ")
    for page in ("sdk/python/README.md", "README.md", "docs/workers.md"):
        worker, program = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S)[:2]
        process = installation.agent(worker, python=str(python), GOALMILL_BINARY="")
        submitting = tmp_path / "submit.py"
        submitting.write_text(program)
        done = subprocess.run([python, submitting], capture_output=True, text=True, timeout=60, cwd=tmp_path,
                              env={"PATH": "/usr/bin:/bin", "GOALMILL_SERVER": installation.url})
        assert done.returncode == 0 and "{'said': 'HI" in done.stdout, f"{page}: {done.stdout}{done.stderr}"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def test_the_example_of_the_workers_page_is_the_file() -> None:
    file = (ROOT / "docs/examples/worker.py").read_text()
    block = re.findall(r"```python\n(.*?)```", (ROOT / "docs/workers.md").read_text(), re.S)[0]
    assert file.endswith(block)
