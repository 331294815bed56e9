"""The pace of an agent type whose agent asked to wait, in time of its own."""
from __future__ import annotations

import random
import time

import pytest

from goalmill import Retry
from goalmill.throttle import Throttle


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(random, "uniform", lambda low, high: low)
    return now


def test_one_refusal_holds_all_and_they_start_at_the_pace_that_the_agent_has_kept(clock: list[float]) -> None:
    throttle = Throttle()
    assert throttle.has_room() and list(throttle.turns()) == []
    for _ in range(4):
        throttle.record(99.0)
    for _ in range(3):  # three of those that began together
        throttle.record(99.0, Retry(after=2))
    throttle.record(99.0)  # it began with them, and took longer
    assert throttle.is_on() and not throttle.has_room()
    assert [next(throttle.turns()) for _ in range(3)] == pytest.approx([2.0, 2.4, 2.8])
    clock[0] += 33
    assert not throttle.is_on() and list(throttle.turns()) == []


def test_an_attempt_waits_again_if_the_agent_asks_again(clock: list[float]) -> None:
    throttle = Throttle()
    throttle.record(99.0, Retry(after=2))
    turns = throttle.turns()
    assert next(turns) == 2.0
    clock[0] += 1
    throttle.record(100.5, Retry(after=5))
    clock[0] += 1
    assert next(turns) == 4.0
    clock[0] += 4
    assert list(turns) == []


def test_a_task_that_would_wait_for_too_long_is_handed_back(clock: list[float]) -> None:
    throttle = Throttle()
    throttle.record(99.0, Retry("slow down", code="BUSY", after=60))
    with pytest.raises(Retry, match="not asked: slow down") as refused:
        next(throttle.turns())
    assert (refused.value.after, refused.value.code) == (60.0, "BUSY")
