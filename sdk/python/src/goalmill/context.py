"""What an agent sees of its attempt: durable calls, waits, progress, cancellation, budget."""
from __future__ import annotations

import asyncio
import contextlib
import copy
import functools
import hashlib
import inspect
import json
import logging
import typing
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Concatenate, NoReturn, ParamSpec, TypedDict, TypeVar, overload

from .errors import Fatal, PlanFailed, Retry, Stopped, Suspended, Undecided, body_of, failure_of, plain
from .outcome import Budget, Outcome
from .schema import convert, to_json
from .threaded import threaded

if TYPE_CHECKING:
    from .attempt import Answer, Attempt

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C", bound="BaseContext")
NAME_MAX = 200
_KEY = "idempotency_key"


class Decision(TypedDict, total=False):
    """What a person said to `approve`."""

    approved: bool
    reason: str | None


class PlanOutcome(TypedDict, total=False):
    """How a submitted plan ended."""

    plan: str
    status: str
    outputs: Any


def _inputs(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, Any, bool]:
    """Of a function and its arguments: what identifies the inputs, the type of its value, whether it takes the key of the call."""
    try:
        inputs = [to_json(list(args)), to_json(kwargs)]
    except Fatal as error:
        raise TypeError(f"arguments of a call must be JSON, bind others with a lambda: {error}") from error
    takes_key, returns = False, Any
    with contextlib.suppress(TypeError, ValueError):  # some built-in functions have no signature
        takes_key = _KEY in inspect.signature(fn).parameters and _KEY not in kwargs
    with contextlib.suppress(TypeError, NameError, AttributeError):
        returns = typing.get_type_hints(getattr(fn, "__func__", fn)).get("return", Any)
    if typing.get_origin(returns) is Outcome:
        returns = typing.get_args(returns)[0]
    return _text(inputs), returns, takes_key


