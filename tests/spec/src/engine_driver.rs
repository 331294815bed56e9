//! The driver of the engine alone: a shard in virtual time, whose agents do what the script says.

use std::collections::BTreeMap;

use goalmill_common::blob_ref;
use goalmill_common::call::{CallWait, CallWaitKind, RecordedCall, SuspendedCall};
use goalmill_common::callback::{CallbackError, CallbackReport};
use goalmill_common::command::{Planned, Submit, Verb};
use goalmill_common::external_event::ExternalEvent;
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::goal::Goal;
use goalmill_common::id::AttemptToken;
use goalmill_common::json::Json;
use goalmill_common::keys::Keys;
use goalmill_common::limits::Limits;
use goalmill_common::plan::Plan;
use goalmill_common::report::{Report, What};
use goalmill_common::revision::Change;
use goalmill_common::status::PlanStatus;
use goalmill_common::task::Task;
use goalmill_engine::{Command, PlanState};
use goalmill_expression::Payload;
use goalmill_shard::VirtualShard;
use serde_json::{Map, Value};

use crate::interpreter::attempt::CUT;
use crate::run::{Ask, Run, step_ends};
use crate::script::{Act, Does, Forking, START_MS, Script, Wish, by_hand, other_inputs};

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
    reports: BTreeMap<(u64, usize), Sent>,
    events: usize,
    deeds: usize,
    /// The outermost plan: the submitted one, or its fork.
    root: usize,
    /// When it is forked, milliseconds.
    fork_ms: Option<u64>,
    forked: Option<(PlanStatus, Option<String>)>,
}

/// What an agent sends.
enum Sent {
    Report(Report),
    /// The outcome of an accepted task.
    Callback(Report),
}

/// Runs a plan by the engine.
pub fn drive(plan: &Plan, script: &Script) -> Result<Run, Stopped> {
    let shard = VirtualShard::new(Limits::default(), START_MS, 0);
    let (asks, times, reports) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
    let (root, fork_ms, forked) = (0, None, None);
    let mut driver = Driver { shard, script, asks, times, reports, events: 0, deeds: 0, root, fork_ms, forked };
    driver.shard.submit(submission(plan, script)).map_err(|error| Stopped::Refused(format!("{error:?}")))?;
    for _ in 0..TURNS_MAX {
        driver.settle();
        if driver.root().is_final() {
            let Some(forking) = script.fork.as_ref().filter(|_| driver.root == 0) else { return Ok(driver.result()) };
            let now_ms = driver.shard.now_ms();
            let at_ms = *driver.fork_ms.get_or_insert(now_ms + forking.after_ms);
            if at_ms == now_ms {
                if driver.fork(forking) {
                    continue;
                }
                return Ok(driver.result());
            }
        }
        if !driver.turn() {
            break;
        }
    }
    Err(Stopped::Stuck(driver.asks))
}

fn submission(plan: &Plan, script: &Script) -> Submit {
    let deadline_ms = script.deadline_ms.map(|deadline_ms| START_MS + deadline_ms);
    Submit::new(
        Goal { description: "test".into(), deadline_ms, start_in_ms: script.start_ms, ..Goal::default() },
        Some(Planned::submitted(plan.clone(), Vec::new(), Vec::new())),
        "test",
        "urn:goalmill:test",
    )
}

