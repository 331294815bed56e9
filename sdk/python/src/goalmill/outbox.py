"""Sends reports in order and in batches: while one batch is under way, the next one collects. Retries without end."""
from __future__ import annotations

import logging
import random
import threading
from collections import deque
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from .attempt import BLOB_MS, text_of

if TYPE_CHECKING:
    from .worker import Worker

#: Stream, report, payloads to store first, who waits until Redis has it.
Item = tuple[str, str, list[tuple[str, str]], "Future[None] | None"]
log = logging.getLogger("goalmill")
ENTRY_REPORTS_MAX = 500
ENTRY_BYTES_MAX = 1 << 20
UNSENT_MAX = 10_000


def pause(failures: int) -> float:
    """Seconds before the next try: half to all of a time that doubles from 50 ms to 2 s."""
    return min(2.0, 0.05 * 2.0 ** min(failures, 10)) * random.uniform(0.5, 1.0)


class Outbox:
    """Reports that Redis does not have yet."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.items: deque[Item] = deque()
        self.change = threading.Condition()
        self.sending = 0

    def push(self, stream: str, report: dict[str, Any], blobs: list[tuple[str, str]], taken: Future[None] | None) -> None:
        with self.change:
            self.items.append((stream, text_of(report), blobs, taken))
            self.change.notify_all()

    def is_full(self) -> bool:
        return len(self.items) + self.sending > UNSENT_MAX

    def wait_empty(self, seconds: float) -> bool:
        with self.change:
            return self.change.wait_for(lambda: not self.items and not self.sending, seconds)

    def run(self) -> None:
        """Sends until the worker is closed."""
        while True:
            with self.change:
                while not self.items:
                    if self.worker.closed.is_set():
                        return
                    self.change.wait(0.5)
                batch: list[Item] = []
                size = 0
                while self.items and len(batch) < ENTRY_REPORTS_MAX and (not batch or size + len(self.items[0][1]) < ENTRY_BYTES_MAX):
                    batch.append(self.items.popleft())
                    size += len(batch[-1][1])
                self.sending = len(batch)
            if not self._send_until_taken(batch):
                return
            for _, _, _, taken in batch:
                if taken is not None and taken.set_running_or_notify_cancel():
                    taken.set_result(None)
            with self.change:
                self.sending = 0
                self.change.notify_all()

    def _send_until_taken(self, batch: list[Item]) -> bool:
        streams: dict[str, list[str]] = {}
        for stream, text, _, _ in batch:
            streams.setdefault(stream, []).append(text)
        blobs = [blob for item in batch for blob in item[2]]
        failures = 0
        while True:
            try:
                self._send(streams, blobs)
                return True
            except Exception as error:
                failures += 1
                log.warning("%d reports wait for Redis: %s", len(batch), error)
                if self.worker.closed.wait(pause(failures)):
                    return False

    def _send(self, streams: dict[str, list[str]], blobs: list[tuple[str, str]]) -> None:
        pipe = self.worker.redis.pipeline(transaction=False)
        for key, text in blobs:
            pipe.set(key, text, px=BLOB_MS)
        for stream, texts in streams.items():
            data = texts[0] if len(texts) == 1 else f"[{','.join(texts)}]"
            # Works while memory is short, when a plain XADD is refused.
            pipe.fcall("goalmill_send", 1, stream, "v", "1", "data", data)
        pipe.execute()
