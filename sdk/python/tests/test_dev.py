"""`goalmill dev --agent FILE`: agents of a program without Redis, started again when the file changes, or after a crash."""
from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from goalmill import Goalmill, Plan, Step

from conftest import BINARY, LIMIT_S, free_port, until

WORKER = '''
from goalmill import Agent, Context
agent = Agent("shout")

@agent.action
def shout(text: str, ctx: Context) -> str:
    return ctx.call("louder", str.upper, text) + "!"

agent.serve()
'''


SLOW = '''
import os, time
from pathlib import Path
from goalmill import Agent, Context
agent = Agent("slow")

def wait(_: str) -> str:
    until = time.monotonic() + 60
    while not Path(os.environ["DONE"]).exists() and time.monotonic() < until:
        time.sleep(0.05)
    return "done"

@agent.action
def work(ctx: Context) -> str:
    Path(os.environ["BEGUN"]).open("a").write("x")
    return ctx.call("wait", wait, "x")

@agent.action
def crash() -> str:
    crashed = Path(os.environ["BEGUN"] + ".crashed")
    if not crashed.exists():
        crashed.touch()
        os._exit(7)
    return "up again"

agent.serve()
'''


class Dev:
    """`goalmill dev --agent` with its log."""

    def __init__(self, worker: Path, **environment: str) -> None:
        self.log, port = worker.with_suffix(".log"), free_port()
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.process = subprocess.Popen([BINARY, "dev", "--agent", str(worker), "--listen", f"127.0.0.1:{port}", "--metrics", "off"],
                                        env={**os.environ, "PATH": path, **environment}, stdout=open(self.log, "wb"), stderr=subprocess.STDOUT)
        self.server = Goalmill(f"http://127.0.0.1:{port}")

    def said(self, text: str, times: int = 1) -> None:
        until(lambda: self.log.read_text().count(text) >= times)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


def test_a_save_uses_no_attempt_and_a_crash_starts_the_program_again(tmp_path: Path) -> None:
    worker, begun, done = tmp_path / "worker.py", tmp_path / "begun", tmp_path / "done"
    worker.write_text(SLOW)
    dev = Dev(worker, BEGUN=str(begun), DONE=str(done))
    try:
        dev.said("serves slow")
        with Plan("slow") as plan:
            Step("s", "slow", action="work", timeout=60)
        run = dev.server.submit(plan)
        for save in range(1, 5):
            until(lambda: begun.exists() and len(begun.read_text()) == save)
            worker.write_text(SLOW + f"# {save}")
        until(lambda: len(begun.read_text()) == 5)
        done.touch()
        assert run.result(LIMIT_S) == "done"
        ends = [event.type for event in run.events(timeout=60) if event.type in ("step_released", "step_retrying")]
        assert ends == ["step_released"] * 4
        with Plan("crash") as plan:
            Step("c", "slow", action="crash", timeout=60)
        assert dev.server.submit(plan).result(LIMIT_S) == "up again"
        dev.said("is started again in 1 s")
    finally:
        dev.stop()


def test_a_program_is_served_without_redis_and_again_when_it_changes(tmp_path: Path) -> None:
    worker = tmp_path / "worker.py"
    worker.write_text(WORKER)
    dev = Dev(worker)
    try:
        def said() -> Any:
            with Plan("say") as plan:
                Step("s", "shout", action="shout", inputs={"text": "hi"}, timeout=30)
            return dev.server.submit(plan).result(LIMIT_S)
        dev.said("serves shout")
        assert said() == "HI!"
        worker.write_text(WORKER.replace('"!"', '"?"'))
        dev.said("serves shout", 2)
        assert said() == "HI?"
        worker.write_text("raise SystemExit(3)")
        dev.said("exit status: 3")
        worker.write_text(WORKER)
        dev.said("serves shout", 3)
        assert said() == "HI!"
        dev.process.send_signal(signal.SIGINT)
        assert dev.process.wait(LIMIT_S) == 0
    finally:
        dev.stop()


DEADLY = '''
import json
import os
from pathlib import Path
from goalmill import Agent, Context
agent = Agent("deadly")

def look(place: str) -> str:
    with Path(os.environ["LOOKED"]).open("a") as looked:
        looked.write(place)
    return place * 40_000

@agent.action
def work(ctx: Context) -> int:
    seen = [ctx.call("look", look, place) for place in "abc"]
    if not Path(os.environ["WELL"]).exists():
        os._exit(7)
    return sum(len(place) for place in [*seen, ctx.call("look", look, "d")])

agent.serve()
'''


def test_a_retried_dead_letter_keeps_the_recorded_calls(tmp_path: Path) -> None:
    worker, looked, well = tmp_path / "worker.py", tmp_path / "looked", tmp_path / "well"
    worker.write_text(DEADLY)
    dev = Dev(worker, LOOKED=str(looked), WELL=str(well))
    try:
        dev.said("serves deadly")
        with Plan("work") as plan:
            Step("s", "deadly", action="work", timeout=60)
        run = dev.server.submit(plan)
        until(lambda: run.status == "failed")
        assert looked.read_text() == "abc"
        well.touch()
        command = [BINARY, "dead", "retry", "deadly", "--all", "--yes", "-o", "json", "--server", str(dev.server.http.base_url)]
        retried = subprocess.run(command, capture_output=True, text=True)
        assert (retried.returncode, retried.stderr) == (0, "")
        again = dev.server.run(json.loads(retried.stdout)[0]["plan_id"])
        assert again.result(LIMIT_S) == 160_000
        assert looked.read_text() == "abcd"
    finally:
        dev.stop()
