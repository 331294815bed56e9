from __future__ import annotations

import dataclasses
import datetime
import enum
import re
import threading
from collections.abc import Callable
from typing import Any

import pydantic
import pytest

import goalmill.testing
from goalmill import Agent, Context, Fatal, Failure, Partial, RateLimited, Retry
from goalmill.attempt import text_of
from goalmill.errors import body_of

from conftest import ROOT


@dataclasses.dataclass
class Query:
    city: str
    nights: int = 1


def test_a_card_comes_from_types_and_docstrings() -> None:
    agent = Agent("hotel_agent", description="Finds hotels.", cost=0.01, latency=2)

    @agent.action(side_effect=True)
    def book(q: Query, ctx: Context) -> list[str]:
        """Books a hotel.

        Details stay here.
        """
        return [q.city]

    @agent.action
    def count(city: str, stars: int = 3) -> int:
        return len(city) + stars

    card = agent.card()
    assert card["latency_ms"] == 2000 and card["cost"] == 0.01
    first, second = card["actions"]
    assert (first["name"], first["description"], first["side_effect"]) == ("book", "Books a hotel.", True)
    assert first["inputs"]["required"] == ["city"] and first["outputs"] == {"type": "array", "items": {"type": "string"}}
    assert second["inputs"] == {"type": "object", "properties": {"city": {"type": "string"}, "stars": {"type": "integer"}},
                                "required": ["city"], "additionalProperties": False}
    assert count("abc") == 6  # it stays a plain function


def test_an_agent_that_plans_says_so_and_gets_the_inputs_that_it_names() -> None:
    agent = Agent("planner", plans=True)

    @agent.action
    def plan(goal: dict[str, Any], limits: dict[str, int]) -> str:
        return str(goal)
    assert agent.card()["plans"] is True and "plans" not in Agent("other").card()
    given = {"goal": {"description": "x"}, "limits": {"steps_max": 9}, "agents": [], "issues": []}
    assert agent.actions["plan"].arguments(given, None) == {"goal": {"description": "x"}, "limits": {"steps_max": 9}}


def test_types_of_an_enclosing_function_are_found() -> None:
    @dataclasses.dataclass
    class Local:
        x: int

    agent = Agent("a")

    @agent.action
    def take(one: Local) -> int:
        return one.x
    assert agent.actions["take"].arguments({"x": 1}, None) == {"one": Local(1)}


def test_inputs_are_checked_before_the_function_runs() -> None:
    agent = Agent("a")

    @agent.action
    def add(a: int, b: int = 2) -> int:
        return a + b
    action = agent.choose(None)
    assert action.arguments({"a": 1}, None) == {"a": 1}
    for inputs, place in [({"b": 1}, "/a"), ({"a": 1, "c": 1}, "/c"), ({"a": "1"}, "/a"), ([1], "object")]:
        with pytest.raises(Fatal, match=place):
            action.arguments(inputs, None)


def test_the_action_of_a_task_is_never_guessed() -> None:
    agent = Agent("a")

    @agent.action
    def one() -> int:
        return 1

    @agent.action
    def two() -> int:
        return 2
    assert agent.choose("two").name == "two"
    for name in (None, "three"):
        with pytest.raises(Fatal) as refused:
            agent.choose(name)
        assert refused.value.code == "ACTION_UNKNOWN" and "one, two" in refused.value.message


def test_wrong_declarations_are_refused_at_once() -> None:
    agent = Agent("a")

    @agent.action
    def one() -> int:
        return 1
    with pytest.raises(ValueError, match="two actions"):
        agent.action("one")(one)
    with pytest.raises(TypeError, match="has no name"):
        @agent.action
        def many(*all: int) -> int:
            return len(all)


def test_failures_say_what_follows() -> None:
    assert Retry("later").body()["class"] == "transient"
    assert Fatal("no", code="NO").body() == {"class": "permanent", "code": "NO", "message": "no"}
    assert [e.code for e in Partial({}, "one is down", Failure("x", code="Y")).errors] == ["INCOMPLETE", "Y"]


def test_the_page_lists_the_public_names() -> None:
    listed = re.findall(r"has (\d+): (.*?)\.(?= |$)", (ROOT / "sdk/python/README.md").read_text(), re.M)
    found = [re.findall(r"`(\w+)`", names) for _, names in listed]
    assert found == [goalmill.__all__, goalmill.testing.__all__]
    assert [int(count) for count, _ in listed] == [len(names) for names in found]


class NoText(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class NoBody(Fatal):
    def __init__(self) -> None:  # without the fields of a failure
        pass


@pytest.mark.parametrize(("raised", "failure_class", "code", "message"), [
    (Fatal(ValueError("bad")), "permanent", "FAILED", "bad"),
    (Fatal("x", code=None), "permanent", "FAILED", "x"),  # type: ignore[arg-type]
    (Fatal("x", code=404), "permanent", "404", "x"),  # type: ignore[arg-type]
    (Retry(OSError("down")), "transient", "RETRY", "down"),
    (RateLimited("later", after=datetime.timedelta(seconds=1)), "rate_limited", "RETRY", "later"),
    (ValueError("a\udcff"), "transient", "AGENT_EXCEPTION", "ValueError: a[?]"),
    (NoText(), "transient", "AGENT_EXCEPTION", "NoText: a NoText without a text"),
    (NoBody(), "permanent", "AGENT_EXCEPTION", "NoBody has no usable form: .*"),
    (Partial(1, ValueError("b")).errors[0], "permanent", "INCOMPLETE", "b"),
])
def test_whatever_is_raised_has_a_class_a_code_and_a_message(raised: BaseException, failure_class: str, code: str, message: str) -> None:
    body = body_of(raised)
    assert (body["class"], body["code"]) == (failure_class, code) and re.fullmatch(message, body["message"])
    text_of(body)


def test_a_failure_says_what_is_known_of_the_work() -> None:
    assert "effect" not in body_of(Fatal("no"))
    assert body_of(Fatal("cut", effect="unknown"))["effect"] == body_of(ValueError("x"))["effect"] == "unknown"
    assert body_of(Retry("away", effect="none"))["effect"] == "none"
    with pytest.raises(ValueError):
        Fatal("no", effect="perhaps")


@pytest.mark.parametrize("after", ["5", float("nan"), float("inf")])
def test_a_wait_that_is_no_number_is_refused_where_it_is_written(after: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        Retry("later", after=after)


class Odd(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)
    thing: threading.Event


class Shade(enum.Enum):
    DARK = (0, 0, 0)


@pytest.mark.parametrize("hint", [threading.Event, Odd, Shade, dict[int, str], list[complex], Callable[[], int], dict[str, Odd], type[int], "Later"])
def test_a_type_without_a_form_in_json_is_refused_when_its_action_is_registered(hint: Any) -> None:
    def take(one: Any, text: str = "") -> int:
        return 1

    def give() -> Any: ...
    take.__annotations__["one"] = give.__annotations__["return"] = hint
    for fn, place in ((take, "the parameter `one`"), (give, "the return type")):
        with pytest.raises(TypeError, match=f"action `{fn.__name__}`: (.*`Later`.*|name 'Later' .*)" if hint == "Later" else f"action `{fn.__name__}`: {place}: "):
            Agent("a").action(fn)
