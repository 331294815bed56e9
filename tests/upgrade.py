"""The work of tests/upgrade: each way from one build to another, and what happened to the plans meanwhile.

Each way starts two schedulers and two workers of the first build, submits plans all the time, starts as many of the second
build beside them, and ends those of the first one by one. Then it waits for all plans, and reads their logs.
"""
import itertools
import json
import pathlib
import signal
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
import uuid

from processes import Processes, call, free_port, headers, wait

COUNT = 2
SUBMIT_S = 0.1
# A submission that no scheduler accepts for so long ends the run.
SUBMIT_MAX_S = 120
# Plans that have not ended so long after the last submission hang.
HANG_S = 180
PLAN = {"steps": [
    {"id": "a", "agent_type": "sleep", "inputs": {"ms": 200}},
    *({"id": f"b{n}", "agent_type": "sleep", "inputs": {"ms": 300 * n}, "dependencies": ["a"]} for n in range(1, 4)),
    {"id": "c", "agent_type": "echo", "inputs": {"n": 1}, "dependencies": ["b1", "b2", "b3"]},
]}
ENDED = {"completed", "failed", "partial", "cancelled", "rejected"}
BAD = ("lost", "doubled", "hung", "not completed", "steps repeated")


class Installation(Processes):
    """One Redis; the schedulers and workers of two builds."""

    def __init__(self, folder):
        super().__init__(folder)
        self.url = f"redis://127.0.0.1:{self.start_redis()}"
        self.apis = []

    def start_build(self, name, program):
        """Two schedulers and two workers of a build, once they are ready."""
        started = []
        for n in range(COUNT):
            api, health = (f"127.0.0.1:{free_port()}" for _ in range(2))
            scheduler = self.start(f"{name}-scheduler-{n}", program, "scheduler", "--redis", self.url, "--listen", api, "--metrics", "off")
            worker = self.start(f"{name}-worker-{n}", program, "worker", "--redis", self.url, "--demo", "--slots", "32", "--listen", health)
            wait(lambda: call(f"http://{api}/readyz") is not None, f"scheduler {n} of the {name} build is ready")
            wait(lambda: call(f"http://{health}/readyz", text=True) is not None, f"worker {n} of the {name} build is ready")
            self.apis.append(f"http://{api}")
            started += [(worker, None), (scheduler, f"http://{api}")]
        return started

    def end(self, process, api, how):
        if api:
            self.apis.remove(api)
        process.send_signal(how)
        process.wait(timeout=150)


class Load(threading.Thread):
    """Submits plans one after the other, each until a scheduler accepts it. A submission that is sent again has the same key."""

    def __init__(self, it):
        super().__init__(daemon=True)
        self.it, self.stopped, self.plans, self.again, self.longest = it, threading.Event(), [], 0, 0.0
        # Plans of before, and the keys of this load.
        self.before, self.name = call(f"{it.apis[0]}/v1/overview")["plans"], uuid.uuid4().hex

    def run(self):
        while not self.stopped.wait(SUBMIT_S):
            self.submit(f"{self.name}-{len(self.plans)}")

    def submit(self, key):
        begun = time.monotonic()
        for attempt in itertools.count():
            assert time.monotonic() - begun < SUBMIT_MAX_S, f"no scheduler accepts `{key}`"
            apis = list(self.it.apis)
            api = apis[(len(self.plans) + attempt) % len(apis)]
            request = urllib.request.Request(f"{api}/v1/plans", json.dumps(PLAN).encode(),
                                             {**headers(), "idempotency-key": key})
            try:
                with urllib.request.urlopen(request, timeout=10) as answer:
                    self.plans.append(json.loads(answer.read())["plan_id"])
                    break
            except OSError as error:
                if getattr(error, "code", 503) < 500:
                    raise
                self.again += 1
                time.sleep(0.1)
        self.longest = max(self.longest, time.monotonic() - begun)


def events(api, plan):
    """All events of a plan."""
    found, after = [], 0
    while True:
        page = call(f"{api}/v1/plans/{plan}/events?after={after}&limit=500")["items"]
        if not page:
            return found
        found += page
        after = page[-1]["seq"]


