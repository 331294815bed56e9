"""A worker: the child process `goalmill worker --bridge`, which has leases, reports and records, and the agents of this process.

Frames are JSON objects, one a line, over the standard streams of the child (docs/protocol.md). A thread reads them. Sync actions
run in a thread per slot, async ones in one event loop. If the child ends, all attempts are stopped and `wait` raises.
"""
from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import queue
import signal
import socket
import subprocess
import threading
import time
import uuid
from collections.abc import Sequence
from typing import IO, Any, cast

from .agent import Action, Agent
from .attempt import Attempt, suspended_in, text_of
from .context import AsyncContext, Context
from .errors import Stopped, plain
from .program import find_program

log = logging.getLogger("goalmill")
VERSION = 1
#: Seconds of a drain. With the last reports it must end before the 30 s that Kubernetes gives a pod.
DRAIN_S = 20.0
#: Seconds that stopped attempts have to end after the child.
SETTLE_S = 1.0


class WorkerEnded(Exception):
    """The child process has ended by itself; its log says why."""


class Bridge:
    """The agents of this process, and the program `goalmill` that has their tasks: a child process, or the worker of `dev`."""

    #: The words of the command.
    command = ("worker", "--bridge")

    def __init__(self, agents: Sequence[Agent], hello: dict[str, Any], program: str | None, place: str | None = None) -> None:
        self.agents = {agent.agent_type: agent for agent in agents}
        cards = [agent.card() for agent in agents]
        self.hello = {"version": VERSION, "package": "the Python package 0.1.0", "agents": cards, **hello}
        self.slots: int = hello["slots"]
        self.environment: dict[str, str] = {}
        self.place = place
        self.program = "" if place else find_program(program)
        self.child: subprocess.Popen[bytes] | None = None
        self.input: IO[bytes] | None = None
        self.output: IO[bytes] | None = None
        self.frame_max = 1 << 20
        self.lock = threading.Lock()
        self.held: dict[int, Attempt] = {}
        #: Attempts of sync actions; `None` ends a slot.
        self.jobs: queue.SimpleQueue[tuple[Attempt, Action] | None] = queue.SimpleQueue()
        self.runners = 0
        self.loop: asyncio.AbstractEventLoop | None = None
        self.closed = threading.Event()

    # Life

    def start(self) -> None:
        """Connects to the program, or starts it; returns also while Redis is away."""
        if any(action.is_async for agent in self.agents.values() for action in agent.actions.values()):
            self.loop = asyncio.new_event_loop()
            threading.Thread(target=self._run_loop, args=(self.loop,), name="goalmill-loop", daemon=True).start()
        self.input, self.output = self._connect(self.place) if self.place else self._spawn()
        self.send({"hello": self.hello})
        threading.Thread(target=self._read, name="goalmill-read", daemon=True).start()

    def _connect(self, place: str) -> tuple[IO[bytes], IO[bytes]]:
        bridge = socket.socket(socket.AF_UNIX)
        bridge.connect(place)
        return bridge.makefile("rb"), bridge.makefile("wb")

    def _spawn(self) -> tuple[IO[bytes], IO[bytes]]:
        # A session of its own: Ctrl-C in a terminal reaches this process, which asks for a drain.
        self.child = subprocess.Popen([self.program, *self.command], env={**os.environ, **self.environment}, stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, start_new_session=True)
        return cast("IO[bytes]", self.child.stdout), cast("IO[bytes]", self.child.stdin)

    def _run_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        while not self.closed.is_set():
            try:
                loop.run_forever()
            except BaseException as error:  # `sys.exit` in a task of an agent
                log.error("a task left the event loop of the async actions", exc_info=error)
        if left := asyncio.all_tasks(loop):
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.wait(left, timeout=SETTLE_S))
        loop.close()

    def settle(self) -> int:
        """Waits for the end of the program, whose code it returns, and a moment for that of stopped attempts."""
        code = self.child.wait() if self.child else 0
        end = time.monotonic() + SETTLE_S
        while self.held and time.monotonic() < end:  # what was stopped may clean up
            time.sleep(0.01)
        if self.loop is not None:
            self.loop.call_soon_threadsafe(self.loop.stop)
        return code

    # Frames

    def send(self, frame: dict[str, Any]) -> None:
        """Sends a frame; `ValueError` or `TypeError` if it has no JSON. Nothing is sent to a child that has ended."""
        line = (text_of(frame) + "\n").encode()
        try:
            with self.lock:
                if self.output is not None:
                    self.output.write(line)
                    self.output.flush()
        except (OSError, ValueError):
            log.debug("the worker process has ended")

    def _read(self) -> None:
        try:
            for line in self.input or ():
                kind, body = next(iter(json.loads(line).items()))
                self._handle(kind, body)
        except BaseException as error:
            log.error("a frame of the worker process cannot be handled", exc_info=error)
        finally:
            self.close()

    def close(self) -> None:
        """Ends the program, whose tasks are lost, and stops all attempts."""
        with self.lock:
            for stream in (self.output, self.input):
                if stream is not None:
                    with contextlib.suppress(OSError):
                        stream.close()
        for attempt in list(self.held.values()):
            attempt.stop()
        for _ in range(self.runners):
            self.jobs.put(None)
        self.closed.set()

    def _handle(self, kind: str, body: dict[str, Any]) -> None:
        if kind == "task":
            attempt = Attempt(self, body)
            self.held[attempt.number] = attempt
            self._begin(attempt)
        elif kind == "ready":
            self.frame_max = body["frame_bytes_max"]
        elif (held := self.held.get(body.get("task", 0))) is not None:
            if kind == "stop":
                held.stop()
            elif "call" in body:
                held.answer(kind, body)

    # Tasks

    def _begin(self, attempt: Attempt) -> None:
        """Gives a task to a slot."""
        try:
            action = self.agents[attempt.task["agent_type"]].choose(attempt.task.get("action"))
        except Exception as error:
            return attempt.fail(error)
        if action.is_async and self.loop is not None:
            asyncio.run_coroutine_threadsafe(self._run_async(attempt, action), self.loop)
            return
        if self.runners < self.slots:
            threading.Thread(target=self._run_jobs, name=f"goalmill-slot-{self.runners + 1}", daemon=True).start()
            self.runners += 1
        self.jobs.put((attempt, action))

    def _run_jobs(self) -> None:
        while (job := self.jobs.get()) is not None:
            attempt, action = job
            try:
                if not attempt.stopped.is_set():
                    arguments = action.arguments(attempt.task.get("inputs"), Context(attempt))
                    attempt.complete(action.fn(**arguments))
            except BaseException as error:
                self._fail(attempt, error)
            finally:
                attempt.end(None)

    async def _run_async(self, attempt: Attempt, action: Action) -> None:
        async def work() -> Any:
            try:
                return await action.fn(**action.arguments(attempt.task.get("inputs"), AsyncContext(attempt)))
            except (SystemExit, KeyboardInterrupt) as error:  # would leave the event loop
                raise RuntimeError(f"{type(error).__name__}: {plain(error)}") from error
        try:
            attempt.future = asyncio.ensure_future(work())
            if attempt.stopped.is_set():
                attempt.future.cancel()
            value = await attempt.future
            if attempt.open_calls:
                await asyncio.sleep(0)  # calls that were just cancelled end
            attempt.complete(value)
        except BaseException as error:
            if suspended_in(error):
                await attempt.calls_made()
            self._fail(attempt, error)
        finally:
            attempt.end(None)

    def _fail(self, attempt: Attempt, error: BaseException) -> None:
        """Reports a failure, whatever was raised: no slot ends by it."""
        if attempt.stopped.is_set() and isinstance(error, (asyncio.CancelledError, Stopped)):
            return
        attempt.fail(error)


