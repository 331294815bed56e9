"""Numbers and order of durable calls, without a server."""
from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import Any

import pytest

from goalmill import AsyncContext, Budget, ConstraintViolation, Context, Fatal, Outcome, Retry, Stopped, Suspended
from goalmill.context import Calls
from goalmill.limits import Limits


class FakeAttempt:
    """Takes reports at once, as Redis does."""

    def __init__(self, **task: Any) -> None:
        self.task = {"plan": "p0-x", "step": "s", "attempt": 1, "agent_type": "a", "timeout_ms": 1000, **task}
        self.sent: list[dict[str, Any]] = []
        self.limits, self.ended = Limits(calls_max=5, calls_bytes_max=40), list[dict[str, Any]]()
        self.budget = Budget(task.get("budget"))
        self.used: Outcome[None] = Outcome(None)
        self.stopped, self.started = threading.Event(), 0.0

    def send(self, what: str, fields: dict[str, Any], blobs: Any, taken: Future[None]) -> None:
        self.sent.append(fields["call"])
        taken.set_result(None)

    def stop(self, what: str, fields: dict[str, Any]) -> None:
        self.ended.append({"what": what, **fields})
        self.stopped.set()

    def storable_outcome(self, value: Any) -> Any:
        return value, [], 1

    def replayed(self, call: dict[str, Any]) -> Any:
        if error := call.get("error"):
            raise Fatal(error["message"], code=error["code"])
        return call["outcome"]

    def resolve(self, value: Any) -> Any:
        return value


def numbers(attempt: FakeAttempt) -> list[int]:
    return [call["n"] for call in attempt.sent]


def test_calls_that_end_in_another_order_are_reported_in_that_of_their_numbers() -> None:
    attempt: Any = FakeAttempt()
    calls = Calls(attempt)
    first, second, third = (calls.begin("x", n) for n in range(3))
    calls.finish(third, Outcome(3))
    calls.finish(second, Outcome(2))
    assert numbers(attempt) == [] and not second.taken.done()
    calls.finish(first, Outcome(1))
    assert numbers(attempt) == [1, 2, 3] and third.taken.done()


def test_after_a_gap_nothing_is_recorded_and_nobody_waits() -> None:
    attempt: Any = FakeAttempt()
    calls = Calls(attempt)
    first, second = calls.begin("x", 1), calls.begin("x", 2)
    calls.finish(second, Outcome(2))
    calls.abandon(first)
    assert numbers(attempt) == [] and second.taken.done()


def test_a_failed_call_frees_its_number_and_a_fatal_one_is_recorded() -> None:
    attempt: Any = FakeAttempt()
    ctx = Context(attempt)

    def fails(error: Exception) -> None:
        raise error
    with pytest.raises(Retry):
        ctx.call("a", lambda: fails(Retry()))
    with pytest.raises(Fatal):
        ctx.call("b", lambda: fails(Fatal("never", code="NEVER")))
    assert ctx.call("c", lambda: 3) == 3
    assert [(call["n"], call["name"]) for call in attempt.sent] == [(1, "b"), (2, "c")]
    again: Any = FakeAttempt(calls=attempt.sent)
    replay = Context(again)
    with pytest.raises(Fatal, match="never"):
        replay.call("b", lambda: 7)
    assert replay.call("c", lambda: 8) == 3 and again.sent == []


def test_an_outcome_that_is_no_json_is_an_error_of_the_call() -> None:
    attempt: Any = FakeAttempt()
    ctx = Context(attempt)
    with pytest.raises(Fatal) as refused:
        ctx.call("a", lambda: object())
    assert refused.value.code == "ANSWER_INVALID" and attempt.sent == []
    with pytest.raises(TypeError, match="arguments of a call must be JSON"):
        Context(FakeAttempt()).call("a", lambda x: x, object())  # type: ignore[arg-type]


def test_arguments_and_names_identify_a_call() -> None:
    attempt: Any = FakeAttempt()
    ctx = Context(attempt)
    ctx.call("add", pow, 2, 3)
    for name, arguments, made in [("add", (2, 3), False), ("add", (2, 4), True), ("sum", (2, 3), True)]:
        again: Any = FakeAttempt(calls=attempt.sent)
        Context(again).call(name, pow, *arguments)
        assert bool(again.sent) is made


