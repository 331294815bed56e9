#!/usr/bin/env python3
"""Runs a loaded installation under a real Prometheus, and asks it every query of the dashboards and alerts.

    python3 tests/monitoring/run.py [PROGRAM [FOLDER]]      target/debug/goalmill unless given

FOLDER gets pictures of the dashboards; that needs matplotlib.

Needs redis-server and Debian's package `prometheus`. The load has failures, retries, revisions, fallbacks, approvals, dead
letters, a killed scheduler and a killed worker. Prints the number of queries, those that are empty, and those that the
load cannot give anything for. Ends with 1 when another query is empty.

A copy of the alerts, in which two minutes are a second, is evaluated too: those of FIRES must fire, and all must resolve when the
load has ended.
"""
import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse

import picture

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from processes import Processes, call, free_port, wait

PROGRAM = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "target/debug/goalmill")
PICTURES = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None
# No model is asked, no webhook is set up, no log is followed, and nothing is quarantined or refused in this load. No undo step
# fails, no step of the agent type that is shown becomes a dead letter, and all plans are planned with the same confidence.
SILENT = re.compile(r"gen_ai_|goalmill_llm_|goalmill_webhook_|goalmill_sse_|goalmill_agent_cards_refused"
                    r"|goalmill_queues_quarantined|goalmill_plan_validation_failures|goalmill_call_waits"
                    r'|goalmill_dead_letters_total.*agent_type="echo"|goalmill_confidence_correlation|goalmill_redis_refusing'
                    r"|goalmill_undo_failures")

# What fires in the copy of the alerts with short times.
SHORTENED_BY = 120
FIRES = {"GoalmillNoScheduler", "GoalmillPlansFail", "GoalmillRedisDown", "GoalmillShardsNotOwned"}
RESOLVED_WITHIN_S = 90


def shortened_alerts():
    """The alerts under other names, with all of their times divided by SHORTENED_BY."""
    text = (ROOT / "deploy/prometheus/alerts.rules.yml").read_text().replace("- alert: ", "- alert: Shortened")
    unit_s = {"m": 60, "h": 3600, "d": 86400}
    times = re.compile(r"(for: |\[|offset )(\d+)([mhd])\b")
    return times.sub(lambda found: f"{found[1]}{int(found[2]) * unit_s[found[3]] * 1000 // SHORTENED_BY}ms", text)


def shortened_states(server, since):
    """The shortened alerts that have fired, and those that fire now."""
    query = {"query": 'ALERTS{alertstate="firing",alertname=~"Shortened.*"}', "start": since, "end": time.time(), "step": 1}
    fired = call(f"{server}/api/v1/query_range?" + urllib.parse.urlencode(query))["data"]["result"]
    firing = call(f"{server}/api/v1/query?" + urllib.parse.urlencode({"query": query["query"]}))["data"]["result"]
    return tuple({row["metric"]["alertname"].removeprefix("Shortened") for row in rows} for rows in (fired, firing))


