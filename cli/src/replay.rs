//! `replay`: folds an exported log with the engine's code and shows the resulting state.

use std::collections::BTreeMap;

use goalmill_common::event::Record;
use goalmill_common::id::StepId;
use goalmill_common::json::Json;
use goalmill_common::status::{PlanStatus, StepStatus};
use goalmill_common::view::PlanView;
use goalmill_engine::{PlanState, replay};
use serde::Serialize;
use serde_json::Value;

use crate::args::ReplayArgs;
use crate::commands::input::read_file;
use crate::exit::{CommandResult, Exit, Failed};
use crate::output::{Screen, plan_tone};

/// Most differences that are listed.
const DIFFERENCES_MAX: usize = 20;

#[derive(Debug, Serialize)]
struct Replayed {
    plan_id: String,
    status: PlanStatus,
    events: u64,
    revision: u32,
    counts: goalmill_common::status::Counts,
    /// FNV-1a, 64 bit, of the folded state as JSON: equal states have equal digests.
    digest: String,
}

/// The statuses after one event.
#[derive(Debug, Serialize)]
struct Moment {
    seq: u64,
    #[serde(rename = "type")]
    event: &'static str,
    status: PlanStatus,
    steps: BTreeMap<StepId, StepStatus>,
}

#[derive(Debug, Serialize)]
struct Moments<'a> {
    items: &'a [Moment],
}

pub fn run(screen: &Screen, args: &ReplayArgs) -> CommandResult {
    let text = read_file(&args.file)?;
    if args.each {
        return each(screen, &text).map_err(|why| Failed::invalid(format!("{}: {why}", args.file)))?;
    }
    let state = fold(&text, |_, _| ()).map_err(|why| Failed::invalid(format!("{}: {why}", args.file)))?;
    let view = state.view(true);
    if let Some(path) = &args.expect {
        let path = path.to_string_lossy();
        let expected = serde_json::from_str(&read_file(&path)?)
            .map_err(|error| Failed::invalid(format!("{path} is not a plan: {error}")))?;
        same(&view, &expected).map_err(|why| Failed::invalid(format!("{path}: {why}")))?;
    }
    let summary = &view.summary;
    let replayed = Replayed {
        plan_id: summary.plan_id.to_string(),
        status: summary.status,
        events: summary.seq,
        revision: summary.revision,
        counts: summary.counts,
        digest: digest(&view),
    };
    screen.show(&replayed, &replayed.plan_id, |palette| {
        let counts = replayed.counts;
        let agrees = match &args.expect {
            Some(_) => "\n  agrees with the expected state",
            // Nothing in the log tells a plan that runs from one whose last events are missing.
            None if !replayed.status.is_final() => "\n  the log does not end the plan: it is running still, or its end is missing",
            None => "",
        };
        format!(
            "{}  {} · {} events · revision {}\n  steps   {} total · {} completed · {} failed · {} skipped · {} in progress · \
             {} pending\n  digest  {}{agrees}",
            replayed.plan_id,
            palette.tone(plan_tone(replayed.status), replayed.status.as_str()),
            replayed.events,
            replayed.revision,
            counts.total,
            counts.completed,
            counts.failed,
            counts.skipped,
            counts.in_progress,
            counts.pending,
            replayed.digest,
        )
    })?;
    Ok(Exit::Done)
}

/// Shows the statuses after each event.
fn each(screen: &Screen, text: &str) -> Result<CommandResult, String> {
    let moments = moments(text)?;
    let shown = screen.list(
        &Moments { items: &moments },
        &moments,
        |moment| moment.seq.to_string(),
        |palette| {
            let mut before = &BTreeMap::new();
            let mut lines = Vec::with_capacity(moments.len());
            for Moment { seq, event, status, steps } in &moments {
                let changed = steps.iter().filter(|(id, status)| before.get(*id) != Some(*status));
                let changed: Vec<String> = changed.map(|(id, status)| format!("{id} {}", status.as_str())).collect();
                let status = palette.tone(plan_tone(*status), status.as_str());
                lines.push(format!("{seq:>6}  {event}  {status}  {}", changed.join(" · ")).trim_end().to_owned());
                before = steps;
            }
            lines.join("\n")
        },
    );
    Ok(shown.map(|()| Exit::Done))
}

fn moments(text: &str) -> Result<Vec<Moment>, String> {
    let mut moments = Vec::new();
    fold(text, |record, state| {
        let view = state.view(false);
        let steps = view.steps.into_iter().map(|step| (step.id, step.status)).collect();
        moments.push(Moment { seq: record.seq, event: record.event.type_name(), status: view.summary.status, steps });
    })?;
    Ok(moments)
}

/// Folds a log, one event per line, and shows the state after each event to `visit`; the error names the line.
fn fold(text: &str, mut visit: impl FnMut(&Record, &PlanState)) -> Result<PlanState, String> {
    let mut state = None;
    for (place, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let at = |why: String| format!("line {}: {why}", place + 1);
        let record = Record::from_line(line).map_err(|error| at(error.to_string()))?;
        replay(&mut state, &record).map_err(|error| at(error.to_string()))?;
        if let Some(state) = &state {
            visit(&record, state);
        }
    }
    state.ok_or_else(|| "the log is empty".into())
}

/// Compares the folded state with one that was served.
fn same(folded: &PlanView, expected: &Value) -> Result<(), String> {
    let folded = serde_json::to_value(folded).expect("a plan always has a JSON form");
    let mut differences = Vec::new();
    compare("", &folded, expected, &mut differences);
    if differences.is_empty() {
        return Ok(());
    }
    let more = differences.len().saturating_sub(DIFFERENCES_MAX);
    differences.truncate(DIFFERENCES_MAX);
    let more = if more > 0 { format!("\n  … and {more} more") } else { String::new() };
    Err(format!("the log gives another state:\n  {}{more}", differences.join("\n  ")))
}

