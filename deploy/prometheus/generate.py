#!/usr/bin/env python3
"""Writes the rules and their tests from two tables, so that every alert and every recorded series has both.

    python3 deploy/prometheus/generate.py            writes the files
    python3 deploy/prometheus/generate.py --check    fails when they differ
"""
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).parent
RUNBOOKS = "https://goalmill.dev/runbooks"

# Series of the tests: values every 15 s; `_xN` repeats.
UP = "1x240"
DOWN = "0x240"


def alert(name, severity, expr, wait, summary, bad, good, labels=None, keep=None):
    """bad and good: series → values. The alert fires after 30 minutes with the first and not with the second.

    keep: the alert goes on for so long when its series are gone, because a scheduler that leads sets them and none does.
    """
    return dict(name=name, severity=severity, expr=expr, wait=wait, summary=summary, bad=bad, good=good, labels=labels or {},
                keep=keep)


def new(counter, by, window):
    """Increases of a counter by labels; one whose first value is above 0 began at 0, which `increase` does not see."""
    return (f"sum by ({by}) (increase({counter}[{window}])) > 0 "
            f"or sum by ({by}) ({counter} unless {counter} offset {window}) > 0")


def buckets(metric, labels, **counts):
    """Cumulated buckets of a histogram: upper bound → values; `inf` for the last one."""
    bound = {"inf": "+Inf"}
    return {f'{metric}_bucket{{{labels}le="{bound.get(le, le.removeprefix("s"))}"}}': values for le, values in counts.items()}


def waits(within):
    """Waits in a queue: those within 30 s, and 20 a minute in all."""
    return buckets("goalmill_task_wait_seconds", 'agent_type="a",', s30=within, s60="0+5x240", inf="0+5x240")


def plans(within):
    """Times to a plan: those within 3 s, and 20 a minute in all."""
    return buckets("goalmill_planning_duration_seconds", "", s3=within, s5="0+5x240", inf="0+5x240")


