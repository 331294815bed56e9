#!/usr/bin/env python3
"""Scales real workers as KEDA and the Horizontal Pod Autoscaler would, with each trigger of the chart.

    python3 tests/scaling/run.py [--program PROGRAM] [--speed 10] [--plots FOLDER] [TRIGGER…]

Needs redis-server and Debian's python3-redis; `--plots` needs matplotlib. Redis, the scheduler and the workers are real processes; only the controller
and the time that a pod needs to start are made up. All times of the controller and of the steps are divided by `--speed`.
Prints a table for each trigger, and ends with 1 when a step was killed or ran twice.

Controller, with the values of deploy/helm/goalmill/values.yaml:

- KEDA wakes a pool (0 to 1) when a poll finds load, and puts it to sleep (to 0) when no poll found any for the cool-down
  period: https://keda.sh/docs/2.17/reference/scaledobject-spec/ (`pollingInterval`, `cooldownPeriod`).
- The autoscaler wants ceil(load / slots) pods every 15 s and does nothing within a tolerance of 10 %; upwards the larger of
  the policies, downwards the highest wish of the stabilisation window, at most the policy's share a minute:
  https://kubernetes.io/docs/concepts/workloads/autoscaling/horizontal-pod-autoscale/
"""
import argparse
import json
import math
import os
import pathlib
import random
import signal
import sys
import tempfile
import time

import redis

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from processes import Processes, call, free_port, wait

TYPES = ["sleep", "echo"]
SLOTS, PODS_MAX = 4, 20
POLL_S, SYNC_S, COOLDOWN_S, SCRAPE_S = 10, 15, 300, 30
UP_PODS, UP_PERCENT, UP_PERIOD_S = 4, 100, 15
DOWN_PERCENT, DOWN_PERIOD_S, DOWN_WINDOW_S = 25, 60, 300
TOLERANCE = 0.1
POD_START_S = 5
TRIGGERS = ["metrics-api", "redis-streams", "prometheus", "hpa"]
SEED = 17


class Installation(Processes):
    """Redis and one scheduler."""

    def __init__(self, program, folder):
        super().__init__(folder)
        self.program, self.port, api, metrics = program, self.start_redis(), free_port(), free_port()
        self.url, self.api = f"redis://127.0.0.1:{self.port}", f"http://127.0.0.1:{api}"
        self.metrics = f"http://127.0.0.1:{metrics}/metrics"
        self.start("scheduler", program, "scheduler", "--redis", self.url, "--listen", f"127.0.0.1:{api}",
                   "--metrics", f"127.0.0.1:{metrics}")
        wait(lambda: call(self.api + "/readyz") is not None, "the scheduler answers")

    def scaling(self):
        """What the API says of each agent type."""
        return [call(f"{self.api}/v1/scaling/{agent_type}") for agent_type in TYPES]

    def worker(self):
        return self.start("workers", self.program, "worker", "--redis", self.url, "--demo", "--agents", ",".join(TYPES), "--slots",
                          str(SLOTS), "--listen", f"127.0.0.1:{free_port()}")


class Trigger:
    """What an autoscaler reads, as often as it would."""

    def __init__(self, name, it, speed):
        self.name, self.it, self.age_max = name, it, SCRAPE_S / speed
        self.read_at, self.last = 0.0, 0.0
        self.redis = redis.Redis(port=it.port)

    def load(self):
        if self.name == "metrics-api":
            return sum(state["desired_slots"] for state in self.it.scaling())
        if self.name == "redis-streams":
            return sum(self.stream(t) for t in TYPES)
        if time.monotonic() - self.read_at >= self.age_max:
            self.read_at, lines = time.monotonic(), call(self.it.metrics, text=True).splitlines()
            wanted = [f'goalmill_scaling_desired_slots{{agent_type="{t}"}} ' for t in TYPES]
            self.last = sum(float(line.split()[-1]) for line in lines if line.startswith(tuple(wanted)))
        return self.last

    def stream(self, agent_type):
        try:
            group = self.redis.xinfo_groups(f"goalmill:steps:{agent_type}")[0]
        except redis.ResponseError:
            return 0  # There is no such stream yet.
        return (1 if group["lag"] is None else group["lag"]) + group["pending"]