fn compare(place: &str, folded: &Value, expected: &Value, differences: &mut Vec<String>) {
    match (folded, expected) {
        (Value::Object(a), Value::Object(b)) => {
            let names: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for name in names {
                let (a, b) = (a.get(name).unwrap_or(&Value::Null), b.get(name).unwrap_or(&Value::Null));
                compare(&format!("{place}/{name}"), a, b, differences);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (i, (a, b)) in a.iter().zip(b).enumerate() {
                compare(&format!("{place}/{i}"), a, b, differences);
            }
        }
        (a, b) if a == b => {}
        (a, b) => differences.push(format!("`{place}` is {} in the log, {} expected", brief(a), brief(b))),
    }
}

fn brief(value: &Value) -> String {
    crate::watch::short(&value.to_string())
}

fn digest(view: &PlanView) -> String {
    let text = Json::from_value(view);
    let hash = text
        .text()
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use goalmill_common::event::{
        Event, GoalAccepted, PlanCreated, PlanEnded, PlanEvent, PlanValidated, StepCompleted, StepEvent, StepQueued,
        StepStarted,
    };
    use goalmill_common::goal::Goal;
    use goalmill_common::plan::{Plan, Step};

    use super::*;

    fn whole(text: &str) -> Result<PlanState, String> {
        fold(text, |_, _| ())
    }

    fn log() -> Vec<String> {
        let plan = |event| Event::Plan(event);
        let step = |attempt, event| Event::Step { step: "a".into(), attempt, phase: None, event };
        let accepted = GoalAccepted {
            plan_id: "p0-0000000000000001".into(),
            goal: Goal { description: "test".into(), ..Goal::default() },
            submission: "s".into(),
            source: "test".into(),
            secret: "secret".into(),
            salt: String::new(),
            fingerprint: String::new(),
            entry: None,
            parent: None,
            traceparent: None,
            deadline_ms: 9_000_000_000_000,
        };
        let created = PlanCreated {
            plan: Plan { steps: vec![Step::new("a", "echo")], ..Plan::default() }.into(),
            planner: "submitted".into(),
            confidence: 1.0,
            provenance: None,
            open: false,
            fork: None,
        };
        let validated = PlanValidated { warnings: vec![], routes: vec![], critical_path_seconds: 0.0 };
        let completed = StepCompleted { finished_ms: Some(9), ..StepCompleted::default() };
        let (status, cancelled) = (PlanStatus::Completed, Vec::new());
        let ended = PlanEnded { status, failure: None, reason: String::new(), cancelled };
        let started = StepStarted { worker: Some("w".into()), started_ms: 8, due_ms: 99 };
        let events = vec![
            plan(PlanEvent::GoalAccepted(Box::new(accepted))),
            plan(PlanEvent::PlanCreated(Box::new(created))),
            plan(PlanEvent::PlanValidated(Box::new(validated))),
            step(0, StepEvent::Ready),
            step(1, StepEvent::Queued(Box::new(StepQueued::new("echo".into(), 99)))),
            step(1, StepEvent::Started(Box::new(started))),
            step(1, StepEvent::Completed(Box::new(completed))),
            plan(PlanEvent::Completed(Box::new(ended))),
        ];
        let number = |(seq, event)| Record { seq, time_ms: 1_000 + seq, actor: None, event }.to_line();
        (1..).zip(events).map(number).collect()
    }

    #[test]
    fn a_whole_log_gives_the_same_digest_each_time() {
        let text = log().join("\n");
        let state = whole(&text).expect("the log adds up");
        assert_eq!(state.status(), PlanStatus::Completed);
        assert_eq!(digest(&state.view(true)), digest(&whole(&text).expect("it still does").view(true)));
    }

    #[test]
    fn gaps_swaps_and_repeats_are_refused_with_their_place() {
        let mut gap = log();
        gap.remove(3);
        assert!(whole(&gap.join("\n")).expect_err("there is a gap").starts_with("line 4: "));
        let mut swap = log();
        swap.swap(4, 5);
        assert!(whole(&swap.join("\n")).expect_err("two are swapped").starts_with("line 5: "));
        let mut repeat = log();
        repeat.insert(2, repeat[1].clone());
        assert!(whole(&repeat.join("\n")).expect_err("one comes twice").starts_with("line 3: "));
        assert!(whole("").expect_err("it is empty").contains("empty"));
        assert!(whole("{").expect_err("it is no JSON").starts_with("line 1: "));
    }

    #[test]
    fn each_event_has_the_statuses_after_it() {
        let found = moments(&log().join("\n")).expect("the log adds up");
        let statuses: Vec<&str> = found.iter().map(|moment| moment.status.as_str()).collect();
        assert_eq!(statuses.last(), Some(&"completed"));
        let step: Vec<&str> = found.iter().filter_map(|moment| Some(moment.steps.get("a")?.as_str())).collect();
        assert_eq!(step, ["pending", "pending", "ready", "queued", "running", "completed", "completed"]);
        assert_eq!(found[5].event, "step_started");
    }

    #[test]
    fn another_state_is_told_apart() {
        let view = whole(&log().join("\n")).expect("the log adds up").view(true);
        let mut served = serde_json::to_value(&view).expect("a plan has a JSON form");
        assert_eq!(same(&view, &served), Ok(()));
        served["steps"][0]["status"] = "failed".into();
        let why = same(&view, &served).expect_err("a step differs");
        assert!(["`/steps/0/status`", "\"completed\"", "\"failed\""].iter().all(|part| why.contains(part)), "{why}");
    }
}