ALERTS = [
    alert("GoalmillRedisDown", "page", "min by (cluster, namespace, job) (goalmill_redis_up) == 0", "1m",
          "A scheduler or worker gets no answer from Redis.",
          {'goalmill_redis_up{job="s",instance="a"}': DOWN}, {'goalmill_redis_up{job="s",instance="a"}': UP},
          labels={"job": "s"}),
    alert("GoalmillCommitsRefused", "page", "max by (cluster, namespace, job, reason) (goalmill_redis_refusing) == 1", "2m",
          "Redis answers a scheduler or worker and refuses: plans stand still.",
          {'goalmill_redis_refusing{job="s",instance="a",reason="no_replicas"}': UP, 'goalmill_redis_refusing{job="s",instance="a",reason="disk"}': DOWN},
          {'goalmill_redis_refusing{job="s",instance="a",reason="no_replicas"}': DOWN, 'goalmill_redis_refusing{job="s",instance="a",reason="disk"}': DOWN},
          labels={"job": "s", "reason": "no_replicas"}),
    # An installation that was there within a day, and one that was never seen.
    alert("GoalmillNoScheduler", "page",
          'count by (cluster, namespace) (last_over_time(goalmill_build_info{component="scheduler"}[1d])) '
          "unless count by (cluster, namespace) (goalmill_scheduler_leader == 1) "
          'or absent(last_over_time(goalmill_build_info{component="scheduler"}[1d]))', "2m",
          "No scheduler owns shard 0: no scheduler runs, or none is scraped.",
          {'goalmill_build_info{component="scheduler"}': "1x20 _x220", 'goalmill_scheduler_leader{instance="a"}': "1x20 _x220"},
          {'goalmill_build_info{component="scheduler"}': UP, 'goalmill_scheduler_leader{instance="a"}': UP}),
    alert("GoalmillShardsNotOwned", "page",
          "sum by (cluster, namespace) (goalmill_shards_owned) < max by (cluster, namespace) (goalmill_shards)", "2m",
          "Shards have no owner: their plans stand still.",
          {'goalmill_shards_owned{instance="a"}': "3x240", 'goalmill_shards{instance="a"}': "4x240"},
          {'goalmill_shards_owned{instance="a"}': "3x240", 'goalmill_shards_owned{instance="b"}': "1x240",
           'goalmill_shards{instance="a"}': "4x240", 'goalmill_shards{instance="b"}': "4x240"}),
    alert("GoalmillShardsLost", "ticket", "sum by (cluster, namespace) (increase(goalmill_shards_lost_total[15m])) > 5", "0m",
          "Schedulers lose shards again and again.",
          {'goalmill_shards_lost_total{instance="a"}': "0+1x240"}, {'goalmill_shards_lost_total{instance="a"}': "0x20 2x220"}),
    alert("GoalmillPlansQuarantined", "page", new("goalmill_plans_quarantined_total", "cluster, namespace", "30m"), "0m",
          "A plan was put into quarantine because schedulers died or hung over it.",
          {'goalmill_plans_quarantined_total{instance="a"}': "0x100 1x140"},
          {'goalmill_plans_quarantined_total{instance="a"}': "1x240"}),
    alert("GoalmillQueueQuarantined", "page", "max by (cluster, namespace) (goalmill_queues_quarantined) > 0", "1m",
          "A queue is not used because its key in Redis is of another type.",
          {'goalmill_queues_quarantined{instance="a"}': UP}, {'goalmill_queues_quarantined{instance="a"}': DOWN}, keep="10m"),
    alert("GoalmillBacklogWithoutWorkers", "page",
          "max by (cluster, namespace, agent_type) (goalmill_stream_backlog_entries) > 0 "
          "unless max by (cluster, namespace, agent_type) (goalmill_worker_slots_live) > 0", "5m",
          "Tasks of an agent type wait and no live worker serves it.",
          {'goalmill_stream_backlog_entries{agent_type="a"}': "5x240", 'goalmill_worker_slots_live{agent_type="b"}': UP},
          {'goalmill_stream_backlog_entries{agent_type="a"}': "5x240", 'goalmill_worker_slots_live{agent_type="a"}': UP},
          labels={"agent_type": "a"}, keep="10m"),
    alert("GoalmillQueueStalled", "ticket",
          "max by (cluster, namespace, agent_type) (goalmill_stream_backlog_entries) > 0 and on (cluster, namespace, agent_type) "
          "sum by (cluster, namespace, agent_type) (goalmill_stream_pending_entries) == 0", "10m",
          "Tasks of an agent type wait and none of them is worked on.",
          {'goalmill_stream_backlog_entries{agent_type="a"}': "5x240", 'goalmill_stream_pending_entries{agent_type="a"}': DOWN},
          {'goalmill_stream_backlog_entries{agent_type="a"}': "5x240", 'goalmill_stream_pending_entries{agent_type="a"}': UP},
          labels={"agent_type": "a"}, keep="10m"),
    alert("GoalmillQueueWaitHigh", "ticket",
          "histogram_quantile(0.95, sum by (cluster, namespace, agent_type, le) (rate(goalmill_task_wait_seconds_bucket[10m]))) > 30", "10m",
          "One of 20 tasks of an agent type waits for more than 30 s: the pool is too small.",
          waits("0x240"), waits("0+5x240"),
          labels={"agent_type": "a"}),
    alert("GoalmillDeadLetters", "ticket", new("goalmill_dead_letters_total", "cluster, namespace, agent_type", "30m"), "0m",
          "Steps of an agent type became dead letters.",
          {'goalmill_dead_letters_total{agent_type="a"}': "_x80 3x160"},
          {'goalmill_dead_letters_total{agent_type="a"}': "3x240"}, labels={"agent_type": "a"}),
    alert("GoalmillUndoFailed", "ticket", new("goalmill_undo_failures_total", "cluster, namespace", "30m"), "0m",
          "An undo step failed: what it should take back may still be done.",
          {'goalmill_undo_failures_total{instance="a"}': "_x80 1x160"},
          {'goalmill_undo_failures_total{instance="a"}': "1x240"}),
    alert("GoalmillEventStoreNearlyFull", "ticket", "max by (cluster, namespace) (goalmill_events_kept_ratio) > 0.9", "5m",
          "A namespace keeps nearly as many events from outside as it may: further ones will be refused.",
          {'goalmill_events_kept_ratio{instance="a"}': "0.95x240"}, {'goalmill_events_kept_ratio{instance="a"}': "0.5x240"}),
    alert("GoalmillTasksLost", "ticket", "sum by (cluster, namespace) (increase(goalmill_tasks_lost_total[15m])) > 5", "0m",
          "Workers die or hang with tasks in hand.",
          {'goalmill_tasks_lost_total{instance="a"}': "0+1x240"}, {'goalmill_tasks_lost_total{instance="a"}': "0x20 2x220"}),
    alert("GoalmillRetryStorm", "ticket",
          "sum by (cluster, namespace) (rate(goalmill_step_retries_total[15m])) > 0.3 * sum by (cluster, namespace) (rate(goalmill_steps_ended_total[15m])) "
          "and sum by (cluster, namespace) (increase(goalmill_step_retries_total[15m])) > 20", "5m",
          "More than 0.3 retries for each step that ends.",
          {'goalmill_step_retries_total{class="transient"}': "0+5x240", 'goalmill_steps_ended_total{outcome="completed"}': "0+5x240"},
          {'goalmill_step_retries_total{class="transient"}': "0+1x240", 'goalmill_steps_ended_total{outcome="completed"}': "0+5x240"}),
    alert("GoalmillPlansFail", "ticket",
          'sum by (cluster, namespace) (rate(goalmill_plans_ended_total{status="failed"}[1h])) > 0.15 * sum by (cluster, namespace) (rate(goalmill_plans_ended_total[1h])) '
          'and sum by (cluster, namespace) (increase(goalmill_plans_ended_total{status="failed"}[1h])) > 10', "10m",
          "More than 15 % of the plans fail.",
          {'goalmill_plans_ended_total{status="failed"}': "0+1x240", 'goalmill_plans_ended_total{status="completed"}': "0+1x240"},
          {'goalmill_plans_ended_total{status="failed"}': "0+1x240", 'goalmill_plans_ended_total{status="completed"}': "0+9x240"}),
    alert("GoalmillReplanStorm", "ticket",
          "sum by (cluster, namespace) (rate(goalmill_replans_total[1h])) > 0.2 * sum by (cluster, namespace) (rate(goalmill_plans_ended_total[1h])) "
          "and sum by (cluster, namespace) (increase(goalmill_replans_total[1h])) > 10", "10m",
          "More than 0.2 revisions for each plan that ends.",
          {'goalmill_replans_total{trigger="step_failure",strategy="workaround"}': "0+1x240", 'goalmill_plans_ended_total{status="completed"}': "0+1x240"},
          {'goalmill_replans_total{trigger="step_failure",strategy="workaround"}': "0+1x240", 'goalmill_plans_ended_total{status="completed"}': "0+9x240"}),
    alert("GoalmillPlannerFallback", "ticket",
          'sum by (cluster, namespace) (increase(goalmill_planner_fallbacks_total{from=~"llm|tools"}[30m])) '
          "> 0.25 * sum by (cluster, namespace) (increase(goalmill_planning_duration_seconds_count[30m])) "
          'and sum by (cluster, namespace) (increase(goalmill_planner_fallbacks_total{from=~"llm|tools"}[30m])) > 5', "5m",
          "Models give no usable plan for more than a quarter of the goals.",
          {'goalmill_planner_fallbacks_total{from="llm",to="rules",reason="timeout"}': "0+1x240", 'goalmill_planning_duration_seconds_count{planner="rules"}': "0+2x240"},
          {'goalmill_planner_fallbacks_total{from="llm",to="rules",reason="timeout"}': "0+1x240", 'goalmill_planning_duration_seconds_count{planner="rules"}': "0+9x240"}),
    alert("GoalmillPlanningSlow", "ticket",
          "histogram_quantile(0.95, sum by (cluster, namespace, le) (rate(goalmill_planning_duration_seconds_bucket[15m]))) > 3", "10m",
          "One of 20 goals waits for its plan for more than 3 s.",
          plans("0x240"), plans("0+5x240")),
    alert("GoalmillModelCircuitOpen", "ticket", "max by (cluster, namespace, provider, model) (goalmill_llm_circuit_open) == 1", "5m",
          "A model is not asked because its last calls failed.",
          {'goalmill_llm_circuit_open{provider="p",model="m"}': UP}, {'goalmill_llm_circuit_open{provider="p",model="m"}': DOWN},
          labels={"provider": "p", "model": "m"}, keep="10m"),
    alert("GoalmillApprovalStale", "info",
          'max by (cluster, namespace) (goalmill_plan_oldest_age_seconds{state="awaiting_approval"}) > 14400', "5m",
          "A plan has waited for a person for more than 4 hours.",
          {'goalmill_plan_oldest_age_seconds{state="awaiting_approval"}': "15000x240"},
          {'goalmill_plan_oldest_age_seconds{state="awaiting_approval"}': "14000x240"}, keep="10m"),
    alert("GoalmillMemoryHigh", "ticket", "max by (cluster, namespace) (goalmill_redis_memory_used_ratio) > 0.75", "10m",
          "Redis uses more than 75 % of its memory limit; above 80 % new goals are refused.",
          {'goalmill_redis_memory_used_ratio{instance="a"}': "0.78x240"}, {'goalmill_redis_memory_used_ratio{instance="a"}': "0.7x240"}, keep="10m"),
    alert("GoalmillClockSkew", "ticket", "max by (cluster, namespace, job) (abs(goalmill_clock_skew_seconds)) > 1", "10m",
          "The clock of a machine differs from that of Redis by more than 1 s; plans follow that of Redis.",
          {'goalmill_clock_skew_seconds{job="s",instance="a"}': "-3600x240", 'goalmill_clock_skew_seconds{job="s",instance="b"}': DOWN},
          {'goalmill_clock_skew_seconds{job="s",instance="a"}': "-0.2x240", 'goalmill_clock_skew_seconds{job="s",instance="b"}': DOWN},
          labels={"job": "s"}),
    alert("GoalmillArchiveBehind", "ticket", "max by (cluster, namespace) (goalmill_archive_lag_seconds) > 300", "5m",
          "Finished plans have not been copied to the archive for more than 5 minutes.",
          {'goalmill_archive_lag_seconds{instance="a"}': "0+15x240", 'goalmill_archive_lag_seconds{instance="b"}': DOWN},
          {'goalmill_archive_lag_seconds{instance="a"}': "20x240", 'goalmill_archive_lag_seconds{instance="b"}': DOWN}),
    alert("GoalmillStoreWentBack", "page", new("goalmill_store_rollbacks_total", "cluster, namespace", "30m"), "0m",
          "Redis has lost writes that it had confirmed: it was replaced by an older copy, or a replica that was behind took over.",
          {'goalmill_store_rollbacks_total{instance="a"}': "_x80 1x160"},
          {'goalmill_store_rollbacks_total{instance="a"}': "1x240"}),
    alert("GoalmillReportsUnsent", "ticket", "sum by (cluster, namespace) (goalmill_reports_unsent) > 100", "5m",
          "Workers hold reports that they cannot write to Redis.",
          {'goalmill_reports_unsent{instance="a"}': "200x240"}, {'goalmill_reports_unsent{instance="a"}': "50x240"}),
]