class Pool:
    """Pods. A new one needs a while to start; which one has to drain and end is chance."""

    def __init__(self, it, speed):
        self.it, self.speed, self.random = it, speed, random.Random(SEED)
        self.starting, self.running, self.ending = [], [], []
        self.seconds, self.looked_at, self.killed = 0.0, time.monotonic(), 0

    def size(self):
        return len(self.starting) + len(self.running)

    def look(self):
        now = time.monotonic()
        self.seconds += (now - self.looked_at) * (len(self.running) + len(self.ending)) * self.speed
        self.looked_at = now
        for due in [due for due in self.starting if due <= now]:
            self.starting.remove(due)
            self.running.append(self.it.worker())
        for process in [process for process in self.ending if process.poll() is not None]:
            self.ending.remove(process)
            self.killed += process.returncode != 0

    def scale(self, wanted):
        while self.size() < wanted:
            self.starting.append(time.monotonic() + POD_START_S / self.speed)
        while self.size() > wanted:
            if self.starting:
                self.starting.pop()
                continue
            process = self.running.pop(self.random.randrange(len(self.running)))
            process.send_signal(signal.SIGTERM)
            self.ending.append(process)


class Controller:
    """KEDA between 0 and 1 pods, the Horizontal Pod Autoscaler above."""

    def __init__(self, trigger, pool, speed):
        self.trigger, self.pool, self.speed = trigger, pool, speed
        self.pods_min = 1 if trigger.name == "hpa" else 0
        self.active_at = self.polled_at = self.synced_at = -math.inf
        self.wishes, self.changes = [], []
        pool.scale(self.pods_min)

    def tick(self):
        now = time.monotonic() * self.speed
        if now - self.polled_at >= POLL_S:
            self.polled_at = now
            load = self.trigger.load()
            if load > 0:
                self.active_at = now
            if self.pods_min == 0:
                if self.pool.size() == 0 and load > 0:
                    self.set(1, now)
                elif self.pool.size() > 0 and now - self.active_at >= COOLDOWN_S:
                    self.set(0, now)
        if self.pool.size() > 0 and now - self.synced_at >= SYNC_S:
            self.synced_at = now
            self.sync(now)

    def sync(self, now):
        current, load = self.pool.size(), self.trigger.load()
        within = abs(load / (SLOTS * current) - 1) <= TOLERANCE
        wish = current if within else min(max(math.ceil(load / SLOTS), 1), PODS_MAX)
        self.wishes = [(at, w) for at, w in self.wishes if now - at < DOWN_WINDOW_S] + [(now, wish)]
        if wish > current:
            before = self.size_before(now, UP_PERIOD_S, current)
            self.set(min(wish, max(before + UP_PODS, math.ceil(before * (1 + UP_PERCENT / 100)))), now)
        elif wish < current:
            before = self.size_before(now, DOWN_PERIOD_S, current)
            least = math.floor(before * (1 - DOWN_PERCENT / 100))
            self.set(max(max(w for _, w in self.wishes), least), now)

    def size_before(self, now, period, current):
        return next((size for at, size in self.changes if now - at <= period), current)

    def set(self, size, now):
        if size != self.pool.size():
            self.changes.append((now, self.pool.size()))
            self.pool.scale(size)

    def turns(self):
        """How often it went the other way."""
        sizes = [size for _, size in self.changes] + [self.pool.size()]
        ups = [b > a for a, b in zip(sizes, sizes[1:])]
        return sum(a != b for a, b in zip(ups, ups[1:]))


def stages(speed):
    """Name and plans of each part of the load."""
    rng = random.Random(SEED)
    sleep = lambda n, seconds, after=(): {"id": f"s{n}", "agent_type": "sleep", "dependencies": list(after),
                                          "inputs": {"ms": max(1, round(seconds * 1000 / speed))}}
    burst = [{"steps": [sleep(n, rng.uniform(0.2, 3)) for n in range(100)]} for _ in range(50)]
    chain = [{"steps": [sleep(n, 3, [f"s{n - 1}"] if n else []) for n in range(30)]}]
    mixed = [{"steps": [sleep(n, 3) for n in range(60)] + [{"id": f"e{n}", "agent_type": "echo", "dependencies": [f"s{n}"]}
                                                           for n in range(60)]} for _ in range(10)]
    return [("5,000 steps", burst), ("one step", [{"steps": [sleep(0, 3)]}]), ("a chain of 30", chain), ("two types", mixed)]


def run(name, program, speed, folder):
    it = Installation(program, folder)
    try:
        return measure(name, it, speed)
    finally:
        it.stop()


