"""Durable calls of attempts that the test kit runs."""
from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from goalmill import Agent, AsyncContext, Context, Fatal, Outcome, RateLimited, Retry, Stopped, Suspended, testing
from goalmill.attempt import Attempt

BINARY = os.environ.get("GOALMILL_BINARY", str(Path(__file__).resolve().parents[3] / "target/debug/goalmill"))
Act = Callable[[Any], Any]


class Attempts:
    """A plan of one step, whose attempt `n` is `acts[n - 1]`. An attempt that is not the last one fails after its act."""

    def __init__(self, *acts: Act, plan: dict[str, Any] | None = None, **options: Any) -> None:
        self.values: list[Any] = []
        agent = Agent("a")

        def end(ctx: Any, value: Any) -> dict[str, Any]:
            self.values.append(value)
            if ctx.attempt < len(acts):
                raise Retry("the next attempt")
            return {"value": value}

        @agent.action
        def sync(ctx: Context) -> dict[str, Any]:
            return end(ctx, acts[ctx.attempt - 1](ctx))

        @agent.action("async")
        async def run_async(ctx: AsyncContext) -> dict[str, Any]:
            return end(ctx, await acts[ctx.attempt - 1](ctx))
        action = "async" if asyncio.iscoroutinefunction(acts[0]) else "sync"
        step = {"id": "s", "agent_type": "a", "action": action, "retry": {"max": len(acts) - 1}}
        self.result = testing.run({**(plan or {}), "steps": [step]}, [agent], program=BINARY, **options)

    @property
    def value(self) -> Any:
        return self.values[-1]

    @property
    def failure(self) -> dict[str, Any]:
        assert self.result.failure is not None
        return self.result.failure

    def found(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.result.events if event["type"] == kind]

    def made(self, attempt: int) -> list[dict[str, Any]]:
        """The calls that an attempt has recorded."""
        return [event["data"] for event in self.found("call_recorded") if event["attempt"] == attempt]


def test_calls_that_run_at_the_same_time_are_recorded_as_they_end_and_found_in_any_order() -> None:
    async def later(n: int) -> int:
        await asyncio.sleep(0.2 * (3 - n))
        return n

    async def first(ctx: AsyncContext) -> list[int]:
        return await asyncio.gather(*(ctx.call("c", later, n) for n in (0, 1, 2)))

    async def second(ctx: AsyncContext) -> list[int]:
        return await asyncio.gather(*(ctx.call("c", later, n) for n in (2, 0, 1)))
    run = Attempts(first, second)
    assert run.values == [[0, 1, 2], [2, 0, 1]]
    assert [(call["n"], call["outcome"]) for call in run.made(1)] == [(1, 2), (2, 1), (3, 0)] and run.made(2) == []


def test_a_call_whose_task_is_cancelled_leaves_its_key_to_the_next_try() -> None:
    async def act(ctx: AsyncContext) -> str:
        async def slow(idempotency_key: str = "") -> str:
            await asyncio.sleep(9)
            return "never"

        async def key(idempotency_key: str = "") -> str:
            return idempotency_key
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(ctx.call("c", slow), 0.05)
        return await ctx.call("c", key)
    run = Attempts(act)
    assert [call["n"] for call in run.made(1)] == [1] and "#2" not in run.made(1)[0]["inputs"]


def test_calls_may_stand_inside_calls() -> None:
    def nested(value: int) -> Act:
        return lambda ctx: ctx.call("outer", lambda: ctx.call("inner", lambda: value) + 1)
    run = Attempts(lambda ctx: ctx.call("inner", lambda: 5), nested(7), nested(9))
    assert run.values == [5, 6, 6] and [call["name"] for call in run.made(2)] == ["outer"] and run.made(3) == []


def test_a_failed_call_is_not_recorded_and_a_fatal_one_is() -> None:
    keys: list[str] = []

    def fails(error: Exception, idempotency_key: str = "") -> None:
        keys.append(idempotency_key)
        raise error

    def first(ctx: Context) -> Any:
        for _ in range(2):
            with pytest.raises(Retry):
                ctx.call("a", lambda idempotency_key: fails(Retry(), idempotency_key))
        with pytest.raises(Fatal):
            ctx.call("b", lambda: fails(Fatal("never", code="NEVER")))
        return ctx.call("c", lambda: 3)

    def second(ctx: Context) -> Any:
        with pytest.raises(Fatal, match="never") as known:
            ctx.call("b", lambda: 7)
        return [known.value.code, ctx.call("c", lambda: 8)]
    run = Attempts(first, second)
    assert keys[0] == keys[1] and ":s/" in keys[0], "the next try has the same key"
    assert [(call["n"], call["name"]) for call in run.made(1)] == [(1, "b"), (2, "c")] and run.made(2) == []
    assert run.values == [3, ["NEVER", 3]]


