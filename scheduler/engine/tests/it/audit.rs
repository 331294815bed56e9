//! Invariants of every log, read from the events alone.

use std::collections::{BTreeMap, BTreeSet};

use goalmill_common::event::{
    CleanupStarted, Event, PlanEvent, PlanRevised, Record, SkipCause, StepEvent, StepRetrying,
};
use goalmill_common::failure::FailureClass;
use goalmill_common::id::StepId;
use goalmill_common::plan::{DependencyStatus, Join, Phase, Plan, Step, StepKind, Strategy, UndoOn};
use goalmill_common::status::PlanStatus;

#[derive(Default)]
struct Line {
    attempt: u32,
    in_flight: bool,
    /// Its agent has accepted the attempt and reports later.
    suspended: bool,
    is_final: bool,
    satisfied: bool,
    completed: bool,
    /// How it ended.
    status: Option<DependencyStatus>,
    /// Failed attempts, without the lost ones.
    failed: u32,
    /// Lost attempts that recorded no new call.
    lost: u32,
    /// Calls that are recorded, and the most of them with which an attempt began.
    calls: u32,
    begun_with: u32,
    ready: bool,
    /// The event that first sent it, or ran it in the engine.
    sent: u64,
    /// Whether the outcome of an attempt is open, and whether it has begun.
    out: bool,
    started: bool,
    /// Whether an attempt or an iteration did its work, or may have.
    may_be_done: bool,
}

impl Line {
    fn settle(&mut self, may_be_done: bool) {
        self.may_be_done |= std::mem::take(&mut self.out) && may_be_done;
    }
}

/// Reads a log from its beginning and panics at the first thing that must not be.
#[derive(Default)]
pub struct Audit {
    plan: Plan,
    seq: u64,
    lines: BTreeMap<StepId, Line>,
    paused: bool,
    replanning: bool,
    /// Whether a revision may have opened a phase again.
    revised: bool,
    /// Whether the outcome is known and the clean-up runs.
    cleans: bool,
    over: bool,
    /// Undo steps of what revisions removed.
    undoing: BTreeSet<StepId>,
    /// What revisions removed.
    removed: BTreeSet<StepId>,
    /// Steps as they were defined, where the run has put a plan in their place.
    defined: BTreeMap<StepId, Step>,
    /// Changes that are not in the plan yet.
    staged: Vec<StepEvent>,
}

impl Audit {
    pub fn read(&mut self, record: &Record) {
        assert_eq!(record.seq, self.seq + 1, "numbers have no gap");
        assert!(!self.over, "nothing comes after the end: {record:?}");
        self.seq = record.seq;
        match &record.event {
            Event::Plan(event) => self.read_plan(event),
            Event::Step { step, attempt, event, phase: _ } => self.read_step(record, step, *attempt, event),
        }
    }

    fn read_plan(&mut self, event: &PlanEvent) {
        if let PlanEvent::PlanCreated(created) = event {
            self.plan = created.plan.as_ref().clone();
            self.lines = self.plan.steps.iter().map(|step| (step.id.clone(), Line::default())).collect();
        } else if let PlanEvent::Paused(_) = event {
            self.paused = true;
        } else if let PlanEvent::ReplanTriggered(_) = event {
            (self.paused, self.replanning) = (true, true);
        } else if let PlanEvent::Resumed(_) = event {
            (self.paused, self.replanning) = (false, false);
        } else if let PlanEvent::Revised(revised) = event {
            self.revise(revised);
        } else if let PlanEvent::PhaseAdded(phase) = event {
            let spec = Phase { id: phase.phase.clone(), description: String::new(), checkpoint: phase.checkpoint };
            self.plan.phases.insert(phase.place as usize, spec);
        } else if let PlanEvent::CleanupStarted(started) = event {
            (self.paused, self.replanning, self.cleans) = (false, false, true);
            self.check_undo(started);
            for id in &started.outcome.cancelled {
                self.line(id).is_final = true;
            }
            // Plans inside end first.
            let is_inside = |line: &Line| line.suspended || line.in_flight && started.after_inside_ms.is_some();
            let mut rest = self.plan.steps.iter().filter(|step| !step.is_cleanup()).map(|step| &self.lines[&step.id]);
            assert!(rest.all(|line| line.is_final || is_inside(line)), "nothing of the rest goes on");
        } else if event.ends_plan() {
            let is_complete = self.lines.values().all(|line| line.is_final);
            assert!(is_complete || !matches!(event, PlanEvent::Completed(_)), "a completed plan has no open step");
            self.end_plan(&event.moved_steps().cloned().collect::<Vec<_>>());
        }
    }