impl Driver<'_> {
    fn root(&self) -> &PlanState {
        self.shard.state(self.root)
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

    /// Begins a fork of the plan. Returns whether there is one.
    fn fork(&mut self, forking: &Forking) -> bool {
        let step = forking.step.as_deref().map(Into::into);
        let fork =
            goalmill_engine::fork(self.root(), self.root(), step.as_ref(), "fork".into(), "urn:goalmill:test".into());
        let Ok(fork) = fork else { return false };
        self.forked = Some((self.root().status(), self.code()));
        self.root = self.shard.members();
        self.shard.submit(fork).is_ok()
    }

    /// Why the plan failed.
    fn code(&self) -> Option<String> {
        self.root().ended().and_then(|ended| Some(ended.failure.as_ref()?.code.clone()))
    }

    fn forget(&mut self, token: &AttemptToken) {
        let is_other = |sent: &Sent| matches!(sent, Sent::Report(report) if report.token == *token);
        self.reports.retain(|_, sent| !is_other(sent));
    }

    fn start(&mut self, task: &Task) {
        let at_ms = self.shard.now_ms() - START_MS;
        let (action, inputs) = (task.action.clone(), self.shard.with_payloads(task.inputs.value()));
        let time = self.times.entry(action.clone()).or_default();
        let act = self.script.act(&action, *time);
        *time += 1;
        self.asks.push(Ask { at_ms, action, inputs });
        // A report that is not current changes nothing.
        self.shard.report(report(task, What::Started));
        if act.records {
            let n = u32::try_from(task.calls.len() + 1).unwrap_or(u32::MAX);
            let call = Some(Box::new(RecordedCall { n, name: "call".into(), ..RecordedCall::default() }));
            self.shard.report(Report { call, ..report(task, What::Call) });
        }
        let number = 2 * self.asks.len();
        let outcome = outcome(task, &act)
            .map(|report| if act.stores && act.accepts_ms.is_none() { self.store(report, number) } else { report });
        let now_ms = self.shard.now_ms();
        match act.accepts_ms.filter(|_| task.callback.is_some()) {
            None => self.reports.extend(outcome.map(|report| ((now_ms + act.after_ms, number), Sent::Report(report)))),
            Some(accepts_ms) => {
                let wait = CallWait::new(CallWaitKind::Callback, "");
                let call = SuspendedCall { n: 0, name: "callback".into(), inputs: None, wait };
                let accepted = Report { suspended: Some(Box::new(call)), ..report(task, What::Suspended) };
                self.reports.insert((now_ms + accepts_ms, number), Sent::Report(accepted));
                let at_ms = now_ms + accepts_ms + act.after_ms;
                self.reports.extend(outcome.map(|report| ((at_ms, number + 1), Sent::Callback(report))));
            }
        }
    }

    /// Stores the outputs of a report as workers do: by fields, or as a whole.
    fn store(&mut self, report: Report, number: usize) -> Report {
        let mut store = |value: &Value, name: &str| {
            let text = value.to_string();
            let key =
                Keys::new("goalmill").plan_blob(&report.plan, &format!("{number}{name}")).expect("a plan has a shard");
            self.shard.store_payload(key.clone(), Payload::parse(&text).expect("it was written just now"));
            blob_ref::to_json(&key, text.len()).value()
        };
        let outputs = report.outputs.as_ref().map(|outputs| match outputs.value() {
            Value::Object(fields) if number.is_multiple_of(4) => {
                fields.iter().map(|(name, value)| (name.clone(), store(value, name))).collect()
            }
            whole @ (Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_)) => store(&whole, ""),
        });
        Report { outputs: outputs.map(Json::from), ..report }
    }

    fn deliver(&mut self, sent: Sent) {
        let report = match sent {
            Sent::Report(report) => {
                self.shard.report(report);
                return;
            }
            Sent::Callback(report) => report,
        };
        let Some(key) = self.shard.member(&report.plan) else { return };
        let error = report.failure.map(|failure| CallbackError {
            class: Some(failure.class),
            code: Some(failure.code),
            ..CallbackError::default()
        });
        let outcome = CallbackReport { outputs: report.outputs, error, tokens: report.tokens, cost: None };
        let (step, attempt) = (report.step, report.attempt);
        let verb = Verb::ReportCallback { step, attempt, report: Box::new(outcome) };
        // An attempt that has ended takes none.
        drop(self.shard.command(key, None, Command::Verb(verb)));
    }

    /// Moves the clock to what happens next, and lets it happen. Returns whether there was something.
    fn turn(&mut self) -> bool {
        let report_ms = self.reports.first_key_value().map(|((at_ms, _), _)| *at_ms);
        let event_ms = self.script.events.get(self.events).map(|event| START_MS + event.at_ms);
        let deed_ms = self.script.deeds.get(self.deeds).map(|deed| START_MS + deed.at_ms);
        let due_ms = self.shard.next_due_ms();
        let fork_ms = self.fork_ms.filter(|_| self.root == 0);
        let Some(now_ms) = [report_ms, event_ms, deed_ms, due_ms, fork_ms].into_iter().flatten().min() else {
            return false;
        };
        self.shard.advance_to(now_ms);
        if report_ms == Some(now_ms) {
            let sent = self.reports.pop_first();
            sent.into_iter().for_each(|(_, sent)| self.deliver(sent));
        } else if event_ms == Some(now_ms) {
            let event = &self.script.events[self.events];
            self.events += 1;
            let id = format!("event-{}", self.events);
            let (name, key, data) = (event.name.clone(), event.key.clone(), Json::from_value(&event.data));
            self.shard.send_event(ExternalEvent { id, name, key, data });
        } else if deed_ms == Some(now_ms) {
            let verb = verb(&self.script.deeds[self.deeds].does);
            self.deeds += 1;
            // A plan in its clean-up refuses most of them.
            drop(self.shard.command(self.root, None, Command::Verb(verb)));
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
            code: self.code(),
            steps: step_ends(root.view(false).steps, |id| {
                results.get(id).cloned().map(|outputs| self.shard.with_payloads(outputs))
            }),
            ended_ms: self.shard.now_ms() - START_MS,
            tokens: root.usage().tokens,
            laws: Default::default(),
            asks: self.asks.clone(),
            forked: self.forked.clone(),
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
        Wish::Change(step) => {
            let fields = Map::from_iter([("inputs".to_owned(), other_inputs())]);
            let changes = vec![Change::SetFields { step: step.as_str().into(), fields }];
            Verb::Edit { changes, revision: None, reason }
        }
        Wish::Retry(step) => {
            let step = step.as_str().into();
            let changes = vec![Change::RetryStep { step, agent_type: None, action: None, inputs: None }];
            Verb::Edit { changes, revision: None, reason }
        }
        Wish::Complete(step) => {
            Verb::CompleteStep { step: step.as_str().into(), outputs: Json::from_value(&by_hand()), reason }
        }
        Wish::Answer(step) => {
            Verb::AnswerQuestion { question: step.clone(), answer: Json::from_value(&by_hand()), reason }
        }
    }
}

/// What the agent reports at the end; nothing if it stays silent.
fn outcome(task: &Task, act: &Act) -> Option<Report> {
    let failed = |class, code: &str| {
        let failure = Some(Failure::new(class, code, "as the script says"));
        Report { failure, ..report(task, What::Failed) }
    };
    let outcome = match &act.does {
        Does::Answer(outputs) => Report { outputs: Some(Json::from_value(outputs)), ..report(task, What::Completed) },
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
