#!/usr/bin/env python3
"""Writes the dashboards from the tables below, so that all panels have a unit and a description.

    python3 deploy/grafana/generate.py            writes dashboards/*.json
    python3 deploy/grafana/generate.py --check    fails when they differ
    python3 deploy/grafana/generate.py --queries  prints every expression, one a line
"""
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).parent / "dashboards"
RUNBOOKS = "https://goalmill.dev/runbooks"
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
N = 'cluster=~"$cluster",namespace=~"$namespace"'
R = "$__rate_interval"


def quantile(metric, by="", share=0.95, extra=""):
    names = f"cluster, namespace, {by}, le" if by else "cluster, namespace, le"
    return f"histogram_quantile({share}, sum by ({names}) (rate({metric}_bucket{{{N}{extra}}}[{R}])))"


def rate(metric, by, extra=""):
    return f"sum by (cluster, namespace, {by}) (rate({metric}{{{N}{extra}}}[{R}]))"


def panel(title, unit, text, *queries, kind="timeseries", runbook=None, width=8, stack=False, limit=None, least=None):
    return dict(title=title, unit=unit, text=text, queries=queries, kind=kind, runbook=runbook, width=width, stack=stack,
                limit=limit, least=least)


def share(metric, extra, of=None):
    of = of or f"sum by (cluster, namespace) (increase({metric}{{{N}}}[$__range]))"
    return f"sum by (cluster, namespace) (increase({metric}{{{N},{extra}}}[$__range])) / {of}"


def q(expr, legend=""):
    """A query; its lines are named by their installation first."""
    return expr, f"{{{{cluster}}}} {{{{namespace}}}} {legend}".strip()


def stat(title, unit, text, expr, runbook=None, limit=None, least=None):
    return panel(title, unit, text, q(expr), kind="stat", runbook=runbook, width=4, limit=limit, least=least)


