"""`goalmill dev --agent FILE`: agents of a program without Redis, started again when the file changes."""
from __future__ import annotations

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


def test_a_program_is_served_without_redis_and_again_when_it_changes(tmp_path: Path) -> None:
    worker, port = tmp_path / "worker.py", free_port()
    worker.write_text(WORKER)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    with open(tmp_path / "log", "wb") as log:
        dev = subprocess.Popen([BINARY, "dev", "--agent", str(worker), "--listen", f"127.0.0.1:{port}", "--metrics", "off"], env=environment,
                               stdout=log, stderr=log)
    try:
        server = Goalmill(f"http://127.0.0.1:{port}")

        def served(times: int) -> None:
            until(lambda: (tmp_path / "log").read_text().count("serves shout") == times)

        def said() -> Any:
            with Plan("say") as plan:
                Step("s", "shout", action="shout", inputs={"text": "hi"}, timeout=30)
            return server.submit(plan).result(LIMIT_S)
        served(1)
        assert said() == "HI!"
        worker.write_text(WORKER.replace('"!"', '"?"'))
        served(2)
        assert said() == "HI?"
        worker.write_text("raise SystemExit(3)")
        until(lambda: "exit status: 3" in (tmp_path / "log").read_text())
        worker.write_text(WORKER)
        served(3)
        assert said() == "HI!"
        dev.send_signal(signal.SIGINT)
        assert dev.wait(LIMIT_S) == 0
    finally:
        dev.kill()
        dev.wait()