    /// What may be done is undone, in the reverse order in which it was sent.
    fn check_undo(&self, started: &CleanupStarted) {
        let targets = started.undo.iter().filter_map(|id| self.plan.steps.iter().find(|step| step.id == *id));
        let targets: Vec<&StepId> = targets.filter_map(|step| step.undoes.as_ref()).collect();
        let is_removed = |id: &StepId| self.removed.contains(id);
        let sent: Vec<u64> = targets.iter().filter(|id| !is_removed(id)).map(|id| self.lines[*id].sent).collect();
        assert!(sent.is_sorted_by(|a, b| a > b), "what was sent last is undone first: {:?}", started.undo);
        let outcome = if started.outcome.status == PlanStatus::Failed {
            UndoOn::Failed
        } else if started.outcome.status == PlanStatus::Cancelled {
            UndoOn::Cancelled
        } else {
            return;
        };
        if self.plan.undo_on.as_ref().is_some_and(|on| !on.contains(&outcome)) {
            return;
        }
        for step in self.plan.steps.iter().filter(|step| !self.undoing.contains(&step.id)) {
            let Some(target) = step.undoes.as_ref().filter(|target| !is_removed(target)) else { continue };
            let line = &self.lines[target];
            // A map that did not complete undid its items itself.
            let is_due = (line.may_be_done || line.out) && (!step.undoes_map() || line.completed);
            // A person may have removed the undo step, or skipped it beforehand.
            let is_skipped = self.lines[&step.id].status == Some(DependencyStatus::Skipped);
            let is_gone = is_skipped || self.removed.contains(&step.id);
            assert!(!is_due || is_gone || started.undo.contains(&step.id), "`{target}` may be done, and is not undone");
        }
    }

    /// Every step ends with an event: what is open is listed by the plan's end, and nothing else is.
    fn end_plan(&mut self, cancelled: &[StepId]) {
        assert!(self.lines.values().all(|line| !line.in_flight), "nothing is in flight after the end");
        let open = self.plan.steps.iter().filter(|step| !self.lines[&step.id].is_final).map(|step| &step.id);
        assert_eq!(cancelled.iter().collect::<Vec<_>>(), open.collect::<Vec<_>>(), "the end lists what it cancels");
        self.over = true;
    }

