//! Checks a plan's log against the promises, without the engine's own code: from the events' JSON alone.

use std::collections::{BTreeMap, BTreeSet};

use goalmill_common::clock::parse_rfc3339;
use goalmill_common::id::StepId;
use goalmill_common::plan::{DependencyStatus, Join, Plan, Step, UndoOn};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::audit_work::SeenWork;

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
    work: SeenWork,
    /// Of an undo step: how many of them it is through with.
    undone: usize,
    /// Whether it was passed over before the clean-up began.
    is_needless: bool,
    /// Iterations of the loop so far.
    iterations: u64,
    /// The end of the wait, Unix milliseconds; 0 when it has none.
    wait_due_ms: u64,
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
/// - what was done is undone when the plan fails or is cancelled, the step that went out last first, once for each
///   iteration and agent; a plan that has begun does not end without its clean-up, and nothing but its end cuts that off
/// - iterations of a loop are 1, 2, 3, …; an event from outside completes one step, and a wait does not end before its time
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
    /// Whether the outcome is known and the clean-up runs.
    cleans: bool,
    /// The undo steps that the clean-up runs.
    undo: Vec<String>,
    /// Steps whose plans are kept, and undo what they did themselves.
    kept: BTreeSet<String>,
    /// Ids of events from outside that no step has taken.
    received: BTreeSet<String>,
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
                self.expect_cleanup(seq, kind);
                self.ended = Some(event["data"]["status"].as_str().unwrap_or(kind).to_owned());
            }
            if kind == "cleanup_started" {
                self.cleanup_starts(seq, &event["data"]);
            }
            if kind == "inner_plan_kept" {
                self.kept.extend(event["data"]["step"].as_str().map(String::from));
            }
            if kind == "event_received" {
                self.received.extend(event["data"]["id"].as_str().map(String::from));
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
        let seen = self.steps.entry(step.clone()).or_default();
        seen.work.follow(seq, kind, (attempt, seen.attempt), seen.iterations + 1, &event["data"]);
        match kind {
            "step_queued" => self.queued(seq, &step, attempt, event),
            "step_started" | "step_progress" | "call_recorded" | "calls_discarded" => {
                let seen = self.steps.entry(step.clone()).or_default();
                if !seen.in_flight || seen.attempt != attempt {
                    self.report(seq, format!("`{kind}` of attempt {attempt} of `{step}`, which is not in flight"));
                }
            }
            "step_wait_started" => {
                self.steps.entry(step).or_default().wait_due_ms = event["data"]["due_ms"].as_u64().unwrap_or(0);
            }
            "step_completed" => {
                self.wait_ends(seq, &step, event);
                self.ends(seq, &step, attempt, kind, true);
                // A person may complete it before.
                if event["actor"].is_null() {
                    self.expect_all_undone(seq, &step);
                }
            }
            "step_failed" => {
                self.wait_ends(seq, &step, event);
                self.ends(seq, &step, 0, kind, false);
            }
            "step_cancelled" => {
                let is_cleanup = self.plan.steps.iter().any(|own| own.id.as_str() == step && own.is_cleanup());
                let why = event["data"]["reason"].as_str().unwrap_or_default();
                if self.cleans && is_cleanup && !why.starts_with("the clean-up has ended") {
                    self.report(seq, format!("`{step}` is cancelled in the clean-up: {why}"));
                }
                self.ends(seq, &step, 0, kind, false);
            }
            "step_skipped" => {
                self.wait_ends(seq, &step, event);
                let satisfies = event["data"]["cause"] != "dependency_failed";
                let is_by_plan = event["data"]["cause"] == "condition" && !self.cleans;
                self.steps.entry(step.clone()).or_default().is_needless = is_by_plan;
                self.ends(seq, &step, 0, kind, satisfies);
            }
            "step_retrying" | "step_released" | "step_suspended" | "step_recalled" | "step_decomposed"
            | "step_iterated" | "step_undone" => {
                let seen = self.steps.entry(step.clone()).or_default();
                let wrong = seen.attempt != attempt;
                if kind == "step_iterated" {
                    seen.iterations += 1;
                }
                let iterations = seen.iterations;
                seen.undone += usize::from(kind == "step_undone");
                let left = std::mem::take(&mut seen.in_flight) && seen.takes_place;
                self.in_flight -= u32::from(left);
                if wrong {
                    self.report(seq, format!("`{kind}` for attempt {attempt} of `{step}`"));
                }
                if kind == "step_iterated" && event["data"]["iteration"] != iterations {
                    let number = &event["data"]["iteration"];
                    self.report(seq, format!("iteration {number} of `{step}` is its {iterations}."));
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
                if end.is_none() {
                    (seen.iterations, seen.wait_due_ms, seen.undone) = (0, 0, 0);
                }
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
        let (is_cleanup, target) = (spec.is_cleanup(), spec.undoes.clone());
        let is_undoing = |other: &Step| {
            other.undoes.is_some() && self.steps.get(other.id.as_str()).is_some_and(|seen| seen.in_flight)
        };
        let undoing = self.plan.steps.iter().any(is_undoing);
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
        let is_removed =
            |id: &StepId| self.steps.get(id.as_str()).is_some_and(|seen| seen.ended.as_deref() == Some("plan_revised"));
        // What a revision removed is undone while the plan runs.
        let is_revised = spec.undoes.as_ref().is_some_and(is_removed);
        if let Some(early) = early {
            self.report(seq, early);
        }
        if is_cleanup != self.cleans && !is_revised {
            let when = if self.cleans { "after" } else { "before" };
            self.report(seq, format!("`{step}` goes out {when} the outcome of the plan"));
        }
        if is_cleanup && undoing {
            let what = if target.is_some() { "beside another undo step" } else { "before all undo steps have ended" };
            self.report(seq, format!("`{step}` goes out {what}"));
        }
        if let Some(target) = target {
            self.undoes(seq, step, target.as_str());
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

    /// The clean-up begins: what was done is to be undone, unless the plan says otherwise.
    fn cleanup_starts(&mut self, seq: u64, data: &Value) {
        self.cleans = true;
        let undo = data["undo"].as_array().into_iter().flatten();
        self.undo = undo.filter_map(|id| id.as_str().map(String::from)).collect();
        let outcome = match data["outcome"]["status"].as_str() {
            Some("failed") => UndoOn::Failed,
            Some("cancelled") => UndoOn::Cancelled,
            _ => return,
        };
        self.expect_undo(seq, outcome);
    }

    /// All that may be done is to be undone.
    fn expect_undo(&mut self, seq: u64, outcome: UndoOn) {
        if self.plan.undo_on.as_ref().is_some_and(|on| !on.contains(&outcome)) {
            return;
        }
        let seen = |id: &StepId| self.steps.get(id.as_str());
        let is_open = |step: &&Step| seen(&step.id).is_none_or(|seen| seen.ended.is_none() || seen.is_needless);
        // A map that did not complete undid its items itself; what a revision removed was undone then.
        let is_due = |step: &Step, target: &Seen| match target.ended.as_deref() {
            Some("step_completed") => {
                !(step.undoes_map() && step.undoes.as_ref().is_some_and(|id| self.kept.contains(id.as_str())))
            }
            Some("plan_revised") => false,
            Some(_) | None => !step.undoes_map(),
        };
        let was_done = |step: &&Step| {
            let target = step.undoes.as_ref().and_then(seen);
            target.is_some_and(|target| target.work.may_be_done() && is_due(step, target))
        };
        let due = self.plan.steps.iter().filter(|step| is_open(step) && was_done(step));
        let forgotten: Vec<String> = due.map(|step| step.id.to_string()).filter(|id| !self.undo.contains(id)).collect();
        for id in forgotten {
            self.report(seq, format!("`{id}` is forgotten, and what it undoes was done"));
        }
    }

    /// An undo step completes: it has undone every iteration, and what every agent did.
    fn expect_all_undone(&mut self, seq: u64, undo: &str) {
        let target = self.plan.steps.iter().find(|step| step.id.as_str() == undo).and_then(|step| step.undoes.clone());
        let done = target.and_then(|target| self.steps.get(target.as_str())).map_or(0, |seen| seen.work.done.len());
        let undone = self.steps.get(undo).map_or(0, |seen| seen.undone) + 1;
        if undone < done {
            self.report(seq, format!("`{undo}` completes after {undone} of {done}"));
        }
    }

    /// An undo step goes out: those whose steps went out later than its own have ended.
    fn undoes(&mut self, seq: u64, step: &str, target: &str) {
        let sent = |id: &str| self.steps.get(id).map_or(0, |seen| seen.work.sent);
        let own = sent(target);
        let is_open = |id: &str| self.steps.get(id).is_none_or(|seen| seen.ended.is_none());
        let others = self.plan.steps.iter().filter(|other| other.id.as_str() != step && is_open(other.id.as_str()));
        let undo = others.filter(|other| self.undo.iter().any(|id| *id == other.id.as_str()));
        let later = undo.filter(|other| other.undoes.as_ref().is_some_and(|target| sent(target.as_str()) > own));
        let later: Vec<String> = later.map(|other| format!("`{}`", other.id)).collect();
        if !later.is_empty() {
            self.report(seq, format!("`{step}` goes out before {}, which undo what began later", later.join(", ")));
        }
    }

    /// A step ends: by an event that nobody has taken, or not before the time of its wait.
    fn wait_ends(&mut self, seq: u64, step: &str, event: &Value) {
        if let Some(id) = event["data"]["event"].as_str() {
            if !self.received.remove(id) {
                self.report(seq, format!("`{step}` takes event `{id}`, which the plan has not, or another step took"));
            }
            return;
        }
        let due_ms = self.steps.get(step).map_or(0, |seen| seen.wait_due_ms);
        let is_timeout = event["data"]["failure"]["code"] == "WAIT_TIMEOUT";
        let at = event["time"].as_str().and_then(parse_rfc3339).unwrap_or(0);
        if is_timeout && (due_ms == 0 || at < due_ms) {
            self.report(seq, format!("the wait of `{step}` times out at {at}, and its time is {due_ms}"));
        }
    }

    /// The plan ends: not without its clean-up, once a step went out.
    fn expect_cleanup(&mut self, seq: u64, kind: &str) {
        match kind {
            "plan_failed" if !self.cleans => self.expect_undo(seq, UndoOn::Failed),
            "plan_cancelled" if !self.cleans => self.expect_undo(seq, UndoOn::Cancelled),
            _ => {}
        }
        let has_begun = self.steps.values().any(|seen| seen.attempt > 0);
        let is_open = |step: &&Step| self.steps.get(step.id.as_str()).is_none_or(|seen| seen.ended.is_none());
        let always = self.plan.steps.iter().filter(|step| step.always).filter(is_open);
        let always: Vec<String> = always.map(|step| format!("`{}`", step.id)).collect();
        if has_begun && !self.cleans && !always.is_empty() {
            self.report(seq, format!("`{kind}` without {}", always.join(", ")));
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

    /// Two steps that were done, one after the other; the plan fails, and both are undone.
    fn undone() -> (Plan, Vec<Value>) {
        let mut plan = plan();
        for target in ["a", "b"] {
            let undo = Step { undoes: Some(target.into()), ..Step::new(format!("{target}:undo"), "x") };
            plan.steps.push(undo);
        }
        plan.steps.push(Step { always: true, ..Step::new("last", "x") });
        let mut log = good()[..4].to_vec();
        let mut started = line(5, "cleanup_started", "", 0);
        started["data"] = json!({"outcome": {"status": "failed"}, "undo": ["b:undo", "a:undo"]});
        started.as_object_mut().expect("it is one").remove("step_id");
        log.push(started);
        for (seq, step) in [(6, "b:undo"), (8, "a:undo"), (10, "last")] {
            log.extend([line(seq, "step_queued", step, 1), line(seq + 1, "step_completed", step, 1)]);
        }
        log.push(end(12));
        (plan, log)
    }

    #[test]
    fn each_kind_of_wrong_clean_up_is_found() {
        type Break = (&'static str, fn(&mut Vec<Value>));
        let (plan, log) = undone();
        assert_eq!(audit(&plan, &log, Expect::Lawful), Vec::<String>::new());
        let breaks: [Break; 6] = [
            ("is cancelled in the clean-up", |log| {
                log[6]["type"] = "step_cancelled".into();
                log[6]["data"]["reason"] = "the plan failed: over budget".into();
            }),
            ("`b:undo` completes after 1 of 2", |log| {
                // The first of two iterations was done by another agent.
                let again = line(0, "step_retrying", "b", 1);
                log.splice(3..3, [again, line(0, "step_queued", "b", 2)]);
                log[3]["data"] = json!({"failure": {"class": "transient", "effect": "unknown"}});
                log[4]["data"]["agent_type"] = "y".into();
                log[5]["attempt"] = 2.into();
                (1..).zip(log.iter_mut()).for_each(|(seq, event)| event["seq"] = json!(seq));
            }),
            ("is forgotten", |log| {
                // It was passed over before.
                let skipped = line(5, "step_skipped", "a:undo", 0);
                log.insert(4, skipped);
                log[4]["data"]["cause"] = "condition".into();
                log[5]["data"]["undo"] = json!(["b:undo"]);
            }),
            ("which undo what began later", |log| {
                for (place, step) in [(5, "a:undo"), (6, "a:undo"), (7, "b:undo"), (8, "b:undo")] {
                    log[place]["step_id"] = step.into();
                }
            }),
            ("is forgotten", |log| log[4]["data"]["undo"] = json!(["b:undo"])),
            ("`plan_completed` without `last`", |log| {
                log.truncate(4);
                log.push(end(5));
            }),
        ];
        for (message, change) in breaks {
            let mut log = log.clone();
            change(&mut log);
            let found = audit(&plan, &log, Expect::Lawful);
            assert!(found.iter().any(|line| line.contains(message)), "{message}: {found:?}");
        }
    }

    #[test]
    fn each_kind_of_wrong_wait_and_loop_is_found() {
        let wait = |seq| {
            let mut line = line(seq, "step_wait_started", "a", 0);
            line["data"] = json!({"due_ms": parse_rfc3339("2026-01-01T00:00:05.000Z"), "event": "paid"});
            line
        };
        let with = |mut line: Value, data: Value| {
            line["data"] = data;
            line
        };
        let iterated = |seq, n| with(line(seq, "step_iterated", "a", 1), json!({"iteration": n}));
        let timeout = json!({"failure": {"code": "WAIT_TIMEOUT"}});
        let logs = [
            ("takes event `e1`", vec![wait(1), with(line(2, "step_completed", "a", 0), json!({"event": "e1"}))]),
            ("times out at", vec![wait(1), with(line(2, "step_failed", "a", 0), timeout)]),
            ("iteration 2 of `a` is its 1.", vec![line(1, "step_queued", "a", 1), iterated(2, 2)]),
        ];
        for (message, log) in logs {
            let found = audit(&plan(), &log, Expect::Lawful);
            assert!(found.iter().any(|line| line.contains(message)), "{message}: {found:?}");
        }
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
