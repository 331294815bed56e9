"""10,000 steps that do nothing through a Python worker with 32 slots, beside 10,000 tasks of Celery.

    python3 -m venv V && V/bin/pip install ./sdk/python 'celery[redis]' && V/bin/python tests/peers/python.py [steps|threads|processes …]

`steps`: a plan of 10,000 steps, a scheduler and the worker. `threads`, `processes`: Celery with 32 of them; results are not kept.
CPU is that of the worker with all its processes. GOALMILL_BINARY: the program, else target/release/goalmill.
"""
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

COUNT, SLOTS = 10_000, 32
ROOT = Path(__file__).resolve().parents[2]
BINARY = os.environ.get("GOALMILL_BINARY", str(ROOT / "target/release/goalmill"))
REDIS = os.environ.get("PEERS_REDIS", "")

if REDIS:
    from celery import Celery
    app = Celery("peers", broker=REDIS)
    app.conf.update(worker_prefetch_multiplier=4, task_ignore_result=True)

    @app.task
    def noop(i):
        return None


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def until(what, holds, seconds=300):
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise SystemExit(f"{what}: not within {seconds} s")
        time.sleep(0.02)


def cpu(group):
    """Seconds of processor time of all processes of a group, with children that ended (Linux)."""
    used = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(") ", 1)[1].split()
        except OSError:
            continue
        if int(fields[2]) == group:
            used += sum(map(int, fields[11:15]))
    return used / os.sysconf("SC_CLK_TCK")


class Place:
    """A Redis of its own in a new directory, and the processes that use it."""

    def __enter__(self):
        self.folder, port = tempfile.TemporaryDirectory(), free_port()
        self.processes = []
        self.redis = f"redis://127.0.0.1:{port}"
        self.start(["redis-server", "--port", str(port), "--dir", self.folder.name, "--save", "", "--appendonly", "yes"])
        until("redis", lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0)
        return self

    def start(self, command, **environment):
        log = open(Path(self.folder.name) / "log", "ab")
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, env={**os.environ, **environment})
        self.processes.append(process)
        return process.pid

    def __exit__(self, *_):
        for process in reversed(self.processes):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.folder.cleanup()


def measure(name, worker, begin, is_done):
    used, start = cpu(worker), time.monotonic()
    begin()
    until(name, is_done)
    seconds = time.monotonic() - start
    print(f"{name}: {COUNT / seconds:.0f} a second, {(cpu(worker) - used) / COUNT * 1e6:.0f} us of CPU each", flush=True)


def steps():
    with Place() as place:
        url = f"http://127.0.0.1:{free_port()}"

        def ask(path, body=None):
            request = urllib.request.Request(url + path, json.dumps(body).encode() if body else None, {"content-type": "application/json"})
            with urllib.request.urlopen(request) as answer:
                return json.load(answer)

        def is_ready():
            try:
                return urllib.request.urlopen(url + "/readyz").status == 200
            except OSError:
                return False
        place.start([BINARY, "scheduler", "--redis", place.redis, "--listen", url.removeprefix("http://"), "--metrics", "off"],
                    GOALMILL__REDIS__ALLOW_UNSAFE="true")
        until("the scheduler", is_ready)
        source = f"from goalmill import Agent\na = Agent('noop')\n@a.action('*')\ndef noop(i: int) -> dict: return {{}}\na.serve(slots={SLOTS})"
        worker = place.start([sys.executable, "-c", source], GOALMILL_REDIS_URL=place.redis)
        until("the worker", lambda: len(ask("/v1/workers")["items"]) == 1)
        plan = {"name": "noop", "steps": [{"id": f"s{i}", "agent_type": "noop", "inputs": {"i": i}} for i in range(COUNT)]}
        run = []
        measure("steps", worker, lambda: run.append(ask("/v1/plans", plan)["plan_id"]),
                lambda: ask(f"/v1/plans/{run[0]}/explain")["status"] in ("completed", "failed"))
        if (end := ask(f"/v1/plans/{run[0]}/explain"))["status"] == "failed":
            raise SystemExit(end["summary"])


def celery(pool, concurrency):
    with Place() as place:
        import redis
        client = redis.Redis.from_url(place.redis)
        command = [sys.executable, "-m", "celery", "-A", "python", "--workdir", str(Path(__file__).parent)]
        worker = place.start([*command, "worker", "--pool", pool, "-c", str(concurrency), "-l", "ERROR"], PEERS_REDIS=place.redis)
        until("the worker", lambda: client.exists("_kombu.binding.celery"))
        fill = [sys.executable, "-c", f"import python\nwith python.app.producer_pool.acquire() as p:\n for i in range({COUNT}): python.noop.apply_async((i,), producer=p)"]
        # A task leaves `unacked` when a worker has taken and acknowledged it: before it runs, by default.
        measure(f"celery, {concurrency} {pool}", worker,
                lambda: subprocess.run(fill, check=True, cwd=Path(__file__).parent, env={**os.environ, "PEERS_REDIS": place.redis}),
                lambda: client.llen("celery") == 0 and client.hlen("unacked") == 0)


WAYS = {"steps": steps, "threads": lambda: celery("threads", SLOTS), "processes": lambda: celery("prefork", SLOTS)}
if __name__ == "__main__":
    for way in sys.argv[1:] or WAYS:
        WAYS[way]()