    /// Every change of the revision has been told before it, and none that it does not name.
    fn revise(&mut self, revised: &PlanRevised) {
        let (mut added, mut modified) = (Vec::new(), Vec::new());
        for event in std::mem::take(&mut self.staged) {
            if let StepEvent::Added(new) = event {
                added.push(new.step.id.clone());
                self.lines.insert(new.step.id.clone(), Line::default());
                self.plan.steps.push(new.step);
            } else if let StepEvent::Modified(new) = event {
                modified.push(new.step.id.clone());
                let spec = self.plan.steps.iter_mut().find(|step| step.id == new.step.id);
                let spec = spec.expect("only known steps are modified");
                let goes_on = !revised.restarted.contains(&new.step.id);
                let definition = self.defined.remove(&new.step.id);
                let before = definition.as_ref().unwrap_or(&*spec);
                assert_eq!(new.before.as_deref(), Some(before), "a change tells what was before");
                if definition.is_some() && goes_on {
                    self.defined.insert(new.step.id.clone(), new.step);
                } else {
                    *spec = new.step;
                }
            }
        }
        assert_eq!((&added, &modified), (&revised.added, &revised.modified), "a revision names what was told");
        for id in &revised.restarted {
            let line = self.line(id);
            let done = line.is_final && line.completed;
            assert!(!line.in_flight && !done, "what is done is not done again: {id}");
            let Line { attempt, sent, may_be_done, .. } = *line;
            *line = Line { attempt, sent, may_be_done, ..Line::default() };
        }
        for (id, satisfied) in
            revised.removed.iter().map(|id| (id, false)).chain(revised.skipped.iter().map(|id| (id, true)))
        {
            let is_removed = !satisfied;
            self.removed.extend(is_removed.then(|| id.clone()));
            let undo = self.plan.steps.iter().find(|step| is_removed && step.undoes.as_ref() == Some(id));
            let undo = undo.map(|step| step.id.clone());
            let is_undone = undo.is_some();
            self.undoing.extend(undo);
            let line = self.line(id);
            assert!(!line.in_flight && (!line.completed || is_undone), "what is done stays, or is undone: {id}");
            (line.is_final, line.satisfied, line.ready) = (true, satisfied, false);
            line.status = satisfied.then_some(DependencyStatus::Skipped);
        }
        if self.replanning {
            (self.paused, self.replanning) = (false, false);
        }
        self.revised = true;
    }

    fn read_step(&mut self, record: &Record, id: &StepId, attempt: u32, event: &StepEvent) {
        if matches!(event, StepEvent::Added(_) | StepEvent::Modified(_) | StepEvent::Removed(_)) {
            self.staged.push(event.clone());
            return;
        }
        assert!(self.staged.is_empty(), "changes are taken at once");
        let spec = self.plan.steps.iter().find(|step| step.id == *id).expect("events name known steps").clone();
        let is_passed_over = matches!(event, StepEvent::Skipped(skipped) if skipped.cause == SkipCause::Revision)
            && !self.lines[id].completed;
        assert!(!self.lines[id].is_final || is_passed_over, "a final step stays as it is: {record:?}");
        self.follow_work(record.seq, id, attempt, event);
        if let StepEvent::Queued(_) = event {
            let is_turn = spec.is_cleanup() == self.cleans || self.undoing.contains(id);
            assert!(is_turn, "clean-up steps begin after the outcome, and no others: {id}");
            let flies = |step: &Step| step.undoes.is_some() && self.lines[&step.id].in_flight;
            let undoing = self.plan.steps.iter().any(flies);
            let is_over = |step: &Step| step.is_cleanup() || self.lines[&step.id].is_final;
            let waits = spec.is_cleanup() && self.cleans && !self.plan.steps.iter().all(is_over);
            assert!(!waits, "clean-up begins when the rest has ended");
            assert!(!spec.is_cleanup() || !undoing, "undo steps run one at a time, before all others: {id}");
            self.check_begin(&spec, attempt);
            let line = self.line(id);
            (line.in_flight, line.attempt, line.ready) = (true, attempt, false);
            line.begun_with = line.begun_with.max(line.calls);
            self.check_room(&spec);
        } else if let StepEvent::Completed(_) = event {
            let line = &self.lines[id];
            if line.ready && attempt != line.attempt {
                self.check_begin(&spec, attempt);
            }
            let line = self.line(id);
            (line.attempt, line.satisfied, line.completed) = (attempt, true, true);
            line.status = Some(DependencyStatus::Completed);
            self.end(id, attempt);
        } else if event.ends_step() {
            self.line(id).satisfied = event.satisfies_dependents();
            self.line(id).status = match event.type_name() {
                "step_failed" => Some(DependencyStatus::Failed),
                "step_skipped" => Some(DependencyStatus::Skipped),
                _ => None,
            };
            self.end(id, attempt);
        } else if let StepEvent::Retrying(retrying) = event {
            self.retry(record, &spec, attempt, retrying);
        } else if let StepEvent::CallRecorded(call) = event {
            let line = self.line(id);
            line.calls = call.n;
            if line.calls > line.begun_with {
                line.lost = 0;
            }
        } else if let StepEvent::Suspended(_) = event {
            let line = self.leave(id, attempt);
            line.suspended = true;
        } else if let StepEvent::Recalled(_) = event {
            let line = self.line(id);
            if spec.is_cleanup() && !line.in_flight && !line.suspended {
                // It was about to begin, and begins in its turn of the clean-up.
                line.ready = false;
            } else {
                self.leave(id, attempt);
            }
        } else if let StepEvent::Decomposed(decomposed) = event {
            let spec = self.plan.steps.iter_mut().find(|step| step.id == *id).expect("it was found before");
            self.defined.entry(id.clone()).or_insert_with(|| spec.clone());
            (spec.kind, spec.plan) = (StepKind::Plan, decomposed.plan.clone());
            (spec.agent_type, spec.action) = ("".into(), String::new());
            (spec.fallback, spec.cache, spec.timeout_ms) = (None, None, None);
            self.leave(id, attempt).ready = true;
        } else if let StepEvent::Expanded(expanded) = event {
            let spec = self.plan.steps.iter_mut().find(|step| step.id == *id).expect("it was found before");
            assert!(spec.for_each.is_some(), "only a map expands: {id}");
            self.defined.entry(id.clone()).or_insert_with(|| spec.clone());
            (spec.kind, spec.plan, spec.for_each) = (StepKind::Plan, Some(expanded.plan.clone()), None);
            (spec.agent_type, spec.action) = ("".into(), String::new());
            (spec.fallback, spec.cache, spec.timeout_ms) = (None, None, None);
            // Each item has these for itself.
            (spec.when, spec.approve, spec.ask, spec.output_schema, spec.wait) = (None, None, None, None, None);
            (spec.expected_outputs, spec.inputs) = (Vec::new(), goalmill_common::json::Json::empty_object());
        } else if let StepEvent::Iterated(_) = event {
            let line = self.leave(id, attempt);
            (line.failed, line.lost) = (0, 0);
        } else if let StepEvent::Undone(_) = event {
            assert!(spec.undoes.is_some(), "only an undo step undoes: {id}");
            let line = self.line(id);
            (line.in_flight, line.suspended, line.ready, line.failed, line.lost) = (false, false, false, 0, 0);
        } else if let StepEvent::Released(_) = event {
            self.leave(id, attempt).ready = true;
        } else if matches!(event, StepEvent::Ready | StepEvent::Approved(_)) {
            self.line(id).ready = true;
        }
    }

