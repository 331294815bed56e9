"""A Goalmill worker in plain Python: `pip install redis`, change `work`, run it. The contract: docs/protocol.md.

    python worker.py shout redis://127.0.0.1:6379 [PREFIX]
"""
import hashlib, json, signal, socket, sys, threading, time, uuid
import redis


class Retry(Exception):
    """Raise it when another attempt may succeed."""


class Partial(Exception):
    """Raise it with incomplete outputs and what is missing: `raise Partial(outputs, "one source did not answer")`."""


def work(task, report, calls):
    """Your agent: gets the task, returns outputs (any JSON). May set `cost`, `tokens` and `usage` of the report.

    What costs money or has effects goes through `calls`: the next attempt gets its outcome instead of paying again.
    """
    text = str(task["inputs"].get("text", ""))
    shout = calls.call("upper", text, lambda key: text.upper())  # `key`: the idempotency key of the call
    report["usage"] = {"prompt_tokens": 0, "completion_tokens": 0}  # without that of the calls
    return {"shout": shout, "attempt": task["attempt"]}


class Calls:
    """The calls of one attempt; outcomes over 16 KiB should go by reference (docs/protocol.md)."""

    def __init__(self, r, task, report):
        self.r, self.task, self.report, self.n = r, task, report, 0
        self.recorded = task.get("calls", [])

    def call(self, name, inputs, make, **usage):
        self.n += 1
        digest = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:32]
        known = self.recorded[self.n - 1] if self.n <= len(self.recorded) else {}
        if (known.get("name"), known.get("inputs")) == (name, digest):
            return known.get("outcome")
        self.recorded = []
        outcome = make(f"{self.task['plan']}/{self.task['step']}/{self.n}")
        call = {"n": self.n, "name": name, "inputs": digest, "outcome": outcome, **usage}
        self.r.xadd(self.task["reply"], {"v": "1", "data": json.dumps(self.report | {"what": "call", "call": call})})
        return outcome


def keep_lease(r, stream, me, entry, lease_ms, done):
    while not done.wait(lease_ms / 3000):
        if r.fcall("goalmill_extend", 1, stream, me, 1, entry) != [1]:
            return  # somebody else has the task; our report will be ignored


def run(r, stream, me, entry, task):
    report = {k: task[k] for k in ("plan", "step", "attempt", "token", "agent_type")}
    report |= {"entry": entry, "worker": me, "started_ms": int(time.time() * 1000)}
    done = threading.Event()
    threading.Thread(target=keep_lease, args=(r, stream, me, entry, task["lease_ms"], done), daemon=True).start()
    try:
        report |= {"what": "completed", "outputs": work(task, report, Calls(r, task, dict(report)))}
    except Partial as e:
        errors = [{"class": "permanent", "code": "INCOMPLETE", "message": str(e.args[1])}]
        report |= {"what": "partial_success", "outputs": e.args[0], "errors": errors}
    except Exception as e:
        kind = "transient" if isinstance(e, Retry) else "permanent"
        report |= {"what": "failed", "failure": {"class": kind, "code": "EXCEPTION", "message": repr(e)}}
    done.set()
    r.xadd(task["reply"], {"v": "1", "data": json.dumps(report | {"finished_ms": int(time.time() * 1000)})})


def serve(agent_type, url="redis://127.0.0.1:6379", prefix="goalmill"):
    r = redis.Redis.from_url(url, decode_responses=True, socket_timeout=10)
    protocol, streams = r.hmget(f"{prefix}:meta", "protocol", "streams")
    if protocol != "1" or len(streams.split()) != 1:
        sys.exit(f"`{prefix}:meta` has protocol {protocol} and streams {streams}: start a scheduler, or use another worker")
    stream = streams.replace("<agent_type>", agent_type)
    me, stop = f"py-{uuid.uuid4().hex[:8]}", threading.Event()
    for sig in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sig, lambda *_: stop.set())
    if not any(g["name"] == "workers" for g in (r.xinfo_groups(stream) if r.exists(stream) else [])):
        r.xgroup_create(stream, "workers", id="0", mkstream=True)
    r.sadd(f"{prefix}:queues", agent_type)
    if r.hsetnx(f"{prefix}:agents", agent_type, json.dumps({"agent_type": agent_type})):
        r.publish(f"{prefix}:agents:changed", agent_type)
    beat = {"worker": me, "agents": [agent_type], "slots": 1, "busy": 0, "version": "1",
            "host": socket.gethostname(), "started_ms": int(time.time() * 1000)}
    while not stop.is_set():
        r.hset(f"{prefix}:workers:beats", me, json.dumps(beat))
        r.zadd(f"{prefix}:workers", {me: r.time()[0] * 1000})
        for _, entries in r.xreadgroup("workers", me, {stream: ">"}, count=1, block=2000) or []:
            run(r, stream, me, entries[0][0], json.loads(entries[0][1]["data"]))
    r.zrem(f"{prefix}:workers", me)
    r.hdel(f"{prefix}:workers:beats", me)


if __name__ == "__main__":
    serve(*sys.argv[1:])
