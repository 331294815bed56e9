//! The driver of the engine alone: a shard in virtual time, whose agents do what the script says.

use std::collections::BTreeMap;

use goalmill_common::command::{Planned, Submit, Verb};
use goalmill_common::external_event::ExternalEvent;
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::goal::Goal;
use goalmill_common::id::AttemptToken;
use goalmill_common::json::Json;
use goalmill_common::limits::Limits;
use goalmill_common::plan::Plan;
use goalmill_common::report::{Report, What};
use goalmill_common::revision::Change;
use goalmill_common::task::Task;
use goalmill_engine::{Command, PlanState};
use goalmill_virtual_shard::VirtualShard;

use crate::interpreter::attempt::CUT;
use crate::run::{Ask, Run, step_ends};
use crate::script::{Act, Does, START_MS, Script, Wish, by_hand};

/// Things that happen in one run, at most.
const TURNS_MAX: u32 = 20_000;
/// The entry of a task on no stream.
const NO_ENTRY: &str = "0-0";

/// Why a run has no end.
#[derive(Clone, Debug, PartialEq)]
pub enum Stopped {
    /// The engine refused the plan.
    Refused(String),
    /// Nothing can happen any more, and the plan has not ended; the questions until then.
    Stuck(Vec<Ask>),
}

struct Driver<'c> {
    shard: VirtualShard,
    script: &'c Script,
    asks: Vec<Ask>,
    times: BTreeMap<String, usize>,
    /// By time and number.
    reports: BTreeMap<(u64, usize), Report>,
    events: usize,
    deeds: usize,
}

/// Runs a plan by the engine.
pub fn drive(plan: &Plan, script: &Script) -> Result<Run, Stopped> {
    let shard = VirtualShard::new(Limits::default(), START_MS, 0, Vec::new());
    let (asks, times, reports) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
    let mut driver = Driver { shard, script, asks, times, reports, events: 0, deeds: 0 };
    driver.shard.submit(submission(plan, script)).map_err(|error| Stopped::Refused(format!("{error:?}")))?;
    for _ in 0..TURNS_MAX {
        driver.settle();
        if driver.root().is_final() {
            return Ok(driver.result());
        }
        if !driver.turn() {
            break;
        }
    }
    Err(Stopped::Stuck(driver.asks))
}

fn submission(plan: &Plan, script: &Script) -> Submit {
    let deadline_ms = script.deadline_ms.map(|deadline_ms| START_MS + deadline_ms);
    Submit {
        goal: Goal { description: "test".into(), deadline_ms, start_in_ms: script.start_ms, ..Goal::default() },
        plan: Some(Planned::submitted(plan.clone(), Vec::new(), Vec::new())),
        submission: "test".into(),
        fingerprint: String::new(),
        source: "urn:goalmill:test".into(),
        parent: None,
        traceparent: None,
        fork: None,
    }
}

