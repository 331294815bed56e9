//! Waits of a plan as a whole.

use goalmill_common::criterion::JudgeKind;
use goalmill_common::event::{HookAsked, QuestionAsked, ReplanTriggered, RevisionProposed};
use goalmill_common::revision::Trigger;

/// How long a planner's answer to a replan is awaited, in milliseconds. Planners have shorter limits of their own;
/// this one ends the wait when all of them are gone.
pub(crate) const PLANNER_MS: u64 = 3_600_000;

/// What a plan as a whole waits for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Waiting {
    /// The planners write the plan.
    #[default]
    Plan,
    Nothing,
    /// The hooks decide about the plan.
    Hook {
        asked: Box<HookAsked>,
    },
    /// A person approves the plan, or a hook that is asked.
    Approval {
        due_ms: u64,
        hook: Option<Box<HookAsked>>,
    },
    /// The plan is replanned.
    Replan {
        replan: Box<ReplanTriggered>,
        by: Reviser,
    },
    /// A model or a person judges criteria; every step is final.
    Judgement {
        judge: JudgeKind,
        criteria: Vec<String>,
        due_ms: u64,
    },
}

/// Who continues a replan.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reviser {
    /// The planners propose a revision, until `replan.due_ms`.
    Planner,
    /// A person decides about a failed step, until `replan.due_ms`: no planner is asked.
    Decision,
    /// A person approves a revision.
    Approval(Box<RevisionProposed>),
    /// A person answers a planner's question.
    Answer(Box<QuestionAsked>),
}

impl Waiting {
    /// The wait that a replan begins.
    pub(crate) fn for_replan(replan: Box<ReplanTriggered>) -> Self {
        let by_person = replan.trigger == Trigger::AskUser.as_str();
        Self::Replan { replan, by: if by_person { Reviser::Decision } else { Reviser::Planner } }
    }

    /// The open question to the hooks.
    pub(crate) fn hook(&self) -> Option<&HookAsked> {
        if let Self::Hook { asked } | Self::Approval { hook: Some(asked), .. } = self { Some(asked) } else { None }
    }

    /// Begins to wait for the hooks.
    pub(crate) fn ask_hook(&mut self, asked: &HookAsked) {
        let asked = Box::new(asked.clone());
        if let Self::Approval { hook, .. } = self {
            *hook = Some(asked);
        } else {
            *self = Self::Hook { asked };
        }
    }

    /// End of the wait, Unix milliseconds.
    pub(crate) fn due_ms(&self) -> Option<u64> {
        let due_ms = match self {
            Self::Plan | Self::Nothing | Self::Hook { .. } => 0,
            Self::Approval { due_ms, .. } | Self::Judgement { due_ms, .. } => *due_ms,
            Self::Replan { replan, by } => match by {
                Reviser::Planner | Reviser::Decision => replan.due_ms,
                Reviser::Approval(proposed) => proposed.due_ms,
                Reviser::Answer(asked) => asked.due_ms,
            },
        };
        (due_ms > 0).then_some(due_ms)
    }

    pub(crate) fn replan(&self) -> Option<&ReplanTriggered> {
        if let Self::Replan { replan, .. } = self { Some(replan) } else { None }
    }

    /// Who continues the replan.
    pub(crate) fn reviser(&self) -> Option<&Reviser> {
        if let Self::Replan { by, .. } = self { Some(by) } else { None }
    }

    /// Ends the wait for a revision, and returns its replan.
    pub(crate) fn take_replan(&mut self) -> Option<Box<ReplanTriggered>> {
        if matches!(self, Self::Judgement { .. }) {
            return None;
        }
        if let Self::Replan { replan, .. } = std::mem::replace(self, Self::Nothing) { Some(replan) } else { None }
    }

    /// Whether the plan is replanned for this reason.
    pub(crate) fn is_for(&self, trigger: Trigger) -> bool {
        self.replan().is_some_and(|replan| replan.trigger == trigger.as_str())
    }

    /// Whether a person decides how the plan is revised, and no planner.
    pub(crate) fn is_for_person(&self) -> bool {
        self.reviser().is_some_and(|by| *by != Reviser::Planner)
    }

    pub(crate) fn proposed(&self) -> Option<&RevisionProposed> {
        if let Reviser::Approval(proposed) = self.reviser()? { Some(proposed) } else { None }
    }

    pub(crate) fn asked(&self) -> Option<&QuestionAsked> {
        if let Reviser::Answer(asked) = self.reviser()? { Some(asked) } else { None }
    }
}