OVERVIEW = ("goalmill-overview", "Goalmill / Overview", "Is it healthy, and where is it stuck?", [
    ("Now", [
        stat("Plans that run", "short", "Plans that are not final. A number that only rises means that plans do not end.",
             f"sum by (cluster, namespace) (goalmill_plans{{{N}}})"),
        stat("Wait for a person", "short", "Plans that wait for an approval. Decide with `goalmill plan approve` or `reject`.",
             f'sum by (cluster, namespace) (goalmill_plans{{{N},state="awaiting_approval"}})', "approval-stale"),
        stat("Tasks in queues", "short", "Tasks that no worker has taken. When it rises, look at the panel of queues below.",
             f"sum by (cluster, namespace) (goalmill_stream_backlog_entries{{{N}}})", "queue-stalled"),
        stat("Workers", "short", "Workers that give signs of life. 0 with tasks in queues: nothing is executed.",
             f"sum by (cluster, namespace) (goalmill_workers{{{N}}})", "backlog-without-workers"),
        stat("Dead letters", "short", "Steps that were given up on and kept. `goalmill dead list` names them.",
             f"sum by (cluster, namespace) (goalmill_dead_letter_entries{{{N}}})", "dead-letters", limit=1),
        stat("Redis writable", "short", "1: commits can be written. 0: plans stand still; `goalmill doctor` names the reason.",
             f"min by (cluster, namespace) (goalmill_redis_writable{{{N}}})", "commits-refused"),
    ]),
    ("Installations", [
        panel("Shards with an owner", "percentunit", "One line for each installation of the data source, whatever is chosen above. Below 100 %: plans stand still. A line that ends: nothing runs, or nothing is scraped.",
              q("sum by (cluster, namespace) (goalmill_shards_owned) / max by (cluster, namespace) (goalmill_shards)"), runbook="shards-not-owned", width=12),
        panel("Processes", "short", "Schedulers and workers of each installation that are scraped.",
              q("count by (cluster, namespace, component) (goalmill_build_info)", "{{component}}"), runbook="no-scheduler", width=12),
    ]),
    ("Plans", [
        panel("Accepted and ended", "ops", "Ended far below accepted for long: look where plans stand in the next panel.",
              q(f"sum by (cluster, namespace) (rate(goalmill_goals_submitted_total{{{N}}}[{R}]))", "accepted"),
              q(rate("goalmill_plans_ended_total", "status"), "{{status}}"), runbook="plans-fail"),
        panel("Plans by state", "short", "Many in `planning`: models are slow. Many in `replanning`: steps fail. Many in `paused`: someone paused them.",
              q(f"sum by (cluster, namespace, state) (goalmill_plans{{{N}}})", "{{state}}"), stack=True),
        panel("Longest without a change", "s", "Time since the longest-standing plan of a state changed. `goalmill explain PLAN` names what it waits for.",
              q(f"max by (cluster, namespace, state) (goalmill_plan_oldest_age_seconds{{{N}}})", "{{state}}"), runbook="approval-stale"),
    ]),
    ("Queues and workers", [
        panel("Tasks in queues", "short", "By agent type. A line that rises needs more workers of that type.",
              q(f"sum by (cluster, namespace, agent_type) (goalmill_stream_backlog_entries{{{N}}})", "{{agent_type}}"), runbook="queue-wait-high"),
        panel("Wait in the queue, p95", "s", "From dispatch to start. Above 30 s the pool is too small. Empty while nothing starts.",
              q(quantile("goalmill_task_wait_seconds", "agent_type"), "{{agent_type}}"), runbook="queue-wait-high", limit=30),
        panel("Slots in use", "percentunit", "Near 100 %: workers are full. Near 0 with tasks in queues: they cannot reach Redis, or serve other types.",
              q(f"sum by (cluster, namespace) (goalmill_worker_slots_busy{{{N}}}) / sum by (cluster, namespace) (goalmill_worker_slots{{{N}}})", "busy")),
        panel("Attempts by outcome", "ops", "Failures by class: `failed_timeout` needs a longer limit or a faster agent, `failed_rate_limited` fewer slots.",
              q(rate("goalmill_tasks_total", "outcome"), "{{outcome}}"), runbook="retry-storm", stack=True),
        panel("Retries by class", "ops", "Attempts that failed and are followed by another one.",
              q(rate("goalmill_step_retries_total", "class"), "{{class}}"), runbook="retry-storm"),
        panel("Waits and maps", "short", "Steps that wait for a time or an event, and items of maps that began in the last hour.",
              q(f"sum by (cluster, namespace, for) (goalmill_waits_open{{{N}}})", "waits for {{for}}"),
              q(f"sum by (cluster, namespace) (increase(goalmill_map_items_total{{{N}}}[1h]))", "items of maps"),
              q(f"sum by (cluster, namespace) (increase(goalmill_maps_total{{{N}}}[1h]))", "maps")),
        panel("Events from outside", "percentunit", "Share of the events that the fullest namespace may keep. At 100 % senders are refused.",
              q(f"max by (cluster, namespace) (goalmill_events_kept_ratio{{{N}}})", "kept"), runbook="event-store-nearly-full", limit=0.9),
        panel("Failed undo steps", "short", "Undo steps of the last hour that failed: what they should take back may still be done.",
              q(f"sum by (cluster, namespace) (increase(goalmill_undo_failures_total{{{N}}}[1h]))", "failed"), runbook="undo-failed"),
        panel("Lost tasks", "ops", "Tasks whose worker died or hung. They run again.",
              q(f"sum by (cluster, namespace) (rate(goalmill_tasks_lost_total{{{N}}}[{R}]))", "lost"), runbook="tasks-lost"),
    ]),
])

