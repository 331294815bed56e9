"""What an agent raises to end its attempt, and what the client raises."""
from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from typing import Any

CLASSES = {"transient", "rate_limited", "timeout", "permanent", "constraint_violation"}
MESSAGE_MAX = 4000


def plain(value: Any) -> str:
    """A text of any value, which UTF-8 can say: of an exception its own; never raises."""
    try:
        text = value if isinstance(value, str) else str(value)
    except Exception:
        text = f"a {type(value).__name__} without a text"
    return text.encode("utf-8", "replace").decode()


def body_of(failure: BaseException) -> dict[str, Any]:
    """The failure as a report has it, also of a subclass with a `body` that fails."""
    try:
        if isinstance(failure, Failure):
            return failure.body()
        # Nobody foresaw it: the work may be done.
        return Retry(f"{type(failure).__name__}: {plain(failure)}", code="AGENT_EXCEPTION", effect="unknown").body()
    except Exception as error:
        message = f"{type(failure).__name__} has no usable form: {type(error).__name__}: {plain(error)}"
        return {"class": "permanent", "code": "AGENT_EXCEPTION", "message": message[:MESSAGE_MAX], "effect": "unknown"}


def failure_of(body: Mapping[str, Any]) -> Failure:
    """A failure that was recorded."""
    kinds = {"constraint_violation": ConstraintViolation, "transient": Retry, "timeout": Retry, "rate_limited": RateLimited}
    kind: type[Failure] = kinds.get(body.get("class", ""), Fatal)
    return kind(body.get("message", ""), code=body.get("code", "FAILED"), effect=body.get("effect"))


class Failure(Exception):
    """The failure of an attempt or a call.

    `failure_class` is one of `transient`, `rate_limited`, `timeout`, `permanent`, `constraint_violation`.

    - `message`: a text, or an exception, whose text it is.
    - `effect`: `none` if nothing was done, which is what any class but `timeout` means, or `unknown`. It decides whether the
      fallback of an action with a side effect may try, and whether the step is undone.
    """

    failure_class = "permanent"

    def __init__(self, message: object = "", *, code: str = "FAILED", effect: str | None = None) -> None:
        super().__init__(message)
        if effect not in (None, "none", "unknown"):
            raise ValueError(f"`effect` is {effect!r}: it must be `none` or `unknown`")
        self.message, self.code, self.effect = plain(message), code, effect

    def body(self) -> dict[str, Any]:
        """The failure as a report has it."""
        kind = self.failure_class if self.failure_class in CLASSES else "permanent"
        code = plain("FAILED" if self.code in (None, "") else self.code)
        effect = {} if getattr(self, "effect", None) is None else {"effect": self.effect}
        return {"class": kind, "code": code, "message": (plain(self.message) or code)[:MESSAGE_MAX], **effect}


class Retry(Failure):
    """Another attempt may succeed. With `after` (seconds, or a `timedelta`) it starts so much later at the earliest."""

    failure_class = "transient"

    def __init__(self, message: object = "try again", *, code: str = "RETRY",
                 after: float | datetime.timedelta | None = None, effect: str | None = None) -> None:
        super().__init__(message, code=code, effect=effect)
        seconds = after.total_seconds() if isinstance(after, datetime.timedelta) else after
        if seconds is not None and not math.isfinite(seconds):
            raise ValueError(f"`after` is {seconds}: it must be a number of seconds")
        self.after = seconds

    def body(self) -> dict[str, Any]:
        wait = {} if self.after is None else {"retry_after_ms": max(0, round(self.after * 1000))}
        return {**super().body(), **wait}


class RateLimited(Retry):
    """The service behind the agent asks to wait: all tasks of the agent type are held for `after` seconds, and no retry is used."""

    failure_class = "rate_limited"


class Fatal(Failure):
    """No attempt can succeed: the fallback of the step, or its `on_failure`, decides what follows."""


class ConstraintViolation(Failure):
    """A constraint of the goal does not hold: the plan may be revised."""

    failure_class = "constraint_violation"


class Undecided(Fatal):
    """A person did not decide in time."""


class PlanFailed(Fatal):
    """A plan that a call submitted did not complete."""


class Partial(Exception):
    """Raise it with outputs that are incomplete, and with what is missing: texts or failures."""

    def __init__(self, outputs: Any, *errors: object) -> None:
        super().__init__(outputs)
        self.outputs = outputs
        self.errors = [e if isinstance(e, Failure) else Fatal(e, code="INCOMPLETE") for e in errors]


class Stopped(BaseException):
    """The attempt was stopped: cancelled, out of time, or released. Not an `Exception`, so that agents let it pass."""


class Suspended(BaseException):
    """A call waits for a person, a plan or the budget, or the outcome comes by callback: the attempt ends here. Agents let it
    pass."""

    def __init__(self, is_accepted: bool = False) -> None:
        super().__init__("the attempt waits")
        self.is_accepted = is_accepted


class ApiError(Exception):
    """The server refused a request. `problem` is its RFC 9457 document, `errors` its places and hints."""

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        self.status, self.problem = status, problem
        self.code = str(problem.get("code", ""))
        self.errors: list[dict[str, Any]] = problem.get("errors") or []
        places = "".join(
            f"\n  {e.get('code', '')} at {e.get('pointer') or '/'}: {e.get('detail') or e.get('message', '')}"
            + (f" (hint: {e['hint']})" if e.get("hint") else "")
            for e in self.errors
        )
        text = problem.get("detail") or problem.get("title") or "no reason given"
        super().__init__(f"{status} {self.code}: {text}{places}")


class RunFailed(Exception):
    """A plan ended, and not as `completed`. `run` is its handle, `status` its status, `failures` by step."""

    def __init__(self, run: Any, status: str, failures: dict[str, Any]) -> None:
        reasons = "; ".join(f"{step}: {f.get('code')} {f.get('message', '')}" for step, f in failures.items())
        super().__init__(f"{run.id} ended {status}" + (f": {reasons}" if reasons else ""))
        self.run, self.status, self.failures = run, status, failures