# Recorded series: name, query, inputs of the test → values, and the result after 30 minutes by labels.
RECORDS = [
    ("namespace:goalmill_plans_ended:rate5m", "sum by (cluster, namespace, status) (rate(goalmill_plans_ended_total[5m]))",
     {'goalmill_plans_ended_total{namespace="n",status="completed",instance="a"}': "0+15x240",
      'goalmill_plans_ended_total{namespace="n",status="completed",instance="b"}': "0+15x240"},
     {'{namespace="n",status="completed"}': 2}),
    ("namespace:goalmill_plans_failed:ratio_rate1h",
     'sum by (cluster, namespace) (rate(goalmill_plans_ended_total{status="failed"}[1h])) '
     "/ sum by (cluster, namespace) (rate(goalmill_plans_ended_total[1h]))",
     {'goalmill_plans_ended_total{namespace="n",status="completed"}': "0+3x240",
      'goalmill_plans_ended_total{namespace="n",status="failed"}': "0+1x240"}, {'{namespace="n"}': 0.25}),
    ("namespace:goalmill_steps_ended:rate5m", "sum by (cluster, namespace, outcome) (rate(goalmill_steps_ended_total[5m]))",
     {'goalmill_steps_ended_total{namespace="n",outcome="completed"}': "0+150x240"},
     {'{namespace="n",outcome="completed"}': 10}),
    ("namespace:goalmill_step_retries:ratio_rate15m",
     "sum by (cluster, namespace) (rate(goalmill_step_retries_total[15m])) / sum by (cluster, namespace) (rate(goalmill_steps_ended_total[15m]))",
     {'goalmill_step_retries_total{namespace="n",class="transient"}': "0+1x240",
      'goalmill_steps_ended_total{namespace="n",outcome="completed"}': "0+10x240"}, {'{namespace="n"}': 0.1}),
    ("namespace_agent_type:goalmill_task_wait_seconds:p95_5m",
     "histogram_quantile(0.95, sum by (cluster, namespace, agent_type, le) (rate(goalmill_task_wait_seconds_bucket[5m])))",
     buckets("goalmill_task_wait_seconds", 'namespace="n",agent_type="a",', s10="0x240", s20="0+5x240", inf="0+5x240"),
     {'{namespace="n",agent_type="a"}': 19.5}),
    ("namespace:goalmill_planning_duration_seconds:p95_15m",
     "histogram_quantile(0.95, sum by (cluster, namespace, le) (rate(goalmill_planning_duration_seconds_bucket[15m])))",
     buckets("goalmill_planning_duration_seconds", 'namespace="n",', s2="0x240", s3="0+5x240", inf="0+5x240"),
     {'{namespace="n"}': 2.95}),
]