AGENT = ("goalmill-agent-type", "Goalmill / Agent type", "One pool of workers in depth.", [
    ("Load", [
        panel("Where its steps are", "short", "Ready: held in memory until the queue has room. In the queue: no worker took them. In flight: out and not reported.",
              q(f'sum by (cluster, namespace) (goalmill_steps_ready{{{N},agent_type="$agent_type"}})', "ready"),
              q(f'sum by (cluster, namespace) (goalmill_stream_backlog_entries{{{N},agent_type="$agent_type"}})', "in the queue"),
              q(f'sum by (cluster, namespace) (goalmill_stream_pending_entries{{{N},agent_type="$agent_type"}})', "with workers"),
              q(f'sum by (cluster, namespace) (goalmill_steps_in_flight{{{N},agent_type="$agent_type"}})', "in flight"), width=12, runbook="queue-stalled"),
        panel("Oldest task", "s", "Age of the oldest task that is not finished. It rises steadily: a worker holds a task, or no worker serves the queue.",
              q(f'max by (cluster, namespace) (goalmill_stream_oldest_entry_age_seconds{{{N},agent_type="$agent_type"}})', "oldest"), width=12, runbook="queue-stalled"),
        panel("Wait in the queue", "s", "When p95 rises with free slots, look for workers that drain. Empty while nothing starts.",
              q(quantile("goalmill_task_wait_seconds", extra=',agent_type="$agent_type"', share=0.5), "p50"),
              q(quantile("goalmill_task_wait_seconds", extra=',agent_type="$agent_type"'), "p95"), width=12, runbook="queue-wait-high", limit=30),
    ]),
    ("Work", [
        panel("Duration of attempts", "s", "A p95 near the steps' time limit means time-outs soon. Empty while nothing ends.",
              q(quantile("goalmill_task_run_seconds", extra=',agent_type="$agent_type"', share=0.5), "p50"),
              q(quantile("goalmill_task_run_seconds", extra=',agent_type="$agent_type"'), "p95"), width=12),
        panel("Attempts by outcome", "ops", "Only `completed` is good; `released` comes with drains.",
              q(rate("goalmill_tasks_total", "outcome", ',agent_type="$agent_type"'), "{{outcome}}"), width=12, stack=True,
              runbook="retry-storm"),
        panel("Dead letters", "short", "Those that are kept, and those of the last hour. `goalmill dead list` names them and why.",
              q(f'sum by (cluster, namespace) (increase(goalmill_dead_letters_total{{{N},agent_type="$agent_type"}}[1h]))', "new in an hour"),
              q(f'sum by (cluster, namespace) (goalmill_dead_letter_entries{{{N},agent_type="$agent_type"}})', "dead letters"), width=12, runbook="dead-letters"),
    ]),
])

ENDED = f'sum by (cluster, namespace) (increase(goalmill_plans_ended_total{{{N},status=~"completed|partial|failed"}}[$__range]))'
COSTS = f"(sum by (cluster, namespace) (increase(goalmill_step_cost_microdollars_total{{{N}}}[$__range])) + sum by (cluster, namespace) (increase(goalmill_step_wasted_microdollars_total{{{N}}}[$__range])))"

