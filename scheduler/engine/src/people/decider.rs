//! Who decides before a step continues: a person or the hooks.

use goalmill_common::config::HookPoint;
use goalmill_common::event::{HookAsked, HookDecided, HookDecision};

/// Who decides before the step continues.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Decider {
    /// A person agrees.
    Approval { due_ms: u64 },
    /// A person answers the question of the step.
    Answer { due_ms: u64, question: Box<str> },
    /// The hooks are asked.
    Hooks(Box<HookAsked>),
    /// A hook holds the step, and is asked again.
    Held { due_ms: u64, reason: Box<str> },
    /// The hooks have decided about the outputs: the next event says what becomes of them.
    Decided,
}

impl Decider {
    /// Who decides after a decision of the hooks; `None` if the step starts.
    pub(crate) fn after_hook(decided: &HookDecided) -> Option<Self> {
        if decided.point != HookPoint::OnStepStart {
            return Some(Self::Decided);
        }
        let held = || Self::Held { due_ms: decided.due_ms, reason: decided.reason.as_str().into() };
        (decided.decision == HookDecision::Hold).then(held)
    }

    /// When somebody else decides, or the hooks are asked again, Unix milliseconds; 0 for never.
    pub(crate) fn due_ms(&self) -> u64 {
        match self {
            Self::Approval { due_ms } | Self::Answer { due_ms, .. } | Self::Held { due_ms, .. } => *due_ms,
            Self::Hooks(_) | Self::Decided => 0,
        }
    }
}