impl Driver<'_> {
    fn root(&self) -> &PlanState {
        &self.shard.members()[0].state
    }

    /// Gives tasks to agents until nothing is left to do at this time.
    fn settle(&mut self) {
        loop {
            // The plans need no planner.
            while self.shard.settle().is_some() {}
            for token in self.shard.take_cancelled() {
                self.forget(&token);
            }
            let tasks = self.shard.take_tasks();
            if tasks.is_empty() {
                return;
            }
            tasks.iter().for_each(|task| self.start(task));
        }
    }

    fn forget(&mut self, token: &AttemptToken) {
        self.reports.retain(|_, report| report.token != *token);
    }

    fn start(&mut self, task: &Task) {
        let at_ms = self.shard.now_ms - START_MS;
        let (action, inputs) = (task.action.clone(), task.inputs.value());
        let time = self.times.entry(action.clone()).or_default();
        let act = self.script.act(&action, *time);
        *time += 1;
        self.asks.push(Ask { at_ms, action, inputs });
        // A report that is not current changes nothing.
        drop(self.shard.report(report(task, What::Started)));
        if let Some(report) = outcome(task, &act) {
            self.reports.insert((self.shard.now_ms + act.after_ms, self.asks.len()), report);
        }
    }

    /// Moves the clock to what happens next, and lets it happen. Returns whether there was something.
    fn turn(&mut self) -> bool {
        let report_ms = self.reports.first_key_value().map(|((at_ms, _), _)| *at_ms);
        let event_ms = self.script.events.get(self.events).map(|event| START_MS + event.at_ms);
        let deed_ms = self.script.deeds.get(self.deeds).map(|deed| START_MS + deed.at_ms);
        let due_ms = self.shard.next_due_ms();
        let Some(now_ms) = [report_ms, event_ms, deed_ms, due_ms].into_iter().flatten().min() else { return false };
        self.shard.now_ms = self.shard.now_ms.max(now_ms);
        if report_ms == Some(now_ms) {
            let report = self.reports.pop_first();
            drop(report.map(|(_, report)| self.shard.report(report)));
        } else if event_ms == Some(now_ms) {
            let event = &self.script.events[self.events];
            self.events += 1;
            let id = format!("event-{}", self.events);
            let (name, key, data) = (event.name.clone(), event.key.clone(), Json::of(&event.data));
            self.shard.send_event(ExternalEvent { id, name, key, data });
        } else if deed_ms == Some(now_ms) {
            let verb = verb(&self.script.deeds[self.deeds].does);
            self.deeds += 1;
            // A plan in its clean-up refuses most of them.
            drop(self.shard.command(0, None, Command::Verb(verb)));
        } else {
            self.shard.fire_timer();
        }
        true
    }

    fn result(self) -> Run {
        let root = self.root();
        let results = root.results().results;
        Run {
            status: root.status(),
            code: root.ended().and_then(|ended| Some(ended.failure.as_ref()?.code.clone())),
            steps: step_ends(root.view(false).steps, |id| results.get(id).cloned()),
            ended_ms: self.shard.now_ms - START_MS,
            tokens: root.usage().tokens,
            laws: Default::default(),
            asks: self.asks.clone(),
        }
    }
}

fn report(task: &Task, what: What) -> Report {
    Report::on(task, task.agent_type.clone(), NO_ENTRY.into(), "agent".into(), what)
}

fn verb(wish: &Wish) -> Verb {
    let reason = String::new();
    match wish {
        Wish::Cancel => Verb::Cancel { reason },
        Wish::Pause => Verb::Pause { reason },
        Wish::Resume => Verb::Resume { reason },
        Wish::Approve(step) => Verb::ApproveStep { step: step.as_str().into(), reason },
        Wish::Reject(step) => Verb::RejectStep { step: step.as_str().into(), reason },
        Wish::Skip(step) => Verb::SkipStep { step: step.as_str().into(), reason },
        Wish::Remove(step) => {
            let changes = vec![Change::RemoveStep { step: step.as_str().into() }];
            Verb::Edit { changes, revision: None, reason }
        }
        Wish::Complete(step) => {
            Verb::CompleteStep { step: step.as_str().into(), outputs: Json::of(&by_hand()), reason }
        }
        Wish::Answer(step) => Verb::AnswerQuestion { question: step.clone(), answer: Json::of(&by_hand()), reason },
    }
}

/// What the agent reports at the end; nothing if it stays silent.
fn outcome(task: &Task, act: &Act) -> Option<Report> {
    let failed = |class, code: &str| {
        let failure = Some(Failure::new(class, code, "as the script says"));
        Report { failure, ..report(task, What::Failed) }
    };
    let outcome = match &act.does {
        Does::Answer(outputs) => Report { outputs: Some(Json::of(outputs)), ..report(task, What::Completed) },
        Does::Busy => failed(FailureClass::Transient, "AGENT_BUSY"),
        // As workers report it.
        Does::Cut => {
            let failure = Failure::new(FailureClass::Transient, CUT, "as the script says").with_unknown_outcome();
            Report { failure: Some(failure), ..report(task, What::Failed) }
        }
        Does::Refuse => failed(FailureClass::Permanent, "AGENT_REFUSED"),
        Does::Lost => {
            let failure = Some(Failure::new(FailureClass::Lost, "WORKER_LOST", "as the script says"));
            Report { failure, ..report(task, What::Lost) }
        }
        Does::Silent => return None,
    };
    Some(Report { tokens: Some(act.tokens).filter(|tokens| *tokens > 0), ..outcome })
}
