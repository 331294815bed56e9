"""Plans of durable calls under faults, with the default limits: see `tests/sdk/kills`.

A plan has one step, a step has four chains of five calls at the same time, a call has an outcome of 20 kB. The model numbers its
answers, and a call sends the number of the answer before it, so that a value that was used and then lost is seen.
"""
import argparse
import collections
import datetime
import itertools
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from processes import Processes, call, free_port, wait

BINARY = os.environ.get("GOALMILL_BINARY", str(ROOT / "target/debug/goalmill"))
FAULTS = ["program", "worker", "scheduler", "redis-always", "redis-everysec", "failover", "sigterm"]
CHAINS, CALLS = 4, 5
OUTCOME_BYTES = 20_000
PROGRAMS = 2
#: After the last fault. A lease of a killed worker has 30 s.
END_S = 240
FINAL = {"completed", "partial", "failed", "cancelled", "rejected"}
COLUMNS = ["language", "fault", "plans", "faults", "calls made", "in flight, made again", "recorded, repeated", "keys reused", "effects lost",
           "steps hung", "plans ended", "completed", "unasked ends", "s"]

PYTHON = '''
import asyncio, os, httpx
from goalmill import Agent, AsyncContext
agent = Agent("chains")
client = httpx.AsyncClient(timeout=60, limits=httpx.Limits(max_connections=None))

@agent.action
async def work(ctx: AsyncContext) -> dict[str, list[list[int]]]:
    async def ask(place: str, before: int, idempotency_key: str) -> str:
        url = f"{os.environ['MODEL']}/{ctx.plan}/{place}/{before}"
        return (await client.post(url, headers={"Idempotency-Key": idempotency_key})).text

    async def chain(number: int) -> list[int]:
        got = [0]
        for n in range(CALLS):
            text = await ctx.call(f"{number}.{n}", ask, f"{number}.{n}", got[-1])
            got.append(int(text.split()[0]))
        return got[1:]
    return {"chains": await asyncio.gather(*(chain(number) for number in range(CHAINS)))}

agent.serve(drain=30)
'''
TYPESCRIPT = '''
import { agent } from 'goalmill';
const chains = agent('chains');
chains.action('work', async (_, ctx) => {
  const chain = async (number) => {
    const got = [0];
    for (let n = 0; n < CALLS; n += 1) {
      const before = got.at(-1);
      const url = `${process.env.MODEL}/${ctx.plan}/${number}.${n}/${before}`;
      const ask = async (key) => (await fetch(url, { method: 'POST', headers: { 'Idempotency-Key': key } })).text();
      const text = await ctx.call(`${number}.${n}`, ask, { inputs: before });
      got.push(Number(text.split(' ')[0]));
    }
    return got.slice(1);
  };
  return { chains: await Promise.all(Array.from({ length: CHAINS }, (_, number) => chain(number))) };
});
await chains.serve({ drain: '30s' });
'''

Request = collections.namedtuple("Request", "at key plan place before answer")


class Model:
    """Answers each request with its number and 20 kB, and keeps what it was asked."""

    def __init__(self, answer_s):
        self.requests, self.numbers = [], itertools.count(1)
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                _, plan, place, before = self.path.split("/")
                answer = next(model.numbers)
                model.requests.append(Request(time.time(), self.headers["Idempotency-Key"], plan, place, int(before), answer))
                time.sleep(random.uniform(0.1, 1.9) * answer_s)
                body = f"{answer} ".encode().ljust(OUTCOME_BYTES, b"x")
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            request_queue_size = 256
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.handle_error = lambda *_: None  # clients are killed here
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


