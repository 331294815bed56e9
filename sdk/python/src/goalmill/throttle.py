"""Holds the attempts of an agent type whose agent asked to wait: `Retry(after=…)`."""
from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Iterator

from .errors import Retry

#: Seconds: how far before a refusal successes count; the longest time between two starts; until the pace is forgotten; how
#: long a task waits in the worker at most; how long before a start the next task is pulled; the longest wait.
WINDOW_S, INTERVAL_MAX_S, FORGET_S, HOLD_MAX_S, PULL_AHEAD_S, AFTER_MAX_S = 2.0, 1.0, 30.0, 10.0, 0.1, 3600.0


class Throttle:
    """One refusal holds all: nothing starts before the time that it names.

    Then the attempts start one after the other, at the pace that the agent has kept: its successes, divided by the time
    from the first of them to the end of the wait. Half a minute without a refusal ends that.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.successes: deque[float] = deque(maxlen=1000)
        self.refusal = Retry()
        self.refused_at = self.until = self.next = float("-inf")
        self.span, self.counted = 0.0, 0

    def is_on(self) -> bool:
        """Whether the agent asked to wait a short time ago."""
        return time.monotonic() < self.until + FORGET_S

    def has_room(self) -> bool:
        """Whether a task that is pulled now could start soon."""
        return not self.is_on() or max(self.next, self.until) <= time.monotonic() + PULL_AHEAD_S

    def record(self, begun_at: float, refusal: Retry | None = None) -> None:
        """Notes a success, or that the agent asked to wait."""
        now = time.monotonic()
        with self.lock:
            is_older = begun_at < self.refused_at  # it began together with what was refused
            if refusal is None:
                self.successes.append(now)
                self.counted += is_older
                return
            self.until = max(self.until, now + min(refusal.after or 0.0, AFTER_MAX_S))
            if not is_older:
                recent = [ended for ended in self.successes if ended > now - WINDOW_S]
                self.refusal, self.refused_at, self.next = refusal, now, float("-inf")
                self.span, self.counted = self.until - min(recent, default=now), len(recent)

    def turns(self) -> Iterator[float]:
        """Seconds to wait before an attempt may start: several times, if the agent asks again meanwhile."""
        while self.is_on():
            now = time.monotonic()
            with self.lock:
                interval = min(INTERVAL_MAX_S, self.span / max(1, self.counted))
                if self.next <= self.until:
                    self.next = self.until + random.uniform(0, interval)  # other workers wait for the same time
                start = max(now, self.next)
                if start > now + HOLD_MAX_S:
                    raise Retry(f"not asked: {self.refusal}", code=self.refusal.code, after=start - now)
                self.next = start + interval
            yield start - now
            if time.monotonic() >= self.until:
                return
