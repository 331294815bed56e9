//! All metrics: names, labels, help texts, buckets. `docs/metrics.md` is made of this table.

use metrics::Unit;

/// How a metric measures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Instrument {
    /// It only rises.
    Counter,
    /// It rises and falls.
    Gauge,
    /// Values by size; the upper bounds of its buckets.
    Histogram(&'static [f64]),
}

/// A label and the values that it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label {
    /// One of these words.
    Of(&'static str, &'static [&'static str]),
    /// A name from the settings or the registry, of which there are few; what it is.
    Named(&'static str, &'static str),
}

/// Who exposes a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposer {
    /// Every scheduler.
    Scheduler,
    /// Only the scheduler that owns shard 0, so that sums over schedulers are right.
    Leader,
    /// Every worker.
    Worker,
    /// Every process.
    Both,
}

/// One metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its name on `/metrics`.
    pub name: &'static str,
    /// What it is.
    pub kind: Instrument,
    /// The unit of its values.
    pub unit: Unit,
    /// Who exposes it.
    pub from: Exposer,
    /// Its labels.
    pub labels: &'static [Label],
    /// What it means: one sentence.
    pub help: &'static str,
}

/// Waiting times, seconds. 30 is the service level of starts.
const WAIT: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0];
/// Execution times, seconds.
const RUN: &[f64] = &[0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0, 3_600.0];
/// Planning, seconds. 3 is the service level of plans, 2 that of revisions.
const PLANNING: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0, 120.0];
/// Answers of the API and commits, seconds.
const FAST: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];
/// Calls of language models, seconds: OpenTelemetry's buckets for generative AI, as those of tokens.
const MODEL: &[f64] = &[0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
const TOKENS: &[f64] = &[
    1.0, 4.0, 16.0, 64.0, 256.0, 1_024.0, 4_096.0, 16_384.0, 65_536.0, 262_144.0, 1_048_576.0, 4_194_304.0,
    16_777_216.0, 67_108_864.0,
];

const AGENT_TYPE: Label =
    Label::Named("agent_type", "an agent type; `other` for those above `metrics.agent_types_max`");
const NAMESPACE: Label = Label::Named("plans_namespace", "a namespace of `metrics.namespaces`");
const PLANNER: Label = Label::Named(
    "planner",
    "`llm`, `tools`, `htn`, `rules`, `agent:NAME` of the settings, `streamed`, `submitted` or `none`",
);
const PROVIDER: Label = Label::Named("provider", "the provider of a model in the settings");
const MODEL_NAME: Label = Label::Named("model", "the name of a model in the settings");
const CLASS: &[&str] = &["transient", "permanent", "timeout", "rate_limited", "constraint_violation", "lost"];
const GEN_AI: [Label; 3] = [
    Label::Of("gen_ai_operation_name", &["chat"]),
    Label::Named("gen_ai_provider_name", "the provider of a model in the settings"),
    Label::Named("gen_ai_request_model", "the name of a model in the settings"),
];

macro_rules! metrics {
    ($($from:ident $kind:ident $(($buckets:expr))? $name:literal $unit:ident [$($label:expr),*] $help:literal;)+) => {
        /// Every metric, by subject.
        pub const METRICS: &[Metric] = &[$(Metric {
            name: $name,
            kind: Instrument::$kind $(($buckets))?,
            unit: Unit::$unit,
            from: Exposer::$from,
            labels: &[$($label),*],
            help: $help,
        },)+];
    };
}

metrics! {
    Both Gauge "goalmill_build_info" Count [
        Label::Named("version", "the version"), Label::Named("commit", "the commit of the build, 12 digits, or `unknown`"),
        Label::Of("component", &["scheduler", "worker"])]
        "Always 1; the labels tell the version and the build that runs.";
    Both Gauge "goalmill_clock_skew_seconds" Seconds []
        "By how much the machine's clock is ahead of the store's, negative if behind; plans follow the store's.";

    Scheduler Counter "goalmill_goals_submitted_total" Count [Label::Of("source", &["http", "redis"])]
        "Goals and plans that were accepted.";
    Scheduler Counter "goalmill_goals_rejected_total" Count [Label::Named("reason", "`schema` or a problem code")]
        "Goals and plans that were refused.";
    Scheduler Counter "goalmill_namespace_refusals_total" Count [Label::Of("limit", &["plans_max",
        "submissions_per_minute", "payload_bytes_per_day", "cost_per_day", "tokens_per_day"])]
        "Submissions that were refused because a namespace had reached this limit.";
    Scheduler Counter "goalmill_namespace_submissions_total" Count [NAMESPACE]
        "Goals and plans of a namespace that were accepted.";
    Scheduler Gauge "goalmill_namespace_plans" Count [NAMESPACE]
        "Plans of a namespace that are not final, without sub-plans, on the shards of this scheduler.";
    Scheduler Gauge "goalmill_namespace_steps_in_flight" Count [NAMESPACE]
        "Steps of a namespace whose tasks are out and not reported, on the shards of this scheduler.";
    Scheduler Counter "goalmill_namespace_cost_microdollars_total" Count [NAMESPACE]
        "Cost of plans of a namespace, in millionths of a US dollar.";
    Scheduler Counter "goalmill_namespace_tokens_total" Count [NAMESPACE]
        "Tokens that plans of a namespace took.";
    Scheduler Counter "goalmill_submissions_quarantined_total" Count []
        "Submissions that were refused because several schedulers died over them.";
    Scheduler Counter "goalmill_submissions_refused_total" Count [Label::Named("code", "a problem code")]
        "Submissions by stream that were refused, and are listed for a week.";
    Scheduler Gauge "goalmill_plans" Count [Label::Of("state",
        &["planning", "awaiting_approval", "running", "replanning", "paused"])]
        "Plans that are not final, on the shards of this scheduler.";
    Scheduler Gauge "goalmill_plan_oldest_age_seconds" Seconds [Label::Of("state",
        &["planning", "awaiting_approval", "running", "replanning", "paused"])]
        "Time since the longest-standing plan of a state last changed, on the shards of this scheduler.";
    Scheduler Counter "goalmill_plans_ended_total" Count [Label::Of("status",
        &["completed", "partial", "failed", "cancelled", "rejected"])]
        "Plans that became final.";
    Scheduler Counter "goalmill_plans_quarantined_total" Count []
        "Plans that were put into quarantine because schedulers died or hung over them.";
    Scheduler Counter "goalmill_plans_unreadable_total" Count []
        "Plans that a scheduler does not work on until it is started again.";

    Scheduler Histogram(PLANNING) "goalmill_planning_duration_seconds" Seconds
        [PLANNER, Label::Of("outcome", &["ok", "invalid", "error"])]
        "Time from a goal to its plan, over all planners that were asked.";
    Scheduler Histogram(PLANNING) "goalmill_planning_stage_seconds" Seconds
        [PLANNER, Label::Named("stage", "a stage of planning"), Label::Of("outcome", &["ok", "invalid", "error"])]
        "Time of one stage of planning.";
    Scheduler Counter "goalmill_planner_fallbacks_total" Count
        [Label::Named("from", "a planner"), Label::Named("to", "a planner"),
         Label::Of("reason", &["timeout", "error", "invalid"])]
        "Times that the next planner was asked.";
    Scheduler Counter "goalmill_plan_validation_failures_total" Count
        [PLANNER, Label::Named("code", "an issue code")]
        "Issues for which a planner's plan was refused.";
    Scheduler Histogram(PLANNING) "goalmill_replanning_duration_seconds" Seconds
        [Label::Of("outcome", &["ok", "error"])]
        "Time of the planners for one revision, over all that were asked.";
    Scheduler Counter "goalmill_plans_revised_total" Count [Label::Of("outcome", &["completed", "not_completed"])]
        "Plans that ended and that planners had revised.";
    Scheduler Counter "goalmill_plan_steps_total" Count [Label::Of("outcome", &["completed", "not_completed"])]
        "Steps of plans that ended, as the measure task_completeness counts them.";
    Scheduler Counter "goalmill_plan_dependencies_total" Count [Label::Of("kept", &["yes", "no"])]
        "Dependencies of executed steps of plans that ended: there from the first plan to the end, or not.";
    Scheduler Counter "goalmill_step_assignments_total" Count [Label::Of("kept", &["yes", "no"])]
        "Executed steps of plans that ended: completed by the agent type that was chosen first, or not.";
    Scheduler Gauge "goalmill_confidence_calibration_error" Count []
        "Mean distance between the confidence of planners and the outcome of their plans, 0 to 1, of the plans that this scheduler remembers.";
    Scheduler Gauge "goalmill_confidence_correlation" Count []
        "Correlation of the confidence of planners with the outcome of their plans, -1 to 1, of the plans that this scheduler remembers.";
    Scheduler Counter "goalmill_routing_microdollars_total" Count []
        "Cost of embeddings by an endpoint at `router.embed_price`, in millionths of a US dollar.";
    Scheduler Counter "goalmill_replans_total" Count
        [Label::Named("trigger", "what triggered it"), Label::Named("strategy", "how it changes the plan")]
        "Revisions of running plans.";
    Scheduler Counter "goalmill_replan_limit_hits_total" Count []
        "Plans that ended because they needed more revisions than they may have.";
    Scheduler Counter "goalmill_lessons_skipped_total" Count []
        "Outcomes that were not learned from because too many came together.";

    Scheduler Gauge "goalmill_steps_ready" Count [AGENT_TYPE]
        "Steps that could run and are held in memory until their queue has room, on the shards of this scheduler.";
    Scheduler Gauge "goalmill_steps_in_flight" Count [AGENT_TYPE]
        "Steps whose tasks are out and not reported, on the shards of this scheduler.";
    Scheduler Counter "goalmill_steps_ended_total" Count
        [Label::Of("outcome", &["completed", "failed", "skipped"])]
        "Steps that became final in running plans.";
    Scheduler Counter "goalmill_step_retries_total" Count [Label::Of("class", CLASS)]
        "Attempts that failed and are followed by another one, by the class of the failure.";
    Scheduler Counter "goalmill_step_rate_limit_waits_total" Count []
        "Attempts whose agents asked to wait: each is followed by another one, and uses no retry.";
    Scheduler Counter "goalmill_call_waits_total" Count [Label::Of("for", &["approval", "answer", "plan", "budget"])]
        "Attempts that ended because a call of theirs waits, by what it waits for.";
    Scheduler Counter "goalmill_step_tokens_total" Count []
        "Tokens of attempts and calls that did not fail.";
    Scheduler Counter "goalmill_step_cost_microdollars_total" Count []
        "Cost of attempts and calls that did not fail, in millionths of a US dollar.";
    Scheduler Counter "goalmill_step_wasted_microdollars_total" Count []
        "Cost of failed attempts, in millionths of a US dollar.";
    Scheduler Counter "goalmill_step_cache_total" Count [Label::Named("outcome", "hit, miss, or why not")]
        "Lookups of outputs that are kept.";
    Scheduler Counter "goalmill_approvals_total" Count
        [Label::Of("decision", &["approved", "rejected"]), Label::Of("of", &["plan", "step"])]
        "Decisions on plans and steps that wait for a person, those by default included.";
    Scheduler Counter "goalmill_reports_ignored_total" Count
        [Label::Of("reason", &["stale", "unknown_plan", "refused", "quarantined", "unreadable", "request"])]
        "Reports that changed nothing: duplicates, reports of attempts that are over, requests where only reports may be, and what cannot be read.";
    Scheduler Counter "goalmill_tasks_lost_total" Count []
        "Tasks whose lease expired because their worker died or hung.";

    Scheduler Counter "goalmill_tasks_missing_total" Count []
        "Tasks that were in no queue and were sent again.";

    Leader Gauge "goalmill_stream_backlog_entries" Count [AGENT_TYPE]
        "Tasks in a queue that no worker has taken.";
    Leader Gauge "goalmill_stream_pending_entries" Count [AGENT_TYPE]
        "Tasks that workers have taken and not finished.";
    Leader Gauge "goalmill_stream_oldest_entry_age_seconds" Seconds [AGENT_TYPE]
        "Age of the oldest task on the stream that is not finished; 0 for an empty queue.";
    Leader Gauge "goalmill_worker_slots_live" Count [AGENT_TYPE]
        "Slots of live workers that serve an agent type and are not draining. A slot of a worker that serves several counts \
         for each.";
    Leader Gauge "goalmill_scaling_desired_slots" Count [AGENT_TYPE]
        "Slots that would serve all of an agent type's work concurrently: in the queue, with workers, ready in memory, and due \
         again within 30 s.";
    Leader Gauge "goalmill_dead_letter_entries" Count [AGENT_TYPE]
        "Dead letters of an agent type.";
    Scheduler Counter "goalmill_dead_letters_total" Count [AGENT_TYPE]
        "Steps that became dead letters.";
    Scheduler Counter "goalmill_undo_failures_total" Count [
        Label::Named("plans_namespace", "a namespace of `metrics.namespaces`, else `other`")]
        "Undo steps that failed: what they should take back may still be done.";
    Scheduler Counter "goalmill_maps_total" Count []
        "Steps with `for_each` that became one step for each item.";
    Scheduler Counter "goalmill_map_items_total" Count []
        "Items of these maps.";
    Scheduler Gauge "goalmill_waits_open" Count [Label::Of("for", &["time", "event"])]
        "Steps that wait for a time or an event, on the shards of this scheduler.";
    Leader Gauge "goalmill_events_kept_ratio" Count []
        "Share of `events.kept_max` that the fullest namespace keeps, 0 to 1, of `default` and those of `namespaces` and \
         `metrics.namespaces`.";
    Leader Gauge "goalmill_workers" Count [Label::Of("state", &["active", "draining"])]
        "Workers that give signs of life.";
    Scheduler Gauge "goalmill_queues_quarantined" Count []
        "Queues that are not used because a key is of another type.";
    Scheduler Gauge "goalmill_agent_cards_refused" Count []
        "Agent cards in Redis that cannot be read.";

    Worker Counter "goalmill_tasks_total" Count [AGENT_TYPE, Label::Of("outcome",
        &["completed", "superseded", "released", "lost", "unreadable", "failed_transient", "failed_permanent",
          "failed_timeout", "failed_rate_limited", "failed_constraint_violation"])]
        "Tasks that ended in this worker.";
    Worker Histogram(WAIT) "goalmill_task_wait_seconds" Seconds [AGENT_TYPE]
        "Time that a task waited in its queue, by the clocks of Redis and of this worker.";
    Worker Histogram(RUN) "goalmill_task_run_seconds" Seconds [AGENT_TYPE]
        "Time of one attempt.";
    Worker Gauge "goalmill_worker_slots" Count []
        "Tasks that this worker can run concurrently.";
    Worker Gauge "goalmill_worker_slots_busy" Count []
        "Tasks that this worker runs now.";
    Worker Gauge "goalmill_reports_unsent" Count []
        "Reports that wait to be written to Redis.";

    Both Histogram(MODEL) "gen_ai_client_operation_duration_seconds" Seconds
        [GEN_AI[0], GEN_AI[1], GEN_AI[2], Label::Named("error_type", "a failure code, or nothing")]
        "Time of one call of a language model.";
    Both Histogram(TOKENS) "gen_ai_client_token_usage" Count
        [GEN_AI[0], GEN_AI[1], GEN_AI[2], Label::Of("gen_ai_token_type", &["input", "output"])]
        "Tokens of one call of a language model.";
    Both Counter "goalmill_llm_cost_microdollars_total" Count
        [PROVIDER, MODEL_NAME, Label::Named("purpose", "what the call was for")]
        "Cost of calls of language models by the price table, in millionths of a US dollar.";
    Scheduler Counter "goalmill_llm_answers_total" Count
        [MODEL_NAME, Label::Of("verdict", &["valid", "invalid", "truncated", "unparseable"])]
        "Answers of language models to planners, by what became of them.";
    Both Counter "goalmill_llm_throttled_total" Count [PROVIDER]
        "Answers by which a provider asked to slow down.";
    Both Gauge "goalmill_llm_circuit_open" Count [PROVIDER, MODEL_NAME]
        "1 while a model is not asked because its last calls failed.";

    Both Gauge "goalmill_redis_up" Count []
        "1 when Redis answered at the last look, also with an error.";
    Both Gauge "goalmill_redis_refusing" Count
        [Label::Of("reason", &["no_replicas", "disk", "read_only", "loading", "busy", "password", "permission", "primary_down", "cluster", "other", "memory", "data_lost", "unsafe", "unsupported", "wrong_type"])]
        "1 for the reason why Redis answered and did not do what it was asked at the last look, 0 for all others.";
    Scheduler Gauge "goalmill_redis_writable" Count []
        "1 when a commit could be written at the last look.";
    Scheduler Gauge "goalmill_redis_memory_used_ratio" Count []
        "Share of `maxmemory` in use, 0 to 1; 0 without a limit.";
    Scheduler Gauge "goalmill_shards_owned" Count []
        "Shards that this scheduler owns.";
    Scheduler Gauge "goalmill_shards" Count []
        "Shards of the installation.";
    Scheduler Gauge "goalmill_scheduler_leader" Count []
        "1 on the scheduler that owns shard 0.";
    Scheduler Counter "goalmill_shards_taken_total" Count []
        "Times that a scheduler became the owner of a shard: at its start, after a takeover, when schedulers come or go.";
    Scheduler Counter "goalmill_store_rollbacks_total" Count []
        "Times that this scheduler found that the store had lost writes that it had confirmed.";
    Scheduler Counter "goalmill_shards_lost_total" Count []
        "Times that a shard was given up because its loop failed or another owner was there.";
    Scheduler Histogram(FAST) "goalmill_commit_seconds" Seconds []
        "Time of one commit to Redis, with its resends.";
    Scheduler Histogram(FAST) "goalmill_step_unlock_seconds" Seconds []
        "Time from the newest report of a commit to the tasks that the commit writes: how long dependents wait.";
    Scheduler Counter "goalmill_errands_failed_total" Count []
        "Effects outside a plan's log that failed: answers to submissions, acknowledgements, dead letters.";

    Scheduler Counter "goalmill_spans_sent_total" Count []
        "Spans that a collector of traces has taken.";
    Scheduler Counter "goalmill_traces_dropped_total" Count [
        Label::Of("reason", &["queue_full", "not_sent", "unreadable"])]
        "Traces, or batches of spans, that no collector has got: too many waited, the collector did not take them, the log could not be read.";

    Scheduler Counter "goalmill_http_requests_total" Count
        [Label::Named("route", "a route's template"), Label::Named("method", "the method"),
         Label::Of("status_class", &["1xx", "2xx", "3xx", "4xx", "5xx"])]
        "Requests to the API.";
    Scheduler Histogram(FAST) "goalmill_http_request_duration_seconds" Seconds
        [Label::Named("route", "a route's template"), Label::Named("method", "the method")]
        "Time to an answer's head.";
    Scheduler Counter "goalmill_http_panics_total" Count []
        "Requests that were answered with 500 because of a bug.";
    Scheduler Counter "goalmill_http_sign_in_failures_total" Count []
        "Requests with invalid credentials.";
    Scheduler Counter "goalmill_oidc_key_reads_total" Count [Label::Of("outcome", &["ok", "failed"])]
        "Times that the keys of the identity provider were read.";
    Scheduler Counter "goalmill_tls_reloads_total" Count [Label::Of("outcome", &["ok", "failed"])]
        "Changes of the files of the API's certificate: taken, or refused with the certificate in use kept.";
    Scheduler Gauge "goalmill_tls_certificate_expiration_timestamp_seconds" Seconds []
        "When the certificate of the API ends, as Unix time; without it there is no HTTPS.";
    Scheduler Counter "goalmill_archive_plans_total" Count []
        "Finished plans that were copied to the archive.";
    Scheduler Counter "goalmill_archive_events_total" Count []
        "Events that were copied to the archive.";
    Scheduler Counter "goalmill_archive_payloads_total" Count [Label::Of("outcome", &["archived", "left_out", "missing"])]
        "Large inputs and outputs of finished plans: copied, left out because of the limit of their plan, or expired.";
    Scheduler Counter "goalmill_archive_pruned_plans_total" Count []
        "Plans that were removed from the archive because their time was over.";
    Scheduler Counter "goalmill_archive_errors_total" Count []
        "Attempts to copy finished plans to the archive that failed.";
    Scheduler Gauge "goalmill_archive_lag_seconds" Seconds []
        "Time since all finished plans were in the archive; 0 while they are.";
    Scheduler Gauge "goalmill_sse_connections" Count []
        "Clients that follow a plan's log.";
    Scheduler Counter "goalmill_webhook_deliveries_total" Count [Label::Named("outcome", "ok, retry or failed")]
        "Deliveries of webhooks.";
}

/// Registers every help text and unit with the recorder.
pub fn describe() {
    for metric in METRICS {
        match metric.kind {
            Instrument::Counter => metrics::describe_counter!(metric.name, metric.unit, metric.help),
            Instrument::Gauge => metrics::describe_gauge!(metric.name, metric.unit, metric.help),
            Instrument::Histogram(_) => metrics::describe_histogram!(metric.name, metric.unit, metric.help),
        }
    }
}

/// Begins all counters of schedulers whose labels have known values at 0, so that the first event is seen as an increase.
pub fn begin_scheduler() {
    let is_its = |metric: &&Metric| metric.kind == Instrument::Counter && metric.from != Exposer::Worker;
    for metric in METRICS.iter().filter(is_its) {
        for labels in combinations(metric.labels) {
            metrics::counter!(metric.name, &labels).increment(0);
        }
    }
}

/// All values of these labels together; none when one of them may have other values.
fn combinations(labels: &[Label]) -> Vec<Vec<(&'static str, &'static str)>> {
    let mut all = vec![Vec::new()];
    for label in labels {
        let Label::Of(name, words) = label else { return Vec::new() };
        all = all
            .iter()
            .flat_map(|so_far| words.iter().map(|word| [so_far.as_slice(), &[(*name, *word)]].concat()))
            .collect();
    }
    all
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn counters_begin_at_every_value_that_their_labels_may_have() {
        assert_eq!(combinations(&[]), [[]]);
        let found = combinations(&[Label::Of("a", &["1", "2"]), Label::Of("b", &["3"])]);
        assert_eq!(found, [[("a", "1"), ("b", "3")], [("a", "2"), ("b", "3")]]);
        assert_eq!(combinations(&[Label::Of("a", &["1"]), AGENT_TYPE]), Vec::<Vec<_>>::new());
    }

    /// The most series of one metric, with so many agent types and ten of everything else that has a name.
    fn series_max(metric: &Metric, agent_types: usize) -> usize {
        let values = |label: &Label| match label {
            Label::Of(_, values) => values.len(),
            Label::Named("agent_type", _) => agent_types,
            Label::Named(..) => 10,
        };
        let series = metric.labels.iter().map(values).product::<usize>();
        match metric.kind {
            Instrument::Histogram(buckets) => series * (buckets.len() + 3),
            Instrument::Counter | Instrument::Gauge => series,
        }
    }

    #[test]
    fn series_by_agent_type_stay_within_their_budget() {
        let sum = |agent_types: usize| -> usize {
            let grows = |metric: &&Metric| metric.labels.contains(&AGENT_TYPE);
            METRICS.iter().filter(grows).map(|metric| series_max(metric, agent_types)).sum()
        };
        assert!(sum(20) <= 1_500, "{}", sum(20));
        // 500 agent types: `metrics.agent_types_max` of them and `other`.
        let shown = crate::config::MetricsSettings::default().agent_types_max.min(500) + 1;
        assert!(sum(shown) <= 7_500, "{}", sum(shown));
    }

    #[test]
    fn names_units_and_kinds_follow_the_conventions_of_prometheus() {
        let names: BTreeSet<&str> = METRICS.iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), METRICS.len(), "a name is there twice");
        for metric in METRICS {
            let name = metric.name;
            assert_eq!(name.ends_with("_total"), metric.kind == Instrument::Counter, "{name}");
            assert_eq!(name.ends_with("_seconds"), metric.unit == Unit::Seconds, "{name}");
            assert!(metric.help.ends_with('.'), "{name}: {}", metric.help);
            if let Instrument::Histogram(buckets) = metric.kind {
                assert!(buckets.is_sorted() && !buckets.is_empty(), "{name}");
            }
        }
    }
}