class Installation(Processes):
    """Redis, a scheduler and two programs. One that ends is started again."""

    def __init__(self, folder, language, fault, model):
        super().__init__(folder)
        self.fault, self.turn = fault, itertools.count()
        self.source = folder / {"python": "agent.py", "typescript": "agent.mjs"}[language]
        text = {"python": PYTHON, "typescript": TYPESCRIPT}[language]
        numbers = f"const CHAINS = {CHAINS}, CALLS = {CALLS};" if language == "typescript" else f"CHAINS, CALLS = {CHAINS}, {CALLS}"
        self.source.write_text(numbers + text)
        if language == "typescript":
            (folder / "node_modules").mkdir()
            (folder / "node_modules/goalmill").symlink_to(ROOT / "target/sdk/typescript")
        self.program = {"python": str(ROOT / "target/python/venv/bin/python"), "typescript": "node"}[language]
        self.redis, self.sentinel_port, self.unasked, self.drained = {}, None, 0, []
        self.port, self.model = free_port(), model
        self.api = f"http://127.0.0.1:{self.port}"

    def begin(self):
        fault = self.fault
        ports = [free_port() for _ in range(3 if fault == "failover" else 1)]
        for port in ports:
            self.start_kept_redis(port, ports[0])
        self.redis_url = f"redis://127.0.0.1:{ports[0]}"
        if fault == "failover":
            self.start_sentinel(ports[0])
            self.redis_url = f"redis+sentinel://127.0.0.1:{self.sentinel_port}/plans"
        self.environment = [f"GOALMILL_REDIS_URL={self.redis_url}", f"GOALMILL_BINARY={BINARY}", f"MODEL={self.model.url}"]
        self.scheduler = self.start_scheduler()
        wait(lambda: call(f"{self.api}/readyz"), "the scheduler is ready")
        self.programs = [self.start_program() for _ in range(PROGRAMS)]
        wait(lambda: len(call(f"{self.api}/v1/workers")["items"]) == PROGRAMS, "the programs serve")

    def start_kept_redis(self, port, primary):
        (self.folder / f"redis-{port}").mkdir(exist_ok=True)
        sync = "always" if self.fault == "redis-always" else "everysec"
        words = ["--dir", str(self.folder / f"redis-{port}"), "--save", "", "--appendonly", "yes", "--appendfsync", sync]
        if self.fault == "failover":
            words += ["--min-replicas-to-write", "1", "--repl-backlog-size", "64mb", "--repl-diskless-sync-delay", "0"]
            words += [] if port == primary else ["--replicaof", f"127.0.0.1 {primary}"]
        self.redis[port] = self.start("redis", "redis-server", "--port", str(port), "--bind", "127.0.0.1", *words)
        wait(lambda: socket.create_connection(("127.0.0.1", port), 1).close() is None, "Redis listens")

    def start_sentinel(self, primary):
        self.sentinel_port = free_port()
        config = self.folder / "sentinel.conf"
        config.write_text(f"port {self.sentinel_port}\ndir {self.folder}\nsentinel monitor plans 127.0.0.1 {primary} 1\n"
                          "sentinel down-after-milliseconds plans 1000\nsentinel failover-timeout plans 6000\n")
        self.start("sentinel", "redis-server", str(config), "--sentinel")
        wait(lambda: self.linked() == 2, "the replicas follow")

    def start_scheduler(self):
        return self.start("scheduler", BINARY, "scheduler", "--redis", self.redis_url, "--listen", f"127.0.0.1:{self.port}", "--metrics", "off")

    def start_program(self):
        return self.start("program", "env", *self.environment, self.program, str(self.source))

    def sentinel(self, *words):
        """What the Sentinel answers; `None` while it is away."""
        asked = ["redis-cli", "-p", str(self.sentinel_port), "--json", "SENTINEL", *words]
        answer = subprocess.run(asked, capture_output=True, text=True)
        return json.loads(answer.stdout) if answer.returncode == 0 and answer.stdout.startswith(('"', "[")) else None

    def linked(self):
        """How many replicas follow the primary."""
        follows = [one.get("flags") == "slave" and one.get("master-link-status") == "ok" and one.get("role-reported") == "slave"
                   for one in self.sentinel("REPLICAS", "plans") or []]
        return sum(follows)

    def watch(self):
        """Starts again what has ended, as a supervisor does."""
        for n, program in enumerate(self.programs):
            if program.poll() is not None:
                self.unasked += 1
                self.programs[n] = self.start_program()

    def break_something(self):
        {"program": self.kill_program, "worker": self.kill_worker, "scheduler": self.kill_scheduler, "failover": self.fail_over,
         "redis-always": self.kill_redis, "redis-everysec": self.kill_redis, "sigterm": self.drain_program}[self.fault]()

    def kill_program(self):
        n = next(self.turn) % PROGRAMS
        self.programs[n].kill()
        self.programs[n].wait()
        self.programs[n] = self.start_program()

    def kill_worker(self):
        n = next(self.turn) % PROGRAMS
        children = []

        def has_child():
            children[:] = subprocess.run(["pgrep", "-P", str(self.programs[n].pid)], capture_output=True, text=True).stdout.split()
            return children
        wait(has_child, "the program has a worker process")
        os.kill(int(children[0]), signal.SIGKILL)
        self.programs[n].wait(timeout=60)  # it ends with its worker
        self.programs[n] = self.start_program()

    def kill_scheduler(self):
        self.scheduler.kill()
        self.scheduler.wait()
        self.scheduler = self.start_scheduler()

    def kill_redis(self):
        (port, redis), = self.redis.items()
        redis.kill()
        redis.wait()
        self.start_kept_redis(port, port)

    def fail_over(self):
        wait(lambda: self.linked() == 2, "the replicas follow", 240)
        before = self.sentinel("GET-MASTER-ADDR-BY-NAME", "plans")
        wait(lambda: self.sentinel("FAILOVER", "plans") == "OK", "a failover begins")
        wait(lambda: self.sentinel("GET-MASTER-ADDR-BY-NAME", "plans") != before, "a replica is promoted")

    def drain_program(self):
        n = next(self.turn) % PROGRAMS
        self.programs[n].send_signal(signal.SIGTERM)
        self.drained.append(self.programs[n])
        self.programs[n] = self.start_program()

    def end_drains(self):
        """Counts programs that did not end as SIGTERM asks. One that did not serve yet ends by the signal."""
        self.unasked += sum(program.wait(40) not in (0, -signal.SIGTERM) for program in self.drained)


