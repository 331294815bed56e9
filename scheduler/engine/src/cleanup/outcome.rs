//! How a plan ends: at last, or for as long as it is kept by the plan around it.

use goalmill_common::event::PlanEnded;
use goalmill_common::goal::Usage;

/// The end of a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    ended: Option<Box<PlanEnded>>,
    /// How it ends unless what it did is undone, while it is kept.
    kept: Option<Box<PlanEnded>>,
    /// What it had used up when it was kept, and reported.
    reported: Usage,
}

impl Outcome {
    /// The plan is kept: it ends like that unless what it did is undone.
    pub(crate) fn keep(&mut self, outcome: &PlanEnded, usage: Usage) {
        self.kept = Some(Box::new(outcome.clone()));
        self.reported = usage;
    }

    /// What it did is undone.
    pub(crate) fn begin_undo(&mut self) {
        self.kept = None;
    }

    /// The plan ends.
    pub(crate) fn end(&mut self, ended: PlanEnded) {
        self.kept = None;
        self.ended = Some(Box::new(ended));
    }

    /// How it ended; `None` before.
    pub(crate) fn ended(&self) -> Option<&PlanEnded> {
        self.ended.as_deref()
    }

    /// How it ends unless what it did is undone; `None` while it is not kept.
    pub(crate) fn kept(&self) -> Option<&PlanEnded> {
        self.kept.as_deref()
    }

    /// What it has used up and not reported to the plan around it.
    ///
    /// - `usage`: all that it has used up.
    pub(crate) fn unreported(&self, usage: Usage) -> Usage {
        Usage {
            tokens: usage.tokens.saturating_sub(self.reported.tokens),
            cost: (usage.cost - self.reported.cost).max(0.0),
        }
    }
}
