//! What people and programs do during a run: events, decisions, answers, commands.

use std::collections::BTreeMap;

use goalmill_common::command::Verb;
use goalmill_common::external_event::ExternalEvent;
use goalmill_common::id::StepId;
use goalmill_common::json::Json;
use goalmill_common::status::PlanStatus;
use goalmill_engine::{Command, StepIndex};
use goalmill_shard::VirtualShard;

use crate::test_file::{PlanTest, ScriptedAnswer, ScriptedApproval, ScriptedVerb};

/// Who does what the script says.
const ACTOR: &str = "test";

/// One act of the script.
#[derive(Clone, Debug)]
pub(crate) enum ScriptedAct {
    Event(ExternalEvent),
    /// To a plan, by its place in the shard.
    Verb {
        member: usize,
        verb: Verb,
        waited: Option<WaitPlace>,
    },
}

/// What waits for a person: a step, or the plan.
pub(crate) type WaitPlace = (usize, Option<StepIndex>);

/// The acts of a run, by their times.
#[derive(Default)]
pub(crate) struct TestScript {
    /// By time, Unix milliseconds, and the order in which they were planned.
    acts: BTreeMap<(u64, usize), ScriptedAct>,
    count: usize,
    approvals: Vec<(ScriptedApproval, bool)>,
    answers: Vec<(ScriptedAnswer, bool)>,
    /// What a person is about to decide.
    taken: Vec<WaitPlace>,
    /// What did not come to pass, in words.
    refused: Vec<String>,
}

impl TestScript {
    /// - `start_ms`: when the plan is submitted, Unix milliseconds.
    pub(crate) fn new(test: &PlanTest, start_ms: u64) -> Self {
        let mut script = Self {
            approvals: test.approvals.iter().map(|approval| (approval.clone(), false)).collect(),
            answers: test.answers.iter().map(|answer| (answer.clone(), false)).collect(),
            ..Self::default()
        };
        for (number, event) in test.events.iter().enumerate() {
            let external = ExternalEvent {
                id: format!("event-{}", number + 1),
                name: event.name.clone(),
                key: event.key.clone(),
                data: Json::from_value(&event.data),
            };
            script.add_act(start_ms.saturating_add(event.at.0), ScriptedAct::Event(external));
        }
        for command in &test.commands {
            let reason = command.reason.clone();
            let verb = match command.verb {
                ScriptedVerb::Pause => Verb::Pause { reason },
                ScriptedVerb::Resume => Verb::Resume { reason },
                ScriptedVerb::Cancel => Verb::Cancel { reason },
            };
            script.add_act(start_ms.saturating_add(command.at.0), ScriptedAct::Verb { member: 0, verb, waited: None });
        }
        script
    }

    /// Adds an act.
    pub(crate) fn add_act(&mut self, at_ms: u64, act: ScriptedAct) {
        self.count += 1;
        self.acts.insert((at_ms, self.count), act);
    }

    /// When the next act is due, Unix milliseconds.
    pub(crate) fn next_ms(&self) -> Option<u64> {
        self.acts.first_key_value().map(|((at_ms, _), _)| *at_ms)
    }

    /// Plans the decisions for what has begun to wait for a person.
    pub(crate) fn answer_waits(&mut self, shard: &VirtualShard) {
        if self.approvals.iter().all(|(_, used)| *used) && self.answers.iter().all(|(_, used)| *used) {
            return;
        }
        let mut planned = Vec::new();
        for (member, step, id) in shard.awaiting_steps() {
            let waited = (member, Some(step));
            if self.taken.contains(&waited) {
                continue;
            }
            let asks = shard.state(member).step(step).is_some_and(|step| step.question.is_some());
            let given = if asks { self.take_answer(id) } else { self.take_approval(Some(id)) };
            planned.extend(given.map(|(after_ms, verb)| (after_ms, member, verb, waited)));
        }
        let waited = (0, None);
        if !self.taken.contains(&waited) && plan_waits(shard) {
            planned.extend(self.take_approval(None).map(|(after_ms, verb)| (after_ms, 0, verb, waited)));
        }
        for (after_ms, member, verb, waited) in planned {
            self.taken.push(waited);
            self.add_act(
                shard.now_ms().saturating_add(after_ms),
                ScriptedAct::Verb { member, verb, waited: Some(waited) },
            );
        }
    }

