"""Runs plans with agents in this process: no server, no Redis, virtual time. It needs the program `goalmill`.

The program is looked for in `GOALMILL_BINARY`, then on `PATH`. The contract: docs/testing.md.
"""
from __future__ import annotations

import asyncio
import json
import itertools
import queue
import subprocess
import threading
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from .agent import Agent
from .attempt import Attempt, text_of
from .context import AsyncContext, Context
from .outcome import Budget, Outcome
from .program import find_program
from .schema import to_json

END_S = 10.0


class RunRefused(Exception):
    """The plan was not run, or has no end; `problem` is the problem object of the program."""

    def __init__(self, problem: Mapping[str, Any]) -> None:
        self.problem = dict(problem)
        places = "".join(f"\n  {issue['pointer']} {issue['detail']}" for issue in problem.get("errors", []))
        super().__init__(f"{problem.get('detail') or problem.get('title')}{places}")


@dataclass(frozen=True)
class Result:
    """The end of a run.

    - `outputs`: by step. `output`: of the plan as a whole.
    - `cost`: US dollars. `seconds`: virtual time from submission to end.
    - `events`: the log, as `goalmill events -o jsonl` prints it.
    - `steps`: `{"id", "status", "attempt"}` of each, those of plans inside the plan too.
    - `warnings`: events, decisions and mocks of the run that were of no use.
    """

    status: str
    outputs: dict[str, Any]
    output: Any
    failure: dict[str, Any] | None
    cost: float
    tokens: int
    seconds: float
    events: list[dict[str, Any]]
    steps: list[dict[str, Any]]
    warnings: list[str]

    def attempts(self, step: str) -> int:
        """Attempts of a step."""
        return next(int(found["attempt"]) for found in self.steps if found["id"] == step)


def run(plan: Any, agents: Sequence[Agent] = (), *, inputs: Mapping[str, Any] | None = None, mocks: Mapping[str, Any] | None = None,
        plans: Mapping[str, Any] | None = None, events: Sequence[Mapping[str, Any]] = (),
        approvals: Sequence[Mapping[str, Any]] = (), answers: Sequence[Mapping[str, Any]] = (), start: str | None = None,
        seed: int = 0, program: str | None = None) -> Result:
    """Runs a plan to its end; raises `RunRefused` if it is not valid or an agent is missing.

    - `plan`: a `Plan` or its document. `agents`: run here, one attempt at a time; async actions too.
    - `inputs`: what steps read as `goal.metadata.inputs`. `mocks`: agents that only answer.
    - `events`, `approvals`, `answers`, `plans`, `start`, `seed`: as in a file of `goalmill test`.
    """
    test: dict[str, Any] = {"plan": to_json(plan), "serve": [agent.agent_type for agent in agents], "agents": mocks or {},
                            "inputs": inputs or {}, "plans": plans or {}, "events": list(events), "approvals": list(approvals),
                            "answers": list(answers), "seed": seed, **({} if start is None else {"start": start})}
    kit = _Kit(agents, program)
    try:
        return kit.run(test)
    finally:
        kit.close()


async def run_async(plan: Any, agents: Sequence[Agent] = (), **options: Any) -> Result:
    """As `run`, from async code; actions run in another thread."""
    return await asyncio.to_thread(run, plan, agents, **options)


