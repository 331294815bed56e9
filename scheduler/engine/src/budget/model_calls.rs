//! Calls of language models for a plan: settled, open and lost calls, and the answers that planners
//! can reuse after a takeover.

use goalmill_common::criterion::JudgeKind;
use goalmill_common::event::{ModelAnswered, ModelAsked, PlanEvent};
use goalmill_common::goal::Usage;
use goalmill_common::number::to_u32;
use goalmill_common::view::ModelCalls;

use crate::PlanState;
use crate::people::waiting::{Reviser, Waiting};
use crate::revise::revising;

/// The model calls of a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ModelCallLog {
    settled: u32,
    open: Vec<ModelAsked>,
    /// Calls whose scheduler ended before their answer was recorded.
    lost: Vec<ModelAsked>,
    /// Answers for the current planning or judgement.
    answers: Vec<ModelAnswered>,
}

/// The revision that planners are asked for; 0 is the plan itself.
pub(crate) fn asked_of_planners(state: &PlanState) -> Option<u32> {
    let next = (state.waiting.reviser() == Some(&Reviser::Planner)).then_some(state.revision + 1);
    if state.waiting == Waiting::Plan { Some(0) } else { next }
}

/// Whether the plan waits for this revision, of planners or of a person.
pub(crate) fn awaits_revision(state: &PlanState, revision: u32) -> bool {
    state.waiting.replan().is_some() && revision == state.revision + 1
}

/// Whether planners are at work for a revision; the plan itself may be running while it is written.
pub(crate) fn awaits_planners(state: &PlanState, revision: u32) -> bool {
    (revision == 0 && revising::is_plan_open(state)) || asked_of_planners(state) == Some(revision)
}

/// Whether a judge is at work for the current criteria, and this is its call.
pub(crate) fn awaits_judge(state: &PlanState, asked: &ModelAsked) -> bool {
    let waits = matches!(state.waiting, Waiting::Judgement { judge: JudgeKind::Model, .. });
    waits && asked.planner == ModelAsked::JUDGE && asked.revision == state.revision
}

/// Model answers for the current planning or judgement, in order of arrival.
pub fn model_answers(state: &PlanState) -> &[ModelAnswered] {
    &state.calls.answers
}

/// Counts the model calls; `None` when there were none.
pub(crate) fn count_model_calls(state: &PlanState) -> Option<ModelCalls> {
    let ModelCallLog { settled, open, lost, .. } = &state.calls;
    let mut unsettled = Usage::default();
    for call in open.iter().chain(lost) {
        unsettled.add(call.reserved.cost, call.reserved.tokens);
    }
    let calls = ModelCalls { settled: *settled, open: to_u32(open.len()), lost: to_u32(lost.len()), unsettled };
    (calls != ModelCalls::default()).then_some(calls)
}

impl ModelCallLog {
    /// Whether this call is open.
    pub(crate) fn is_open(&self, asked: &ModelAsked) -> bool {
        self.open.iter().any(|open| is_same(open, asked))
    }

    /// Calls that may still be answered.
    pub(crate) fn open(&self) -> &[ModelAsked] {
        &self.open
    }

    fn asked(&mut self, asked: &ModelAsked) {
        if let Some(at) = self.open.iter().position(|open| is_same(open, asked)) {
            let before = self.open.remove(at);
            self.lost.push(before);
        }
        self.open.push(asked.clone());
    }

    fn answered(&mut self, answered: &ModelAnswered) {
        let is_it = |call: &ModelAsked| {
            call.revision == answered.revision && call.planner == answered.planner && call.call == answered.call
        };
        let was_open = self.open.iter().position(is_it);
        match (was_open, self.lost.iter().rposition(is_it)) {
            (Some(at), _) => drop(self.open.remove(at)),
            // A planner answered after its wait had ended.
            (None, Some(at)) => drop(self.lost.remove(at)),
            (None, None) => {}
        }
        if answered.was_sent() {
            self.settled = self.settled.saturating_add(1);
        }
        if was_open.is_some() && answered.answer.is_some() {
            self.answers.push(answered.clone());
        }
    }

    /// Folds an event of the plan. When planners or a judge have answered, or the plan no longer waits for them, calls that are still
    /// open are lost.
    pub(crate) fn fold(&mut self, event: &PlanEvent) {
        if let PlanEvent::ModelAsked(asked) = event {
            self.asked(asked);
        } else if let PlanEvent::ModelAnswered(answered) = event {
            self.answered(answered);
        } else if event.ends_plan() {
            self.close(|_, _| true);
        } else if event.completes_planning() {
            self.close(|_, revision| revision == 0);
        } else if event.answers_replanning() {
            self.close(|_, revision| revision > 0);
        } else if matches!(event, PlanEvent::CriteriaJudged(_)) {
            self.close(|planner, _| planner == ModelAsked::JUDGE);
        }
    }

    fn close(&mut self, is_over: impl Fn(&str, u32) -> bool) {
        let (over, open) = self.open.drain(..).partition(|call| is_over(&call.planner, call.revision));
        self.open = open;
        self.lost.extend::<Vec<_>>(over);
        self.answers.retain(|answer| !is_over(&answer.planner, answer.revision));
    }
}

fn is_same(one: &ModelAsked, other: &ModelAsked) -> bool {
    one.revision == other.revision && one.planner == other.planner && one.call == other.call
}
