"""The behaviours of tests/conformance/protocol/README.md, with this package."""
from __future__ import annotations

import json
import os
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

from goalmill import Agent, AsyncContext, Context, Fatal, Outcome, Partial, RateLimited, Retry, serve

FOLDER = Path(os.environ["GOALMILL_VECTOR_DIR"])
AGENTS: list[Agent] = []


def behaviour(fn: Any) -> Any:
    AGENTS.append(Agent(fn.__name__))
    return AGENTS[-1].action("*")(fn)


def note(line: str) -> None:
    with open(FOLDER / "log", "a") as log:
        log.write(line + "\n")


def wait(ctx: Context) -> None:
    while not (FOLDER / "go").exists():
        ctx.sleep(0.02)


@behaviour
def echo(inputs: dict[str, Any], ctx: Context) -> Any:
    note(f"begin {ctx.step}")
    return inputs


@behaviour
def measure(text: str) -> dict[str, int]:
    return {"length": len(text)}


@behaviour
def fail_retry(after_ms: int | None = None) -> None:
    if after_ms is not None:
        raise RateLimited("try again", code="FLAKY", after=after_ms / 1000)
    raise Retry("try again", code="FLAKY")


@behaviour
def fail_fatal() -> None:
    raise Fatal("this cannot work", code="NO_GOOD")


@behaviour
def crash() -> None:
    raise KeyError("nobody expects this")


@behaviour
def partial() -> None:
    raise Partial({"found": 1}, Fatal("one source is down", code="SOURCE_DOWN"))


@behaviour
async def slow(ctx: AsyncContext) -> dict[str, bool]:
    note(f"begin {ctx.step}")
    try:
        while not (FOLDER / "go").exists():
            await ctx.sleep(0.02)
    except BaseException:
        note(f"stopped {ctx.step}")
        raise
    return {"done": True}


@behaviour
def progress(ctx: Context) -> dict[str, bool]:
    ctx.progress(0.5, "half")
    wait(ctx)
    return {"done": True}


def made(n: int, size: int = 0, idempotency_key: str = "") -> Outcome[dict[str, Any]]:
    note(f"made {idempotency_key}")
    return Outcome({"n": n, **({"text": "x" * size} if size else {})}, cost=0.25, prompt_tokens=40, completion_tokens=2)


@behaviour
def calls(inputs: dict[str, Any], ctx: Context) -> dict[str, Any]:
    note(f"begin {ctx.step}")
    outcomes = []
    for n in range(1, inputs["count"] + 1):
        outcomes.append(ctx.call("call", made, n, inputs.get("bytes", 0))["n"])
        if n == inputs.get("pause"):
            note("pause")
            wait(ctx)
        if n == inputs.get("fail") and ctx.attempt == 1:
            raise Retry("try again", code="FLAKY")
    return {"outcomes": outcomes}


@behaviour
async def approve(ctx: AsyncContext) -> dict[str, Any]:
    return {"decision": await ctx.approve("publish?")}


@behaviour
def ask(ctx: Context) -> dict[str, Any]:
    ctx.call("call", made, 1)
    return {"decision": {"answer": ctx.ask("which?", schema={"type": "string"})}}


@behaviour
def sub_plan(ctx: Context) -> dict[str, Any]:
    return {"decision": ctx.submit_plan({"steps": [{"id": "a", "agent_type": "echo"}]}, text="look")}


@behaviour
async def budget(tokens: int, ctx: AsyncContext) -> dict[str, Any]:
    await ctx.reserve(tokens=tokens)
    return {"outcomes": [(await ctx.call("call", made, 1))["n"]]}


@behaviour
def callback(ctx: Context) -> None:
    given = ctx.callback
    assert given is not None

    def work() -> None:
        while not (FOLDER / "go").exists():
            time.sleep(0.02)
        body = json.dumps({"outputs": {"done": ctx.step}}).encode()
        urllib.request.urlopen(urllib.request.Request(given["url"], body, {"goalmill-callback-token": given["token"]})).close()
    threading.Thread(target=work, daemon=True).start()
    ctx.accepted()


@behaviour
def huge(inputs: dict[str, Any]) -> dict[str, Any]:
    return {"text": "x" * inputs["bytes"], "small": 1}


@behaviour
def context(ctx: Context) -> dict[str, Any]:
    assert ctx.deadline > time.time()
    return {"attempt": ctx.attempt, "idempotency_key": ctx.idempotency_key, "traceparent": ctx.traceparent}


if __name__ == "__main__":
    serve(*AGENTS, slots=4)
