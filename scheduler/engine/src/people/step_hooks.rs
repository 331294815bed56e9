//! Where a step stands with the hooks that decide.

use goalmill_common::config::HookPoint;
use goalmill_common::event::{HookAsked, HookDecided, HookDecision};
use goalmill_common::json::Json;

/// What the hooks say about a step.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct StepHooks {
    stand: Option<StepHook>,
    /// The inputs that a hook gave it.
    inputs: Option<Json>,
    /// A hook refused its outputs from the cache: the next attempt is a worker's.
    refused_cache: bool,
}

/// Where a step stands with the hooks that decide.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StepHook {
    /// They are asked.
    Asked(Box<HookAsked>),
    /// The step is held until its timer is due.
    Held,
    /// The step may start.
    Passed,
}

impl StepHooks {
    /// The hooks are asked.
    pub(crate) fn ask(&mut self, asked: &HookAsked) {
        self.stand = Some(StepHook::Asked(Box::new(asked.clone())));
    }

    /// A person lets the step go on.
    pub(crate) fn pass(&mut self) {
        if self.stand.is_some() {
            self.stand = Some(StepHook::Passed);
        }
    }

    /// A hook decided: the step is held, or goes on.
    pub(crate) fn decide(&mut self, decided: &HookDecided) {
        let is_start = decided.point == HookPoint::OnStepStart;
        if is_start {
            self.inputs.clone_from(&decided.inputs);
        } else if decided.decision == HookDecision::Refuse {
            let completed = self.asked().and_then(|asked| asked.completed.as_deref());
            self.refused_cache |= completed.is_some_and(|completed| completed.cache_key.is_some());
        }
        self.stand = match decided.decision {
            HookDecision::Hold if is_start => Some(StepHook::Held),
            HookDecision::Allow
            | HookDecision::Refuse
            | HookDecision::Change
            | HookDecision::Approve
            | HookDecision::Hold
            | HookDecision::Choose => is_start.then_some(StepHook::Passed),
        };
    }

    /// Whether the hooks let the step start.
    pub(crate) fn has_passed(&self) -> bool {
        self.stand == Some(StepHook::Passed)
    }

    /// Whether they are asked, or hold the step.
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self.stand, Some(StepHook::Asked(_) | StepHook::Held))
    }

    /// The open question.
    pub(crate) fn asked(&self) -> Option<&HookAsked> {
        match &self.stand {
            Some(StepHook::Asked(asked)) => Some(asked),
            Some(StepHook::Held | StepHook::Passed) | None => None,
        }
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