def _text(inputs: Any) -> str:
    text = json.dumps(inputs, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _found(answer: Answer) -> dict[str, Any]:
    """The answer to a frame about a call; raises what ends the attempt, and the recorded failure of the call."""
    kind, body = answer
    if kind == "stop":
        raise Stopped
    if kind == "suspended":
        raise Suspended
    if error := body.get("error"):
        raise failure_of(error)
    return body


class _Call:
    """A durable call between its steps: ask for the recorded outcome, make it, record it."""

    def __init__(self, attempt: Attempt, name: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.attempt, self.fn, self.args, self.kwargs = attempt, fn, args, kwargs
        inputs, self.returns, self.takes_key = _inputs(fn, args, kwargs)
        self.number, self.asked = attempt.ask("call", name=plain(name), inputs=inputs)

    def is_recorded(self, answer: Answer) -> bool:
        """Whether an earlier attempt has recorded the outcome; raises a recorded failure."""
        self.answer = _found(answer)
        return "key" not in self.answer

    def recorded(self) -> Any:
        return convert(self.answer.get("outcome"), self.returns)

    def make(self) -> Any:
        return self.fn(*self.args, **self.kwargs, **({_KEY: self.answer["key"]} if self.takes_key else {}))

    def abandon(self) -> None:
        """It failed: it is not recorded, and the next try has the same key."""
        self.attempt.tell("abandoned", call=self.number)

    def record(self, value: Any) -> Future[Answer]:
        """Sends the value, or a failure that is recorded; the frame that answers says that Redis has it."""
        try:
            if isinstance(value, Fatal):
                self.made: Any = value
                return self.attempt.ask_again(self.number, "made", error=body_of(value))
            outcome = value if isinstance(value, Outcome) else Outcome(value)
            used, self.made = outcome.used(), to_json(outcome.value)
        except BaseException as error:
            self.abandon()
            if isinstance(error, Fatal):
                self.attempt.fail(error)  # it would be made again, whatever the agent does with the error
            raise
        self.attempt.budget.subtract(outcome)
        return self.attempt.ask_again(self.number, "made", outcome=self.made, **used)

    def value(self, answer: Answer) -> Any:
        """The value, once it is recorded."""
        _found(answer)
        if isinstance(self.made, Fatal):
            raise self.made
        return convert(self.made, self.returns)


def _wait_after(error: Exception, wait: float) -> float:
    """Seconds before the next try of a call; raises an error after which there is none."""
    if isinstance(error, Fatal):
        raise error
    return max(wait, error.after or 0.0) if isinstance(error, Retry) else wait


class BaseContext:
    """The attempt, for sync and async agents."""

    #: Seconds before each further try of a call.
    _waits: Sequence[float] = ()

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        task = attempt.task
        #: The task as it came, see docs/protocol.md.
        self.task: Mapping[str, Any] = task
        self.plan: str = task["plan"]
        self.step: str = task["step"]
        self.action: str | None = task.get("action")
        #: Counted from 1 over the life of the step.
        self.attempt: int = task["attempt"]
        #: The same for every attempt of the step: pass it to systems with side effects.
        self.idempotency_key: str = task.get("idempotency_key") or f"{task['plan']}:{task['step']}"
        #: W3C trace context, for headers of requests.
        self.traceparent: str | None = task.get("traceparent")
        self.log = logging.LoggerAdapter(logging.getLogger(f"goalmill.{task['agent_type']}"),
                                         {"plan_id": self.plan, "step_id": self.step, "attempt": self.attempt})

    @property
    def budget(self) -> Budget:
        """What further calls may use up."""
        return self._attempt.budget

    @property
    def callback(self) -> Mapping[str, str] | None:
        """`url` and `token` for the outcome, if the step has `callback=True`."""
        found: Mapping[str, str] | None = self.task.get("callback")
        return found

    def accepted(self) -> NoReturn:
        """Ends the attempt without an outcome: it comes by the callback, and no worker waits for it."""
        if self.callback is None:
            raise Fatal("the step has no `callback=True`", code="CALLBACK_MISSING")
        raise Suspended(is_accepted=True)

    @property
    def deadline(self) -> float:
        """When the attempt runs out of time, in Unix seconds."""
        return self._attempt.started + float(self.task["timeout_ms"]) / 1000

    @property
    def cancelled(self) -> bool:
        """Whether the attempt was stopped: return soon, what is returned does not count."""
        return self._attempt.stopped.is_set()

    def progress(self, share: float, message: str | None = "") -> None:
        """Shows how far it is, 0 to 1; only the newest is sent. The lease is extended without it."""
        shown = "" if message is None else plain(message)[:500]
        self._attempt.tell("progress", share=min(1.0, max(0.0, float(share))), message=shown)

    def usage(self, *, cost: float = 0.0, prompt_tokens: int = 0, completion_tokens: int = 0) -> None:
        """Adds what the attempt has used up outside of calls; `Fatal` (`ANSWER_INVALID`) if a number cannot be kept."""
        Outcome(None, cost=cost, prompt_tokens=prompt_tokens, completion_tokens=completion_tokens).used()
        used = self._attempt.used
        used.cost += cost
        used.prompt_tokens += prompt_tokens
        used.completion_tokens += completion_tokens

    def retrying(self: C, max: int, *, initial: float = 1.0, max_wait: float = 60.0) -> C:
        """The same attempt for calls that are made again, up to `max` times: `ctx.retrying(3).call(…)`.

        The waits begin with `initial` seconds and double up to `max_wait`; after `Retry(after=…)` at least so long. The slot stays
        in use meanwhile. `Fatal` is not tried again.
        """
        again = copy.copy(self)
        again._waits = [min(initial * 2**n, max_wait) for n in range(max)]
        return again

    def _check(self) -> None:
        if self._attempt.ended:
            self.log.warning("a call was not made, because its attempt has ended: await every call")
        if self.cancelled:
            raise Stopped


class Context(BaseContext):
    """The attempt of a sync action."""

    @overload
    def call(self, name: str, fn: Callable[P, Outcome[T]], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    @overload
    def call(self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    def call(self, name: str, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Makes a durable call: recorded when it is done, and given back to later attempts instead of made again.

        Arguments and value are JSON, dataclasses or pydantic models. A parameter `idempotency_key` of the function gets
        the key of the call. `Fatal` is recorded too; after any other exception the call is made again.
        """
        self._check()
        with self._attempt.open_call(name):
            call = _Call(self._attempt, name, fn, args, kwargs)
            if call.is_recorded(call.asked.result()):
                return call.recorded()
            made: Any
            try:
                made = self._make(call)
            except Fatal as error:
                made = error
            except BaseException:
                call.abandon()
                raise
            return call.value(call.record(made).result())

    def _make(self, call: _Call) -> Any:
        for wait in self._waits:
            try:
                return call.make()
            except Exception as error:
                self.sleep(_wait_after(error, wait))
        return call.make()

    def _wait(self, kind: str, text: str, limit: float | None, failed: type[Fatal], **fields: Any) -> dict[str, Any]:
        """The outcome of a wait, or `Suspended`. `limit`: seconds. `failed`: what an outcome with `error` raises."""
        self._check()
        fields |= {"limit_ms": None if limit is None else round(limit * 1000)}
        wait = {"for": kind, "text": plain(text), **{name: value for name, value in fields.items() if value is not None}}
        _, asked = self._attempt.ask("wait", name=plain(f"{kind} {text}")[:NAME_MAX], inputs=_text(wait), wait=wait)
        found = _found(asked.result()).get("outcome")
        outcome: dict[str, Any] = found if isinstance(found, dict) else {}
        if isinstance(error := outcome.get("error"), dict):
            raise failed(error.get("message", ""), code=error.get("code", "FAILED"))
        if error is not None:
            raise failed(error, code="NO_ANSWER")
        return outcome

    def approve(self, text: str, *, limit: float | None = None) -> Decision:
        """Asks a person to approve. The attempt ends here, and the next one gets the decision.

        - `limit`: seconds to wait for it; then it is refused.
        """
        return typing.cast(Decision, self._wait("approval", text, limit, Undecided))

    def ask(self, text: str, *, schema: Any = None, limit: float | None = None) -> Any:
        """Asks a person; returns the answer, which matches `schema`. `Undecided` after `limit` seconds without one."""
        return self._wait("answer", text, limit, Undecided, schema=schema).get("answer")

    def submit_plan(self, plan: Any, *, inputs: Any = None, text: str = "", limit: float | None = None) -> PlanOutcome:
        """Runs a plan inside the step; returns how it ended. `PlanFailed` if it did not complete."""
        document = to_json(plan)
        text = text or str(document.get("name") or "a plan of the step")
        return typing.cast(PlanOutcome, self._wait("plan", text, limit, PlanFailed, plan=document, inputs=to_json(inputs)))

    def wait_event(self, name: str, *, key: str | None = None, schema: Any = None, timeout: float | None = None,
                   default: Any = None) -> Any:
        """Waits for an event from outside; returns its data, or `default` after `timeout` seconds.

        The attempt ends until then: the wait is a plan of one step.
        """
        limit = {} if timeout is None else {"timeout_ms": round(timeout * 1000), "on_timeout": "skip"}
        wait = {"event": name, **({} if key is None else {"key": key}), **({} if schema is None else {"schema": schema}), **limit}
        outcome = self.submit_plan({"steps": [{"id": "event", "kind": "wait", "wait": wait}]}, text=f"the event {name}")
        return (outcome.get("outputs") or {}).get("event", default)

    def reserve(self, *, tokens: int = 0, cost: float = 0.0) -> None:
        """Reserves what the next call may use up, until it is recorded. Without room in the budget, waits for it without a worker."""
        self._check()
        number, asked = self._attempt.ask("reserve", tokens=tokens, cost=cost)
        _found(asked.result())
        self._attempt.reserved.append(number)

    def sleep(self, seconds: float) -> None:
        """Waits, and ends at once if the attempt is stopped."""
        if self._attempt.stopped.wait(seconds):
            raise Stopped


def _awaited(method: Callable[Concatenate[Context, P], T]) -> Callable[Concatenate[AsyncContext, P], Coroutine[Any, Any, T]]:
    """The same method to await, in a thread of its own."""
    in_thread = threaded(method)

    @functools.wraps(method)
    def begin(self: AsyncContext, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        return self._attempt.track(method.__name__, in_thread(self, *args, **kwargs))
    return begin


class AsyncContext(BaseContext):
    """The attempt of an async action: as `Context`, with methods to await."""

    def __init__(self, attempt: Attempt) -> None:
        super().__init__(attempt)
        self.sync = Context(attempt)

    @overload
    async def call(self, name: str, fn: Callable[P, Awaitable[Outcome[T]]], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    @overload
    async def call(self, name: str, fn: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    @overload
    async def call(self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    def call(self, name: str, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
        """As `Context.call`; the function may be async. Calls may run at the same time."""
        return self._attempt.track(name, self._call(name, fn, args, kwargs))

    async def _call(self, name: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._check()
        call = _Call(self._attempt, name, fn, args, kwargs)
        try:
            answer = await asyncio.wrap_future(call.asked)
        except asyncio.CancelledError:
            call.abandon()
            raise
        if call.is_recorded(answer):
            return call.recorded()
        made: Any
        try:
            made = await self._make(call)
        except Fatal as error:
            made = error
        except BaseException:
            call.abandon()
            raise
        return call.value(await asyncio.wrap_future(call.record(made)))

    async def _make(self, call: _Call) -> Any:
        for wait in (*self._waits, None):
            try:
                made = call.make()
                return await made if inspect.isawaitable(made) else made
            except Exception as error:
                if wait is None:
                    raise
                await asyncio.sleep(_wait_after(error, wait))

    approve, ask = _awaited(Context.approve), _awaited(Context.ask)
    submit_plan, wait_event, reserve = _awaited(Context.submit_plan), _awaited(Context.wait_event), _awaited(Context.reserve)

    async def sleep(self, seconds: float) -> None:
        """Waits."""
        await asyncio.sleep(seconds)
