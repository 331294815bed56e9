//! A case: a document and what happens to it.

use goalmill_common::limits::Limits;
use goalmill_common::plan::Plan;
use goalmill_common::problem::Issue;
use goalmill_plan::validate::validate_plan;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::script::Script;

/// A document and what happens to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// A plan in any accepted spelling.
    pub document: Value,
    pub script: Script,
}

impl Case {
    /// The canonical form of the plan, or why it is refused.
    pub fn plan(&self) -> Result<Plan, Vec<Issue>> {
        Ok(validate_plan(&self.document, &Limits::default())?.plan().clone())
    }
}
