//! The page of metrics for people: the text of `docs/metrics.md`.

use goalmill_common::metric::{Exposer, Instrument, Label, METRICS};
use goalmill_common::quality::{QualityMeasure, QualityTarget};

/// The table for people: the text of `docs/metrics.md`.
pub fn page() -> String {
    let mut page = HEAD.to_owned();
    for metric in METRICS {
        let labels: Vec<String> = metric.labels.iter().map(label).collect();
        let kind = match metric.kind {
            Instrument::Counter => "counter".to_owned(),
            Instrument::Gauge => "gauge".to_owned(),
            Instrument::Histogram(buckets) => {
                format!("histogram, {} buckets up to {}", buckets.len(), buckets.last().unwrap_or(&0.0))
            }
        };
        let from = match metric.from {
            Exposer::Scheduler => "scheduler",
            Exposer::Leader => "owner of shard 0",
            Exposer::Worker => "worker",
            Exposer::Both => "both",
        };
        page += &format!("| `{}` | {kind} | {from} | {} | {} |\n", metric.name, labels.join("; "), metric.help);
    }
    page += MEASURES_HEAD;
    for measure in QualityMeasure::ALL {
        let target = match measure.target() {
            Some(QualityTarget::Above(least)) => format!("> {least}"),
            Some(QualityTarget::Below(most)) => format!("< {most}"),
            None => String::new(),
        };
        let unit = if measure.is_seconds() { " s" } else { "" };
        let target = if target.is_empty() { target } else { format!("{target}{unit}") };
        page += &format!("| `{measure}` | {target} | {} |\n", formula(*measure));
    }
    page
}

fn label(label: &Label) -> String {
    match label {
        Label::Of(name, words) => format!("`{name}`: {}", words.join(", ")),
        Label::Named(name, what) => format!("`{name}`: {what}"),
    }
}

/// How a measure is computed, over the plans that ended in the period.
fn formula(measure: QualityMeasure) -> &'static str {
    match measure {
        QualityMeasure::PlanValidity => {
            "valid ÷ all answers to goals: every answer of a model, and one answer of each plan or failure of a planner without a model. Valid: a plan, after repair without a model"
        }
        QualityMeasure::TaskCompleteness => {
            "completed ÷ all steps at the end, without those that a revision removed or a condition, a person or a revision skipped; cancelled and rejected plans do not count"
        }
        QualityMeasure::DependencyAccuracy => {
            "|A ∩ B| ÷ |A ∪ B|, where A are the dependencies of the steps as first planned and B those at the end, both of steps with an attempt"
        }
        QualityMeasure::AssignmentAccuracy => {
            "steps completed by the agent type that the planner or the router chose first ÷ steps with an attempt that were completed or failed; a fallback or a revision to another agent type does not count as kept"
        }
        QualityMeasure::RevisionFrequency => "plans with at least one revision by planners ÷ all plans",
        QualityMeasure::RevisionSuccess => "completed plans among those with a revision by planners",
        QualityMeasure::CalibrationError => {
            "Σ (nₖ ÷ n) · |mean confidence − share completed| over ten groups of equal width, with the planner's own confidence; `partial` counts as not completed"
        }
        QualityMeasure::ConfidenceCorrelation => {
            "Pearson's r of the planner's own confidence and the outcome (1 completed, 0 not); none if all are the same"
        }
        QualityMeasure::WastedCost => "cost of failed attempts ÷ cost of all attempts, by the reports of agents",
        QualityMeasure::PlanningP50 | QualityMeasure::PlanningP95 => {
            "from `goal_accepted` to `plan_created` by a planner"
        }
        QualityMeasure::ReplanningP50 | QualityMeasure::ReplanningP95 => {
            "from `replan_triggered` to the revision, its proposal, or the decision to go on without one; without waits for people"
        }
        QualityMeasure::RoutingP50 | QualityMeasure::RoutingP95 => {
            "choosing agents for the `auto` steps of one plan of a planner"
        }
    }
}

const MEASURES_HEAD: &str = "
## Measures of quality

`goalmill stats --since 7d` and `GET /v1/stats` compute these from the logs of plans that ended in the period. Logs are kept for `scheduler.retention_ms` (24 h) after the end of a plan, so a longer period needs
an [archive](archive.md); the counters above last as long as the metrics system keeps them. By language model, both give calls, success, unreadable and invalid answers, latency, cost, and cost per usable plan:
cost of the model's calls ÷ plans and revisions that were used and whose last valid answer it gave. `costs` of the answer and the page split the cost by the day on which plans ended (UTC), namespace, agent type and model: that of calls of steps by the model that the recorded reply names, as those of the shipped agents do. Beyond 1,000 names of a list the rest is `other`. Routing cost is that of embeddings by an endpoint since the scheduler started, at `router.embed_price`. The dashboard
*Planning and models* shows the measures against their targets. A sub-plan is a plan of its own; its cost is not counted again for the step of its parent.

| measure | target | formula |
|---|---|---|
";

const HEAD: &str = "# Metrics

This page is made of the table in [`common/src/metric.rs`](../common/src/metric.rs); a test compares them. Schedulers and workers expose these metrics on `/metrics` of `metrics.listen`. Dashboards, rules and alerts that use them:
[monitoring.md](monitoring.md).

No id, error text or text of a user ever becomes a label. Labels with names from the registry have at most `metrics.agent_types_max` (100) values and `other`.

| name | kind | exposed by | labels | meaning |
|---|---|---|---|---|
";