    /// Notes when a step was sent, and whether it may have done its work.
    fn follow_work(&mut self, seq: u64, id: &StepId, attempt: u32, event: &StepEvent) {
        let (is_cleanup, cleans) =
            (self.plan.steps.iter().any(|step| step.id == *id && step.is_cleanup()), self.cleans);
        let line = self.line(id);
        if attempt > line.attempt {
            (line.sent, line.out) = (if line.sent == 0 { seq } else { line.sent }, true);
        }
        if let StepEvent::Cancelled(why) = event {
            let is_end = why.reason.starts_with("the clean-up has ended");
            assert!(!cleans || !is_cleanup || is_end, "nothing but its end cuts a clean-up off: {}", why.reason);
        }
        if let Some(failure) = event.failure() {
            line.settle(failure.may_be_done());
        } else if matches!(event, StepEvent::Decomposed(_)) {
            line.settle(false);
        } else if matches!(event, StepEvent::Released(_)) {
            let started = std::mem::take(&mut line.started);
            line.settle(started);
        } else if event.ends_attempt() && !matches!(event, StepEvent::Suspended(_)) {
            line.settle(true);
        }
        line.started = line.out && (line.started || matches!(event, StepEvent::Started(_)));
    }

    fn retry(&mut self, record: &Record, spec: &Step, attempt: u32, retrying: &StepRetrying) {
        let line = self.leave(&spec.id, attempt);
        if retrying.told_to_wait {
            assert_eq!(retrying.failure.class, FailureClass::RateLimited);
        } else if retrying.failure.class == FailureClass::Lost {
            line.lost += u32::from(line.calls <= line.begun_with);
            assert!(line.lost < 3, "losses are counted");
        } else {
            line.failed += 1;
            let tries = if spec.fallback.is_some() { 2 * (spec.retry.max + 1) - 1 } else { spec.retry.max };
            assert!(line.failed <= tries, "attempts are counted: {} of {tries}", line.failed);
        }
        let asked = retrying.failure.retry_after_ms.unwrap_or(0);
        let told = if retrying.told_to_wait { asked.max(60_000) * 3 / 2 } else { asked };
        let most = spec.retry.ceiling_ms(line.failed.max(1)).max(told);
        let wait = retrying.due_ms.checked_sub(record.time_ms).expect("backoff looks ahead");
        assert!(wait <= most, "a backoff has a ceiling: {wait} of {most}");
    }

