"""Durable calls: frames and reports without a worker process."""
from __future__ import annotations

import asyncio
from typing import Any

import pytest

from goalmill import AsyncContext, ConstraintViolation, Context, Fatal, Outcome, RateLimited, Retry, Stopped, Suspended
from goalmill.attempt import Attempt
from goalmill.testing import _TaskCalls

TASK = {"plan": "p0-x", "step": "s", "attempt": 1, "token": "t", "agent_type": "a", "idempotency_key": "p0-x:s", "timeout_ms": 60_000}


class Link:
    """Answers the frames of one attempt as a worker does."""

    frame_max = 1 << 20

    def __init__(self, **task: Any) -> None:
        self.held: dict[int, Attempt] = {}
        self.reports: list[dict[str, Any]] = []
        self.ends: list[dict[str, Any]] = []
        self.calls = _TaskCalls({**TASK, **task})
        self.attempt = Attempt(self, {**TASK, **task, "task": 1})

    def send(self, frame: dict[str, Any]) -> None:
        kind, body = next(iter(frame.items()))
        if kind == "ended":
            self.ends.append(body)
        else:
            self.reports += self.calls.handle(kind, body, self.attempt)

    @property
    def recorded(self) -> list[dict[str, Any]]:
        return [report["call"] for report in self.reports]


def again(link: Link, **task: Any) -> Link:
    """The next attempt."""
    return Link(attempt=2, calls=link.recorded, **task)


def test_calls_that_run_at_the_same_time_are_recorded_as_they_end_and_found_in_any_order() -> None:
    async def later(n: int) -> int:
        await asyncio.sleep(0.02 * (3 - n))
        return n

    async def go(link: Link, order: list[int]) -> list[int]:
        ctx = AsyncContext(link.attempt)
        return await asyncio.gather(*(ctx.call("c", later, n) for n in order))
    first = Link()
    assert asyncio.run(go(first, [0, 1, 2])) == [0, 1, 2]
    assert [(call["n"], call["outcome"]) for call in first.recorded] == [(1, 2), (2, 1), (3, 0)]
    second = again(first)
    assert asyncio.run(go(second, [2, 0, 1])) == [2, 0, 1] and second.recorded == []


def test_a_call_whose_task_is_cancelled_leaves_its_key_to_the_next_try() -> None:
    class Slow(Link):
        def send(self, frame: dict[str, Any]) -> None:
            if "call" not in frame:  # the first answer never comes
                super().send(frame)
            elif frame["call"]["call"] == 1:
                list(self.calls.handle("call", frame["call"], None))
            else:
                super().send(frame)

    async def go(link: Link) -> str:
        ctx = AsyncContext(link.attempt)

        async def key(idempotency_key: str = "") -> str:
            return idempotency_key
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(ctx.call("c", key), 0.05)
        return await ctx.call("c", key)
    link = Slow()
    asyncio.run(go(link))
    assert [call["n"] for call in link.recorded] == [1] and "#2" not in link.recorded[0]["inputs"]


def test_calls_may_stand_inside_calls() -> None:
    link = Link()
    ctx = Context(link.attempt)
    assert ctx.call("outer", lambda: ctx.call("inner", lambda: 5) + 1) == 6
    assert [call["name"] for call in link.recorded] == ["inner", "outer"]
    second = again(link)
    other = Context(second.attempt)
    assert other.call("outer", lambda: other.call("inner", lambda: 7) + 1) == 6 and second.recorded == []


def test_a_failed_call_is_not_recorded_and_a_fatal_one_is() -> None:
    link = Link()
    ctx, keys = Context(link.attempt), list[str]()

    def fails(error: Exception, idempotency_key: str = "") -> None:
        keys.append(idempotency_key)
        raise error
    for _ in range(2):
        with pytest.raises(Retry):
            ctx.call("a", lambda idempotency_key: fails(Retry(), idempotency_key))
    assert keys[0] == keys[1] != "", "the next try has the same key"
    with pytest.raises(Fatal):
        ctx.call("b", lambda: fails(Fatal("never", code="NEVER")))
    assert ctx.call("c", lambda: 3) == 3
    assert [(call["n"], call["name"]) for call in link.recorded] == [(1, "b"), (2, "c")]
    second = again(link)
    replay = Context(second.attempt)
    with pytest.raises(Fatal, match="never") as known:
        replay.call("b", lambda: 7)
    assert known.value.code == "NEVER" and replay.call("c", lambda: 8) == 3 and second.recorded == []