PLANNING = ("goalmill-planning", "Goalmill / Planning and models", "Planners, revisions, quality against its targets, tokens and cost.", [
    ("Quality and its targets, over the time range", [
        stat("Time to a plan, p95", "s", "Target: below 3 s. Empty while no goal is planned.",
             f"histogram_quantile(0.95, sum by (cluster, namespace, le) (increase(goalmill_planning_duration_seconds_bucket{{{N}}}[$__range])))", "planning-slow", limit=3),
        stat("Routing, p95", "s", "Target: below 500 ms. Time to choose agents for one plan.",
             f'histogram_quantile(0.95, sum by (cluster, namespace, le) (increase(goalmill_planning_stage_seconds_bucket{{{N},planner="router"}}[$__range])))', limit=0.5),
        stat("Replanning, p95", "s", "Target: below 2 s. Time of the planners for one revision.",
             f"histogram_quantile(0.95, sum by (cluster, namespace, le) (increase(goalmill_replanning_duration_seconds_bucket{{{N}}}[$__range])))", limit=2),
        stat("Plans revised", "percentunit", "Target: below 20 %. Plans that planners revised, among those that ended.",
             f"sum by (cluster, namespace) (increase(goalmill_plans_revised_total{{{N}}}[$__range])) / {ENDED}", "replan-storm", limit=0.2),
        stat("Confidence and outcome, r", "short", "Target: above 0.7. Correlation of what planners said with what became of their plans.",
             f"min by (cluster, namespace) (goalmill_confidence_correlation{{{N}}})", least=0.7),
        stat("Wasted cost", "percentunit", "Target: below 10 %. Cost of failed attempts, among all attempts.",
             f"sum by (cluster, namespace) (increase(goalmill_step_wasted_microdollars_total{{{N}}}[$__range])) / {COSTS}", limit=0.1),
        stat("Assignments kept", "percentunit", "Target: above 85 %. Steps that the agent completed that was chosen first.",
             share("goalmill_step_assignments_total", 'kept="yes"'), least=0.85),
        stat("Steps completed", "percentunit", "Target: above 95 %. Steps of plans that ended.",
             share("goalmill_plan_steps_total", 'outcome="completed"'), "plans-fail", least=0.95),
        stat("Dependencies kept", "percentunit", "Target: above 90 %. Dependencies of the first plan that were there at the end.",
             share("goalmill_plan_dependencies_total", 'kept="yes"'), least=0.9),
        stat("Revised plans completed", "percentunit", "Target: above 70 %. Plans that were completed after planners revised them.",
             share("goalmill_plans_revised_total", 'outcome="completed"'), least=0.7),
        stat("Valid answers of models", "percentunit", "Target: above 95 %. Answers that were plans or revisions, after repair without a model.",
             share("goalmill_llm_answers_total", 'verdict="valid"'), least=0.95),
        stat("Calibration error", "percentunit", "Mean distance between confidence and outcome. No target.",
             f"max by (cluster, namespace) (goalmill_confidence_calibration_error{{{N}}})"),
    ]),
    ("Planning", [
        panel("Time to a plan, p95", "s", "The target is below 3 s. A planner above it: see its stages. Empty while no goal is planned.",
              q(quantile("goalmill_planning_duration_seconds", "planner"), "{{planner}}"), runbook="planning-slow", limit=3),
        panel("Stages, p95", "s", "`ask` is the model or the search, `validate` the checks. Empty while no goal is planned.",
              q(quantile("goalmill_planning_stage_seconds", "planner, stage"), "{{planner}} {{stage}}"), runbook="planning-slow"),
        panel("Fallbacks", "ops", "The next planner was asked. `timeout` and `error` point to the model, `invalid` to its plans.",
              q(rate("goalmill_planner_fallbacks_total", "from, to, reason"), "{{from}} → {{to}}: {{reason}}"), runbook="planner-fallback"),
        panel("Refused plans by issue", "ops", "What planners' plans were refused for. `docs/errors` explains each code.",
              q(rate("goalmill_plan_validation_failures_total", "code"), "{{code}}")),
        panel("Revisions by trigger", "ops", "More than 0.2 for each plan: see the runbook.",
              q(rate("goalmill_replans_total", "trigger"), "{{trigger}}"), runbook="replan-storm"),
        panel("Decisions of people", "ops", "Approvals and rejections of plans and steps, those by default included.",
              q(rate("goalmill_approvals_total", "decision, of"), "{{of}} {{decision}}")),
        panel("Calls that wait", "ops", "Attempts that ended because a call waits for a person, a plan or the budget. They hold no worker.",
              q(rate("goalmill_call_waits_total", "for"), "{{for}}")),
    ]),
    ("Models", [
        panel("Tokens", "short", "Tokens a second by model and direction.",
              q(f"sum by (cluster, namespace, gen_ai_request_model, gen_ai_token_type) (rate(gen_ai_client_token_usage_sum{{{N}}}[{R}]))",
                "{{gen_ai_request_model}} {{gen_ai_token_type}}")),
        panel("Cost of planning an hour", "currencyUSD", "By model and purpose. A jump without more goals: repairs or revisions in a loop.",
              q(f"sum by (cluster, namespace, model, purpose) (rate(goalmill_llm_cost_microdollars_total{{{N}}}[{R}])) * 3600 / 1e6", "{{model}} {{purpose}}")),
        panel("Cost of steps an hour", "currencyUSD", "What attempts report: those that completed, and those that failed.",
              q(f"sum by (cluster, namespace) (rate(goalmill_step_cost_microdollars_total{{{N}}}[{R}])) * 3600 / 1e6", "completed"),
              q(f"sum by (cluster, namespace) (rate(goalmill_step_wasted_microdollars_total{{{N}}}[{R}])) * 3600 / 1e6", "failed"),
              q(f"sum by (cluster, namespace) (rate(goalmill_routing_microdollars_total{{{N}}}[{R}])) * 3600 / 1e6", "routing")),
        panel("Answers by verdict", "ops", "`unparseable`: nothing that could be read; `truncated`: cut off at the limit of tokens; `invalid`: not a valid plan or revision.",
              q(rate("goalmill_llm_answers_total", "model, verdict"), "{{model}} {{verdict}}")),
        panel("Calls, p95", "s", "Time of one call. Empty while none is made.",
              q(quantile("gen_ai_client_operation_duration_seconds", "gen_ai_request_model"), "{{gen_ai_request_model}}")),
        panel("Throttled, and circuits", "short", "Throttled answers a second; 1 while a model is not asked.",
              q(rate("goalmill_llm_throttled_total", "provider"), "{{provider}} throttled"),
              q(f"max by (cluster, namespace, provider, model) (goalmill_llm_circuit_open{{{N}}})", "{{model}} circuit"), runbook="model-circuit-open"),
    ]),
])

