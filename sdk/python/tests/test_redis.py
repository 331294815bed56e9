"""Workers that are drained, that connect over TLS, and that follow Sentinel while the primary is killed."""
from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from goalmill import Goalmill, Plan, Step

from conftest import BINARY, LIMIT_S, Installation, free_port, start_redis, until

Start = Callable[..., "subprocess.Popen[bytes]"]

ECHO = '''
import pathlib
from goalmill import Agent, Context
echo = Agent("py_echo")

@echo.action
def say(text: str) -> dict[str, str]:
    return {"text": text}

@echo.action
def hold(gate: str, ctx: Context) -> dict[str, int]:
    pathlib.Path(gate + ".begun").touch()
    while not pathlib.Path(gate).exists():
        ctx.sleep(0.02)
    return {"attempt": ctx.attempt}

echo.serve(slots=2)
'''


@pytest.fixture
def stack() -> Iterator[contextlib.ExitStack]:
    """Ends what a test has started, also when it fails."""
    with contextlib.ExitStack() as made:
        yield made


def ending(stack: contextlib.ExitStack, process: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
    stack.callback(process.wait)
    stack.callback(process.kill)
    return process


def said(server: Goalmill, text: str) -> Any:
    with Plan("say") as plan:
        Step("s", "py_echo", action="say", inputs={"text": text})
    return server.submit(plan).result(60)


@pytest.mark.parametrize("how", ["SIGTERM", "command"])
def test_a_drained_worker_finishes_what_it_has(installation: Installation, server: Goalmill, agent: Start, tmp_path: Path, how: str) -> None:
    process, gate = agent(ECHO), tmp_path / "gate"

    def workers() -> list[dict[str, Any]]:
        return [item for item in server.request("GET", "/v1/workers")["items"] if item["agents"] == ["py_echo"]]
    with Plan("hold") as plan:
        Step("h", "py_echo", action="hold", inputs={"gate": str(gate)}, timeout=60)
    run = server.submit(plan)
    until(lambda: (tmp_path / "gate.begun").exists())
    if how == "command":
        subprocess.run([BINARY, "worker", "drain", workers()[0]["worker"], "--server", installation.url], check=True, capture_output=True)
    else:
        process.send_signal(signal.SIGTERM)
    until(lambda: workers()[0]["draining"])
    gate.touch()
    assert process.wait(LIMIT_S) == 0
    assert run.result(60) == {"attempt": 1}
    until(lambda: not workers())


def test_ctrl_c_drains_what_is_served_and_interrupts_what_follows(agent: Start, tmp_path: Path) -> None:
    served = tmp_path / "served"
    process = agent(f"{ECHO}\nimport time\npathlib.Path({str(served)!r}).touch()\ntime.sleep(60)\n")
    process.send_signal(signal.SIGINT)
    until(served.exists)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(LIMIT_S) == -signal.SIGINT


def test_a_worker_connects_over_tls(tmp_path: Path, stack: contextlib.ExitStack) -> None:
    key, certificate, port, tls = tmp_path / "key.pem", tmp_path / "cert.pem", free_port(), free_port()
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", certificate,
                    "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
                    "-addext", "basicConstraints=critical,CA:FALSE"], check=True, capture_output=True)
    ending(stack, start_redis(tmp_path, port, "--tls-port", str(tls), "--tls-cert-file", certificate, "--tls-key-file", key,
                              "--tls-auth-clients", "no", "--requirepass", "s3cret"))
    installation = Installation(tmp_path, f"redis://:s3cret@127.0.0.1:{port}")
    stack.callback(installation.stop)
    address = f"rediss://:s3cret@localhost:{tls}"
    (tmp_path / "refused.py").write_text(ECHO)
    with open(tmp_path / "refused.log", "wb") as log:
        environment = {**os.environ, "GOALMILL_REDIS_URL": address, "GOALMILL_BINARY": BINARY}
        refused = ending(stack, subprocess.Popen([sys.executable, tmp_path / "refused.py"], env=environment, stderr=log))
    until(lambda: "certificate" in (tmp_path / "refused.log").read_text())
    refused.send_signal(signal.SIGTERM)
    assert refused.wait(LIMIT_S) == 0
    installation.agent(ECHO, GOALMILL_REDIS_URL=address, SSL_CERT_FILE=str(certificate))
    assert said(installation.server, "hello") == {"text": "hello"}


