"""What an agent sees of its attempt: durable calls, waits, progress, cancellation, budget."""
from __future__ import annotations

import asyncio
import contextlib
import contextvars
import hashlib
import inspect
import json
import logging
import threading
import time
import typing
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import TYPE_CHECKING, Any, Generic, NoReturn, ParamSpec, TypedDict, TypeVar, overload

from .errors import ConstraintViolation, Fatal, PlanFailed, Stopped, Suspended, Undecided, body_of, plain
from .schema import convert, to_json
from .threaded import threaded

if TYPE_CHECKING:
    from .attempt import Attempt

P = ParamSpec("P")
T = TypeVar("T")
NAME_MAX = 200
#: US dollars, or tokens, that one report may say.
USED_MAX = 10**15
_KEY = "idempotency_key"


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

    def _check(self, name: str, *kinds: type[int] | type[float]) -> None:
        value: Any = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, kinds) or not 0 <= value <= USED_MAX:
            expected = "a number" if float in kinds else "an integer"
            raise Fatal(f"`{name}` must be {expected} from 0 to 10^15, it is {plain(value)} ({type(value).__name__})", code="ANSWER_INVALID")


class Decision(TypedDict, total=False):
    """What a person said to `approve`."""

    approved: bool
    reason: str | None


class PlanOutcome(TypedDict, total=False):
    """How a submitted plan ended."""

    plan: str
    status: str
    outputs: Any


class Budget:
    """The most that new calls of this attempt may use up; `None` is no limit."""

    def __init__(self, given: Mapping[str, Any] | None) -> None:
        given = given or {}
        self.tokens: int | None = given.get("tokens")
        self.cost: float | None = given.get("cost")
        self.last = bool(given.get("last"))

    def has_room(self, tokens: int, cost: float) -> bool:
        return (self.tokens is None or tokens <= self.tokens) and (self.cost is None or cost <= self.cost)

    def subtract(self, outcome: Outcome[Any]) -> None:
        if self.tokens is not None:
            self.tokens -= outcome.prompt_tokens + outcome.completion_tokens
        if self.cost is not None:
            self.cost -= outcome.cost


class Call:
    """One numbered call: to be made, or recorded by an earlier attempt."""

    def __init__(self, n: int, name: str, inputs: str, recorded: dict[str, Any] | None) -> None:
        self.n, self.name, self.inputs, self.recorded = n, name, inputs, recorded
        self.is_over = False
        self.started_ms = int(time.time() * 1000)
        self.taken: Future[None] = Future()
        self.report: dict[str, Any] | None = None
        self.blobs: list[tuple[str, str]] = []


#: The call whose function runs here, and whose calls it belongs to.
_made_here: contextvars.ContextVar[tuple[Calls, Call] | None] = contextvars.ContextVar("goalmill_call", default=None)


