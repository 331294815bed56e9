//! The page of metrics for people: the text of `docs/metrics.md`.

use crate::metric::{Exposer, Instrument, Label, METRICS};
use crate::quality::{QualityMeasure, QualityTarget};

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
        page += &format!("| `{measure}` | {target} | {} |\n", measure.formula());
    }
    page
}

fn label(label: &Label) -> String {
    match label {
        Label::Of(name, words) => format!("`{name}`: {}", words.join(", ")),
        Label::Named(name, what) => format!("`{name}`: {what}"),
    }
}

const MEASURES_HEAD: &str = "
## Measures of quality

`goalmill stats --since 7d` and `GET /v1/stats` compute these from the logs of plans that ended in the period. Logs are kept for `scheduler.retention_ms` (24 h) after the end of a plan, so a longer period needs
an [archive](archive.md); the counters above last as long as the metrics system keeps them. By language model, both give calls, success, unreadable and invalid answers, latency, cost, and cost per usable plan:
cost of the model's calls ÷ plans and revisions that were used and whose last valid answer it gave. Routing cost is that of embeddings by an endpoint since the scheduler started, at `router.embed_price`. The dashboard
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
