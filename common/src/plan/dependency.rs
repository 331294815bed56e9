//! The status that a dependency must have when it has ended.

use serde::{Deserialize, Serialize};

use crate::status::StepStatus;
use crate::word_enum::word_enum;

word_enum! {
    /// A status of a dependency that has ended.
    DependencyStatus {
        /// It is done.
        Completed = "completed",
        /// Its attempts and its fallback are used up.
        Failed = "failed",
        /// It did not run, for whatever reason.
        Skipped = "skipped",
    }
}

impl DependencyStatus {
    /// That of a step, which has the same word; `None` for one that has not ended by itself.
    pub fn from_status(status: StepStatus) -> Option<Self> {
        Self::parse(status.as_str())
    }
}
