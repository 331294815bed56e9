"""One attempt: its task, its reports, its payloads. It ends once, by its result or by what stopped it."""
from __future__ import annotations

import asyncio
import json
import secrets
import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import redis

from .context import Budget, Outcome
from .errors import Failure, Fatal, Partial, Retry, Suspended, body_of, plain
from .limits import Limits
from .schema import to_json

if TYPE_CHECKING:
    from .worker import Worker

#: Bytes of the outcome of a call that stands in its report: the task of each further attempt carries it.
OUTCOME_MAX = 16 << 10
FIELD_MIN = 512
BLOB_MS = 7 * 24 * 3600 * 1000
_COPIED = ("plan", "step", "attempt", "token", "agent_type")
_TYPES: dict[str, type] = {"plan": str, "step": str, "token": str, "agent_type": str, "reply": str,
                           "attempt": int, "timeout_ms": int, "lease_ms": int}


def text_of(value: Any) -> str:
    """The JSON of a value; `TypeError` or `ValueError` if it has none that UTF-8 can say."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    text.encode()
    return text


def read_task(text: str) -> dict[str, Any]:
    """The task of an entry; `ValueError` says what is wrong with it."""
    task = json.loads(text)
    if not isinstance(task, dict):
        raise ValueError("the task is no object")
    for name, kind in _TYPES.items():
        if not isinstance(task.get(name), kind) or isinstance(task[name], bool):
            raise ValueError(f"/{name} is missing, or no {kind.__name__}")
    if task["lease_ms"] <= 0 or "}:" not in task["reply"]:
        raise ValueError("/lease_ms or /reply is out of range")
    return task


class Attempt:
    """A task that this worker holds."""

    def __init__(self, worker: Worker, stream: str, entry: str, task: dict[str, Any]) -> None:
        self.worker, self.stream, self.entry, self.task = worker, stream, entry, task
        self.limits: Limits = worker.limits
        self.lock = threading.Lock()
        self.stopped = threading.Event()
        self.ended = self.begun = self.started_sent = False
        self.started = time.time()
        self.begun_at = self.renewed_at = time.monotonic()  # a first lease counts from the arrival of the task
        self.progress: tuple[float, str] | None = None
        self.used: Outcome[None] = Outcome(None)
        self.budget = Budget(task.get("budget"))
        self.future: asyncio.Task[None] | None = None
        shard = task["reply"].rpartition("}:")[0].rpartition("{")[2]
        self.blobs_under = f"{worker.prefix}:blob:{{{shard}}}:{task.get('family') or task['plan']}:"

    @property
    def lease(self) -> float:
        return float(self.task["lease_ms"]) / 1000

    def begin(self) -> bool:
        """Starts the time limit; `False` if the attempt has ended before."""
        with self.lock:
            self.begun = not self.ended
            self.started, self.begun_at = time.time(), time.monotonic()
            return self.begun

    # Reports

    def send(self, what: str, fields: dict[str, Any], blobs: list[tuple[str, str]] | None = None,
             taken: Future[None] | None = None) -> None:
        report = {name: self.task[name] for name in _COPIED}
        report |= {"entry": self.entry, "worker": self.worker.name, "what": what}
        if self.begun:
            report["started_ms"] = int(self.started * 1000)
        self.worker.outbox.push(self.task["reply"], {**report, **fields}, blobs or [], taken)

    def end(self, what: str | None, fields: dict[str, Any] | None = None, blobs: list[tuple[str, str]] | None = None) -> bool:
        """Ends the attempt, once; `what` is `None` if another worker has the task."""
        with self.lock:
            if self.ended:
                return False
            self.ended = True
            if what is not None:
                self._send_end(what, fields or {}, blobs)
        return True

    def _send_end(self, what: str, fields: dict[str, Any], blobs: list[tuple[str, str]] | None) -> None:
        end = {"finished_ms": int(time.time() * 1000)}
        try:
            self.send(what, {**self.used.used(), **fields, **end}, blobs)
        except Exception as error:
            failure = {"class": "permanent", "code": "ANSWER_INVALID", "message": f"the report cannot be sent: {plain(error)}"[:1000]}
            self.send("failed", {"failure": failure, **end})

    def report_progress(self) -> None:
        with self.lock:
            if self.ended or not self.begun:
                return
            if not self.started_sent:
                self.started_sent = True
                self.send("started", {})
            if self.progress is not None:
                (share, message), self.progress = self.progress, None
                self.send("progress", {"progress": share, "message": message[:500]})

    def complete(self, value: Any, what: str = "completed", **fields: Any) -> None:
        try:
            outputs, blobs = self.offload({} if value is None else to_json(value, nesting_max=self.limits.nesting_max))
        except Failure as failure:
            self.fail(failure)
        else:
            self.end(what, {"outputs": outputs, **fields}, blobs)

    def fail(self, error: BaseException) -> None:
        """Ends the attempt with what the agent raised, whatever that is."""
        if isinstance(error, Suspended):
            self.end("suspended", {"suspended": error.call})
            return
        try:
            if isinstance(error, Partial):
                return self.complete(error.outputs, "partial_success", errors=[body_of(e) for e in error.errors[:20]])
        except Exception as other:
            error = other
        self.end("failed", {"failure": body_of(error)})

    def stop(self, what: str | None, fields: dict[str, Any] | None = None) -> None:
        """Ends the attempt from outside: the agent sees it in `ctx.cancelled`, async agents are cancelled."""
        self.end(what, fields)
        self.stopped.set()
        if (future := self.future) is not None:
            future.get_loop().call_soon_threadsafe(future.cancel)

    # Payloads

    def resolve(self, value: Any) -> Any:
        """Replaces references by the JSON that they name, of the plan's own family only."""
        return self._resolve(value, [0])

    def _resolve(self, value: Any, size: list[int]) -> Any:
        if isinstance(value, list):
            return [self._resolve(item, size) for item in value]
        if not isinstance(value, dict):
            return value
        if "$blob" not in value:
            return {name: self._resolve(item, size) for name, item in value.items()}
        key = value["$blob"]
        if not isinstance(key, str) or not key.startswith(self.blobs_under):
            raise Fatal(f"`{str(key)[:200]}` is not the key of a payload of this plan", code="BLOB_INVALID")
        try:
            text = self.worker.redis.get(key)
        except (redis.RedisError, OSError) as error:
            raise Retry(f"a payload cannot be read: {error}", code="BLOB_UNAVAILABLE") from error
        if text is None:
            raise Fatal(f"the payload `{key[:200]}` has expired", code="BLOB_MISSING")
        size[0] += len(str(text))
        if size[0] > (most := self.limits.payload_bytes_max):
            raise Fatal(f"the inputs have more than {most} bytes (`limits.payload_bytes_max`)", code="INPUT_TOO_LARGE")
        try:
            return self._resolve(json.loads(str(text)), size)
        except ValueError as error:
            raise Fatal(f"the payload `{key[:200]}` is not JSON", code="BLOB_INVALID") from error

    def replayed(self, call: dict[str, Any]) -> Any:
        """The outcome of a recorded call."""
        if error := call.get("error"):
            raise Fatal(error.get("message", ""), code=error.get("code", "FAILED"))
        return self.resolve(call.get("outcome"))

    def _store(self, text: str, blobs: list[tuple[str, str]]) -> dict[str, Any]:
        key = self.blobs_under + secrets.token_hex(16)
        blobs.append((key, text))
        return {"$blob": key, "bytes": len(text.encode())}

    def storable_outcome(self, value: Any) -> tuple[Any, list[tuple[str, str]], int]:
        """An outcome as it is recorded, the payloads to store first, and its bytes."""
        text, blobs = text_of(value), list[tuple[str, str]]()
        size = len(text.encode())
        if size > min(OUTCOME_MAX, self.limits.inline_bytes_max) or (isinstance(value, dict) and "$blob" in value):
            value = self._store(text, blobs)
        return value, blobs, size

    def offload(self, outputs: Any) -> tuple[Any, list[tuple[str, str]]]:
        """Stores the largest fields until the rest may stand in the report; other values as a whole."""
        text, blobs = text_of(outputs), list[tuple[str, str]]()
        left, inline, most = len(text.encode()), self.limits.inline_bytes_max, self.limits.payload_bytes_max
        if left > most:
            raise Fatal(f"the outputs have {left} bytes, at most {most} are taken (`limits.payload_bytes_max`)", code="OUTPUT_TOO_LARGE")
        if left > inline and isinstance(outputs, dict):
            texts = {name: text_of(item) for name, item in outputs.items()}
            for name in sorted(texts, key=lambda name: -len(texts[name])):
                size = len(texts[name].encode())
                if left <= inline or size < FIELD_MIN:
                    break
                outputs = {**outputs, name: self._store(texts[name], blobs)}
                left -= size - len(text_of(outputs[name]))
        if left > inline:
            blobs.clear()
            outputs = self._store(text, blobs)
        return outputs, blobs
