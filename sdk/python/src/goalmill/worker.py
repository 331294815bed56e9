"""A worker: reads tasks of its agent types, runs actions, reports.

Threads: `pull` reads tasks; `keep` watches time limits and leases, reports progress; `lease` extends leases; `beat` sends
heartbeats; `listen` hears of cancellations; `send` sends reports. Sync actions run in one thread per slot, async ones in
one event loop. While Redis is away every thread tries again without end; a lease that could not be extended in time stops
its attempt, because another worker may have the task. Any other error of a thread is logged, and the thread goes on; if it
fails again and again, the worker drains and ends with this error.
"""
from __future__ import annotations

import asyncio
import json
import logging
import queue
import signal
import socket
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import redis

from .agent import Action, Agent
from .attempt import Attempt, read_task
from .connection import connect
from .context import AsyncContext, Context
from .errors import Failure, Fatal, Retry, Stopped, plain
from .limits import Limits
from .outbox import Outbox, pause
from .throttle import Throttle

log = logging.getLogger("goalmill")
PROTOCOL = "1"
BLOCK_S = 0.5
PULL_MAX = 500
#: Tasks, and seconds, of a read while an agent has asked to wait.
PACED_PULL_MAX, PACED_BLOCK_S = 4, 0.05
MARGIN_S = 1.0
KEEP_S = 0.05
PROGRESS_S = 0.25
CANCELLED_MS = 25 * 3600 * 1000
FLUSH_S = 5.0
#: Seconds of a drain. With the last reports it must end before the 30 s that Kubernetes gives a pod.
DRAIN_S = 20.0
#: Unexpected errors of a thread, one after the other, that end the worker.
ERRORS_MAX = 10


class Unfit(Exception):
    """The installation speaks another protocol: this worker must not run against it."""