def runbook(alert):
    """The address of its section: NoScheduler → no-scheduler."""
    words = re.sub(r"(?<!^)([A-Z])", r"-\1", alert["name"].removeprefix("Goalmill")).lower()
    return f"{RUNBOOKS}#{words}"


def group(name, entries):
    """A file of rules."""
    return f"# Made by deploy/prometheus/generate.py.\ngroups:\n  - name: {name}\n    rules:\n" + "".join(entries)


def installed(series, namespace, cluster=None):
    """The series of an installation in a Kubernetes namespace, perhaps of a named cluster."""
    place = f'namespace="{namespace}"' + (f',cluster="{cluster}"' if cluster else "")

    def labelled(name):
        metric, _, labels = name.partition("{")
        return f'{metric}{{{place},{labels or "}"}'
    return {labelled(name): values for name, values in series.items()}


def ending(series):
    """The same, until no scheduler exposes them after 25 minutes."""
    return {name: re.sub(r"^(\S+)x240$", r"\1x100 stale _x139", values) for name, values in series.items()}


def case(name, series, **expected):
    """A unit test: `series` is a name → its values."""
    inputs = [{"series": series, "values": values} for series, values in series.items()]
    return {"name": name, "interval": "15s", "input_series": inputs, **expected}


def suite(rules, cases):
    """A file of unit tests. JSON is YAML."""
    return json.dumps({"rule_files": [f"../{rules}"], "evaluation_interval": "15s", "tests": cases}, indent=1) + "\n"


