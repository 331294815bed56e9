//! What people and hooks have decided about a step.

use goalmill_common::config::HookPoint;
use goalmill_common::event::{HookAsked, HookDecided, HookDecision, StepEvent};
use goalmill_common::json::Json;

/// What people and hooks have decided about a step.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct StepDecisions {
    /// The answer of a person.
    answer: Option<Json>,
    /// Whether the hooks let the step start.
    may_start: bool,
    /// The inputs that a hook gave it.
    inputs: Option<Json>,
    /// A hook refused its outputs from the cache: the next attempt is a worker's.
    refused_cache: bool,
}

impl StepDecisions {
    /// - `asked`: the open question to the hooks.
    pub(crate) fn fold(&mut self, event: &StepEvent, asked: Option<&HookAsked>) {
        if let StepEvent::Answered(answered) = event {
            self.answer = Some(answered.answer.clone());
        } else if let StepEvent::HookDecided(decided) = event {
            self.decide(decided, asked);
        } else if let StepEvent::Undone(_) = event {
            *self = Self::default();
        } else if matches!(event, StepEvent::Recalled(_) | StepEvent::Iterated(_)) {
            *self = Self { answer: self.answer.take(), ..Self::default() };
        }
    }

    fn decide(&mut self, decided: &HookDecided, asked: Option<&HookAsked>) {
        if decided.point == HookPoint::OnStepStart {
            self.may_start = decided.decision != HookDecision::Hold;
            self.inputs.clone_from(&decided.inputs);
        } else if decided.decision == HookDecision::Refuse {
            let completed = asked.and_then(|asked| asked.completed.as_deref());
            self.refused_cache |= completed.is_some_and(|completed| completed.cache_key.is_some());
        }
    }

    /// The answer of a person to the question of the step.
    pub(crate) fn answer(&self) -> Option<&Json> {
        self.answer.as_ref()
    }

    /// Whether the hooks let the step start.
    pub(crate) fn may_start(&self) -> bool {
        self.may_start
    }

    /// The inputs that a hook gave the step.
    pub(crate) fn inputs(&self) -> Option<&Json> {
        self.inputs.as_ref()
    }

    /// Whether a hook refused the outputs of the cache.
    pub(crate) fn has_refused_cache(&self) -> bool {
        self.refused_cache
    }
}