class Worker:
    """Serves agents: `run()` until a signal, or `start()`, `drain()`, `wait()`."""

    def __init__(self, *agents: Agent, slots: int = 8, url: str = "redis://127.0.0.1:6379", prefix: str = "goalmill",
                 drain: float = DRAIN_S, heartbeat: float = 2.0, name: str | None = None) -> None:
        if not agents or slots < 1:
            raise ValueError("a worker needs an agent and a slot")
        self.agents = {agent.agent_type: agent for agent in agents}
        self.throttles = {name: Throttle() for name in self.agents}
        self.slots, self.url, self.prefix, self.drain_s, self.heartbeat_s = slots, url, prefix, drain, heartbeat
        self.name = name or f"py-{socket.gethostname()[:40]}-{uuid.uuid4().hex[:10]}"
        self.drain_key = f"{prefix}:workers:drain:{self.name}"
        self.redis: Any = connect(url)
        self.outbox = Outbox(self)
        self.held: dict[tuple[str, str], Attempt] = {}  # ids of two streams may be the same
        self.change = threading.Condition()  # of `held`
        self.draining, self.forced, self.closed = threading.Event(), threading.Event(), threading.Event()
        self.broken: BaseException | None = None  # why the worker cannot go on
        self.limits = Limits()
        self.busy = 0  # slots in use, by attempts that have ended but still run too
        self.jobs: queue.SimpleQueue[tuple[Attempt, Action]] = queue.SimpleQueue()
        self.runners = 0
        self.loop: asyncio.AbstractEventLoop | None = None
        self.streams: dict[str, str] = {}
        self.turn = 0
        self.meta: tuple[Any, ...] = ()
        self.cancelled: dict[str, float] = {}
        self.cancelled_at, self.cancel_lock = 0.0, threading.Lock()
        self.started_ms = int(time.time() * 1000)
        self.threads: list[threading.Thread] = []

    # Life

    def start(self) -> None:
        """Starts the threads; returns at once, also while Redis is away."""
        if any(action.is_async for agent in self.agents.values() for action in agent.actions.values()):
            self.loop = asyncio.new_event_loop()
            threading.Thread(target=self._run_loop, args=(self.loop,), name="goalmill-loop", daemon=True).start()
        loops: dict[str, Callable[[], None]] = {"beat": self._beat, "pull": self._pull, "lease": self._extend, "keep": self._keep,
                                                "listen": self._listen}
        for name, work in loops.items():
            until = self.draining if name == "pull" else self.closed
            self._spawn(name, lambda work=work, until=until: self._forever(work, until))  # type: ignore[misc]
        self._spawn("send", lambda: self._forever(self.outbox.run, self.closed))

    def _spawn(self, name: str, work: Callable[[], None]) -> None:
        self.threads.append(threading.Thread(target=work, name=f"goalmill-{name}", daemon=True))
        self.threads[-1].start()

    def _forever(self, work: Callable[[], None], until: threading.Event) -> None:
        failures = errors = 0
        while not until.is_set():
            try:
                work()
                failures = errors = 0
            except (redis.RedisError, OSError) as error:
                failures += 1
                log.log(logging.WARNING if failures in (1, 5) else logging.DEBUG, "Redis: %s; trying again", error)
                until.wait(pause(failures))
            except BaseException as error:
                errors += 1
                if not isinstance(error, Unfit):
                    log.error("%s failed", threading.current_thread().name, exc_info=error)
                if isinstance(error, Unfit) or errors > ERRORS_MAX:
                    self.broken = error
                    return self.draining.set()
                until.wait(pause(errors))

    def _run_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        while not self.closed.is_set():
            try:
                loop.run_forever()
            except BaseException as error:  # `sys.exit` in a task of an agent
                log.error("a task left the event loop of the async actions", exc_info=error)

    def drain(self) -> None:
        """Reads no new tasks; the second call releases those that run."""
        (self.forced if self.draining.is_set() else self.draining).set()
        with self.change:
            self.change.notify_all()

    def run(self) -> None:
        """Serves until SIGTERM or SIGINT; in a thread that is not the main one, until `drain`."""
        main = threading.current_thread() is threading.main_thread()
        for number in (signal.SIGTERM, signal.SIGINT) if main else ():
            # A handler only sets events: it may interrupt a thread that holds a lock.
            signal.signal(number, lambda *_: (self.forced if self.draining.is_set() else self.draining).set())
        self.start()
        log.info("worker %s serves %s with %d slots", self.name, ", ".join(self.agents), self.slots)
        self.wait()

    def wait(self) -> None:
        """Waits for a drain, and ends: finishes, releases, sends what is left, removes the heartbeat."""
        while not self.draining.wait(1.0):
            pass
        end = time.monotonic() + self.drain_s
        while any(not attempt.ended for attempt in list(self.held.values())) and not self.forced.is_set() and time.monotonic() < end:
            time.sleep(0.02)
        for attempt in list(self.held.values()):
            attempt.stop("released")
        settle = time.monotonic() + 1.0
        while self.busy and time.monotonic() < settle:  # what was stopped may clean up
            time.sleep(0.01)
        if not self.outbox.wait_empty(FLUSH_S):
            log.warning("some reports could not be sent before the end")
        self.closed.set()
        for thread in self.threads:
            thread.join(1.0)
        try:
            pipe = self.redis.pipeline(transaction=False)
            pipe.zrem(f"{self.prefix}:workers", self.name)
            pipe.hdel(f"{self.prefix}:workers:beats", self.name)
            pipe.delete(self.drain_key)
            pipe.execute()
        except (redis.RedisError, OSError) as error:
            log.warning("the heartbeat could not be removed: %s", error)
        if self.loop is not None:
            self.loop.call_soon_threadsafe(self.loop.stop)
        if self.broken is not None:
            raise self.broken

    # Heartbeats and registration

    def _beat(self) -> None:
        *found, limits = self.redis.hmget(f"{self.prefix}:meta", "instance", "protocol", "streams", "limits")
        meta, self.limits = tuple(found), Limits.read(limits)
        if not self.meta:  # a request to drain a former process of this name
            self.redis.delete(self.drain_key)
        if meta != self.meta:  # also when the installation was started again with an empty Redis
            self._register(*meta)
            self.meta = meta
        busy, draining = len(self.held), self.draining.is_set()
        beat = {"worker": self.name, "agents": list(self.agents), "slots": self.slots, "busy": busy, "draining": draining,
                "version": PROTOCOL, "host": socket.gethostname(), "started_ms": self.started_ms,
                "heartbeat_ms": round(self.heartbeat_s * 1000)}
        seconds, micros = self.redis.time()
        pipe = self.redis.pipeline(transaction=False)
        pipe.hset(f"{self.prefix}:workers:beats", self.name, json.dumps(beat))
        pipe.zadd(f"{self.prefix}:workers", {self.name: seconds * 1000 + micros // 1000})
        pipe.exists(self.drain_key)
        if pipe.execute()[-1] and not draining:
            log.info("worker %s was asked to drain", self.name)
            self.draining.set()  # not `drain`, which releases all if a signal came meanwhile
        end = time.monotonic() + self.heartbeat_s
        while time.monotonic() < end and not self.closed.wait(0.1) and self.draining.is_set() == draining:
            pass

    def _register(self, _: str | None, protocol: str | None, patterns: str | None) -> None:
        if protocol is None or patterns is None:
            raise redis.RedisError(f"`{self.prefix}:meta` is missing: start a scheduler")
        if protocol != PROTOCOL or len(patterns.split()) != 1:
            raise Unfit(f"the installation has protocol {protocol} and streams {patterns!r}: use another version of this package")
        for name, agent in self.agents.items():
            card, known = agent.card(), self.redis.hget(f"{self.prefix}:agents", name)
            # A bare name never replaces a card.
            if known is None or (len(card) > 1 and json.loads(known) != card):
                self.redis.hset(f"{self.prefix}:agents", name, json.dumps(card))
                self.redis.publish(f"{self.prefix}:agents:changed", name)
            self.redis.sadd(f"{self.prefix}:queues", name)
        streams = {patterns.replace("<agent_type>", name): name for name in self.agents}
        self._open(streams)
        self.streams = streams

    def _open(self, streams: dict[str, str]) -> None:
        for stream in streams:
            try:
                self.redis.xgroup_create(stream, "workers", id="0", mkstream=True)
            except redis.ResponseError as error:
                if "BUSYGROUP" not in str(error):
                    raise

    # Tasks

    def _pull(self) -> None:
        if not self.streams:
            self.draining.wait(0.02)
            return
        with self.change:
            free = self.slots - self.busy
            if free <= 0 or self.outbox.is_full():
                self.change.wait(0.1)
                return
        paced = any(throttle.is_on() for throttle in self.throttles.values())
        # COUNT is for each stream: with fewer slots than streams, they take turns.
        streams = list(self.streams)[self.turn:] + list(self.streams)[:self.turn]
        chosen = [stream for stream in streams if self.throttles[self.streams[stream]].has_room()][:free]
        if not chosen:
            self.draining.wait(PACED_BLOCK_S)
            return
        self.turn = (self.turn + len(chosen)) % len(streams)
        block = PACED_BLOCK_S if paced or len(chosen) < len(streams) else BLOCK_S
        count = min(free // len(chosen), PACED_PULL_MAX if paced else PULL_MAX)
        asked = time.monotonic()
        try:
            found = self.redis.xreadgroup("workers", self.name, {stream: ">" for stream in chosen}, count=count, block=round(block * 1000))
        except redis.ResponseError as error:
            if "NOGROUP" not in str(error):
                raise
            self._open(self.streams)
            return
        taken = [attempt for stream, entries in found or [] for entry, fields in entries
                 if (attempt := self._read(stream, entry, fields))]
        if not taken:
            return
        with self.change:
            self.held |= {(attempt.stream, attempt.entry): attempt for attempt in taken}
            self.busy += len(taken)
        try:
            if time.monotonic() - asked > BLOCK_S + MARGIN_S:  # a suspended process: the leases may have run out
                self._extend_now(taken)
            self._hear()
        except BaseException:
            for attempt in taken:  # whether it is cancelled is not known
                attempt.stop("released")
            raise
        finally:
            for attempt in taken:
                self._begin(attempt)

    def _read(self, stream: str, entry: str, fields: dict[str, str] | None) -> Attempt | None:
        if not fields or fields.get("v") != PROTOCOL:
            return None
        try:
            return Attempt(self, stream, entry, read_task(fields.get("data", "")))
        except Exception as error:
            log.warning("entry %s of %s is no task: %s", entry, stream, plain(error))
            return None

    def _begin(self, attempt: Attempt) -> None:
        """Gives a task to a slot. What cannot begin has ended, and its slot is free again."""
        try:
            if self.draining.is_set():
                attempt.stop("released")
            if not attempt.ended:
                return self._start(attempt, self.agents[self.streams[attempt.stream]].choose(attempt.task.get("action")))
        except Exception as error:
            attempt.fail(error)
        self._free(attempt)

    def _start(self, attempt: Attempt, action: Action) -> None:
        if action.is_async and self.loop is not None:
            asyncio.run_coroutine_threadsafe(self._run_async(attempt, action), self.loop)
            return
        if self.runners < self.slots:
            threading.Thread(target=self._run_jobs, name=f"goalmill-slot-{self.runners + 1}", daemon=True).start()
            self.runners += 1
        self.jobs.put((attempt, action))

    def _free(self, attempt: Attempt) -> None:
        with self.change:
            self.held.pop((attempt.stream, attempt.entry), None)
            self.busy -= 1
            self.change.notify_all()

    def _run_jobs(self) -> None:
        while True:
            attempt, action = self.jobs.get()
            throttle = self._throttle(attempt)
            try:
                for seconds in throttle.turns():
                    if attempt.stopped.wait(seconds):
                        break
                if attempt.begin():
                    arguments = action.arguments(attempt.resolve(attempt.task.get("inputs")), Context(attempt))
                    attempt.complete(action.fn(**arguments))
                    throttle.record(attempt.begun_at)
            except Stopped:
                pass  # it has ended already
            except BaseException as error:
                self._fail(attempt, error)
            finally:
                self._free(attempt)

    async def _run_async(self, attempt: Attempt, action: Action) -> None:
        async def work() -> None:
            throttle = self._throttle(attempt)
            for seconds in throttle.turns():
                await asyncio.sleep(seconds)
            if not attempt.begin():
                return
            inputs = attempt.task.get("inputs")
            if "$blob" in json.dumps(inputs):
                inputs = await asyncio.to_thread(attempt.resolve, inputs)
            try:
                attempt.complete(await action.fn(**action.arguments(inputs, AsyncContext(attempt))))
            except (SystemExit, KeyboardInterrupt) as error:  # would leave the event loop
                raise Retry(f"{type(error).__name__}: {plain(error)}", code="AGENT_EXCEPTION",
                            effect="unknown") from error
            throttle.record(attempt.begun_at)
        try:
            attempt.future = asyncio.ensure_future(work())
            if attempt.stopped.is_set():
                attempt.future.cancel()
            await attempt.future
        except (asyncio.CancelledError, Stopped) as error:
            if not attempt.stopped.is_set():
                self._fail(attempt, error)
        except BaseException as error:
            self._fail(attempt, error)
        finally:
            self._free(attempt)

    def _fail(self, attempt: Attempt, error: BaseException) -> None:
        """Reports a failure, whatever was raised: no slot ends by it."""
        try:
            if isinstance(error, Exception) and not isinstance(error, Failure):
                log.warning("attempt %s of step %s failed", attempt.task["attempt"], attempt.task["step"], exc_info=error)
            if attempt.begun and isinstance(error, Retry) and error.after is not None:
                self._throttle(attempt).record(attempt.begun_at, error)
        except Exception as other:
            log.error("a failure of step %s cannot be noted", attempt.task["step"], exc_info=other)
        attempt.fail(error)

    def _throttle(self, attempt: Attempt) -> Throttle:
        return self.throttles[self.streams[attempt.stream]]

    # Time limits, leases, cancellations

    def _keep(self) -> None:
        self.closed.wait(KEEP_S)
        now = time.monotonic()
        for attempt in list(self.held.values()):
            if attempt.ended:
                continue
            if attempt.renewed_at + attempt.lease - min(MARGIN_S, attempt.lease / 2) < now:
                log.warning("the lease of step %s could not be extended: its attempt is stopped", attempt.task["step"])
                attempt.stop(None)
            elif attempt.begun and now - attempt.begun_at > attempt.task["timeout_ms"] / 1000:
                message = f"the attempt took longer than its limit of {attempt.task['timeout_ms']} ms"
                failure = {"class": "timeout", "code": "STEP_TIMEOUT", "message": message}
                attempt.stop("failed", {"failure": failure})
            elif attempt.begun and now - attempt.begun_at > PROGRESS_S:
                attempt.report_progress()

    def _extend(self) -> None:
        self.closed.wait(KEEP_S)
        now = time.monotonic()
        due = [a for a in list(self.held.values()) if not a.ended and now - a.renewed_at >= a.lease / 3]
        if due:
            self._extend_now(due)

    def _extend_now(self, attempts: list[Attempt]) -> None:
        by_stream: dict[str, list[Attempt]] = {}
        for attempt in attempts:
            by_stream.setdefault(attempt.stream, []).append(attempt)
        arguments: list[Any] = [self.name]
        for same in by_stream.values():
            arguments += [len(same), *(attempt.entry for attempt in same)]
        sent = time.monotonic()  # Redis counts from a later moment
        answers = self.redis.fcall("goalmill_extend", len(by_stream), *by_stream, *arguments)
        for attempt, is_ours in zip((a for same in by_stream.values() for a in same), answers):
            if is_ours:
                attempt.renewed_at = sent
            elif not attempt.ended:
                log.warning("another worker has step %s: its attempt is stopped", attempt.task["step"])
                attempt.stop(None)

    def _listen(self) -> None:
        subscription = self.redis.pubsub(ignore_subscribe_messages=False)
        try:
            subscription.subscribe(f"{self.prefix}:cancel")
            while not self.closed.is_set():
                # The first message confirms the subscription: nothing is missed between it and the reading.
                if subscription.get_message(timeout=0.5):
                    self._hear()
        finally:
            subscription.close()

    def _hear(self) -> None:
        """Reads new cancellations, and stops what they name."""
        with self.cancel_lock:
            if not self.cancelled_at:
                seconds, micros = self.redis.time()
                self.cancelled_at = seconds * 1000 + micros // 1000 - CANCELLED_MS
            found = self.redis.zrangebyscore(f"{self.prefix}:cancelled", self.cancelled_at, "+inf", withscores=True)
            for token, score in found:
                self.cancelled.pop(token, None)
                self.cancelled[token] = score
                self.cancelled_at = max(self.cancelled_at, score)
            while self.cancelled and next(iter(self.cancelled.values())) < self.cancelled_at - CANCELLED_MS:
                del self.cancelled[next(iter(self.cancelled))]
        for attempt in list(self.held.values()):
            if attempt.task["token"] in self.cancelled and not attempt.ended:
                attempt.stop("released")


__all__ = ["Worker", "Unfit"]
