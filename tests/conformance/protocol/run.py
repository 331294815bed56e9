"""Plays the scheduler's side of protocol 1 against a worker, and checks what it reports: README.md has the format.

    python3 run.py --worker "python agent.py" [--cut] [PART OF A NAME…]
"""
import argparse, contextlib, json, os, re, shlex, shutil, signal, socket, subprocess, sys, tempfile, threading, time, traceback, uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import redis

HERE = Path(__file__).resolve().parent
LIBRARY = HERE.parents[2] / "common/broker/src/redis/functions.lua"
REPORTS = "goalmill:{s0}:reports"
FINAL = {"completed", "partial_success", "failed", "suspended", "released"}
# A worker that serves another process may say that it is gone.
PASSED = {"started", "progress", "lost"}
LIMIT_S = 30.0  # for one line of a script; only a failure takes so long
CLOCK_MS = 50  # difference of the clocks that a worker waits and reports by
INLINE_MAX, OUTCOME_MAX = 256 << 10, 16 << 10


class Wrong(Exception):
    """The worker did what it must not, or did not do what it must."""


def wait(until, what):
    """The first true value of `until()`; asks every 10 ms."""
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        if value := until():
            return value
        time.sleep(0.01)
    raise Wrong(f"after {LIMIT_S:.0f} s: {what() if callable(what) else what}")


def expand(value, plan):
    """Replaces `<plan>` and `$repeat`."""
    if isinstance(value, str):
        return value.replace("<plan>", plan)
    if isinstance(value, list):
        return [expand(item, plan) for item in value]
    if isinstance(value, dict):
        if "$repeat" in value:
            text, times = value["$repeat"]
            return text * times
        return {name: expand(item, plan) for name, item in value.items()}
    return value


def differs(expected, found, at=""):
    """Where `found` does not fit, or None."""
    if isinstance(expected, dict):
        if expected == {"$any": True}:
            return f"{at} is missing" if found is None else None
        if expected == {"$missing": True}:
            return f"{at} is there: {short(found)}" if found is not None else None
        if "$text" in expected:
            fits = isinstance(found, str) and re.search(expected["$text"], found)
            return None if fits else f"{at} is {short(found)}, and must match {expected['$text']}"
        if not isinstance(found, dict):
            return f"{at or '/'} is {short(found)}, and must be an object"
        places = (differs(item, found.get(name), f"{at}/{name}") for name, item in expected.items())
        return next((place for place in places if place), None)
    if isinstance(expected, list):
        if not isinstance(found, list) or len(found) != len(expected):
            return f"{at} is {short(found)}, and must be a list of {len(expected)}"
        places = (differs(e, f, f"{at}/{n}") for n, (e, f) in enumerate(zip(expected, found)))
        return next((place for place in places if place), None)
    same = expected == found and isinstance(expected, bool) == isinstance(found, bool)
    return None if same else f"{at} is {short(found)}, and must be {short(expected)}"


def short(value):
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) < 200 else f"{text[:200]}… ({len(text)} characters)"


class Server:
    """A `redis-server` on a free port; its data are kept when it is stopped."""

    def __init__(self, folder):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.folder, self.process = folder, None
        self.start()

    def start(self):
        program = os.environ.get("REDIS_SERVER", "redis-server")
        options = ["--port", str(self.port), "--dir", self.folder, "--appendonly", "yes", "--appendfsync", "always",
                   "--save", "", "--bind", "127.0.0.1", "--maxmemory-policy", "noeviction"]
        self.process = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.r = redis.Redis(port=self.port, decode_responses=True)
        wait(self.answers, "redis-server does not answer")

    def answers(self):
        try:
            return self.r.ping()
        except redis.RedisError:
            return False

    def stop(self):
        self.process.terminate()
        self.process.wait()