@pytest.mark.parametrize("error, last, tried, code", [
    (ValueError("x"), 3, 3, None), (Retry("x", after=0.005), 9, 3, "RETRY"), (Fatal("x"), 2, 1, "FAILED"),
])
def test_a_call_is_made_again_in_the_same_attempt_with_the_same_key(error: Exception, last: int, tried: int, code: str | None) -> None:
    keys: list[str] = []

    def make(idempotency_key: str) -> int:
        keys.append(idempotency_key)
        if len(keys) < last:
            raise error
        return len(keys)

    async def make_async(idempotency_key: str) -> int:
        return make(idempotency_key)

    def sync(ctx: Context) -> Any:
        return ctx.retrying(2, initial=0.001).call("a", make)

    async def run_async(ctx: AsyncContext) -> Any:
        return await ctx.retrying(2, initial=0.001).call("a", make_async)
    for act in (sync, run_async):
        keys.clear()
        run = Attempts(act)
        assert (len(keys), len(set(keys))) == (tried, 1)
        assert run.values == [last] if code is None else run.failure["code"] == code


def test_an_outcome_that_is_no_json_ends_the_attempt() -> None:
    made: list[Act] = [lambda: object(), lambda: Outcome(1, cost=float("nan")), lambda: Outcome(1, cost="0.1"),  # type: ignore[arg-type,misc,list-item]
                       lambda: Outcome(1, prompt_tokens=1.5), lambda: Outcome(1, completion_tokens=-1)]  # type: ignore[arg-type,misc,list-item]
    for make in made:
        def act(ctx: Context) -> Any:
            with pytest.raises(Fatal) as refused:
                ctx.call("a", make)
            assert refused.value.code == "ANSWER_INVALID"
            with pytest.raises(Stopped):  # whatever the agent does with the error
                ctx.call("b", lambda: 1)
        run = Attempts(act)
        assert (run.made(1), run.failure["code"]) == ([], "ANSWER_INVALID")

    def no_json(ctx: Context) -> Any:
        with pytest.raises(TypeError, match="arguments of a call must be JSON"):
            ctx.call("a", lambda x: x, object())
    assert Attempts(no_json).values == [None]


def test_name_arguments_and_occurrence_identify_a_call() -> None:
    def add(*calls: tuple[str, int]) -> Act:
        return lambda ctx: [ctx.call(name, pow, 2, y) for name, y in calls]
    run = Attempts(add(("add", 3)), add(("add", 3)), add(("add", 4)), add(("sum", 3)), add(("add", 3), ("add", 3)))
    assert [len(run.made(attempt)) for attempt in (2, 3, 4, 5)] == [0, 1, 1, 1] and run.value == [8, 8]


class Point(NamedTuple):
    x: int
    tags: frozenset[bytes]


def test_a_recorded_outcome_has_the_type_that_its_function_gives() -> None:
    def point() -> Point:
        return Point(1, frozenset({b"\xff"}))
    run = Attempts(*(lambda ctx: ctx.call("point", point) for _ in range(2)))
    assert run.values == [Point(1, frozenset({b"\xff"}))] * 2 and run.made(1)[0]["outcome"] == {"x": 1, "tags": ["/w=="]}


def test_calls_hold_their_share_of_the_budget_while_they_are_made() -> None:
    plan = {"budget": {"tokens": 100, "cost": 1}}

    def pay(idempotency_key: str = "") -> Outcome[str]:
        return Outcome(idempotency_key, cost=0.25, prompt_tokens=60)

    def act(tokens: int) -> Act:
        def run(ctx: Context) -> Any:
            ctx.reserve(tokens=100)
            ctx.call("pay", pay)
            assert ctx.attempt != 2 or (ctx.budget.tokens, ctx.budget.cost) == (40, 0.25)
            ctx.reserve(tokens=tokens)
            return ctx.call("more", lambda: 2)
        return run
    # The first attempt gets a part of the budget, and waits for the rest.
    enough = Attempts(act(40), act(40), plan=plan)
    assert enough.values == [2] and enough.found("step_suspended")[0]["data"]["call"]["wait"]["needs"] == {"tokens": 100, "cost": 0.0}
    over = Attempts(act(50), act(50), act(50), plan=plan)
    assert (over.failure["class"], over.failure["code"]) == ("constraint_violation", "BUDGET_EXCEEDED") and over.made(2)[0]["cost"] == 0.25

    async def whole(ctx: AsyncContext) -> None:
        await ctx.reserve(tokens=100)

    async def both(ctx: AsyncContext) -> Any:
        async def call(name: str) -> str:
            await ctx.reserve(tokens=60)
            return await ctx.call(name, asyncio.sleep, 0.03, name)
        return await asyncio.gather(call("first"), call("second"))
    run = Attempts(whole, both, both, plan=plan)
    assert run.value == ["first", "second"] and [len(run.made(attempt)) for attempt in (2, 3)] == [1, 1]


