//! Compares the end of a run with what a test expects of it.

use goalmill_common::clock::rfc3339;
use goalmill_common::event::Record;
use goalmill_common::status::PlanStatus;
use serde_json::Value;

use crate::duration::duration_text;
use crate::run_outcome::RunOutcome;
use crate::test_file::{ExpectedEvent, RunExpectation};
use crate::value_match::{first_mismatch, shown};

/// Events of a log that a difference lists.
const EVENTS_SHOWN: usize = 12;

/// What of a run is not as expected, each with the step and the field.
pub fn check_expectations(expect: &RunExpectation, outcome: &RunOutcome) -> Vec<String> {
    let mut found = Vec::new();
    let status = expect.status.unwrap_or(PlanStatus::Completed);
    if outcome.status != status {
        found.push(format!(
            "the plan is `{}`, expected `{}`{}",
            outcome.status.as_str(),
            status.as_str(),
            why(outcome)
        ));
    }
    if let Some(code) = &expect.code {
        let actual = outcome.failure.as_ref().map(|failure| failure.code.as_str());
        if actual != Some(code) {
            found.push(format!("the code of the plan is {}, expected `{code}`", named(actual)));
        }
    }
    for (step, status) in &expect.steps {
        match outcome.step(step).map(|step| step.status) {
            Some(actual) if actual == *status => {}
            Some(actual) => {
                found.push(format!("step `{step}` is `{}`, expected `{}`", actual.as_str(), status.as_str()));
            }
            None => found.push(format!("the plan has no step `{step}`")),
        }
    }
    for (step, attempts) in &expect.attempts {
        match outcome.step(step).map(|step| step.attempt) {
            Some(actual) if actual == *attempts => {}
            Some(actual) => found.push(format!("step `{step}` had {actual} attempts, expected {attempts}")),
            None => found.push(format!("the plan has no step `{step}`")),
        }
    }
    for (step, wanted) in &expect.outputs {
        match outcome.results.get(step) {
            Some(outputs) => found.extend(
                first_mismatch("outputs", wanted, outputs).map(|mismatch| format!("step `{step}`: {mismatch}")),
            ),
            None => found.push(format!("step `{step}` has no outputs, expected {}", shown(wanted))),
        }
    }
    if let Some(wanted) = &expect.final_output {
        let output = outcome.final_output.clone().unwrap_or_default();
        found.extend(first_mismatch("final_output", wanted, &output));
    }
    found.extend(missing_event(&expect.events, &outcome.log));
    for event in &expect.no_events {
        if let Some(record) = outcome.log.iter().find(|record| is_event(event, record)) {
            found.push(format!("event {} is `{}`, which is expected not to happen", record.seq, words(record)));
        }
    }
    found.extend(exceeded(expect, outcome));
    found
}

fn exceeded(expect: &RunExpectation, outcome: &RunOutcome) -> Vec<String> {
    let mut found = Vec::new();
    let usage = outcome.usage;
    if let Some(most) = expect.cost_max.filter(|most| usage.cost > *most) {
        found.push(format!("the plan cost {} USD, expected at most {most}", usage.cost));
    }
    if let Some(most) = expect.tokens_max.filter(|most| usage.tokens > *most) {
        found.push(format!("the plan took {} tokens, expected at most {most}", usage.tokens));
    }
    let took = duration_text(outcome.duration_ms);
    if let Some(most) = expect.duration_max.filter(|most| outcome.duration_ms > most.0) {
        found.push(format!("the plan took {took}, expected at most {}", duration_text(most.0)));
    }
    if let Some(least) = expect.duration_min.filter(|least| outcome.duration_ms < least.0) {
        found.push(format!("the plan took {took}, expected at least {}", duration_text(least.0)));
    }
    found
}

/// Why the plan failed, as far as its log says.
fn why(outcome: &RunOutcome) -> String {
    match &outcome.failure {
        Some(failure) => format!(": {}: {}", failure.code, failure.message),
        None => String::new(),
    }
}

fn named(code: Option<&str>) -> String {
    code.map_or("missing".into(), |code| format!("`{code}`"))
}

/// The first expected event that does not come after those before it.
fn missing_event(events: &[ExpectedEvent], log: &[Record]) -> Option<String> {
    let mut rest = log.iter();
    let mut before: Option<&Record> = None;
    for (event, number) in events.iter().zip(1..) {
        match rest.find(|record| is_event(event, record)) {
            Some(record) => before = Some(record),
            None => {
                let parts = event.parts();
                let step = parts.step.map(|step| format!(" {step}")).unwrap_or_default();
                let after = before.map_or_else(String::new, |record| {
                    format!(" after event {} (`{}`, {})", record.seq, words(record), rfc3339(record.time_ms))
                });
                let seq = before.map_or(0, |record| record.seq);
                let next: Vec<String> =
                    log.iter().filter(|record| record.seq > seq).take(EVENTS_SHOWN).map(words).collect();
                return Some(format!(
                    "expected event {number}, `{}{step}`, did not happen{after}; there came: {}",
                    parts.event_type,
                    if next.is_empty() { "nothing".into() } else { next.join(", ") },
                ));
            }
        }
    }
    None
}

fn is_event(event: &ExpectedEvent, record: &Record) -> bool {
    let parts = event.parts();
    parts.event_type == record.event.type_name()
        && parts.step.is_none_or(|step| record.event.step().is_some_and(|id| id.as_str() == step))
        && (parts.data.is_null() || first_mismatch("", &parts.data, &data_of(record)).is_none())
}

/// The data of an event, as an exported line has them.
pub(crate) fn data_of(record: &Record) -> Value {
    let line: Value = serde_json::from_str(&record.to_line()).unwrap_or_default();
    line.get("data").cloned().unwrap_or_default()
}

fn words(record: &Record) -> String {
    match record.event.step() {
        Some(step) => format!("{} {step}", record.event.type_name()),
        None => record.event.type_name().into(),
    }
}
