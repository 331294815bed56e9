"""Runs plans with agents in this process: no server, no Redis, virtual time. It needs the program `goalmill`.

The program is looked for in `GOALMILL_BINARY`, then on `PATH`. The contract: docs/testing.md.
"""
from __future__ import annotations

import asyncio
import json
import os
import queue
import shutil
import subprocess
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from .agent import Agent
from .attempt import Attempt, read_task, text_of
from .context import AsyncContext, Context
from .limits import Limits
from .schema import to_json

if TYPE_CHECKING:
    from .worker import Worker

PREFIX = "goalmill"
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
    """The program, and what an attempt needs of a worker: reports go to the program, payloads stay in memory."""

    def __init__(self, agents: Sequence[Agent], program: str | None) -> None:
        found = program or os.environ.get("GOALMILL_BINARY") or shutil.which("goalmill")
        if found is None:
            raise FileNotFoundError("the program `goalmill` is not on PATH: install it, or set GOALMILL_BINARY")
        self.agents = {agent.agent_type: agent for agent in agents}
        self.name, self.prefix, self.outbox, self.redis, self.limits = "test", PREFIX, self, self, Limits()
        self.blobs: dict[str, str] = {}
        self.lock = threading.Lock()
        self.process = subprocess.Popen([found, "test", "--stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        encoding="utf-8")
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

    def send(self, message: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None
        with self.lock:
            self.process.stdin.write(text_of(message) + "\n")
            self.process.stdin.flush()

    # What attempts ask of their worker

    def push(self, _stream: str, report: Mapping[str, Any], blobs: Sequence[tuple[str, str]], taken: Future[None] | None) -> None:
        self.blobs.update(blobs)
        self.send({"report": report})
        if taken is not None:
            taken.set_result(None)

    def get(self, key: str) -> str | None:
        return self.blobs.get(key)

    def run(self, test: Mapping[str, Any]) -> Result:
        self.send({"run": test})
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
        attempt = Attempt(cast("Worker", self), "", "0-0", read_task(text_of(task)))
        try:
            action = self.agents[task["agent_type"]].choose(task.get("action"))
            attempt.begin()
            inputs = attempt.resolve(task.get("inputs"))
            if action.is_async:
                attempt.complete(asyncio.run(action.fn(**action.arguments(inputs, AsyncContext(attempt)))))
            else:
                attempt.complete(action.fn(**action.arguments(inputs, Context(attempt))))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            attempt.fail(error)


def _result(found: Mapping[str, Any]) -> Result:
    return Result(status=found["status"], outputs=found["results"], output=found.get("final_output"), failure=found.get("failure"),
                  cost=found["usage"]["cost"], tokens=found["usage"]["tokens"], seconds=found["duration_ms"] / 1000,
                  events=found["events"], steps=found["steps"], warnings=found.get("warnings", []))


__all__ = ["Result", "RunRefused", "run", "run_async"]