class Worker(Bridge):
    """Serves agents: `run()` until a signal, or `start()`, `drain()`, `wait()`."""

    def __init__(self, *agents: Agent, slots: int = 8, url: str = "redis://127.0.0.1:6379", prefix: str = "goalmill",
                 drain: float = DRAIN_S, name: str | None = None, program: str | None = None) -> None:
        if not agents or slots < 1:
            raise ValueError("a worker needs an agent and a slot")
        self.name = name or f"py-{socket.gethostname()[:40]}-{uuid.uuid4().hex[:10]}"
        hello = {"slots": slots, "name": self.name, "drain_ms": round(drain * 1000)}
        super().__init__(agents, hello, program, os.environ.get("GOALMILL_BRIDGE"))
        self.environment = {"GOALMILL_REDIS_URL": url, "GOALMILL__REDIS__PREFIX": prefix}
        self.drains = self.drains_sent = 0

    def drain(self) -> None:
        """Takes no new tasks; the second call hands those back that run."""
        self.drains += 1
        self._send_drains()

    def _send_drains(self) -> None:
        while self.drains_sent < self.drains:
            self.drains_sent += 1
            self.send({"drain": {}})

    def run(self) -> None:
        """Serves until SIGTERM or SIGINT; in a thread that is not the main one, until `drain`."""
        before = {}

        def asked(*_: Any) -> None:
            self.drains += 1  # a handler may interrupt a thread that holds the lock: `wait` sends it
        if threading.current_thread() is threading.main_thread():
            before = {number: signal.signal(number, asked) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            self.start()
            log.info("worker %s serves %s with %d slots", self.name, ", ".join(self.agents), self.slots)
            self.wait()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def wait(self) -> None:
        """Waits for the end of the child; raises `WorkerEnded` unless it was a drain."""
        while not self.closed.wait(0.05):
            self._send_drains()
        code = self.settle()
        if code != 0:
            raise WorkerEnded(f"`{self.program} worker --bridge` has ended with code {code}: see its log above")


__all__ = ["Bridge", "Worker", "WorkerEnded"]
