"""A `goalmill dev` on a Redis of its own, agents as processes, and a model server that counts."""
from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from goalmill import Goalmill

ROOT = Path(__file__).resolve().parents[3]
BINARY = os.environ.get("GOALMILL_BINARY", str(ROOT / "target/debug/goalmill"))
LIMIT_S = 90.0  # a task whose worker is gone is lost after its lease of 30 s


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def until(check: Callable[[], Any]) -> Any:
    end = time.monotonic() + LIMIT_S
    while not (found := check()):
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.02)
    return found


def start_redis(folder: Path, port: int, *options: str | Path) -> subprocess.Popen[bytes]:
    kept = ["--port", str(port), "--dir", folder, "--appendonly", "yes", "--save", "", "--maxmemory-policy", "noeviction"]
    return subprocess.Popen(["redis-server", *kept, *options], stdout=subprocess.DEVNULL)


class Installation:
    """`goalmill dev --redis` with the default limits; can be killed and started again at the same address.

    - `redis_url`: of a Redis that the test has started; else it has one of its own. Then it is `goalmill scheduler`.
    """

    def __init__(self, folder: Path, redis_url: str | None = None) -> None:
        self.folder, self.redis_port, self.port = folder, free_port(), free_port()
        self.redis_url, self.url = redis_url or f"redis://127.0.0.1:{self.redis_port}", f"http://127.0.0.1:{self.port}"
        self.redis = None if redis_url else start_redis(folder, self.redis_port)
        self.process: subprocess.Popen[bytes] | None = None
        self.agents: list[subprocess.Popen[bytes]] = []
        self.start()

    def start(self) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("GOALMILL", "OPENAI", "ANTHROPIC"))}
        config = self.folder / "goalmill.toml"
        config.write_text('[planner]\norder = ["rules", "agent:py_planner"]\n')
        command = [BINARY, *(["dev", "--demo-agents"] if self.redis else ["scheduler"]), "--redis", self.redis_url, "--config", str(config),
                   "--listen", f"127.0.0.1:{self.port}", "--metrics", "off"]
        log = open(self.folder / "dev.log", "ab")
        self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        self.server = Goalmill(self.url)

        def ready() -> bool:
            assert self.process is not None and self.process.poll() is None, (self.folder / "dev.log").read_text()
            try:
                return bool(self.server.http.get("/readyz").is_success)
            except Exception:
                return False
        until(ready)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def agent(self, source: str | Path, *, python: str = sys.executable, **environment: str) -> subprocess.Popen[bytes]:
        """Starts a Python program; returns when its worker has a heartbeat."""
        path = source if isinstance(source, Path) else self.folder / f"agent{len(self.agents)}.py"
        if isinstance(source, str):
            path.write_text(source)
        log = open(self.folder / "agents.log", "ab")

        def workers() -> set[str]:
            listed = self.server.request("GET", "/v1/workers")["items"]
            return {worker["worker"] for worker in listed if worker["worker"].startswith("py-")}
        before = workers()
        process = subprocess.Popen([python, str(path)], stdout=log, stderr=log,
                                   env={**os.environ, "GOALMILL_REDIS_URL": self.redis_url, "GOALMILL_SERVER": self.url, "GOALMILL_BINARY": BINARY, **environment})
        self.agents.append(process)

        def alive() -> bool:
            assert process.poll() is None, (self.folder / "agents.log").read_text()[-3000:]
            return bool(workers() - before)
        until(alive)
        return process

    def stop(self) -> None:
        for process in [*self.agents, self.process, self.redis]:
            if process is not None:
                process.kill()
                process.wait()


@pytest.fixture(scope="session")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    made = Installation(tmp_path_factory.mktemp("installation"))
    yield made
    made.stop()


@pytest.fixture
def server(installation: Installation) -> Goalmill:
    return installation.server


@pytest.fixture
def agent(installation: Installation) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts agents that end with the test, by SIGTERM and with code 0."""
    first = len(installation.agents)
    yield installation.agent
    for process in installation.agents[first:]:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            assert process.wait(LIMIT_S) == 0


class Model:
    """A chat completions server. `script(n)` gives message `n`; `answered(n)` is called after the answer was sent.

    One request after the other is answered. Those to an address before the last `move` are not: their sender was killed.
    """

    def __init__(self) -> None:
        self.keys: Counter[str] = Counter()
        self.requests: list[dict[str, Any]] = []
        self.script: Callable[[dict[str, Any]], dict[str, Any]] = lambda request: {"content": f"answer to {request['messages'][-1]['content']}"}
        self.answered: Callable[[dict[str, Any]], None] = lambda request: None
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with model.lock:
                    if self.path.startswith(model.path):
                        self.answer(request)

            def answer(self, request: dict[str, Any]) -> None:
                model.requests.append(request)
                model.keys[self.headers.get("Idempotency-Key", "none")] += 1
                message = {"role": "assistant", "content": None, **model.script(request)}
                reason = "tool_calls" if message.get("tool_calls") else "stop"
                body = json.dumps({
                    "id": f"chatcmpl-{len(model.requests)}", "object": "chat.completion", "created": 1, "model": "scripted",
                    "choices": [{"index": 0, "message": message, "finish_reason": reason, "logprobs": None}],
                    "usage": {"prompt_tokens": 40, "completion_tokens": 2, "total_tokens": 42},
                }).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                self.wfile.flush()
                model.answered(request)

            def log_message(self, *_: object) -> None:
                pass
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.handle_error = lambda *_: None  # type: ignore[method-assign]  # clients are killed here
        self.lock, self.moves, self.path = threading.Lock(), 0, ""
        self.move()
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def move(self) -> str:
        """Answers at another address only, and returns it."""
        self.moves += 1
        self.path = f"/{self.moves}/v1/"
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}{self.path.rstrip('/')}"
        return self.url


@pytest.fixture
def model() -> Iterator[Model]:
    made = Model()
    yield made
    made.server.shutdown()