    /// The attempt in flight ends, and the step goes on.
    fn leave(&mut self, id: &StepId, attempt: u32) -> &mut Line {
        let line = self.line(id);
        let is_open = line.in_flight || line.suspended;
        assert!(is_open && line.attempt == attempt, "one outcome, of the current attempt");
        (line.in_flight, line.suspended) = (false, false);
        line
    }

    fn line(&mut self, id: &StepId) -> &mut Line {
        self.lines.get_mut(id).expect("events name known steps")
    }

    fn end(&mut self, id: &StepId, attempt: u32) {
        let line = self.line(id);
        assert_eq!(line.attempt, attempt, "an outcome is of the current attempt");
        (line.in_flight, line.suspended, line.is_final, line.ready) = (false, false, true, false);
    }

    fn check_begin(&self, spec: &Step, attempt: u32) {
        let line = &self.lines[&spec.id];
        assert!(line.ready && !line.in_flight, "only a ready step begins");
        assert_eq!(attempt, line.attempt + 1, "attempts are consecutive");
        assert!(!self.paused, "nothing begins while the plan is held");
        let is_met = |d: &&StepId| {
            let line = &self.lines[*d];
            let allowed = spec.dependency_status.get(*d);
            allowed.map_or(line.satisfied, |allowed| line.status.is_some_and(|status| allowed.contains(&status)))
        };
        let met = spec.dependencies.iter().filter(is_met).count();
        let needed = match spec.join {
            Join::All => spec.dependencies.len(),
            Join::Any => spec.dependencies.len().min(1),
            Join::AtLeast(k) => k as usize,
        };
        assert!(met >= needed, "`{}` begins with {met} of {needed} dependencies", spec.id);
        self.check_phase(spec);
    }

    fn check_phase(&self, spec: &Step) {
        if self.revised {
            return;
        }
        let place = |name: &Option<String>| {
            name.as_ref().and_then(|name| self.plan.phases.iter().position(|phase| phase.id == *name))
        };
        let Some(own) = place(&spec.phase) else { return };
        let earlier = self.plan.steps.iter().filter(|other| place(&other.phase).is_some_and(|k| k < own));
        assert!(earlier.into_iter().all(|other| self.lines[&other.id].is_final), "phases run in order");
    }

    fn check_room(&self, spec: &Step) {
        // A step that holds a plan takes no place.
        let takes_place = |step: &&Step| !step.starts_plan() && self.lines[&step.id].in_flight;
        let in_flight = self.plan.steps.iter().filter(takes_place).count();
        let most = match self.plan.strategy {
            Strategy::Sequential => 1,
            Strategy::Parallel | Strategy::Adaptive => self.plan.max_parallel.unwrap_or(u32::MAX).max(1),
        };
        assert!(in_flight <= most as usize, "{in_flight} in flight, {most} allowed");
        let holds = |other: &&Step| other.resource == spec.resource && self.lines[&other.id].in_flight;
        assert!(spec.resource.is_none() || self.plan.steps.iter().filter(holds).count() == 1, "resources exclude");
    }
}