def statuses(api):
    listed = call(f"{api}/v1/plans?limit=500")["items"]
    return {plan["plan_id"]: plan["status"] for plan in listed}


def events(api, plan):
    found, after = [], 0
    while items := call(f"{api}/v1/plans/{plan}/events?after={after}&limit=500")["items"]:
        found += items
        after = items[-1]["seq"]
    return found


def seconds(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def count(api, model, ends):
    """What must be 0, by its name, and the calls that were in flight when something was killed."""
    counts = collections.Counter({"repeated": 0, "keys reused": 0, "effects lost": 0, "hung": 0, "ended": 0, "completed": 0})
    asked, keys = collections.defaultdict(list), collections.defaultdict(set)
    for request in list(model.requests):
        asked[request.plan, request.place].append(request)
        keys[request.key].add((request.plan, request.place))
    counts["keys reused"] = sum(len(calls) > 1 for calls in keys.values())
    counts["keys reused"] += sum(len({request.key for request in requests}) > 1 for requests in asked.values())
    for plan, status in ends.items():
        if status not in FINAL:
            counts["hung"] += 1
            continue
        counts["completed" if status == "completed" else "ended"] += 1
        recorded = {event["data"]["name"]: seconds(event["time"]) for event in events(api, plan) if event["type"] == "call_recorded"}
        output = call(f"{api}/v1/plans/{plan}/results?whole=true")["results"].get("s", {})
        for chain, answers in enumerate(output.get("chains", [])):
            for n, answer in enumerate(answers):
                requests, following = asked[plan, f"{chain}.{n}"], asked.get((plan, f"{chain}.{n + 1}"), [])
                known = min([recorded.get(f"{chain}.{n}", 0), *(request.at for request in following)])
                counts["repeated"] += sum(request.at > known for request in requests)
                is_kept = answer in {request.answer for request in requests} and all(request.before == answer for request in following)
                counts["effects lost"] += not is_kept
    again = sum(len(requests) - 1 for requests in asked.values()) - counts["repeated"]
    return counts, again


def run(language, fault, plans, kills, answer_s):
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"goalmill-kills-{language}-{fault}-"))
    model, begun, calls = Model(answer_s), time.monotonic(), plans * CHAINS * CALLS
    installation = Installation(folder, language, fault, model)
    try:
        installation.begin()
        step = {"id": "s", "agent_type": "chains", "action": "work", "inputs": {}}
        ids = [call(f"{installation.api}/v1/plans", {"steps": [step]})["plan_id"] for _ in range(plans)]
        ended = {}

        def end():
            installation.watch()
            ended.update((plan, status) for plan, status in statuses(installation.api).items() if plan in ids)
            return all(ended.get(plan) in FINAL for plan in ids)

        def share():
            return len({(request.plan, request.place) for request in list(model.requests)}) / calls
        done, limit = 0, time.monotonic() + END_S
        while done < kills and share() < 1 and time.monotonic() < limit:
            if share() >= (done + 1) / (kills + 1):
                installation.break_something()
                done, limit = done + 1, time.monotonic() + END_S
            installation.watch()
            time.sleep(0.02)
        limit = time.monotonic() + END_S
        while time.monotonic() < limit:
            try:
                if end():
                    break
            except OSError as error:
                if getattr(error, "code", 503) < 500:
                    raise
            time.sleep(0.2)
        installation.end_drains()
        counts, again = count(installation.api, model, {plan: ended.get(plan, "unknown") for plan in ids})
        for plan in ids:
            if ended.get(plan) != "completed":
                (folder / f"{plan}.json").write_text(json.dumps(events(installation.api, plan), indent=1))
    finally:
        installation.stop()
        model.server.shutdown()
    counts["unasked"] = installation.unasked
    # A failover takes ten seconds: the plans may end before all of them.
    has_faults = done > 0 if fault == "failover" else done == kills
    is_good = has_faults and counts["completed"] == plans and all(n == 0 for name, n in counts.items() if name != "completed")
    shown = " | ".join(str(n) for n in counts.values())
    print(f"| {language} | {fault} | {plans} | {done} | {len(model.requests)} | {again} | {shown} | "
          f"{time.monotonic() - begun:.0f} |{'' if is_good else f' see {folder}'}", flush=True)
    if is_good:
        subprocess.run(["rm", "-rf", str(folder)], check=True)
    return is_good


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("languages", nargs="*", default=["python", "typescript"])
    parser.add_argument("--plans", type=int, default=100)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--answer", type=float, default=0.5)
    parser.add_argument("--only", default=",".join(FAULTS))
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    print(f"| {' | '.join(COLUMNS)} |\n|" + "---|" * len(COLUMNS), flush=True)
    good = [run(language, fault, asked.plans, asked.kills, asked.answer) for language in asked.languages for fault in asked.only.split(",")]
    sys.exit(0 if all(good) else 1)


main()