def test_a_worker_follows_sentinel_to_the_new_primary(tmp_path: Path, stack: contextlib.ExitStack) -> None:
    first, second, port = free_port(), free_port(), free_port()
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    config = tmp_path / "sentinel.conf"
    config.write_text(f"port {port}\ndir {tmp_path}\nsentinel monitor plans 127.0.0.1 {first} 1\n"
                      "sentinel down-after-milliseconds plans 2000\nsentinel failover-timeout plans 5000\n")
    primary, replica, sentinel = redis.Redis(port=first), redis.Redis(port=second), redis.Redis(port=port)

    def answers(of: redis.Redis) -> bool:
        try:
            return bool(of.ping())
        except redis.ConnectionError:
            return False

    def replicated(key: str) -> None:
        """The replica has all that the primary has; until its first acknowledgement it may get no writes."""
        until(lambda: (primary.set(key, "1"), primary.execute_command("WAIT", "1", "1000"))[1] >= 1)
    server = ending(stack, start_redis(tmp_path / "a", first, "--repl-diskless-sync-delay", "0"))
    until(lambda: answers(primary))
    ending(stack, start_redis(tmp_path / "b", second, "--replicaof", "127.0.0.1", str(first)))
    until(lambda: answers(replica))
    replicated("first")
    ending(stack, subprocess.Popen(["redis-server", config, "--sentinel"], stdout=subprocess.DEVNULL))
    until(lambda: answers(sentinel))
    until(lambda: len(sentinel.execute_command("SENTINEL", "REPLICAS", "plans")) == 1)
    installation = Installation(tmp_path, f"redis+sentinel://127.0.0.1:{port}/plans")
    stack.callback(installation.stop)
    installation.agent(ECHO)
    assert said(installation.server, "before") == {"text": "before"}
    replicated("last")
    server.kill()
    until(lambda: replica.info("replication")["role"] == "master")
    assert said(installation.server, "after") == {"text": "after"}


ODD = '''
import datetime, os, sys
from goalmill import Agent, AsyncContext, Context, Fatal, Outcome, Partial, RateLimited, Retry
odd = Agent("py_odd")

class NoText(Exception):
    def __str__(self):
        raise RuntimeError("no text")

class NoFields(Fatal):
    def __init__(self):
        pass

def raiser(name, error):
    @odd.action(name)
    def act() -> dict:
        raise error

raiser("fatal", Fatal(ValueError("bad")))
raiser("retry", Retry(OSError("down")))
raiser("after", RateLimited("later", after=datetime.timedelta(milliseconds=1)))
raiser("code", Fatal("x", code=None))
raiser("number", Fatal("x", code=404))
raiser("text", NoText())
raiser("fields", NoFields())
raiser("surrogate", ValueError("no title in " + os.fsdecode(bytes([97, 255]))))
raiser("exit", SystemExit(3))
raiser("partial", Partial({"a": 1}, ValueError("b is missing")))

@odd.action
def nan(ctx: Context) -> dict:
    ctx.usage(cost=float("nan"))

@odd.action
def part(ctx: Context) -> dict:
    ctx.usage(prompt_tokens=1.5)

@odd.action
def call(ctx: Context) -> dict:
    try:
        ctx.call("c", lambda: Outcome(1, cost="0.1"))
    except Exception:
        return {}  # it is not recorded, so the attempt has failed

@odd.action
def nested(ctx: Context) -> dict:
    return {"v": ctx.call("outer", lambda: ctx.call("inner", lambda: 5) + 1)}

@odd.action
async def leaves(ctx: AsyncContext) -> dict:
    sys.exit(4)

@odd.action
def progress(ctx: Context) -> dict:
    ctx.progress(0.5, None)
    ctx.sleep(0.5)
    ctx.progress(0.5, "\\udcff")
    ctx.sleep(0.5)
    return {"ok": 1}

@odd.action
def nothing() -> None:
    pass

@odd.action
async def ok(ctx: AsyncContext) -> dict:
    return {"ok": 1}

odd.serve(slots=2)
'''
FAILURES = {"fatal": "FAILED", "retry": "RETRY", "code": "FAILED", "number": "404", "text": "AGENT_EXCEPTION", "fields": "AGENT_EXCEPTION",
            "surrogate": "AGENT_EXCEPTION", "exit": "AGENT_EXCEPTION", "nan": "ANSWER_INVALID", "part": "ANSWER_INVALID",
            "call": "ANSWER_INVALID", "leaves": "AGENT_EXCEPTION"}


def test_whatever_an_agent_raises_or_reports_ends_its_attempt_once(server: Goalmill, agent: Start) -> None:
    agent(ODD)
    with Plan("odd", continue_on_failure=True) as plan:
        for name in FAILURES:
            Step(name, "py_odd", action=name, retry=0)
    run = server.submit(plan)
    run.wait(60)
    failures = run.results()["failures"]
    assert {name: failure["code"] for name, failure in failures.items()} == FAILURES
    assert all(failure["message"] for failure in failures.values()) and {step["attempt"] for step in run.view()["steps"]} == {1}
    with Plan("fine") as fine:
        for name in ("nothing", "nested", "progress", "partial", "ok"):
            Step(name, "py_odd", action=name, retry=0)
    after = server.submit(fine)
    after.wait(60)
    assert after.results()["results"] == {"nothing": {}, "nested": {"v": 6}, "progress": {"ok": 1}, "partial": {"a": 1}, "ok": {"ok": 1}}
    with Plan("late") as late:
        Step("late", "py_odd", action="after", retry=0)
    told = server.submit(late)
    assert next(event for event in told.events(timeout=60) if event.type == "step_retrying").data["told_to_wait"]
    told.cancel()