def test_an_outcome_that_is_no_json_ends_the_attempt() -> None:
    for made in (lambda: object(), lambda: Outcome(1, cost=float("nan")), lambda: Outcome(1, cost="0.1"),  # type: ignore[arg-type]
                 lambda: Outcome(1, prompt_tokens=1.5), lambda: Outcome(1, completion_tokens=-1)):  # type: ignore[arg-type]
        link = Link()
        ctx = Context(link.attempt)
        with pytest.raises(Fatal) as refused:
            ctx.call("a", made)
        assert refused.value.code == "ANSWER_INVALID" and link.recorded == []
        with pytest.raises(Stopped):  # whatever the agent does with the error
            ctx.call("b", lambda: 1)
        assert link.ends[0]["answer"]["error"]["code"] == "ANSWER_INVALID"
    with pytest.raises(TypeError, match="arguments of a call must be JSON"):
        Context(Link().attempt).call("a", lambda x: x, object())  # type: ignore[arg-type]


def test_name_arguments_and_occurrence_identify_a_call() -> None:
    link = Link()
    Context(link.attempt).call("add", pow, 2, 3)
    for name, arguments, made in [("add", (2, 3), False), ("add", (2, 4), True), ("sum", (2, 3), True)]:
        other = again(link)
        Context(other.attempt).call(name, pow, *arguments)
        assert bool(other.recorded) is made
    twice = again(link)
    ctx = Context(twice.attempt)
    assert [ctx.call("add", pow, 2, 3), ctx.call("add", pow, 2, 3)] == [8, 8] and len(twice.recorded) == 1


def test_a_call_gets_its_key_and_counts_against_the_budget() -> None:
    link = Link(budget={"tokens": 100, "cost": 1.0})
    ctx = Context(link.attempt)

    def pay(idempotency_key: str = "") -> Outcome[str]:
        return Outcome(idempotency_key, cost=0.75, prompt_tokens=60)
    assert ctx.call("pay", pay).startswith("p0-x:s/") and (ctx.budget.tokens, ctx.budget.cost) == (40, 0.25)
    ctx.reserve(tokens=40, cost=0.25)
    with pytest.raises(Suspended):
        ctx.reserve(tokens=50)
    waits = link.calls.suspended
    assert waits is not None and (waits["n"], waits["wait"]["needs"]) == (2, {"tokens": 50, "cost": 0.0})
    with pytest.raises(ConstraintViolation):
        Context(Link(budget={"tokens": 1, "last": True}).attempt).reserve(tokens=2)


def test_the_first_of_several_waits_ends_the_attempt() -> None:
    async def go(link: Link) -> Any:
        ctx = AsyncContext(link.attempt)
        return await asyncio.gather(ctx.approve("one?"), ctx.approve("two?"), return_exceptions=True)
    link = Link()
    found = asyncio.run(go(link))
    assert all(isinstance(one, Suspended) for one in found)
    group = Exception("the group of a task group has such a field")
    group.exceptions = (ValueError("x"), found[0])  # type: ignore[attr-defined]
    link.attempt.fail(group)
    assert "error" in link.ends[0]["answer"] and link.calls.suspended is not None and link.calls.suspended["wait"]["text"] in ("one?", "two?")


def test_a_stopped_attempt_makes_no_calls() -> None:
    link = Link()
    link.attempt.stop()
    ctx = Context(link.attempt)
    for act in (lambda: ctx.call("a", pow, 1, 1), lambda: ctx.sleep(1), lambda: ctx.approve("x?"), lambda: ctx.reserve(tokens=1)):
        with pytest.raises(Stopped):
            act()


def test_what_a_service_asks_for_holds_the_agent_type_and_what_a_step_asks_for_does_not() -> None:
    assert Retry(after=5).body() == {"class": "transient", "code": "RETRY", "message": "try again", "retry_after_ms": 5000}
    assert RateLimited(after=5).body()["class"] == "rate_limited"
