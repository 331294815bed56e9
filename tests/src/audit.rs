//! Checks a plan's log against the promises, without the engine's own code: from the events' JSON alone.

use std::collections::{BTreeMap, BTreeSet};

use goalmill_common::id::StepId;
use goalmill_common::plan::{DependencyStatus, Join, Plan, Step};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// What a log must say besides obeying the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The log obeys the rules so far.
    Lawful,
    /// The plan has ended as completed, with every step completed exactly once.
    Completed,
}

/// One step's history so far.
#[derive(Default)]
struct Seen {
    attempt: u64,
    in_flight: bool,
    /// Whether its last attempt was on a queue.
    takes_place: bool,
    ended: Option<String>,
    /// Whether dependents count it as done.
    satisfies: bool,
}

impl Seen {
    /// Whether the step has ended like that. What a revision skips has the event of the revision.
    fn is(&self, status: DependencyStatus) -> bool {
        match self.ended.as_deref() {
            Some("step_completed") => status == DependencyStatus::Completed,
            Some("step_failed") => status == DependencyStatus::Failed,
            Some("step_skipped") => status == DependencyStatus::Skipped,
            Some("plan_revised") => status == DependencyStatus::Skipped && self.satisfies,
            Some(_) | None => false,
        }
    }
}

fn read<T: DeserializeOwned>(value: &Value) -> Option<T> {
    // By way of text: payloads are carried as the text they are.
    serde_json::from_str(&value.to_string()).ok()
}

/// Lists every violation in `events`, the lines of a plan's log in order.
///
/// - sequence numbers are 1, 2, 3, … and times do not go back
/// - a step goes out only after its dependencies have ended in a way that lets it
/// - attempts of a step are 1, 2, 3, …; no step is dispatched twice concurrently; a step ends at most once
/// - no more steps are in flight than the plan allows
/// - nothing follows the plan's end, and nothing goes out after it was cancelled
///
/// What is undone, how often a loop runs and who takes an event is for the laws (`tests/spec`) to say.
pub fn audit(plan: &Plan, events: &[Value], expect: Expect) -> Vec<String> {
    let created = events.iter().find(|event| event["type"] == "plan_created");
    let begun = created.and_then(|event| read(&event["data"]["plan"]));
    let plan = begun.unwrap_or_else(|| plan.clone());
    let mut auditor = Auditor { plan, ..Auditor::default() };
    let mut time = String::new();
    for (i, event) in events.iter().enumerate() {
        let seq = event["seq"].as_u64().unwrap_or(0);
        if seq != i as u64 + 1 {
            auditor.report(seq, format!("event {} has number {seq}", i + 1));
        }
        let at = event["time"].as_str().unwrap_or_default().to_owned();
        if at < time {
            auditor.report(seq, format!("time goes back from {time} to {at}"));
        }
        time = at;
        auditor.take(seq, event);
    }
    if expect == Expect::Completed {
        auditor.expect_completed();
    }
    auditor.found
}

#[derive(Default)]
struct Auditor {
    /// As revisions have left it.
    plan: Plan,
    /// Steps that a revision brings or changes; they count from the event that takes them.
    staged: Vec<Step>,
    steps: BTreeMap<String, Seen>,
    in_flight: u32,
    ended: Option<String>,
    found: Vec<String>,
}

impl Auditor {
    fn report(&mut self, seq: u64, what: String) {
        self.found.push(format!("event {seq}: {what}"));
    }