class Calls:
    """The calls of one attempt. They are reported in the order of their numbers, whatever the order of their ends."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.lock = threading.Lock()
        self.known: list[dict[str, Any]] = list(attempt.task.get("calls") or [])
        self.last = self.bytes = 0
        self.open: dict[int, Call] = {}

    def begin(self, name: str, inputs: Any) -> Call:
        """Numbers the next call. One that differs from the recorded one makes that and all later ones void."""
        if not isinstance(name, str) or not 0 < len(name) <= NAME_MAX:
            raise Fatal(f"the name of a call must have 1 to {NAME_MAX} characters", code="CALL_INVALID")
        here = _made_here.get()
        if here is not None and here[0] is self and not here[1].is_over:
            message = (f"call `{name}` is made inside the function of call `{here[1].name}`: durable calls cannot be nested, "
                       "make one after the other")
            raise self.refuse(Fatal(message, code="CALL_INVALID"))
        text = json.dumps(inputs, sort_keys=True, separators=(",", ":"))
        digest = hashlib.sha256(text.encode()).hexdigest()[:32]
        most = self.attempt.limits.calls_max
        with self.lock:
            n = self.last + 1
            recorded = self.known[self.last] if self.last < len(self.known) else None
            if recorded and (recorded.get("name"), recorded.get("inputs")) != (name, digest):
                del self.known[self.last:]
                recorded = None
            if n > most:
                raise self.refuse(Fatal(f"the step made more than {most} calls (`limits.calls_max`)", code="CALLS_EXCEEDED"))
            self.last = n
            call = Call(n, name, digest, recorded)
            if not recorded:
                self.open[n] = call
            return call

    def refuse(self, failure: Fatal) -> Fatal:
        """Ends the attempt: a call that the log cannot have is not made, or would be made again, whatever the agent does next."""
        self.attempt.stop("failed", {"failure": body_of(failure)})
        return failure

    @contextlib.contextmanager
    def making(self, call: Call) -> Iterator[None]:
        """The function of a call runs: no other call may begin in it."""
        before = _made_here.set((self, call))
        try:
            yield
        finally:
            call.is_over = True
            _made_here.reset(before)

    def key(self, call: Call) -> str:
        return f"{self.attempt.task['plan']}/{self.attempt.task['step']}/{call.n}"

    def replays_next(self) -> bool:
        return self.last < len(self.known)

    def finish(self, call: Call, made: Outcome[Any] | Fatal) -> Any:
        """Records a call; `call.taken` ends when Redis has the report. Returns the outcome as JSON."""
        try:
            value = self._recordable(call, made)
        except BaseException as error:
            self.abandon(call)
            if isinstance(error, Fatal):
                self.refuse(error)
            raise
        self._send_finished()
        return value

    def _recordable(self, call: Call, made: Outcome[Any] | Fatal) -> Any:
        body: dict[str, Any] = {"n": call.n, "name": call.name, "inputs": call.inputs,
                                "started_ms": call.started_ms, "finished_ms": int(time.time() * 1000)}
        if isinstance(made, Fatal):
            call.report = {**body, "error": body_of(made)}
            return None
        used, value = made.used(), to_json(made.value, nesting_max=self.attempt.limits.nesting_max)
        outcome, call.blobs, size = self.attempt.storable_outcome(value)
        with self.lock:
            self.bytes += size + len(call.name)
            self.attempt.budget.subtract(made)
            if self.bytes > (most := self.attempt.limits.calls_bytes_max):
                raise Fatal(f"the calls of the step have more than {most} bytes (`limits.calls_bytes_max`)", code="CALLS_EXCEEDED")
        call.report = {**body, "outcome": outcome, **used}
        return value

    def abandon(self, call: Call) -> None:
        """A call that failed without a record: its number is free if it was the last, else later calls stay unrecorded."""
        with self.lock:
            if call.n == self.last:
                self.last -= 1
                self.open.pop(call.n, None)
                return
        self._send_finished(abandoned=call.n)

    def _send_finished(self, abandoned: int | None = None) -> None:
        with self.lock:
            while self.open:
                first = self.open[min(self.open)]
                if first.report is None and first.n != abandoned:
                    return
                del self.open[first.n]
                if first.n == abandoned:
                    for later in self.open.values():  # a gap: they cannot be recorded
                        if later.taken.set_running_or_notify_cancel():
                            later.taken.set_result(None)
                    self.open.clear()
                    return
                self.attempt.send("call", {"call": first.report}, first.blobs, first.taken)

    def wait(self, kind: str, text: str, limit: float | None, failed: type[Fatal], **fields: Any) -> dict[str, Any]:
        """The outcome of a wait, or `Suspended`. `limit`: seconds. `failed`: what an outcome with `error` raises."""
        fields |= {"limit_ms": None if limit is None else round(limit * 1000)}
        wait = {"for": kind, "text": text, **{name: value for name, value in fields.items() if value is not None}}
        call = self.begin(f"{kind} {text}"[:NAME_MAX], wait)
        if call.recorded is None:
            raise Suspended({"n": call.n, "name": call.name, "inputs": call.inputs, "wait": wait})
        found = self.attempt.resolve(call.recorded.get("outcome"))
        outcome: dict[str, Any] = found if isinstance(found, dict) else {}
        if error := outcome.get("error"):
            raise failed(error.get("message", "no decision"), code=error.get("code", "UNDECIDED"))
        return outcome

    def reserve(self, tokens: int, cost: float) -> None:
        budget = self.attempt.budget
        if self.replays_next() or budget.has_room(tokens, cost):
            return
        text = f"the next call may use up {tokens} tokens and {cost} dollars"
        if budget.last:
            raise ConstraintViolation(f"{text}, which is over the budget of the plan", code="BUDGET_EXCEEDED")
        wait = {"for": "budget", "text": text, "needs": {"tokens": tokens, "cost": cost}}
        call = self.begin("budget", wait)
        raise Suspended({"n": call.n, "name": call.name, "inputs": call.inputs, "wait": wait})


def _prepared(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], Any, bool]:
    """Of a function and its arguments: the inputs as JSON, the type of its value, whether it takes the key of the call."""
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
    return inputs, returns, takes_key


def _outcome(value: Any) -> Outcome[Any] | Fatal:
    return value if isinstance(value, Outcome) else Outcome(value)


def _value(made: Outcome[Any] | Fatal, value: Any, returns: Any) -> Any:
    if isinstance(made, Fatal):
        raise made
    return convert(value, returns)


class BaseContext:
    """The attempt, for sync and async agents."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._calls = Calls(attempt)
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
        raise Suspended({"n": 0, "name": "callback", "wait": {"for": "callback", "text": "an outcome by callback"}})

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
        self._attempt.progress = (min(1.0, max(0.0, float(share))), "" if message is None else plain(message))

    def usage(self, *, cost: float = 0.0, prompt_tokens: int = 0, completion_tokens: int = 0) -> None:
        """Adds what the attempt has used up outside of calls; `Fatal` (`ANSWER_INVALID`) if a number cannot be kept."""
        Outcome(None, cost=cost, prompt_tokens=prompt_tokens, completion_tokens=completion_tokens).used()
        used = self._attempt.used
        used.cost += cost
        used.prompt_tokens += prompt_tokens
        used.completion_tokens += completion_tokens

    def _check(self) -> None:
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
        the key of the call (`plan/step/n`). `Fatal` is recorded too; after any other exception the call is made again.
        """
        self._check()
        inputs, returns, takes_key = _prepared(fn, args, kwargs)
        call = self._calls.begin(name, inputs)
        if call.recorded is not None:
            return convert(self._attempt.replayed(call.recorded), returns)
        try:
            with self._calls.making(call):
                made = _outcome(fn(*args, **kwargs, **({_KEY: self._calls.key(call)} if takes_key else {})))
        except Fatal as error:
            made = error
        except BaseException:
            self._calls.abandon(call)
            raise
        value = self._calls.finish(call, made)
        self._taken(call)
        return _value(made, value, returns)

    def _taken(self, call: Call) -> None:
        while True:
            try:
                return call.taken.result(timeout=0.2)
            except FutureTimeout:
                self._check()

    def approve(self, text: str, *, limit: float | None = None) -> Decision:
        """Asks a person to approve. The attempt ends here, and the next one gets the decision.

        - `limit`: seconds to wait for it; then `Undecided` is raised.
        """
        return typing.cast(Decision, self._calls.wait("approval", text, limit, Undecided))

    def ask(self, text: str, *, schema: Any = None, limit: float | None = None) -> Any:
        """Asks a person; returns the answer, which matches `schema`."""
        return self._calls.wait("answer", text, limit, Undecided, schema=schema).get("answer")

    def submit_plan(self, plan: Any, *, inputs: Any = None, text: str = "", limit: float | None = None) -> PlanOutcome:
        """Runs a plan inside the step; returns how it ended. `PlanFailed` if it did not complete."""
        document = to_json(plan)
        text = text or str(document.get("name") or "a plan of the step")
        return typing.cast(PlanOutcome, self._calls.wait("plan", text, limit, PlanFailed, plan=document, inputs=to_json(inputs)))

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
        """Goes on if the budget has room for the next call, which may use up so much; else waits for room without a worker."""
        self._calls.reserve(tokens, cost)

    def sleep(self, seconds: float) -> None:
        """Waits, and ends at once if the attempt is stopped."""
        if self._attempt.stopped.wait(seconds):
            raise Stopped


class AsyncContext(BaseContext):
    """The attempt of an async action: as `Context`, with methods to await."""

    def __init__(self, attempt: Attempt) -> None:
        super().__init__(attempt)
        self.sync = Context(attempt)
        self.sync._calls = self._calls

    @overload
    async def call(self, name: str, fn: Callable[P, Awaitable[Outcome[T]]], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    @overload
    async def call(self, name: str, fn: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    @overload
    async def call(self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    async def call(self, name: str, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """As `Context.call`; the function may be async. Calls that run at the same time are numbered in the order of starting."""
        self._check()
        inputs, returns, takes_key = _prepared(fn, args, kwargs)
        call = self._calls.begin(name, inputs)
        if call.recorded is not None:
            return convert(await asyncio.to_thread(self._attempt.replayed, call.recorded), returns)
        try:
            with self._calls.making(call):
                value = fn(*args, **kwargs, **({_KEY: self._calls.key(call)} if takes_key else {}))
                made = _outcome(await value if inspect.isawaitable(value) else value)
        except Fatal as error:
            made = error
        except BaseException:
            self._calls.abandon(call)
            raise
        outcome = self._calls.finish(call, made)
        await asyncio.wrap_future(call.taken)
        return _value(made, outcome, returns)

    approve, ask = threaded(Context.approve), threaded(Context.ask)
    submit_plan, wait_event = threaded(Context.submit_plan), threaded(Context.wait_event)

    async def reserve(self, *, tokens: int = 0, cost: float = 0.0) -> None:
        """As `Context.reserve`."""
        self._calls.reserve(tokens, cost)

    async def sleep(self, seconds: float) -> None:
        """Waits."""
        await asyncio.sleep(seconds)