def test_a_call_gets_its_key_and_counts_against_the_budget() -> None:
    attempt: Any = FakeAttempt(budget={"tokens": 100, "cost": 1.0})
    ctx = Context(attempt)

    def pay(idempotency_key: str = "") -> Outcome[str]:
        return Outcome(idempotency_key, cost=0.75, prompt_tokens=60)
    assert ctx.call("pay", pay) == "p0-x/s/1" and (ctx.budget.tokens, ctx.budget.cost) == (40, 0.25)
    with pytest.raises(Suspended) as waits:
        ctx.reserve(tokens=50)
    assert waits.value.call["n"] == 2 and waits.value.call["wait"]["needs"] == {"tokens": 50, "cost": 0.0}
    ctx.reserve(tokens=40, cost=0.25)
    last: Any = FakeAttempt(budget={"tokens": 1, "last": True})
    with pytest.raises(ConstraintViolation):
        Context(last).reserve(tokens=2)


def test_a_stopped_attempt_makes_no_calls() -> None:
    attempt: Any = FakeAttempt()
    attempt.stopped.set()
    for act in (lambda: Context(attempt).call("a", pow, 1, 1), lambda: Context(attempt).sleep(1)):
        with pytest.raises(Stopped):
            act()


def test_a_call_over_a_limit_of_the_installation_ends_the_attempt() -> None:
    for size, limit in [(0, "limits.calls_max"), (10, "limits.calls_bytes_max")]:
        attempt: Any = FakeAttempt()
        attempt.storable_outcome = lambda value, size=size: (value, [], size)
        ctx = Context(attempt)
        with pytest.raises(Fatal, match=limit) as refused:
            for n in range(6):
                ctx.call("x", lambda: n)
        assert refused.value.code == "CALLS_EXCEEDED"
        assert [(end["what"], end["failure"]["code"]) for end in attempt.ended] == [("failed", "CALLS_EXCEEDED")]
        with pytest.raises(Stopped):  # whatever the agent does with the error
            ctx.call("y", lambda: 1)


def test_a_call_inside_a_call_is_refused_and_ends_the_attempt() -> None:
    attempt: Any = FakeAttempt()
    ctx = Context(attempt)
    with pytest.raises(Fatal, match="`inner` is made inside the function of call `outer`"):
        ctx.call("outer", lambda: ctx.call("inner", lambda: 5))
    assert attempt.ended[0]["failure"]["code"] == "CALL_INVALID"
    for waits in (lambda c: c.approve("pay?"), lambda c: c.submit_plan({"steps": []})):
        waiting: Any = FakeAttempt()
        outer = Context(waiting)
        with pytest.raises(Fatal, match="cannot be nested"):
            outer.call("pay", lambda waits=waits: waits(outer))
    made: Any = FakeAttempt()
    one, other = Context(made), Context(FakeAttempt())  # type: ignore[arg-type]
    assert one.call("a", lambda: other.call("b", lambda: 7)) == 7, "calls of another attempt are no calls inside"
    assert one.call("c", lambda: 8) == 8


def test_async_calls_inside_a_call_are_refused_and_those_beside_it_are_not() -> None:
    async def go() -> None:
        attempt: Any = FakeAttempt()
        ctx = AsyncContext(attempt)

        async def later() -> int:
            await asyncio.sleep(0)
            return 1
        late: list[asyncio.Task[int]] = []

        async def starts() -> int:
            late.append(asyncio.create_task(call_after()))
            return 2

        async def call_after() -> int:
            await asyncio.sleep(0.01)
            return await ctx.call("after", later)
        assert await asyncio.gather(ctx.call("a", later), ctx.call("b", later)) == [1, 1]
        assert await ctx.call("starts", starts) == 2 and await late[0] == 1, "the outer call has ended"

        async def outer() -> int:
            return await ctx.call("inner", later)
        with pytest.raises(Fatal, match="cannot be nested"):
            await ctx.call("outer", outer)
    asyncio.run(go())


def test_what_a_call_has_used_up_must_be_numbers() -> None:
    for used in (Outcome(1, cost=float("nan")), Outcome(1, cost="0.1"), Outcome(1, prompt_tokens=1.5), Outcome(1, completion_tokens=-1)):  # type: ignore[arg-type]
        attempt: Any = FakeAttempt()
        with pytest.raises(Fatal) as refused:
            Context(attempt).call("x", lambda used=used: used)
        assert refused.value.code == "ANSWER_INVALID" and attempt.sent == [] and attempt.ended