def rules():
    entries = []
    for a in ALERTS:
        keep = f'        keep_firing_for: {a["keep"]}\n' if a["keep"] else ""
        entries.append(
            f'      - alert: {a["name"]}\n        expr: {json.dumps(a["expr"])}\n        for: {a["wait"]}\n{keep}'
            f'        labels: {{severity: {a["severity"]}}}\n        annotations:\n'
            f'          summary: {json.dumps(a["summary"])}\n          runbook_url: {runbook(a)}\n')
    return group("goalmill", entries)


def alert_cases(a):
    """Inputs of an alert, and the labels with which it fires: of one installation, of two of which one is out, in one
    cluster and in two, and of one whose series have ended."""
    yield "fires", a["bad"], a["labels"]
    yield "does not fire", a["good"], None
    two = {**installed(a["bad"], "out"), **installed(a["good"], "well")}
    yield "fires for the one of two installations that is out", two, {**a["labels"], "namespace": "out"}
    two = {**installed(a["bad"], "plans", "out"), **installed(a["good"], "plans", "well")}
    yield "fires for the one of two clusters that is out", two, {**a["labels"], "namespace": "plans", "cluster": "out"}
    if a["keep"]:
        yield "goes on while no scheduler leads", ending(a["bad"]), a["labels"]


def tests():
    cases = []
    for a in ALERTS:
        for name, series, labels in alert_cases(a):
            annotations = {"summary": a["summary"], "runbook_url": runbook(a)}
            fired = [] if labels is None else [{"exp_labels": {"severity": a["severity"], **labels}, "exp_annotations": annotations}]
            cases.append(case(f'{a["name"]} {name}', series,
                              alert_rule_test=[{"eval_time": "30m", "alertname": a["name"], "exp_alerts": fired}]))
    return suite("alerts.rules.yml", cases)


def recording():
    entries = [f"      - record: {name}\n        expr: {json.dumps(expr)}\n" for name, expr, _, _ in RECORDS]
    return group("goalmill-recording", entries)


def recording_tests():
    cases = []
    for name, _, series, after in RECORDS:
        wanted = [{"labels": name + labels, "value": value} for labels, value in after.items()]
        cases.append(case(name, series, promql_expr_test=[{"expr": name, "eval_time": "30m", "exp_samples": wanted}]))
        idle = {labels.replace('namespace="n"', 'namespace="idle"'): "0x240" for labels in series}
        own = f'{name}{{namespace="n"}}'
        cases.append(case(f"{name} beside an idle installation", series | idle,
                          promql_expr_test=[{"expr": own, "eval_time": "30m", "exp_samples": wanted}]))
    return suite("recording.rules.yml", cases)


FILES = {HERE / "recording.rules.yml": recording(), HERE / "tests/recording.yml": recording_tests(),
         HERE / "alerts.rules.yml": rules(), HERE / "tests/alerts.yml": tests()}
if "--check" in sys.argv:
    wrong = [str(path) for path, text in FILES.items() if not path.exists() or path.read_text() != text]
    sys.exit("made by generate.py, and differ: " + ", ".join(wrong) if wrong else 0)
for path, text in FILES.items():
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