def repeated(log):
    """Steps that were sent again, or completed again, after they had completed."""
    done, again = set(), set()
    for event in log:
        step = event.get("step_id")
        if step in done and event["type"] in ("step_queued", "step_started", "step_completed"):
            again.add(step)
        if event["type"] == "step_completed":
            done.add(step)
    return len(again)


def judge(it, load):
    """Counts what happened to the plans."""
    api, end = it.apis[0], time.monotonic() + HANG_S
    statuses = {}
    while time.monotonic() < end:
        open_plans = [plan for plan in load.plans if statuses.get(plan) not in ENDED]
        if not open_plans:
            break
        for plan in open_plans:
            try:
                statuses[plan] = call(f"{api}/v1/plans/{plan}")["status"]
            except urllib.error.HTTPError as error:
                statuses[plan] = "lost" if error.code == 404 else None
            except OSError:
                statuses[plan] = None
        time.sleep(0.2)
    logs = {plan: events(api, plan) for plan, status in statuses.items() if status != "lost"}
    return {
        "plans": len(load.plans),
        "lost": sum(status == "lost" for status in statuses.values()),
        "doubled": call(f"{api}/v1/overview")["plans"] - load.before - len(set(load.plans)),
        "hung": sum(status not in ENDED | {"lost"} for status in statuses.values()),
        "not completed": sum(status in ENDED - {"completed"} for status in statuses.values()),
        "steps repeated": sum(repeated(log) for log in logs.values()),
        "attempts lost": sum(event["type"] == "step_retrying" for log in logs.values() for event in log),
        "sent again": load.again,
        "longest wait": f"{load.longest:.1f} s",
    }


def steer_queues(api, verb):
    for queue in call(f"{api}/v1/queues")["items"]:
        call(f"{api}/v1/queues/{queue['agent_type']}:{verb}", {})


def is_idle(api):
    return all(queue["waiting"] == queue["running"] == 0 for queue in call(f"{api}/v1/queues")["items"])


def go(first, second, how, pause, with_paused_queues=False):
    """One way from a build to another."""
    with tempfile.TemporaryDirectory() as folder:
        it = Installation(pathlib.Path(folder))
        try:
            leaving = it.start_build("first", first)
            load = Load(it)
            load.start()
            time.sleep(pause)
            if with_paused_queues:
                steer_queues(it.apis[0], "pause")
                wait(lambda: is_idle(it.apis[0]), "no attempt is in flight")
            it.start_build("second", second)
            time.sleep(pause)
            for process, api in leaving:
                it.end(process, api, how)
                time.sleep(pause)
            if with_paused_queues:
                steer_queues(it.apis[0], "resume")
                time.sleep(pause)
            assert load.is_alive(), "plans are submitted until the end"
            load.stopped.set()
            load.join()
            return judge(it, load)
        finally:
            it.stop()


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit("usage: bash tests/upgrade OLD NEW [SECONDS]")
    old, new = (str(pathlib.Path(program).resolve()) for program in sys.argv[1:3])
    pause = float(sys.argv[3]) if len(sys.argv) == 4 else 3.0
    rows = []
    ends = {"SIGTERM": signal.SIGTERM, "kill -9": signal.SIGKILL}
    ways = [(name, end, False) for name in ("upgrade", "rollback") for end in ends] + [("rollback, queues paused", "SIGTERM", True)]
    for name, end, with_paused_queues in ways:
        first, second = (old, new) if name == "upgrade" else (new, old)
        rows.append({"way": name, "old processes end by": end, **go(first, second, ends[end], pause, with_paused_queues)})
        if len(rows) == 1:
            print("| " + " | ".join(rows[0]) + " |\n|" + "---|" * len(rows[0]))
        print("| " + " | ".join(str(value) for value in rows[-1].values()) + " |", flush=True)
    wrong = [row for row in rows if any(row[name] for name in BAD) or (row["old processes end by"] == "SIGTERM" and row["attempts lost"])]
    sys.exit(1 if wrong or not all(row["plans"] for row in rows) else 0)


if __name__ == "__main__":
    main()
