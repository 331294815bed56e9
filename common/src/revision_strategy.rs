//! Strategies of revisions.

use serde::{Deserialize, Serialize};

use crate::word_enum::word_enum;

word_enum! {
    /// How a revision helps.
    RevisionStrategy {
        /// The step once more, by another agent.
        RetryWithAgent = "retry_with_agent",
        /// The step becomes a plan of smaller ones.
        Decompose = "decompose",
        /// Another way to the same end.
        Workaround = "workaround",
        /// What remains is fitted to a constraint.
        Adjust = "adjust",
        /// The remaining steps are planned again.
        ReplanRemaining = "replan_remaining",
        /// Steps that repair what went wrong come in between.
        InsertRecovery = "insert_recovery",
        /// The step is skipped.
        SkipAndContinue = "skip_and_continue",
        /// The plan ends; its results stay.
        Abort = "abort",
        /// A person is asked something first.
        AskUser = "ask_user",
        /// A person changed the plan.
        Edit = "edit",
    }
}

impl RevisionStrategy {
    /// What such a revision does to the plan's confidence, before the part that counts earlier revisions.
    pub fn confidence_delta(self) -> f64 {
        match self {
            Self::RetryWithAgent => -0.10,
            Self::Decompose => -0.05,
            Self::Workaround | Self::InsertRecovery | Self::ReplanRemaining => -0.15,
            Self::Adjust => -0.08,
            Self::SkipAndContinue | Self::Abort | Self::AskUser | Self::Edit => 0.0,
        }
    }
}
