"""The client of the HTTP API: submit goals and plans, follow them, steer them."""
from __future__ import annotations

import functools
import json
import os
import random
import time
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from .errors import ApiError, RunFailed
from .plan import Plan, as_document
from .schema import to_json
from .threaded import in_thread, threaded

RETRY_S = 30.0
#: A stream of events is silent for 15 s at most.
SILENT_S = 25.0
#: Answers after which the same request may succeed.
_AWAY = {502, 503, 504}
#: The data of an event whose sender gives none; `None` is JSON `null`.
_NO_DATA: Mapping[str, Any] = {}
FINAL = {"completed", "partial", "failed", "cancelled", "rejected"}


@dataclass(frozen=True)
class Event:
    """One event of the log of a plan. `time` is RFC 3339."""

    seq: int
    type: str
    time: str
    step: str | None
    attempt: int | None
    data: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.seq} {self.type}" + (f" {self.step}" if self.step else "")


class Goalmill:
    """A server, by default `GOALMILL_SERVER`, else `http://127.0.0.1:8080`. Safe for threads.

    - `token`: a bearer token, by default `GOALMILL_TOKEN`. `namespace`: by default `GOALMILL_NAMESPACE`.
    - `verify`: a file of authorities for TLS, by default `GOALMILL_CA_FILE`, else those of the machine.
    """

    def __init__(self, url: str | None = None, *, token: str | None = None, namespace: str | None = None,
                 verify: str | None = None, timeout: float = 60.0) -> None:
        url = url or os.environ.get("GOALMILL_SERVER") or "http://127.0.0.1:8080"
        token, namespace = token or os.environ.get("GOALMILL_TOKEN"), namespace or os.environ.get("GOALMILL_NAMESPACE")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        headers |= {"Goalmill-Namespace": namespace} if namespace else {}
        import ssl
        ca_file = verify or os.environ.get("GOALMILL_CA_FILE")
        context: Any = ssl.create_default_context(cafile=ca_file) if ca_file else True
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
        self._connect = functools.partial(httpx.Client, base_url=url if "://" in url else f"http://{url}", headers=headers, verify=context,
                                          limits=limits, timeout=httpx.Timeout(timeout, connect=5.0))
        self._http = os.getpid(), self._connect()

    @property
    def http(self) -> httpx.Client:
        """The connections of this process. Those from before a fork have the answers of two processes."""
        process, http = self._http
        if process != os.getpid():
            http = self._connect()
            self._http = os.getpid(), http
        return http

    def __enter__(self) -> Goalmill:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def request(self, method: str, path: str, body: Any = None, *, key: str | None = None, params: Any = None) -> dict[str, Any]:
        """Sends a request; reads, and requests with a key, are repeated for 30 s while no scheduler is ready."""
        headers = {"Idempotency-Key": key} if key else {}
        end, wait = time.monotonic() + RETRY_S, 0.1
        while True:
            asked = 0.0
            try:
                answer = self.http.request(method, path, json=body, headers=headers, params=params)
                if answer.is_success:
                    found: dict[str, Any] = answer.json() if answer.content else {}
                    return found
                error: Exception = _refused(answer)
                away = answer.status_code in _AWAY
                after = answer.headers.get("Retry-After", "")
                asked = float(after) if away and after.isdigit() else 0.0
            except httpx.TransportError as transport:
                error, away = transport, True
            pause = max(asked, wait * random.uniform(0.5, 1.0))
            if not away or not (method == "GET" or key) or time.monotonic() + pause > end:
                raise error
            time.sleep(pause)
            wait = min(1.0, 2 * wait)

    def submit(self, work: str | Plan | Mapping[str, Any], *, inputs: Mapping[str, Any] | None = None, key: str | None = None, **goal: Any) -> Run:
        """Submits a goal (a text, with further fields of the goal) or a plan (a `Plan`, or a document with `steps`).

        - `inputs`: what the plan works with: `refs.inputs.city`, in a document `{{ inputs.city }}`. Braces in them are text.
        - `key`: the idempotency key: the same key gives the same plan.
        """
        if inputs is not None:
            goal["inputs"] = to_json(dict(inputs))
        if isinstance(work, str):
            path, body = "/v1/goals", {"description": work, **goal}
        else:
            body = {**_document(work), **goal}
            path = "/v1/plans" if "steps" in body else "/v1/goals"
        accepted = self.request("POST", path, body, key=key or f"py-{uuid.uuid4().hex}")
        return Run(self, accepted["plan_id"])

    def put(self, name: str, plan: Plan | Mapping[str, Any]) -> dict[str, Any]:
        """Stores the next version of a plan under a name."""
        return self.request("POST", f"/v1/stored-plans/{name}/versions", _document(plan))

    def submit_stored(self, name: str, inputs: Mapping[str, Any] | None = None, *, key: str | None = None) -> Run:
        """Submits a stored plan: `trip@3`, or `trip` for the newest version."""
        accepted = self.request("POST", f"/v1/stored-plans/{name}:run", {"inputs": to_json(dict(inputs or {}))}, key=key or f"py-{uuid.uuid4().hex}")
        return Run(self, accepted["plan_id"])

    def validate(self, plan: Plan | Mapping[str, Any]) -> dict[str, Any]:
        """Validates and prices a plan without running it; `ApiError` has all issues."""
        return self.request("POST", "/v1/plans:validate", _document(plan))

    def preview(self, goal: str, /, **fields: Any) -> dict[str, Any]:
        """Plans a goal without running it."""
        return self.request("POST", "/v1/plans:preview", {"description": goal, **fields})

    def run(self, plan_id: str) -> Run:
        """The handle of a plan that was submitted before."""
        return Run(self, plan_id)

    def send_event(self, name: str, data: Any = _NO_DATA, *, key: str | None = None, id: str | None = None) -> dict[str, Any]:
        """Sends an event to the plans that wait for it. With the same `id` it counts once."""
        return self.request("POST", "/v1/events", _event(name, data, key, id))


