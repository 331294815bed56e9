"""What calls use up, and what they may use up."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from .errors import Fatal, plain

T = TypeVar("T")
#: US dollars, or tokens, that one report may say.
USED_MAX = 10**15


class Outcome(Generic[T]):
    """The value of a call with what it used up: return it from the function that `ctx.call` makes.

    - `cost`: US dollars. `prompt_tokens`, `completion_tokens`: of a language model.
    """

    def __init__(self, value: T, *, cost: float = 0.0, prompt_tokens: int = 0, completion_tokens: int = 0) -> None:
        self.value, self.cost = value, cost
        self.prompt_tokens, self.completion_tokens = prompt_tokens, completion_tokens

    def used(self) -> dict[str, Any]:
        """The fields of a report for what was used up; `Fatal` (`ANSWER_INVALID`) if a number cannot be kept."""
        self._check("cost", int, float)
        self._check("prompt_tokens", int)
        self._check("completion_tokens", int)
        usage = {"prompt_tokens": self.prompt_tokens, "completion_tokens": self.completion_tokens}
        return ({"cost": self.cost} if self.cost else {}) | ({"usage": usage} if any(usage.values()) else {})

    def _check(self, name: str, *kinds: type[int | float]) -> None:
        value: Any = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, kinds) or not 0 <= value <= USED_MAX:
            expected = "a number" if float in kinds else "an integer"
            raise Fatal(f"`{name}` must be {expected} from 0 to 10^15, it is {plain(value)} ({type(value).__name__})", code="ANSWER_INVALID")


class Budget:
    """The most that new calls of this attempt may use up; `None` is no limit."""

    def __init__(self, given: Mapping[str, Any] | None) -> None:
        given = given or {}
        self.tokens: int | None = given.get("tokens")
        self.cost: float | None = given.get("cost")
        self.last = bool(given.get("last"))

    def subtract(self, outcome: Outcome[Any]) -> None:
        if self.tokens is not None:
            self.tokens -= outcome.prompt_tokens + outcome.completion_tokens
        if self.cost is not None:
            self.cost -= outcome.cost