def measure(name, it, speed):
    trigger, pool = Trigger(name, it, speed), Pool(it, speed)
    controller, begun, samples, marks, plans = Controller(trigger, pool, speed), time.monotonic(), [], [], []
    clock = lambda: (time.monotonic() - begun) * speed

    def turn():
        pool.look()
        controller.tick()
        state = it.scaling()
        samples.append((clock(), sum(s["waiting"] + s["ready"] for s in state), sum(s["running"] for s in state),
                        pool.size(), len(pool.running)))
        time.sleep(0.1)

    row = {"trigger": name}
    for stage, bodies in stages(speed):
        at, worked = clock(), pool.seconds
        ids = [call(f"{it.api}/v1/plans", {"name": stage, **body})["plan_id"] for body in bodies]
        plans += ids
        marks.append((at, stage))
        done = lambda plan: call(f"{it.api}/v1/plans/{plan}")["status"] not in ("running", "planning")
        open_, first = list(ids), None
        while open_:
            turn()
            if first is None and samples[-1][2]:
                first = clock() - at
            while open_ and done(open_[-1]):
                open_.pop()
            if clock() - at > 3_000:
                sys.exit(f"{name}: {stage} does not end")
        row[stage] = clock() - at
        row.setdefault("first", first if first is not None else clock() - at)
        idle = clock()
        while pool.size() > controller.pods_min or pool.ending:
            turn()
            if clock() - idle > 3_000:
                sys.exit(f"{name}: the pool does not go down after {stage}")
        row[stage + " worker-s"] = pool.seconds - worked
    row["worker-seconds"], row["turns"], row["killed"] = pool.seconds, controller.turns(), pool.killed
    row["twice"] = sum(started_twice(it, plan) for plan in plans)
    return row, samples, marks


def started_twice(it, plan):
    """Steps of a plan with more than one attempt."""
    return sum(step["attempt"] > 1 for step in call(f"{it.api}/v1/plans/{plan}")["steps"])


def plot(name, samples, marks, folder):
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    times, waiting, flying, wanted, actual = zip(*samples)
    figure, (top, below) = pyplot.subplots(2, 1, sharex=True, figsize=(9, 4.6), layout="constrained")
    top.plot(times, waiting, label="waiting steps", color="#4269d0")
    top.plot(times, flying, label="steps with workers", color="#3ca951")
    top.set_yscale("symlog")
    below.step(times, wanted, label="wanted pods", color="#999999", where="post")
    below.step(times, actual, label="running pods", color="#ff725c", where="post")
    below.set_xlabel("seconds")
    for axis in (top, below):
        axis.legend(loc="upper right", fontsize=8)
        axis.grid(alpha=0.3)
        for at, _ in marks:
            axis.axvline(at, color="#bbbbbb", linewidth=0.8)
    for at, stage in marks:
        top.annotate(stage, (at, 1.02), xycoords=("data", "axes fraction"), fontsize=8)
    figure.savefig(folder / f"scaling-{name}.svg")
    pyplot.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=str(ROOT / "target/debug/goalmill"))
    parser.add_argument("--speed", type=float, default=10)
    parser.add_argument("--plots", type=pathlib.Path)
    parser.add_argument("triggers", nargs="*", choices=[[], *TRIGGERS], metavar="TRIGGER")
    words = parser.parse_args()
    rows = []
    for name in words.triggers or TRIGGERS:
        with tempfile.TemporaryDirectory() as folder:
            row, samples, marks = run(name, os.path.abspath(words.program), words.speed, pathlib.Path(folder))
        rows.append(row)
        print(f"{name}: {json.dumps({k: round(v, 1) for k, v in row.items() if k != 'trigger'})}", file=sys.stderr, flush=True)
        if words.plots:
            plot(name, samples, marks, words.plots)
    names = [stage for stage, _ in stages(words.speed)]
    print("| trigger | first start (s) | " + " | ".join(f"{n} (s)" for n in names) + " | worker-seconds | killed | run twice | turns |")
    print("|---" * (len(names) + 6) + "|")
    for row in rows:
        times = " | ".join(f"{row[n]:.0f}" for n in names)
        print(f"| {row['trigger']} | {row['first']:.0f} | {times} | {row['worker-seconds']:.0f} | {row['killed']} | {row['twice']} | {row['turns']} |")
    sys.exit(any(row["killed"] or row["twice"] for row in rows))


if __name__ == "__main__":
    main()