def test_the_first_of_several_waits_ends_the_attempt() -> None:
    async def waits(ctx: AsyncContext) -> Any:
        found = await asyncio.gather(ctx.approve("one?"), ctx.approve("two?"), return_exceptions=True)
        assert all(isinstance(one, Suspended) for one in found)
        group = Exception("the group of a task group has such a field")
        group.exceptions = (ValueError("x"), found[0])  # type: ignore[attr-defined]
        raise group

    async def one(ctx: AsyncContext) -> Any:
        return await ctx.approve("one?")

    async def two(ctx: AsyncContext) -> Any:
        return await ctx.approve("two?")
    texts = {"one?": one, "two?": two}
    asked = Attempts(waits, one, two, approvals=[{"step": "s"}]).found("step_suspended")[0]["data"]["call"]["wait"]["text"]
    assert asked in texts

    async def ask(ctx: AsyncContext) -> Any:
        return await ctx.ask("why?", limit=3600)
    assert Attempts(ask, ask).failure["code"] == "NO_ANSWER"


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_call_that_the_action_does_not_await_is_a_failure_that_says_so(caplog: pytest.LogCaptureFixture) -> None:
    tasks = set()

    async def task(ctx: AsyncContext) -> None:
        tasks.add(asyncio.create_task(ctx.call("late", asyncio.sleep, 0.2)))

    async def never(ctx: AsyncContext) -> None:
        ctx.call("late", asyncio.sleep, 0)

    def thread(ctx: Context) -> None:
        begun = threading.Event()
        threading.Thread(target=ctx.call, args=("late", lambda: (begun.set(), time.sleep(0.2))), daemon=True).start()
        begun.wait(5)
    for act in (task, never, thread):
        failure = Attempts(act).failure
        assert (failure["code"], failure["effect"]) == ("CALL_INVALID", "unknown")
        assert "ended before its call `late`: await every call" in failure["message"]

    def after(ctx: Context) -> None:
        def late() -> None:
            time.sleep(0.1)
            caplog.clear()
            with pytest.raises(Stopped):
                ctx.call("after", lambda: made.append(1))
            made.append(0)
        threading.Thread(target=late, daemon=True).start()
    made: list[int] = []
    assert Attempts(after).value is None
    end = time.monotonic() + 5
    while not made and time.monotonic() < end:
        time.sleep(0.01)
    assert made == [0] and "was not made, because its attempt has ended" in caplog.text

    async def cancelled(ctx: AsyncContext) -> str:
        late = asyncio.create_task(ctx.call("late", asyncio.sleep, 9))
        await asyncio.sleep(0.02)
        late.cancel()
        return "done"
    assert Attempts(cancelled).value == "done"


def test_a_stopped_attempt_makes_no_calls() -> None:
    class Link:
        frame_max = 1 << 20
        held: dict[int, Attempt] = {}

        def send(self, frame: dict[str, Any]) -> None: ...
    task = {"task": 1, "plan": "p0-x", "step": "s", "attempt": 1, "agent_type": "a", "idempotency_key": "p0-x:s", "timeout_ms": 60_000}
    attempt = Attempt(Link(), task)
    attempt.stop()
    ctx = Context(attempt)
    for act in (lambda: ctx.call("a", pow, 1, 1), lambda: ctx.sleep(1), lambda: ctx.approve("x?"), lambda: ctx.reserve(tokens=1)):
        with pytest.raises(Stopped):
            act()


def test_what_a_service_asks_for_holds_the_agent_type_and_what_a_step_asks_for_does_not() -> None:
    assert Retry(after=5).body() == {"class": "transient", "code": "RETRY", "message": "try again", "retry_after_ms": 5000}
    assert RateLimited(after=5).body()["class"] == "rate_limited"
