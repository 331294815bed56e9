"""10,000 steps that do nothing through a Python worker with 32 slots, beside 10,000 tasks of Celery.

    python3 -m venv V && V/bin/pip install ./sdk/python 'celery[redis]' && V/bin/python tests/peers/python.py [steps|threads|processes …]

`steps`: a plan of 10,000 steps, a scheduler and the worker. `threads`, `processes`: Celery with 32 of them; results are not kept.
CPU is that of the worker with all its processes. GOALMILL_BINARY: the program, else target/release/goalmill.
"""
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from processes import Processes, call, free_port, wait

COUNT, SLOTS = 10_000, 32
BINARY = os.environ.get("GOALMILL_BINARY", str(ROOT / "target/release/goalmill"))
REDIS = os.environ.get("PEERS_REDIS", "")

if REDIS:
    from celery import Celery
    app = Celery("peers", broker=REDIS)
    app.conf.update(worker_prefetch_multiplier=4, task_ignore_result=True)

    @app.task
    def noop(i):
        return None


def cpu(process):
    """Seconds of processor time of a process and its children, also of those that ended (Linux)."""
    used = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(") ", 1)[1].split()
        except OSError:
            continue
        if process.pid in (int(stat.parent.name), int(fields[1])):
            used += sum(map(int, fields[11:15]))
    return used / os.sysconf("SC_CLK_TCK")


@contextmanager
def redis():
    """A Redis of its own: its URL, and the processes that use it."""
    with tempfile.TemporaryDirectory() as folder:
        processes = Processes(Path(folder))
        try:
            yield f"redis://127.0.0.1:{processes.start_redis()}", processes
        finally:
            processes.stop()


def measure(name, worker, begin, is_done):
    used, start = cpu(worker), time.monotonic()
    begin()
    wait(is_done, name, 300)
    seconds = time.monotonic() - start
    print(f"{name}: {COUNT / seconds:.0f} a second, {(cpu(worker) - used) / COUNT * 1e6:.0f} us of CPU each", flush=True)
    worker.terminate()
    worker.wait()


def steps():
    with redis() as (url, processes):
        listen = f"127.0.0.1:{free_port()}"
        api = f"http://{listen}"
        os.environ |= {"GOALMILL__REDIS__ALLOW_UNSAFE": "true", "GOALMILL_REDIS_URL": url}
        processes.start("scheduler", BINARY, "scheduler", "--redis", url, "--listen", listen, "--metrics", "off")
        wait(lambda: call(f"{api}/readyz", text=True), "the scheduler")
        source = f"from goalmill import Agent\na = Agent('noop')\n@a.action('*')\ndef noop(i: int) -> dict: return {{}}\na.serve(slots={SLOTS})"
        worker = processes.start("worker", sys.executable, "-c", source)
        wait(lambda: len(call(f"{api}/v1/workers")["items"]) == 1, "the worker")
        plan = {"name": "noop", "steps": [{"id": f"s{i}", "agent_type": "noop", "inputs": {"i": i}} for i in range(COUNT)]}
        run = []
        explain = lambda: call(f"{api}/v1/plans/{run[0]}/explain")
        measure("steps", worker, lambda: run.append(call(f"{api}/v1/plans", plan)["plan_id"]),
                lambda: explain()["status"] in ("completed", "failed"))
        if (end := explain())["status"] == "failed":
            raise SystemExit(end["summary"])


def celery(pool, concurrency):
    with redis() as (url, processes):
        from redis import Redis
        client = Redis.from_url(url)
        os.environ["PEERS_REDIS"] = url
        here = str(Path(__file__).parent)
        worker = processes.start("worker", sys.executable, "-m", "celery", "-A", "python", "--workdir", here,
                                 "worker", "--pool", pool, "-c", str(concurrency), "-l", "ERROR")
        wait(lambda: client.exists("_kombu.binding.celery"), "the worker")
        fill = f"import python\nwith python.app.producer_pool.acquire() as p:\n for i in range({COUNT}): python.noop.apply_async((i,), producer=p)"
        # A task leaves `unacked` when a worker has taken and acknowledged it: before it runs, by default.
        measure(f"celery, {concurrency} {pool}", worker,
                lambda: subprocess.run([sys.executable, "-c", fill], check=True, cwd=here),
                lambda: client.llen("celery") == 0 and client.hlen("unacked") == 0)


WAYS = {"steps": steps, "threads": lambda: celery("threads", SLOTS), "processes": lambda: celery("prefork", SLOTS)}
if __name__ == "__main__":
    for way in sys.argv[1:] or WAYS:
        WAYS[way]()
