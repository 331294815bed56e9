//! Success criteria that a planner read in the text of a goal.

use goalmill_common::command::SUBMITTED;
use goalmill_common::criterion::{Criterion, EVIDENCE_CHARS_MAX};
use goalmill_common::event::PlanCreated;
use serde_json::Value;

use crate::state::PlanState;

/// Most criteria that a plan implies.
const IMPLIED_MAX: usize = 64;

/// The criteria that a planner read in the text of a goal: lines in the metadata of its plan, with the expressions by
/// which they are judged. A goal with criteria of its own implies none, and a submitted plan has none.
pub(crate) fn implied_criteria(state: &PlanState, created: &PlanCreated) -> Vec<Criterion> {
    if created.planner == SUBMITTED || !state.accepted.goal.success_criteria.is_empty() {
        return Vec::new();
    }
    let list = |name: &str| created.plan.metadata.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let mut checks = list("success_checks").into_iter();
    let lines = list("success_criteria").into_iter().enumerate();
    let implied = lines.map(|(n, line)| {
        let check = checks.next().and_then(|check| check.as_str().map(str::to_owned));
        let description = line.as_str().unwrap_or_default().chars().take(EVIDENCE_CHARS_MAX).collect::<String>();
        Criterion { id: format!("implied-{}", n + 1), description, check }
    });
    implied.filter(|criterion| !criterion.description.is_empty()).take(IMPLIED_MAX).collect()
}