INTERNALS = ("goalmill-internals", "Goalmill / Internals", "Commits, shards, Redis and HTTP.", [
    ("Commits and shards", [
        panel("Commit", "s", "Time of one commit to Redis. p99 above 0.25 s: Redis is slow or far. Empty while nothing is written.",
              q(quantile("goalmill_commit_seconds", share=0.5), "p50"), q(quantile("goalmill_commit_seconds", share=0.99), "p99"), limit=0.25),
        panel("Unlock", "s", "Time from a report to the tasks that follow it. Far above the commit: the loop of a shard is busy. Empty while nothing runs.",
              q(quantile("goalmill_step_unlock_seconds", share=0.5), "p50"), q(quantile("goalmill_step_unlock_seconds", share=0.99), "p99")),
        panel("Shards owned", "short", "By scheduler. All of them together are `scheduler.shards`; a sum below it means plans that stand still.",
              q(f"goalmill_shards_owned{{{N}}}", "{{instance}}"), stack=True, runbook="no-scheduler"),
        panel("Shards lost and taken", "ops", "Each loss costs its plans a second or longer.",
              q(f"sum by (cluster, namespace) (rate(goalmill_shards_lost_total{{{N}}}[{R}]))", "lost"),
              q(f"sum by (cluster, namespace) (rate(goalmill_shards_taken_total{{{N}}}[{R}]))", "taken"), runbook="shards-lost"),
        panel("Ignored reports", "ops", "Duplicates and late reports are normal in small numbers; `unreadable` is not.",
              q(rate("goalmill_reports_ignored_total", "reason"), "{{reason}}")),
        panel("Quarantine", "short", "Queues and agent cards that are not used, and plans that were set apart.",
              q(f"max by (cluster, namespace) (goalmill_queues_quarantined{{{N}}})", "queues"), q(f"max by (cluster, namespace) (goalmill_agent_cards_refused{{{N}}})", "agent cards"),
              q(f"sum by (cluster, namespace) (goalmill_plans_quarantined_total{{{N}}})", "plans"), runbook="plans-quarantined"),
        panel("Unsent reports", "short", "Reports that workers hold because Redis does not take them.",
              q(f"sum by (cluster, namespace, instance) (goalmill_reports_unsent{{{N}}})", "{{instance}}"), runbook="reports-unsent"),
    ]),
    ("Archive", [
        panel("Behind", "s", "Time since all finished plans were in the archive. It rises while the archive cannot be written; plans stay in Redis until then. Empty without an archive.",
              q(f"max by (cluster, namespace) (goalmill_archive_lag_seconds{{{N}}})", "behind"), runbook="archive-behind", limit=300),
        panel("Plans in and out", "ops", "Finished plans that were copied, and those that were removed because their time was over.",
              q(f"sum by (cluster, namespace) (rate(goalmill_archive_plans_total{{{N}}}[{R}]))", "archived"),
              q(f"sum by (cluster, namespace) (rate(goalmill_archive_pruned_plans_total{{{N}}}[{R}]))", "removed")),
        panel("Failed writes", "ops", "Attempts to write to the archive that failed; the log of the scheduler names the reason.",
              q(f"sum by (cluster, namespace) (rate(goalmill_archive_errors_total{{{N}}}[{R}]))", "failed"), runbook="archive-behind"),
    ]),
    ("Redis and HTTP", [
        panel("Lost writes", "short", "Times in the last hour that Redis had lost what it had confirmed: an older copy, or a failover to a replica that was behind.",
              q(f"sum by (cluster, namespace) (increase(goalmill_store_rollbacks_total{{{N}}}[1h]))", "found"), runbook="store-went-back", limit=1),
        panel("Redis memory", "percentunit", "Share of `maxmemory`. Above 80 % new goals are refused.",
              q(f"max by (cluster, namespace) (goalmill_redis_memory_used_ratio{{{N}}})", "used"), runbook="memory-high", limit=0.75),
        panel("Redis reachable", "short", "0: Redis does not answer the process.", q(f"goalmill_redis_up{{{N}}}", "{{instance}}"), runbook="redis-down"),
        panel("Redis refuses", "short", "Why Redis answers and does not do what it is asked; empty while all is well.",
              q(f"goalmill_redis_refusing{{{N}}} > 0", "{{instance}} {{reason}}"), runbook="commits-refused"),
        panel("Requests", "ops", "By class of status. `5xx` is for the scheduler's log.",
              q(rate("goalmill_http_requests_total", "status_class"), "{{status_class}}"), stack=True),
        panel("Requests, p95", "s", "By route. Empty while there are none.",
              q(quantile("goalmill_http_request_duration_seconds", "route"), "{{route}}")),
        panel("Followers", "short", "Clients that follow a plan's log.", q(f"sum by (cluster, namespace) (goalmill_sse_connections{{{N}}})", "followers")),
        panel("Webhooks", "ops", "Deliveries by outcome. `failed` ones are dropped after their retries.",
              q(rate("goalmill_webhook_deliveries_total", "outcome"), "{{outcome}}")),
    ]),
])