    fn take(&mut self, seq: u64, event: &Value) {
        let kind = event["type"].as_str().unwrap_or_default();
        if let Some(end) = &self.ended {
            let what = format!("`{kind}` after the plan's end ({end})");
            self.report(seq, what);
        }
        let Some(step) = event["step_id"].as_str().map(String::from) else {
            if matches!(kind, "plan_completed" | "plan_failed" | "plan_cancelled" | "plan_rejected") {
                self.ended = Some(event["data"]["status"].as_str().unwrap_or(kind).to_owned());
            }
            if matches!(kind, "plan_revised" | "plan_extended") {
                self.revised(seq, &event["data"]);
            }
            return;
        };
        if matches!(kind, "step_added" | "step_modified" | "step_removed") {
            self.staged.extend(read::<Step>(&event["data"]["step"]));
            return;
        }
        let attempt = event["attempt"].as_u64().unwrap_or(0);
        // A revision may skip a step that has failed or was skipped, but none that is completed.
        if kind == "step_skipped" && event["data"]["cause"] == "revision" {
            let seen = self.steps.entry(step.clone()).or_default();
            seen.ended.take_if(|end| *end != "step_completed");
        }
        if let Some(end) = self.steps.get(&step).and_then(|seen| seen.ended.clone()) {
            self.report(seq, format!("`{kind}` for step `{step}`, which had ended ({end})"));
        }
        match kind {
            "step_queued" => self.queued(seq, &step, attempt, event),
            "step_started" | "step_progress" | "call_recorded" | "calls_discarded" => {
                let seen = self.steps.entry(step.clone()).or_default();
                if !seen.in_flight || seen.attempt != attempt {
                    self.report(seq, format!("`{kind}` of attempt {attempt} of `{step}`, which is not in flight"));
                }
            }
            "step_completed" => self.ends(seq, &step, attempt, kind, true),
            "step_failed" | "step_cancelled" => self.ends(seq, &step, 0, kind, false),
            "step_skipped" => {
                let satisfies = event["data"]["cause"] != "dependency_failed";
                self.ends(seq, &step, 0, kind, satisfies);
            }
            "step_retrying" | "step_released" | "step_suspended" | "step_recalled" | "step_decomposed"
            | "step_iterated" | "step_undone" => {
                let seen = self.steps.entry(step.clone()).or_default();
                let wrong = seen.attempt != attempt;
                let left = std::mem::take(&mut seen.in_flight) && seen.takes_place;
                self.in_flight -= u32::from(left);
                if wrong {
                    self.report(seq, format!("`{kind}` for attempt {attempt} of `{step}`"));
                }
            }
            _ => {}
        }
    }

    /// Takes a revision's changes: what it takes away is over, what it restarts is not; what is completed stays.
    fn revised(&mut self, seq: u64, data: &Value) {
        for step in std::mem::take(&mut self.staged) {
            match self.plan.steps.iter_mut().find(|own| own.id == step.id) {
                Some(own) => *own = step,
                None => self.plan.steps.push(step),
            }
        }
        let names = |list: &str| -> Vec<String> {
            let all = data[list].as_array().into_iter().flatten();
            all.filter_map(|name| name.as_str().map(String::from)).collect()
        };
        let ends = [("removed", Some((false, "plan_revised"))), ("skipped", Some((true, "plan_revised")))];
        for (list, end) in ends.into_iter().chain([("restarted", None)]) {
            for step in names(list) {
                let seen = self.steps.entry(step.clone()).or_default();
                let can_undo = |other: &Step| other.undoes.as_ref().is_some_and(|id| id.as_str() == step);
                let is_undone = list == "removed" && self.plan.steps.iter().any(can_undo);
                let wrong = seen.in_flight || seen.ended.as_deref() == Some("step_completed") && !is_undone;
                seen.ended = end.map(|(_, kind)| kind.to_owned());
                seen.satisfies = end.is_some_and(|(satisfies, _)| satisfies);
                if wrong {
                    self.report(seq, format!("`{step}` is {list} while it is in flight, or completed"));
                }
            }
        }
    }