class Installation(Processes):
    def __init__(self, folder):
        super().__init__(folder)
        self.targets, self.redis = [], f"redis://127.0.0.1:{self.start_redis()}"

    def scheduler(self, name):
        (self.folder / "goalmill.toml").write_text(
            f'[planner]\norder = ["htn", "rules"]\n[archive]\nstore = "sqlite"\npath = "{self.folder / "archive"}"\n')
        api, metrics = free_port(), free_port()
        self.targets.append(f"127.0.0.1:{metrics}")
        process = self.start(name, PROGRAM, "scheduler", "--redis", self.redis, "--listen", f"127.0.0.1:{api}",
                             "--metrics", f"127.0.0.1:{metrics}")
        base = f"http://127.0.0.1:{api}"
        wait(lambda: call(base + "/livez") is not None, f"{name} answers")
        return process, base

    def worker(self, name, *words):
        metrics = free_port()
        self.targets.append(f"127.0.0.1:{metrics}")
        return self.start(name, PROGRAM, "worker", "--redis", self.redis, "--demo", "--listen", f"127.0.0.1:{metrics}", *words)

    def prometheus(self):
        port = free_port()
        (self.folder / "shortened.rules.yml").write_text(shortened_alerts())
        config = {"global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                  "rule_files": [str(ROOT / "deploy/prometheus/*.rules.yml"), str(self.folder / "shortened.rules.yml")],
                  "scrape_configs": [{"job_name": "goalmill", "static_configs": [
                      {"targets": self.targets, "labels": {"cluster": "home", "namespace": "plans"}}]}]}
        path = self.folder / "prometheus.json"
        path.write_text(json.dumps(config))
        self.start("prometheus", "prometheus", f"--config.file={path}", f"--storage.tsdb.path={self.folder / 'data'}",
                   f"--web.listen-address=127.0.0.1:{port}")
        base = f"http://127.0.0.1:{port}"
        wait(lambda: call(base + "/-/ready", text=True) is not None, "Prometheus answers")
        return base


def load(base, round_):
    """One round of plans: good, failing, retried, revised, skipped, waiting for a person."""
    fast = {"max": 2, "initial_ms": 50}
    plans = [
        {"steps": [{"id": "a", "agent_type": "sleep", "inputs": {"ms": 300}}, {"id": "b", "agent_type": "echo", "dependencies": ["a"]}]},
        {"steps": [{"id": "a", "agent_type": "flaky", "retry": fast}]},
        {"steps": [{"id": "a", "agent_type": "fail", "retry": fast}]},
        {"continue_on_failure": True, "steps": [{"id": "a", "agent_type": "fail", "retry": fast, "on_failure": "skip"}, {"id": "b", "agent_type": "echo"},
                   {"id": "c", "agent_type": "echo", "when": "false"}]},
        {"revision": {"max": 2}, "steps": [{"id": "a", "agent_type": "fail", "on_failure": "replan", "retry": fast},
                                           {"id": "b", "agent_type": "echo", "dependencies": ["a"]}]},
        {"steps": [{"id": "a", "agent_type": "echo", "approve": {"limit_ms": 1000, "default": "approve"}}]},
    ]
    for n, plan in enumerate(plans):
        call(f"{base}/v1/plans", {"id": f"load-{round_}-{n}", **plan})
    waits = {"approve": {"limit_ms": 60000, "default": "reject"}, "steps": [{"id": "a", "agent_type": "echo"}]}
    waiting = call(f"{base}/v1/plans", {"id": f"edit-{round_}", **waits})["plan_id"]
    changes = [{"set_fields": {"step": "a", "fields": {"description": "edited"}}}]
    wait(lambda: call(f"{base}/v1/plans/{waiting}:edit", {"changes": changes, "reason": "to count a revision"}), "the edit is taken")
    # No domain knows the first, rules do.
    call(f"{base}/v1/goals", {"description": "water the plants"})
    call(f"{base}/v1/goals", {"description": "Plan a 3-day trip to Paris in May with a $2000 budget"})


def queries():
    listed = subprocess.run([sys.executable, str(ROOT / "deploy/grafana/generate.py"), "--queries"], check=True,
                            capture_output=True, text=True).stdout.splitlines()
    for line in listed:
        board, title, expr = line.split("\t")
        yield f"{board}: {title}", picture.filled(expr, "1m")
    for line in (ROOT / "deploy/prometheus/recording.rules.yml").read_text().splitlines():
        if "- record: " in line:
            name = line.split("- record: ")[1]
            yield f"recorded: {name}", name


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        it = Installation(folder)
        try:
            first, base = it.scheduler("scheduler-1")
            second, other = it.scheduler("scheduler-2")
            workers = [it.worker(f"worker-{n}", "--slots", "8") for n in range(3)]
            server = it.prometheus()
            begun, since, kills = time.monotonic(), time.time(), []
            for round_ in range(60):
                load(other, round_)
                if round_ == 20:
                    first.send_signal(signal.SIGKILL)
                    kills.append(time.time())
                if round_ == 25:
                    workers[0].send_signal(signal.SIGKILL)
                    kills.append(time.time())
                time.sleep(0.5)
            print(f"loaded for {time.monotonic() - begun:.0f} s", flush=True)
            time.sleep(3)
            asked, empty, silent = 0, [], []
            for where, expr in queries():
                answer = call(f"{server}/api/v1/query?" + urllib.parse.urlencode({"query": expr}))
                asked += 1
                if not answer["data"]["result"]:
                    (silent if SILENT.search(expr) else empty).append(f"{where}: {expr}")
            groups = call(f"{server}/api/v1/rules")["data"]["groups"]
            rules = [rule for group in groups for rule in group["rules"]]
            broken = [rule["name"] for rule in rules if rule["health"] != "ok"]
            alerts = [rule for rule in rules if rule["type"] == "alerting" and not rule["name"].startswith("Shortened")]
            # The first process is Redis: it hangs, and works again.
            it.processes[0].send_signal(signal.SIGSTOP)
            wait(lambda: FIRES <= shortened_states(server, since)[0], "the shortened alerts fire", RESOLVED_WITHIN_S)
            it.processes[0].send_signal(signal.SIGCONT)
            wait(lambda: not shortened_states(server, since)[1], "all shortened alerts are resolved", RESOLVED_WITHIN_S)
            fired = shortened_states(server, since)[0]
            if PICTURES:
                picture.draw_all(server, since, kills, PICTURES)
        finally:
            it.stop()
    print(f"{asked} queries, {len(empty)} empty, {len(silent)} without a cause in this load; "
          f"{len(alerts)} alerts, {len(broken)} broken; shortened ones that fired and resolved: {', '.join(sorted(fired))}")
    for line in empty:
        print(f"EMPTY  {line}")
    for line in silent:
        print(f"silent {line}")
    sys.exit(bool(empty or broken or not rules))


main()