def variables(with_agent):
    found = [
        {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "current": {}, "hide": 0},
        {"name": "cluster", "label": "Cluster", "type": "query", "datasource": SOURCE, "refresh": 2, "includeAll": True,
         "multi": True, "allValue": ".*", "current": {"text": "All", "value": "$__all"},
         "query": {"query": "label_values(goalmill_build_info, cluster)", "refId": "cluster"}},
        {"name": "namespace", "label": "Installation", "type": "query", "datasource": SOURCE, "refresh": 2, "includeAll": True,
         "multi": True, "allValue": ".*", "current": {"text": "All", "value": "$__all"},
         "query": {"query": "label_values(goalmill_build_info{cluster=~\"$cluster\"}, namespace)", "refId": "namespace"}},
    ]
    if with_agent:
        found.append({"name": "agent_type", "label": "Agent type", "type": "query", "datasource": SOURCE, "refresh": 2,
                      "current": {}, "query": {"query": f"label_values(goalmill_stream_backlog_entries{{{N}}}, agent_type)", "refId": "agent_type"}})
    return found


def draw(number, spec, x, y):
    steps = [{"color": "green", "value": None}] + ([{"color": "red", "value": spec["limit"]}] if spec["limit"] else [])
    if spec["least"]:
        steps = [{"color": "red", "value": None}, {"color": "green", "value": spec["least"]}]
    custom = {"lineWidth": 1, "fillOpacity": 10, "showPoints": "never"}
    if spec["stack"]:
        custom["stacking"] = {"mode": "normal", "group": "A"}
    if spec["limit"]:
        custom["thresholdsStyle"] = {"mode": "dashed"}
    defaults = {"unit": spec["unit"], "thresholds": {"mode": "absolute", "steps": steps}, "min": 0}
    if spec["kind"] == "timeseries":
        defaults["custom"] = custom
        options = {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
                   "tooltip": {"mode": "multi", "sort": "desc"}}
    else:
        options = {"reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}, "colorMode": "value",
                   "graphMode": "area", "textMode": "auto", "justifyMode": "auto", "orientation": "auto"}
    links = [{"title": "Runbook", "url": f"{RUNBOOKS}#{spec['runbook']}", "targetBlank": True}] if spec["runbook"] else []
    return {
        "id": number, "type": spec["kind"], "title": spec["title"], "description": spec["text"], "datasource": SOURCE,
        "gridPos": {"h": 4 if spec["kind"] == "stat" else 8, "w": spec["width"], "x": x, "y": y}, "links": links,
        "fieldConfig": {"defaults": defaults, "overrides": []}, "options": options,
        "targets": [{"refId": chr(65 + n), "expr": expr, "legendFormat": legend or "__auto", "datasource": SOURCE, "range": True}
                    for n, (expr, legend) in enumerate(spec["queries"])],
    }