class _Kit:
    """The program, and what an attempt needs of a worker: its frames become reports to the program."""

    frame_max = 64 << 20

    def __init__(self, agents: Sequence[Agent], program: str | None) -> None:
        self.agents = {agent.agent_type: agent for agent in agents}
        self.held: dict[int, Attempt] = {}
        self.lock = threading.Lock()
        self.process = subprocess.Popen([find_program(program), "test", "--stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, encoding="utf-8")
        # Read all the time: the program may write tasks while a long report is written to it.
        self.lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, name="goalmill-test", daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put("")

    def close(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _write(self, message: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None
        with self.lock:
            self.process.stdin.write(text_of(message) + "\n")
            self.process.stdin.flush()

    def run(self, test: Mapping[str, Any]) -> Result:
        self._write({"run": test})
        while line := self.lines.get():
            message = json.loads(line)
            if task := message.get("task"):
                self._attempt(task)
            elif problem := message.get("error"):
                raise RunRefused(problem)
            else:
                return _result(message["result"])
        raise RuntimeError("the program `goalmill` has ended before the plan")

    def _attempt(self, task: dict[str, Any]) -> None:
        self.calls = _TaskCalls(task)
        attempt = Attempt(self, {**task, "task": 1})
        self.held[1] = attempt
        try:
            action = self.agents[task["agent_type"]].choose(task.get("action"))
            if action.is_async:
                attempt.complete(asyncio.run(action.fn(**action.arguments(task.get("inputs"), AsyncContext(attempt)))))
            else:
                attempt.complete(action.fn(**action.arguments(task.get("inputs"), Context(attempt))))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            attempt.fail(error)

    def send(self, frame: dict[str, Any]) -> None:
        """Does what a worker does with a frame of the attempt."""
        kind, body = next(iter(frame.items()))
        if kind != "ended":
            attempt = self.held.get(1)
            for report in self.calls.handle(kind, body, attempt):
                self._write({"report": {**self.calls.report, **report}})
        elif (waits := self.calls.suspended) is not None and "outputs" not in body.get("answer", {}):
            self._write({"report": {**self.calls.report, "what": "suspended", "suspended": waits}})
        else:
            self._write({"report": {**self.calls.report, **_end(body.get("answer") or {"error": {"code": "ANSWER_EMPTY"}})}})


def _end(answer: dict[str, Any]) -> dict[str, Any]:
    """The final report of an answer."""
    used: dict[str, Any] = {name: answer[name] for name in ("cost", "usage") if name in answer}
    if "error" in answer:
        return {"what": "failed", "failure": answer["error"], **used}
    if answer["outputs"] == {"accepted": True}:
        wait = {"n": 0, "name": "callback", "wait": {"for": "callback", "text": "an outcome by callback"}}
        return {"what": "suspended", "suspended": wait, **used}
    what = {"what": "partial_success", "errors": answer.get("errors", [])} if answer.get("partial") else {"what": "completed"}
    return {**what, "outputs": answer["outputs"], **used}


class _TaskCalls:
    """The calls of one attempt, found by name, inputs and occurrence and numbered in the order of their records, as the worker
    does it."""

    def __init__(self, task: Mapping[str, Any]) -> None:
        self.key = task["idempotency_key"]
        self.report = {**{name: task[name] for name in ("plan", "step", "attempt", "token", "agent_type")}, "entry": "0-0", "worker": "test"}
        self.known: dict[tuple[str, str], dict[str, Any]] = {}
        self.last, self.suspended = 0, cast("dict[str, Any] | None", None)
        self.open: dict[int, tuple[str, str]] = {}
        self.taken: set[tuple[str, str]] = set()
        self.budget, self.unasked = Budget(task.get("budget")), len(task.get("calls") or [])
        for call in task.get("calls") or []:
            self.known[self._free(call["name"], call.get("inputs") or "", self.known)] = call
            self.last = call["n"]

    def _free(self, name: str, inputs: str, taken: Container[tuple[str, str]]) -> tuple[str, str]:
        occurrences = (inputs if n == 1 else f"{inputs}#{n}" for n in itertools.count(1))
        return next((name, text) for text in occurrences if (name, text) not in taken)

    def handle(self, kind: str, body: dict[str, Any], attempt: Attempt | None) -> Iterator[dict[str, Any]]:
        """Answers a frame; gives the reports that it makes."""
        def answer(kind: str, **fields: Any) -> None:
            if attempt is not None:
                attempt.answer(kind, {"task": 1, "call": body["call"], **fields})
        if kind in ("call", "wait"):
            identity = self._free(body["name"], body["inputs"], self.taken)
            self.taken.add(identity)
            self.open[body["call"]] = identity
            if (known := self.known.get(identity)) is not None:
                self.unasked -= 1
                answer("call", **{name: known[name] for name in ("outcome", "error") if known.get(name) is not None})
            elif kind == "call":
                answer("call", key=f"{self.key}/{identity[0]}/{identity[1]}")
            else:
                self._suspend(identity, body["wait"])
                answer("suspended")
        elif kind == "made":
            (name, inputs), self.last = self.open[body["call"]], self.last + 1
            used = {name: body[name] for name in ("outcome", "error", "cost", "usage") if name in body}
            yield {"what": "call", "call": {"n": self.last, "name": name, "inputs": inputs, **used}}
            usage = body.get("usage", {})
            self.budget.subtract(Outcome(None, cost=body.get("cost", 0.0), **usage))
            answer("recorded")
        elif kind == "abandoned":
            self.taken.discard(self.open[body["call"]])
        elif kind == "reserve":
            if self.unasked > 0 or self.budget.has_room(body["tokens"], body["cost"]):
                answer("reserved")
            elif self.budget.last:
                error = {"class": "constraint_violation", "code": "BUDGET_EXCEEDED", "message": "the budget of the plan has no room"}
                answer("call", error=error)
            else:
                self._suspend(("budget", ""), {"for": "budget", "text": "the next call", "needs": {"tokens": body["tokens"], "cost": body["cost"]}})
                answer("suspended")

    def _suspend(self, identity: tuple[str, str], wait: dict[str, Any]) -> None:
        if self.suspended is None:
            self.suspended = {"n": self.last + 1, "name": identity[0], "inputs": identity[1], "wait": wait}


def _result(found: Mapping[str, Any]) -> Result:
    return Result(status=found["status"], outputs=found["results"], output=found.get("final_output"), failure=found.get("failure"),
                  cost=found["usage"]["cost"], tokens=found["usage"]["tokens"], seconds=found["duration_ms"] / 1000,
                  events=found["events"], steps=found["steps"], warnings=found.get("warnings", []))


__all__ = ["Result", "RunRefused", "run", "run_async"]