    fn take_approval(&mut self, step: Option<&str>) -> Option<(u64, Verb)> {
        let fits = |(approval, used): &&mut (ScriptedApproval, bool)| !*used && approval.step.as_deref() == step;
        let (approval, used) = self.approvals.iter_mut().find(fits)?;
        *used = true;
        let reason = approval.reason.clone();
        let verb = match (step.map(StepId::from), approval.reject) {
            (Some(step), false) => Verb::ApproveStep { step, reason },
            (Some(step), true) => Verb::RejectStep { step, reason },
            (None, false) => Verb::Approve { reason },
            (None, true) => Verb::Reject { reason },
        };
        Some((approval.after.0, verb))
    }

    fn take_answer(&mut self, step: &str) -> Option<(u64, Verb)> {
        let (answer, used) = self.answers.iter_mut().find(|(answer, used)| !*used && answer.step == step)?;
        *used = true;
        let verb = Verb::AnswerQuestion {
            question: step.to_owned(),
            answer: Json::from_value(&answer.answer),
            reason: String::new(),
        };
        Some((answer.after.0, verb))
    }

    /// Does the next act that is due; whether there was one.
    pub(crate) fn act(&mut self, shard: &mut VirtualShard) -> bool {
        let Some(entry) = self.acts.first_entry().filter(|entry| entry.key().0 <= shard.now_ms()) else { return false };
        match entry.remove() {
            ScriptedAct::Event(event) => {
                let name = event.name.clone();
                let issues = shard.send_event(event);
                self.refused.extend(issues.iter().map(|issue| format!("event `{name}`: {}", issue.detail)));
            }
            ScriptedAct::Verb { member, verb, waited } => {
                self.taken.retain(|taken| waited.as_ref() != Some(taken));
                if let Err(rejection) = shard.command(member, Some(ACTOR), Command::Verb(verb)) {
                    self.refused.push(format!("a command of the test was refused: {rejection}"));
                }
            }
        }
        true
    }

    /// What of the script did not come to pass, in words.
    pub(crate) fn unused(&self, shard: &VirtualShard) -> Vec<String> {
        let mut unused = self.refused.clone();
        for act in self.acts.values() {
            match act {
                ScriptedAct::Event(event) => unused.push(format!("the plan ended before the event `{}`", event.name)),
                ScriptedAct::Verb { .. } => unused.push("the plan ended before a command of the test".into()),
            }
        }
        unused.extend(shard.events_not_taken().map(|event| format!("no step took the event `{}`", event.name)));
        for (approval, _) in self.approvals.iter().filter(|(_, used)| !used) {
            let what = approval.step.as_ref().map_or("the plan".into(), |step| format!("step `{step}`"));
            unused.push(format!("{what} did not wait for the approval of the test"));
        }
        for (answer, _) in self.answers.iter().filter(|(_, used)| !used) {
            unused.push(format!("step `{}` did not ask the question that the test answers", answer.step));
        }
        unused
    }
}

/// Whether the submitted plan, or a revision of it, waits for a person.
fn plan_waits(shard: &VirtualShard) -> bool {
    match shard.state(0).status() {
        PlanStatus::AwaitingApproval => true,
        PlanStatus::Replanning => {
            let types = shard.log(0).iter().rev().map(|record| record.event.type_name());
            types.into_iter().find(|name| ["replan_triggered", "revision_proposed", "revision_refused"].contains(name))
                == Some("revision_proposed")
        }
        PlanStatus::Planning
        | PlanStatus::Running
        | PlanStatus::Paused
        | PlanStatus::Completed
        | PlanStatus::Partial
        | PlanStatus::Failed
        | PlanStatus::Cancelled
        | PlanStatus::Rejected => false,
    }
}