def dashboard(uid, title, text, rows):
    panels, number, y = [], 0, 0
    for name, specs in rows:
        number += 1
        panels.append({"id": number, "type": "row", "title": name, "collapsed": False, "panels": [],
                       "gridPos": {"h": 1, "w": 24, "x": 0, "y": y}})
        y, x, height = y + 1, 0, 0
        for spec in specs:
            if x + spec["width"] > 24:
                x, y, height = 0, y + height, 0
            number += 1
            panels.append(draw(number, spec, x, y))
            x, height = x + spec["width"], 4 if spec["kind"] == "stat" else 8
        y += height
    changes = {"name": "Releases", "enable": True, "iconColor": "blue", "datasource": SOURCE, "titleFormat": "{{version}}",
               "expr": f"count by (cluster, namespace, version) (goalmill_build_info{{{N}}}) unless count by (cluster, namespace, version) (goalmill_build_info{{{N}}} offset 1m)"}
    moves = {"name": "Takeovers", "enable": True, "iconColor": "orange", "datasource": SOURCE, "titleFormat": "shards moved",
             "expr": f"sum by (cluster, namespace) (increase(goalmill_shards_taken_total{{{N}}}[1m])) > 0"}
    return {"uid": uid, "title": title, "description": text, "tags": ["goalmill"], "schemaVersion": 41, "version": 1, "editable": True,
            "refresh": "10s", "time": {"from": "now-1h", "to": "now"}, "timezone": "browser", "graphTooltip": 1,
            "templating": {"list": variables(uid == "goalmill-agent-type")}, "annotations": {"list": [changes, moves]},
            "links": [{"title": "Goalmill", "type": "dashboards", "tags": ["goalmill"], "asDropdown": True, "includeVars": True, "keepTime": True}],
            "panels": panels}


BOARDS = [dashboard(*board) for board in (OVERVIEW, AGENT, PLANNING, INTERNALS)]
if "--queries" in sys.argv:
    for board in BOARDS:
        for drawn in board["panels"]:
            for target in drawn.get("targets", []):
                print(board["uid"], drawn["title"], target["expr"], sep="\t")
    sys.exit()
FILES = {HERE / f'{board["uid"]}.json': json.dumps(board, indent=1, ensure_ascii=False) + "\n" for board in BOARDS}
if "--check" in sys.argv:
    wrong = [str(path) for path, text in FILES.items() if not path.exists() or path.read_text() != text]
    sys.exit("made by generate.py, and differ: " + ", ".join(wrong) if wrong else 0)
HERE.mkdir(exist_ok=True)
for path, text in FILES.items():
    path.write_text(text)
