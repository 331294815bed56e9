"""Methods to await, made of methods that block."""
from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


async def in_thread(method: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """The value of a function that blocks. It has a thread of its own: any number of them may wait, and none holds the end of
    the program or of its event loop."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[T] = loop.create_future()
    here = contextvars.copy_context()

    def end(value: Any, error: BaseException | None) -> None:
        if ended.cancelled():
            return
        if error is None:
            ended.set_result(value)
        else:
            ended.set_exception(error)

    def run() -> None:
        value, raised = None, None
        try:
            value = here.run(method, *args, **kwargs)
        except BaseException as error:
            raised = error
        with contextlib.suppress(RuntimeError):  # the event loop has ended before
            loop.call_soon_threadsafe(end, value, raised)
    threading.Thread(target=run, name="goalmill-await", daemon=True).start()
    return await ended


def threaded(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """The same method of `self.sync`, in a thread of its own."""
    @functools.wraps(method)
    async def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await in_thread(method, self.sync, *args, **kwargs)
    return call
