//! Shows results and status of a plan.

use goalmill_common::view::{PlanSummary, Results};
use serde_json::{Map, Value};

use crate::exit::Failed;
use crate::output::{Palette, Screen, Tone, plan_tone, sanitize, yaml};
use crate::watch::{constraint_view_line, verdict_line};

/// Prints results: as indented YAML under the step's id for people.
pub fn show_results(screen: &Screen, results: &Results) -> Result<(), Failed> {
    screen.show(results, results.plan_id.as_str(), |palette| results_text(results, palette))
}

/// Prints the status of a plan after a command.
pub fn show_status(screen: &Screen, summary: &PlanSummary) -> Result<(), Failed> {
    let plan = &summary.plan_id;
    screen.show(summary, plan.as_str(), |palette| {
        format!("{plan} {}", palette.tone(plan_tone(summary.status), summary.status.as_str()))
    })
}

fn results_text(results: &Results, palette: Palette) -> String {
    let mut out = String::new();
    for (step, outputs) in &results.results {
        out.push_str(&palette.tone(Tone::Bold, step));
        out.push('\n');
        out.push_str(&indented(outputs));
    }
    for (step, failure) in &results.failures {
        out.push_str(&format!("{} {}\n", palette.tone(Tone::Bold, step), palette.tone(Tone::Bad, "failed")));
        out.push_str(&indented(failure));
    }
    for view in &results.constraints {
        out.push_str(&format!("{}\n", constraint_view_line(view, palette)));
    }
    for verdict in &results.criteria {
        out.push_str(&format!("{}\n", verdict_line(verdict, palette)));
    }
    if out.is_empty() {
        let status = palette.tone(plan_tone(results.status), results.status.as_str());
        let none = if results.status.is_final() { "no results" } else { "no results yet" };
        out = format!("{none}; the plan is {status}\n");
    }
    out
}

fn indented(value: &Value) -> String {
    if value.is_null() || value.as_object().is_some_and(Map::is_empty) {
        return "  (nothing)\n".into();
    }
    sanitize(&yaml(value)).lines().map(|line| format!("  {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use goalmill_common::goal::Usage;
    use goalmill_common::status::{Counts, PlanStatus};

    use super::*;

    #[test]
    fn a_plan_that_is_over_gives_nothing_more() {
        let of = |status| Results {
            plan_id: "p0-1".into(),
            status,
            counts: Counts::default(),
            usage: Usage::default(),
            results: serde_json::Map::new(),
            failures: serde_json::Map::new(),
            final_output: None,
            execution_seconds: None,
            constraints: Vec::new(),
            criteria: Vec::new(),
        };
        let text = |status| results_text(&of(status), Palette::plain());
        assert!(text(PlanStatus::Failed).ends_with(
            "failed
"
        ));
        assert!(text(PlanStatus::Running).ends_with(
            "running
"
        ));
    }

    #[test]
    fn people_read_outputs_under_their_step() {
        let results = Results {
            plan_id: "p0-1".into(),
            status: PlanStatus::Partial,
            counts: Counts::default(),
            usage: Usage::default(),
            results: serde_json::from_str(r#"{"a": {"x": 1, "y": ["z"]}, "b": {}}"#).expect("it is an object"),
            failures: serde_json::from_str(r#"{"c": {"code": "HTTP_503"}}"#).expect("it is an object"),
            final_output: None,
            execution_seconds: None,
            constraints: Vec::new(),
            criteria: Vec::new(),
        };
        let want = "a\n  x: 1\n  y:\n  - z\nb\n  (nothing)\nc failed\n  code: HTTP_503\n";
        assert_eq!(results_text(&results, Palette::plain()), want);
    }
}