    fn queued(&mut self, seq: u64, step: &str, attempt: u64, event: &Value) {
        let Some(spec) = self.plan.steps.iter().find(|s| s.id.as_str() == step) else {
            return self.report(seq, format!("`{step}` is not a step of the plan"));
        };
        let satisfied = |id: &str| {
            let Some(seen) = self.steps.get(id).filter(|seen| seen.ended.is_some()) else { return false };
            match spec.dependency_status.get(&StepId::from(id)) {
                None => seen.satisfies,
                Some(allowed) => allowed.iter().any(|status| seen.is(*status)),
            }
        };
        let met = spec.dependencies.iter().filter(|d| satisfied(d.as_str())).count();
        let needed = match spec.join {
            Join::All => spec.dependencies.len(),
            Join::Any => spec.dependencies.len().min(1),
            Join::AtLeast(k) => k as usize,
        };
        let early = (met < needed).then(|| {
            let open: BTreeSet<&str> =
                spec.dependencies.iter().map(|d| d.as_str()).filter(|d| !satisfied(d)).take(3).collect();
            format!("`{step}` goes out before {open:?}")
        });
        if let Some(early) = early {
            self.report(seq, early);
        }
        let seen = self.steps.entry(step.to_owned()).or_default();
        let twice = seen.in_flight;
        let expected = seen.attempt + 1;
        seen.attempt = attempt;
        seen.in_flight = true;
        let on_a_queue = event["data"]["agent_type"].as_str().is_some_and(|a| !a.is_empty());
        // A step that holds a plan takes no place.
        seen.takes_place = on_a_queue;
        self.in_flight += u32::from(!twice && on_a_queue);
        if twice {
            self.report(seq, format!("`{step}` goes out while attempt {} is in flight", expected - 1));
        }
        if attempt != expected {
            self.report(seq, format!("attempt {attempt} of `{step}` follows attempt {}", expected - 1));
        }
        if on_a_queue && self.plan.max_parallel.is_some_and(|most| self.in_flight > most) {
            let what = format!("{} steps in flight", self.in_flight);
            self.report(seq, what);
        }
    }

    fn ends(&mut self, seq: u64, step: &str, attempt: u64, kind: &str, satisfies: bool) {
        let seen = self.steps.entry(step.to_owned()).or_default();
        let stale = attempt > 0 && seen.attempt > 0 && seen.attempt != attempt;
        let current = seen.attempt;
        let left = std::mem::take(&mut seen.in_flight) && seen.takes_place;
        self.in_flight -= u32::from(left);
        seen.ended = Some(kind.to_owned());
        seen.satisfies = satisfies;
        if stale {
            self.report(seq, format!("attempt {attempt} of `{step}` completes, while {current} is current"));
        }
    }

    fn expect_completed(&mut self) {
        if self.ended.as_deref() != Some("completed") {
            self.found.push(format!("the plan has not completed: {:?}", self.ended));
        }
        for step in &self.plan.steps.clone() {
            let end = self.steps.get(step.id.as_str()).and_then(|seen| seen.ended.as_deref());
            if end != Some("step_completed") {
                self.found.push(format!("step `{}` has not completed: {end:?}", step.id));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn plan() -> Plan {
        let mut b = Step::new("b", "x");
        b.dependencies = vec!["a".into()];
        Plan { steps: vec![Step::new("a", "x"), b], ..Plan::default() }
    }

    fn line(seq: u64, kind: &str, step: &str, attempt: u64) -> Value {
        let time = format!("2026-01-01T00:00:{seq:02}.000Z");
        json!({"seq": seq, "type": kind, "time": time, "step_id": step, "attempt": attempt, "data": {"agent_type": "x"}})
    }

    fn end(seq: u64) -> Value {
        let time = format!("2026-01-01T00:00:{seq:02}.000Z");
        json!({"seq": seq, "type": "plan_completed", "time": time, "data": {"status": "completed"}})
    }

    fn good() -> Vec<Value> {
        vec![
            line(1, "step_queued", "a", 1),
            line(2, "step_completed", "a", 1),
            line(3, "step_queued", "b", 1),
            line(4, "step_completed", "b", 1),
            end(5),
        ]
    }

    #[test]
    fn a_lawful_log_passes() {
        assert_eq!(audit(&plan(), &good(), Expect::Completed), Vec::<String>::new());
    }

    #[test]
    fn each_kind_of_violation_is_found() {
        type Break = (&'static str, fn(&mut Vec<Value>));
        let breaks: [Break; 6] = [
            ("goes out before", |log| log.swap(1, 2)),
            ("has number", |log| drop(log.remove(1))),
            ("which had ended", |log| log.insert(2, line(3, "step_completed", "a", 1))),
            ("follows attempt", |log| log[0] = line(1, "step_queued", "a", 2)),
            ("after the plan's end", |log| log.push(line(6, "step_ready", "b", 0))),
            ("has not completed", |log| drop(log.pop())),
        ];
        for (message, change) in breaks {
            let mut log = good();
            change(&mut log);
            let found = audit(&plan(), &log, Expect::Completed);
            assert!(found.iter().any(|line| line.contains(message)), "{message}: {found:?}");
        }
    }
}
