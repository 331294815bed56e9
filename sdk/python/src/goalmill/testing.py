"""Runs plans with agents in this process: no server, no Redis, virtual time. It needs the program `goalmill`.

The program is looked for in `GOALMILL_BINARY`, then on `PATH`. The contract: docs/testing.md.
"""
from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .agent import Agent
from .schema import to_json
from .worker import Bridge


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
    test = {"plan": to_json(plan), "agents": mocks or {}, "inputs": inputs or {}, "plans": plans or {}, "events": list(events),
            "approvals": list(approvals), "answers": list(answers), "seed": seed, **({} if start is None else {"start": start})}
    kit = _Kit(agents, program)
    try:
        return kit.run(test)
    finally:
        kit.close()
        kit.settle()


async def run_async(plan: Any, agents: Sequence[Agent] = (), **options: Any) -> Result:
    """As `run`, from async code; actions run in another thread."""
    return await asyncio.to_thread(run, plan, agents, **options)


class _Kit(Bridge):
    """The program in the mode of test kits: it has the plan and the time, and gives tasks as a worker does."""

    command = ("test", "--stdio")

    def __init__(self, agents: Sequence[Agent], program: str | None) -> None:
        super().__init__(agents, {"slots": 1}, program)
        self.answer: tuple[str, dict[str, Any]] | None = None
        self.answered = threading.Event()

    def run(self, test: Mapping[str, Any]) -> Result:
        """Runs one plan."""
        self.start()
        self.send({"run": test})
        self.answered.wait()
        if self.answer is None:
            raise RuntimeError("the program `goalmill` has ended before the plan")
        kind, body = self.answer
        if kind == "error":
            raise RunRefused(body)
        return _result(body)

    def close(self) -> None:
        super().close()
        self.answered.set()

    def _handle(self, kind: str, body: dict[str, Any]) -> None:
        if kind in ("result", "error"):
            self.answer = (kind, body)
            self.answered.set()
        else:
            super()._handle(kind, body)


def _result(found: Mapping[str, Any]) -> Result:
    return Result(status=found["status"], outputs=found["results"], output=found.get("final_output"), failure=found.get("failure"),
                  cost=found["usage"]["cost"], tokens=found["usage"]["tokens"], seconds=found["duration_ms"] / 1000,
                  events=found["events"], steps=found["steps"], warnings=found.get("warnings", []))


__all__ = ["Result", "RunRefused", "run", "run_async"]