def _document(plan: Plan | Mapping[str, Any]) -> dict[str, Any]:
    document: dict[str, Any] = plan.to_dict() if isinstance(plan, Plan) else as_document(plan)
    return document


def _refused(answer: httpx.Response) -> ApiError:
    try:
        problem = json.loads(answer.read())
    except ValueError:  # not of this API, for example of a proxy
        problem = {"detail": answer.text[:500]}
    return ApiError(answer.status_code, problem if isinstance(problem, dict) else {})


def _event(name: str, data: Any, key: str | None, id: str | None) -> dict[str, Any]:
    return {"name": name, "data": data, "id": id or uuid.uuid4().hex, **({} if key is None else {"key": key})}


class Run:
    """A plan that was submitted."""

    def __init__(self, server: Goalmill, plan_id: str) -> None:
        self.server, self.id = server, plan_id

    def __repr__(self) -> str:
        return f"Run({self.id!r})"

    def _get(self, part: str = "", **params: Any) -> dict[str, Any]:
        return self.server.request("GET", f"/v1/plans/{self.id}{part}", params=params)

    def _tell(self, what: str, **body: Any) -> dict[str, Any]:
        return self.server.request("POST", f"/v1/plans/{self.id}{what}", body)

    def view(self) -> dict[str, Any]:
        """The plan with its steps, as `GET /v1/plans/{id}` gives it."""
        return self._get()

    @property
    def status(self) -> str:
        return str(self.view()["status"])

    def events(self, *, after: int = 0, timeout: float | None = None) -> Iterator[Event]:
        """The events of the plan as they come, until it ends. Goes on by itself after a broken connection.

        - `after`: the number of the last event that is known. `timeout`: seconds, then `TimeoutError`.
        """
        end = None if timeout is None else time.monotonic() + timeout
        failures = 0
        while True:
            left = SILENT_S if end is None else min(SILENT_S, end - time.monotonic())
            if left <= 0:
                raise TimeoutError(f"{self.id} has not ended within {timeout} s")
            try:
                headers = {"Accept": "text/event-stream", "Last-Event-ID": str(after)}
                limits = httpx.Timeout(5.0, read=left)
                with self.server.http.stream("GET", f"/v1/plans/{self.id}/events", headers=headers, timeout=limits) as answer:
                    if answer.status_code == 204:
                        return
                    if answer.status_code in _AWAY:
                        raise httpx.ReadError(f"the server answered {answer.status_code}")
                    if not answer.is_success:
                        raise _refused(answer)
                    for line in answer.iter_lines():
                        failures = 0
                        if line.startswith("data:"):
                            raw = json.loads(line[5:])
                            after = raw["seq"]
                            yield Event(after, raw["type"], raw["time"], raw.get("step_id"), raw.get("attempt"), raw.get("data") or {})
                        if end is not None and time.monotonic() > end:
                            break
            except httpx.TransportError:
                failures += 1
                if end is None and failures > 100:
                    raise
                time.sleep(min(1.0, 0.05 * 2.0 ** min(failures, 5)))

    def wait(self, timeout: float | None = None) -> str:
        """Waits for the end; returns the status."""
        status = self.status
        if status not in FINAL:
            for _ in self.events(after=int(self.view().get("seq", 0)), timeout=timeout):
                pass
            status = self.status
        return status

    def result(self, timeout: float | None = None, *, check: bool = True) -> Any:
        """Waits for the end; returns the output of the plan: that of its last `finish` step, else those of its last steps.

        Raises `RunFailed` if the plan did not complete and `check` is true, and `TimeoutError`.
        """
        status = self.wait(timeout)
        results = self.results()
        if check and status != "completed":
            raise RunFailed(self, status, results.get("failures") or {})
        return results.get("final_output")

    def results(self) -> dict[str, Any]:
        """Status, outputs by step, failures by step, usage."""
        return self._get("/results", whole="true")

    def explain(self) -> dict[str, Any]:
        """Why the plan makes no progress, and what to do."""
        return self._get("/explain")

    def approve(self, reason: str = "", *, step: str | None = None) -> dict[str, Any]:
        """Approves the plan, its proposed revision, or a step or call that waits for it."""
        return self._tell(f"/steps/{step}:approve" if step else ":approve", reason=reason)

    def reject(self, reason: str = "", *, step: str | None = None) -> dict[str, Any]:
        return self._tell(f"/steps/{step}:reject" if step else ":reject", reason=reason)

    def answer(self, answer: Any, *, step: str, reason: str = "") -> dict[str, Any]:
        """Answers what a step or one of its calls asks."""
        return self._tell(f"/steps/{step}:answer", answer=answer, reason=reason)

    def cancel(self, reason: str = "") -> dict[str, Any]:
        return self._tell(":cancel", reason=reason)

    def pause(self, reason: str = "") -> dict[str, Any]:
        return self._tell(":pause", reason=reason)

    def resume(self, reason: str = "") -> dict[str, Any]:
        return self._tell(":resume", reason=reason)

    def send_event(self, name: str, data: Any = _NO_DATA, *, key: str | None = None, id: str | None = None) -> dict[str, Any]:
        """Sends an event to this plan only."""
        return self._tell("/events", **_event(name, data, key, id))


