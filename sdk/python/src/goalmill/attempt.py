"""One attempt: its task, its calls, its end. It ends once, by its result or by what stopped it."""
from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import threading
import time
from collections import deque
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from .errors import Failure, Fatal, Partial, Retry, Suspended, body_of, plain
from .outcome import Budget, Outcome
from .schema import to_json

T = TypeVar("T")
log = logging.getLogger("goalmill")
#: The kind of a frame about a call, and its content.
Answer = tuple[str, dict[str, Any]]


class Link(Protocol):
    """Where the frames of attempts go."""

    frame_max: int
    held: dict[int, Attempt]

    def send(self, frame: dict[str, Any]) -> None: ...


def text_of(value: Any) -> str:
    """The JSON of a value; `TypeError` or `ValueError` if it has none that UTF-8 can say."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    text.encode()
    return text


class Attempt:
    """A task that runs here."""

    def __init__(self, link: Link, task: dict[str, Any]) -> None:
        self.link, self.task = link, task
        self.number: int = task["task"]
        self.lock = threading.Lock()
        self.stopped = threading.Event()
        self.ended = False
        self.started = time.time()
        self.used: Outcome[None] = Outcome(None)
        self.budget = Budget(task.get("budget"))
        self.future: asyncio.Future[Any] | None = None
        self.numbers = itertools.count(1)
        #: Numbers of calls that the budget has room for, and that have not begun.
        self.reserved: deque[int] = deque()
        self.asked: dict[int, Future[Answer]] = {}
        #: Names of calls that the action must await before it ends.
        self.open_calls: dict[object, str] = {}
        #: Calls that the action awaits.
        self.awaited = 0

    # Calls

    def ask(self, kind: str, **fields: Any) -> tuple[int, Future[Answer]]:
        """Sends a frame about a new call. Returns the number of the call, and the frame that answers."""
        number = self.reserved.popleft() if kind == "call" and self.reserved else next(self.numbers)
        return number, self.ask_again(number, kind, **fields)

    def ask_again(self, call: int, kind: str, **fields: Any) -> Future[Answer]:
        """Sends a frame about a call that has a number."""
        answer: Future[Answer] = Future()
        with self.lock:
            self.asked[call] = answer
        self.tell(kind, call=call, **fields)
        if self.stopped.is_set():
            self._release()
        return answer

    def tell(self, kind: str, **fields: Any) -> None:
        """Sends a frame without an answer."""
        self.link.send({kind: {"task": self.number, **fields}})

    def answer(self, kind: str, body: dict[str, Any]) -> None:
        """A frame about a call has come."""
        with self.lock:
            asked = self.asked.pop(body["call"], None)
        if asked is not None and asked.set_running_or_notify_cancel():
            asked.set_result((kind, body))

    def _release(self) -> None:
        """Ends all calls that wait for an answer."""
        self.stopped.set()
        for call in list(self.asked):
            self.answer("stop", {"call": call})

    @contextlib.contextmanager
    def open_call(self, name: str) -> Iterator[None]:
        """Holds a call open: the action must not end meanwhile."""
        call = object()
        self.open_calls[call] = name
        try:
            yield
        finally:
            del self.open_calls[call]

    def track(self, name: str, work: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        """The same work, as a call that is open from now on."""
        call = object()
        self.open_calls[call] = name

        async def finish() -> T:
            self.awaited += 1
            try:
                return await work
            finally:
                self.awaited -= 1
                del self.open_calls[call]
        return finish()

    async def calls_made(self) -> None:
        """Waits for calls that run beside the one that waits: they would be made again."""
        while self.awaited and not self.stopped.is_set():
            await asyncio.sleep(0.01)

    # End

    def end(self, answer: dict[str, Any] | None) -> None:
        """Ends the attempt, once. `None` if it was stopped."""
        with self.lock:
            if self.ended:
                return
            self.ended = True
        self.link.held.pop(self.number, None)
        frame = {"ended": {"task": self.number, **({} if answer is None else {"answer": answer})}}
        try:
            if len(text_of(frame).encode()) > self.link.frame_max:
                raise Fatal(f"the answer has more than {self.link.frame_max} bytes", code="OUTPUT_TOO_LARGE", effect="unknown")
            self.link.send(frame)
        except Exception as error:
            failure = error if isinstance(error, Failure) else Fatal(f"the answer cannot be sent: {plain(error)}"[:1000], code="ANSWER_INVALID")
            self.tell("ended", answer={"error": body_of(failure)})
        self._release()

    def complete(self, value: Any, **fields: Any) -> None:
        """Ends the attempt with the value of the action."""
        if self.open_calls:
            name = next(iter(self.open_calls.values()))
            return self.fail(Fatal(f"the action ended before its call `{name}`: await every call", code="CALL_INVALID", effect="unknown"))
        try:
            answer = {"outputs": {} if value is None else to_json(value), **fields, **self.used.used()}
        except Failure as failure:
            return self.fail(failure)
        self.end(answer)

    def fail(self, error: BaseException) -> None:
        """Ends the attempt with what the agent raised, whatever that is."""
        if (suspended := suspended_in(error)) is not None:
            if suspended.is_accepted:
                return self.complete({"accepted": True})
            error = Retry("the attempt waits", code="SUSPENDED")  # not reported: the attempt has what it used up
        try:
            if isinstance(error, Partial):
                return self.complete(error.outputs, partial=True, errors=[body_of(e) for e in error.errors[:20]])
        except Exception as other:
            error = other
        if isinstance(error, Exception) and not isinstance(error, Failure):
            log.warning("attempt %s of step %s failed", self.task["attempt"], self.task["step"], exc_info=error)
        try:
            used = self.used.used()
        except Failure:
            used = {}
        self.end({"error": body_of(error), **used})

    def stop(self) -> None:
        """Stops the attempt: the agent sees it in `ctx.cancelled`, async agents are cancelled."""
        self._release()
        if (future := self.future) is not None:
            future.get_loop().call_soon_threadsafe(future.cancel)


def suspended_in(error: BaseException) -> Suspended | None:
    """The wait that ended an attempt, also in a group of errors of tasks that ran at the same time."""
    if isinstance(error, Suspended):
        return error
    inner: tuple[BaseException, ...] = getattr(error, "exceptions", ())
    return next((found for one in inner if (found := suspended_in(one)) is not None), None)