class Callbacks(ThreadingHTTPServer):
    """Takes what agents send to the callback of a task: path → headers and JSON."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), CallbackHandler)
        self.posted = {}
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def address(self, name):
        return f"http://127.0.0.1:{self.server_address[1]}/{name}"


class CallbackHandler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.posted[self.path] = (self.headers, json.loads(body))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Run:
    """One vector."""

    def __init__(self, vector, server, callbacks, command, folder, cuts):
        self.callbacks = callbacks
        self.vector, self.server, self.command, self.cuts = vector, server, command, cuts
        self.folder = Path(folder)
        self.plan = f"p0-{uuid.uuid4().hex[:16]}"
        self.tasks, self.tokens = {}, {}  # by name: (stream, entry, task); token
        self.reports, self.seen, self.last = [], [], "0-0"
        self.recorded, self.suspended, self.worker, self.starts = {}, {}, None, 0

    @property
    def r(self):
        return self.server.r

    def play(self):
        self.r.flushall()
        self.r.execute_command("FUNCTION", "LOAD", "REPLACE", LIBRARY.read_text())
        self.r.hset("goalmill:meta", mapping={"instance": uuid.uuid4().hex, "protocol": "1", "shards": "1",
                                              "streams": "goalmill:steps:<agent_type>",
                                              "limits": json.dumps(self.vector.get("limits", {}))})
        try:
            self.start(True)
            for number, line in enumerate(self.vector["script"]):
                try:
                    self.do(dict(line))
                except Exception as error:
                    raise Wrong(f"line {number} {short(line)}: {error}") from error
            self.poll()
            if left := [report for report, _ in self.reports if report["what"] not in PASSED]:
                raise Wrong(f"a report that no line expects: {short(left[0])}")
        finally:
            self.kill()

    def do(self, line):
        verb = next(iter(line))
        is_up = self.server.process.poll() is None
        if self.cuts and is_up and verb in ("send", "repeat", "go", "cancel", "signal"):
            self.cut(True)
        getattr(self, verb)(line.pop(verb), **{{"as": "name"}.get(key, key): value for key, value in line.items()})

    # The worker

    def start(self, _):
        environment = {**os.environ, "GOALMILL_REDIS_URL": f"redis://127.0.0.1:{self.server.port}",
                       "GOALMILL_VECTOR_DIR": str(self.folder), "PYTHONUNBUFFERED": "1"}
        with open(self.folder / "output", "ab") as output:
            self.worker = subprocess.Popen(self.command, env=environment, stdout=output, stderr=output)
        self.starts += 1
        self.alive(True)  # its signal handlers are there before its first heartbeat

    def signal(self, name):
        self.worker.send_signal(getattr(signal, f"SIG{name}"))
        if name == "KILL":
            self.kill()
            self.r.delete("goalmill:workers", "goalmill:workers:beats")

    def kill(self):
        """Kills the worker, and waits (on Linux) until a process that serves it has ended too: it may still read tasks."""
        if self.worker.poll() is None:
            self.worker.kill()
        self.worker.wait()
        wait(lambda: not self.lives(), "a process that the worker has started does not end")

    def lives(self):
        mark = f"GOALMILL_VECTOR_DIR={self.folder}".encode()
        for environment in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if mark in environment.read_bytes():
                    return True
        return False

    def exit(self, code):
        wait(lambda: self.worker.poll() is not None, "the worker has not ended")
        if self.worker.returncode != code:
            raise Wrong(f"the worker ended with {self.worker.returncode}")

    def alive(self, expected):
        def beats():
            if self.worker.poll() is not None and expected:
                raise Wrong(f"the worker has ended with {self.worker.returncode}")
            found = self.r.zrange("goalmill:workers", 0, -1)
            texts = self.r.hmget("goalmill:workers:beats", found) if found else []
            return bool(found and all(texts)) is expected
        wait(beats, f"heartbeats of the worker: {self.r.zrange('goalmill:workers', 0, -1)}")
        if expected:
            beat = json.loads(self.r.hvals("goalmill:workers:beats")[0])
            if place := differs({"worker": {"$any": True}, "slots": 4, "agents": {"$any": True}}, beat):
                raise Wrong(f"the heartbeat: {place}")

    def drain(self, _):
        self.r.set(f"goalmill:workers:drain:{self.r.zrange('goalmill:workers', 0, -1)[0]}", "1", px=86400000)

    def draining(self, _):
        def says():
            return any(json.loads(beat).get("draining") for beat in self.r.hvals("goalmill:workers:beats"))
        wait(says, "no heartbeat has `draining`")

    def registered(self, card):
        name = card["agent_type"]
        found = wait(lambda: self.r.hget("goalmill:agents", name), f"`{name}` is not registered")
        if place := differs(card, json.loads(found)):
            raise Wrong(f"the card: {place}")
        wait(lambda: self.r.sismember("goalmill:queues", name), f"`{name}` is not in goalmill:queues")

    def cut(self, _):
        mine = self.r.client_id()
        for client in self.r.client_list():
            if int(client["id"]) != mine:
                self.r.execute_command("CLIENT", "KILL", "ID", client["id"])

    def redis(self, act):
        getattr(self.server, act)()

    # Tasks

    def token(self, name):
        return self.tokens.setdefault(name, uuid.uuid4().hex)

    def send(self, fields, name="task", answer=None, v="1", raw=None, callback=False):
        fields = expand(fields, self.plan)
        step = fields.get("step", "s")
        task = {"plan": self.plan, "step": step, "attempt": 1, "token": self.token(name), "inputs": {},
                "timeout_ms": 60000, "lease_ms": 30000, "reply": REPORTS,
                "idempotency_key": f"{self.plan}:{step}",
                "traceparent": f"00-{uuid.uuid4().hex}-{uuid.uuid4().hex[:16]}-01", **fields}
        if task.get("calls") == "recorded":
            self.poll()
            task["calls"] = list(self.recorded.get(step, []))
        if answer is not None:
            call = {key: value for key, value in self.suspended[step].items() if key != "wait"}
            task["calls"].append({**call, "outcome": answer})
        if callback:
            task["callback"] = {"url": self.callbacks.address(f"{self.plan}/{name}"), "token": uuid.uuid4().hex}
        self.add(name, task, v, raw)

    def add(self, name, task, v="1", raw=None):
        stream = f"goalmill:steps:{task['agent_type']}"
        text = raw if raw is not None else json.dumps(task, ensure_ascii=False)
        entry = self.r.xadd(stream, {"v": v, "data": text})
        self.tasks[name] = (stream, entry, task)

    def repeat(self, name_of_first, name):
        self.add(name, self.tasks[name_of_first][2])

    def blob(self, blob):
        text = json.dumps(expand(blob["json"], self.plan))
        self.r.set(f"goalmill:blob:{{s0}}:{self.plan}:{blob['name']}", text, px=604800000)

    def cancel(self, name):
        seconds, micros = self.r.time()
        self.r.zadd("goalmill:cancelled", {self.token(name): seconds * 1000 + micros // 1000})
        self.r.publish("goalmill:cancel", f"{uuid.uuid4().hex} {self.token(name)}")

    def pending(self, name):
        stream, entry, _ = self.tasks[name]
        try:
            found = self.r.xpending_range(stream, "workers", min=entry, max=entry, count=1)
        except redis.ResponseError:
            return None
        return found[0] if found else None

    def extended(self, name):
        lease_ms = self.tasks[name][2]["lease_ms"]
        idle, falls = 0, 0

        def fell():
            nonlocal idle, falls
            now = self.pending(name)
            if now is None or now["time_since_delivered"] > lease_ms:
                raise Wrong(f"the lease has run out: {now}")
            falls += now["time_since_delivered"] < idle
            idle = now["time_since_delivered"]
            return falls >= 2
        wait(fell, "the lease was not extended twice")

    def take(self, name):
        stream, entry, _ = self.tasks[name]
        self.r.xclaim(stream, "workers", "other", 0, [entry])

    def unread(self, name):
        if found := self.pending(name):
            raise Wrong(f"it was read: {found}")

    def held(self, number):
        def count():
            streams = {stream for stream, _, _ in self.tasks.values()}
            found = sum(self.r.xpending(stream, "workers")["pending"] for stream in streams)
            if found > number:
                raise Wrong(f"the worker holds {found} tasks")
            return found == number
        wait(count, f"the worker does not hold {number} tasks")

    # What the agent does

    def go(self, on):
        if on:
            (self.folder / "go").touch()
        else:
            (self.folder / "go").unlink()

    def log(self, lines):
        lines = expand(lines, self.plan)
        path = self.folder / "log"

        def read():
            return path.read_text().splitlines() if path.exists() else []

        def fits(found):
            made = [line for line in found if line.startswith("made ")]
            shown = ["made *" if line.startswith("made ") else line for line in found]
            return shown == lines and len(set(made)) == len(made)
        wait(lambda: fits(read()), lambda: f"the log is {read()}")

    def posted(self, fields, of="task"):
        path = f"/{self.plan}/{of}"
        headers, body = wait(lambda: self.callbacks.posted.get(path), "no callback has come")
        if headers["goalmill-callback-token"] != self.tasks[of][2]["callback"]["token"]:
            raise Wrong("the callback has another token")
        if place := differs(expand(fields, self.plan), body):
            raise Wrong(f"the callback: {place}; it is {short(body)}")

    # Reports

    def expect(self, fields, of="task", stored=False, after=None, **options):
        passed = PASSED | {options.get("pass")}
        _, entry, task = self.tasks[of]
        named = (entry, task["agent_type"])
        expected = expand(fields, self.plan)

        def found():
            self.poll()
            for at, (report, was_stored) in enumerate(self.reports):
                if (report["entry"], report["agent_type"]) != named:
                    continue
                if report["what"] in passed and report["what"] != expected["what"]:
                    continue
                del self.reports[at]
                return report, was_stored
            return None
        report, was_stored = wait(found, lambda: f"no such report; there are {short(self.reports)}; lease: {self.pending(of)}")
        if place := differs(expected, report):
            raise Wrong(f"the report: {place}; it is {short(report)}")
        for name, ms in (after or {}).items():
            ended = next(seen["finished_ms"] for seen in self.seen if seen["entry"] == self.tasks[name][1] and seen["what"] in FINAL)
            if report["started_ms"] < ended + ms - CLOCK_MS:
                raise Wrong(f"it started {report['started_ms'] - ended} ms after the end of `{name}`, and not {ms} ms")
        if stored and not was_stored:
            raise Wrong("the report refers to no stored payload")
        self.reports = [(r, s) for r, s in self.reports if (r["entry"], r["agent_type"]) != named or r["what"] not in passed]

    def poll(self):
        """Reads new reports; notes calls; acknowledges tasks that have ended."""
        for entry, fields in self.r.xrange(REPORTS, min=f"({self.last}"):
            self.last = entry
            if fields.get("v") != "1":
                raise Wrong(f"a report has `v` {fields.get('v')!r}")
            data = json.loads(fields["data"])
            for report in data if isinstance(data, list) else [data]:
                self.take_report(report)

    def is_open(self, named):
        return not any(named == (seen["entry"], seen["agent_type"]) and seen["what"] in FINAL for seen in self.seen)

    def take_report(self, report):
        named = (report.get("entry"), report.get("agent_type"))  # ids of two streams may be the same
        name = next((n for n, (_, entry, task) in self.tasks.items() if (entry, task["agent_type"]) == named), None)
        if name is None:
            raise Wrong(f"a report for no entry: {short(report)}")
        stream, entry, task = self.tasks[name]
        copied = {key: task[key] for key in ("plan", "step", "attempt", "token", "agent_type")}
        if place := differs(copied, report):
            raise Wrong(f"a report: {place}")
        if report.get("what") not in FINAL | PASSED | {"call"}:
            raise Wrong(f"a report has `what` {report.get('what')!r}")
        if report in self.seen:
            return  # sent twice, which is harmless
        if report["what"] in FINAL and not self.is_open(named):
            raise Wrong(f"a second final report: {short(report)}")
        holder = self.pending(name)
        # What is shown of a task may come after its lease was lost; what counts may not.
        if report["what"] not in PASSED and (holder is None or report.get("worker") != holder["consumer"]):
            raise Wrong(f"`worker` is {report.get('worker')!r}, the entry has {holder}")
        self.seen.append(report)
        inline = self.vector.get("limits", {}).get("inline_bytes_max", INLINE_MAX)
        self.check_size("outputs", report.get("outputs"), inline)
        self.check_size("the outcome of a call", report.get("call", {}).get("outcome"), min(inline, OUTCOME_MAX))
        if report["what"] == "call":
            calls = self.recorded.setdefault(task["step"], list(task.get("calls") or []))
            n = report["call"]["n"]
            if n > len(calls) + 1:
                raise Wrong(f"call {n} follows call {len(calls)}")
            calls[n - 1:] = [report["call"]]
        if report["what"] == "suspended":
            self.suspended[task["step"]] = report["suspended"]
        if report["what"] in FINAL:
            self.r.xack(stream, "workers", entry)
            self.r.xdel(stream, entry)
        whole = self.resolve(report, task)
        self.reports.append((whole, whole != report))

    def check_size(self, what, value, most):
        size = len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())
        if size > most:
            raise Wrong(f"{what}: {size} bytes stand in the report, at most {most} may")

    def resolve(self, value, task):
        if isinstance(value, list):
            return [self.resolve(item, task) for item in value]
        if not isinstance(value, dict):
            return value
        if "$blob" not in value:
            return {name: self.resolve(item, task) for name, item in value.items()}
        key = value["$blob"]
        if not key.startswith(f"goalmill:blob:{{s0}}:{task.get('family', task['plan'])}:") or task["token"] in key:
            raise Wrong(f"a reference to `{key}`")
        text = self.r.get(key)
        if text is None or len(text.encode()) != value.get("bytes") or self.r.pttl(key) <= 0:
            raise Wrong(f"the payload under `{key}` is missing, has no end, or another length")
        return json.loads(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worker", required=True, help="the command that starts the worker under test")
    parser.add_argument("--cut", action="store_true", help="closes the worker's connections before each step")
    parser.add_argument("names", nargs="*", help="parts of names of vectors")
    options = parser.parse_args()
    vectors = [json.loads(path.read_text()) for path in sorted(HERE.glob("*.json"))]
    chosen = [v for v in vectors if not options.names or any(part in v["name"] for part in options.names)]
    if not chosen:
        sys.exit("no vector has such a name")
    data, failed = tempfile.mkdtemp(), 0
    server, callbacks = Server(data), Callbacks()
    try:
        for vector in chosen:
            folder = tempfile.mkdtemp()
            begun = time.monotonic()
            try:
                Run(vector, server, callbacks, shlex.split(options.worker), folder, options.cut).play()
                print(f"ok     {vector['name']}  {time.monotonic() - begun:.1f} s", flush=True)
            except Exception as error:
                failed += 1
                print(f"FAILED {vector['name']}: {vector['about']}\n  {error}", flush=True)
                if not isinstance(error, Wrong):
                    traceback.print_exc()
                output = (Path(folder) / "output").read_text(errors="replace").splitlines()[-15:]
                print("".join(f"  | {line}\n" for line in output), end="", flush=True)
                if server.process.poll() is not None:
                    server.start()
            shutil.rmtree(folder)
    finally:
        server.stop()
        shutil.rmtree(data)
    print(f"{len(chosen) - failed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