class AsyncRun:
    """`Run` for async programs: the same, to await; `sync` is the run itself."""

    def __init__(self, run: Run) -> None:
        self.sync, self.id = run, run.id

    async def events(self, *, after: int = 0, timeout: float | None = None) -> AsyncIterator[Event]:
        """As `Run.events`."""
        events = self.sync.events(after=after, timeout=timeout)
        while (event := await in_thread(next, events, None)) is not None:
            yield event

    view, wait, result, results, explain = (threaded(Run.view), threaded(Run.wait), threaded(Run.result), threaded(Run.results),
                                            threaded(Run.explain))
    approve, reject, answer, send_event = threaded(Run.approve), threaded(Run.reject), threaded(Run.answer), threaded(Run.send_event)
    cancel, pause, resume = threaded(Run.cancel), threaded(Run.pause), threaded(Run.resume)


class AsyncGoalmill:
    """`Goalmill` for async programs: the same, to await; `sync` is the client itself."""

    def __init__(self, url: str | None = None, **options: Any) -> None:
        self.sync = Goalmill(url, **options)

    async def submit(self, work: str | Plan | Mapping[str, Any], *, inputs: Mapping[str, Any] | None = None, key: str | None = None,
                     **goal: Any) -> AsyncRun:
        """As `Goalmill.submit`."""
        return AsyncRun(await in_thread(self.sync.submit, work, inputs=inputs, key=key, **goal))

    def run(self, plan_id: str) -> AsyncRun:
        """The handle of a plan that was submitted before."""
        return AsyncRun(self.sync.run(plan_id))

    put, validate, preview = threaded(Goalmill.put), threaded(Goalmill.validate), threaded(Goalmill.preview)
    send_event = threaded(Goalmill.send_event)
