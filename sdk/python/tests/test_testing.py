"""The test kit: plans with agents in this process, in virtual time."""
from __future__ import annotations

import asyncio
import os
import re
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from goalmill import Agent, AsyncContext, Context, Fatal, Plan, Retry, Step, testing

BINARY = os.environ.get("GOALMILL_BINARY", str(Path(__file__).resolve().parents[3] / "target/debug/goalmill"))
DAY = 24 * 3600


def run(*args: Any, **options: Any) -> testing.Result:
    return testing.run(*args, program=BINARY, **options)


def test_waits_and_backoffs_take_no_time_and_calls_are_made_once() -> None:
    agent, paid = Agent("shop"), list[str]()

    @agent.action
    def order(article: str, ctx: Context) -> dict[str, str]:
        number = ctx.call("charge", lambda: paid.append(article) or "17")
        if ctx.attempt == 1:
            raise Retry("the parcel is late", after=3600)
        return {"number": number}

    plan = {"steps": [{"id": "order", "agent_type": "shop", "action": "order", "inputs": {"article": "lamp"}},
                      {"id": "rest", "kind": "wait", "depends_on": ["order"], "wait": {"for": "3d"}}]}
    result = run(plan, [agent])
    assert (result.status, result.outputs["order"]) == ("completed", {"number": "17"})
    assert (result.attempts("order"), paid) == (2, ["lamp"])
    assert result.seconds >= 3 * DAY + 3600
    assert [event["type"] for event in result.events].count("call_recorded") == 1


def test_people_decide_and_async_actions_run() -> None:
    agent = Agent("writer")

    @agent.action
    async def publish(text: str, ctx: AsyncContext) -> dict[str, Any]:
        decision = await ctx.approve(f"publish {text}?")
        return {"published": decision["approved"]}

    plan = {"steps": [{"id": "p", "agent_type": "writer", "action": "publish", "inputs": {"text": "{{ goal.metadata.inputs.text }}"}}]}
    result = run(plan, [agent], inputs={"text": "hello"}, approvals=[{"step": "p", "after": "2h"}])
    assert (result.outputs["p"], result.seconds) == ({"published": True}, 7200)


def test_mocks_stand_beside_agents_and_failures_are_results() -> None:
    agent = Agent("mine")

    @agent.action("*")
    def refuse() -> None:
        raise Fatal("no", code="REFUSED")

    plan = {"steps": [{"id": "a", "agent_type": "other"}, {"id": "b", "agent_type": "mine", "depends_on": ["a"]}]}
    result = run(plan, [agent], mocks={"other": {"*": {"outputs": {"n": 1}, "cost": 0.5}}})
    assert result.failure is not None and result.failure["code"] == "REFUSED"
    assert (result.status, result.outputs["a"], result.cost) == ("failed", {"n": 1}, 0.5)


def test_a_run_leaves_no_thread_behind() -> None:
    agent = Agent("a")

    @agent.action
    def sync() -> None: ...

    @agent.action("async")
    async def run_async() -> None:
        asyncio.create_task(asyncio.sleep(9))
    before = set(threading.enumerate())
    for action in ("sync", "async"):
        assert run({"steps": [{"id": "s", "agent_type": "a", "action": action}]}, [agent]).status == "completed"
    end = time.monotonic() + 5
    while set(threading.enumerate()) - before and time.monotonic() < end:
        time.sleep(0.01)
    assert set(threading.enumerate()) <= before


def test_what_cannot_run_is_refused_with_the_place() -> None:
    with pytest.raises(testing.RunRefused, match="/steps/0/depends_on/0"):
        run({"steps": [{"id": "a", "agent_type": "w", "depends_on": ["x"]}]})
    with pytest.raises(testing.RunRefused, match="no mock stands for the agent `w`"):
        run({"steps": [{"id": "a", "agent_type": "w"}]})


def test_the_example_of_the_page_runs_as_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).resolve().parents[1] / "README.md").read_text()
    example = next(block for block in re.findall(r"```python\n(.*?)```", page, re.S) if "def test_order" in block)
    monkeypatch.setenv("GOALMILL_BINARY", BINARY)
    scope: dict[str, Any] = {}
    exec(example, scope)
    scope["test_order"]()


def test_child_plans_run_at_the_same_time_as_steps_of_one() -> None:
    def child(name: str) -> Plan:
        with Plan(name) as plan:
            hour = Step("hour", wait=3600)
            Step("end", kind="finish", inputs={"name": name}, after=[hour])
        return plan
    parents = Agent("parents")

    @parents.action
    def both(ctx: Context) -> Any:
        with Plan("both") as plan:
            Step("a", child("a"))
            Step("b", child("b"))
        return ctx.submit_plan(plan)["outputs"]
    result = run({"steps": [{"id": "o", "agent_type": "parents", "action": "both"}]}, [parents])
    assert result.outputs["o"] == {"a": {"name": "a"}, "b": {"name": "b"}} and result.seconds == 3600
