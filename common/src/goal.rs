//! Goals as callers submit them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use crate::budget::{Budget, Priority, Usage};
use crate::criterion::{CriteriaPolicy, Criterion};
use crate::goal_context::GoalContext;
use crate::id::Namespace;
pub use crate::planning::Planning;

/// What a caller wants: words, limits, and how to know that it is reached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Goal {
    /// In plain language.
    #[serde(alias = "goal", alias = "query", alias = "job")]
    pub description: String,
    /// A known sort of goal: `travel_planning`, `data_analysis`, `research`, `task_automation`, or `custom`, alone or with
    /// the name of one's own rule (`custom:tea`). Found by the planner when empty.
    #[schemars(regex(
        pattern = "^(|travel_planning|data_analysis|research|task_automation|custom(:[A-Za-z0-9][A-Za-z0-9._-]{0,63})?)$"
    ))]
    #[serde(alias = "goal_type", rename = "type", skip_serializing_if = "String::is_empty")]
    pub goal_type: String,
    /// Limits by name: `{"budget": {"amount": 2000, "currency": "USD", "priority": 9}, "max_time": "2 hours"}`. Amounts of
    /// money, dates, durations and counts are measured while the plan runs; other values are words for planners.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub constraints: Map<String, Value>,
    /// What must be true at the end: a sentence each, or `{id, description, check}`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub success_criteria: Vec<Criterion>,
    /// What follows from the verdicts on the criteria.
    #[serde(skip_serializing_if = "CriteriaPolicy::is_report")]
    pub criteria: CriteriaPolicy,
    /// Unix milliseconds; the plan ends by then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// Unix milliseconds; the plan starts no step before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_at_ms: Option<u64>,
    /// Milliseconds from acceptance until the plan starts; replaced by `start_at_ms` when the goal is accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_in_ms: Option<u64>,
    /// 1 (last) to 10 (first).
    pub priority: Priority,
    /// How its plan is executed, whichever planner makes it.
    #[serde(skip_serializing_if = "crate::plan::ExecutionPolicy::is_default")]
    pub execution: crate::plan::ExecutionPolicy,
    /// What the plan may use up.
    #[serde(skip_serializing_if = "Budget::is_unlimited")]
    pub budget: Budget,
    /// The namespace of its plan; that of the caller without one. Other namespaces do not see the plan, and their plans do
    /// not push it back.
    #[serde(alias = "tenant", skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Namespace>,
    /// Who plans it, how, and the conditions of its plan.
    #[serde(skip_serializing_if = "Planning::is_default")]
    pub planning: Planning,
    /// What was said before, what is known, and what to work with.
    #[serde(skip_serializing_if = "GoalContext::is_empty")]
    pub context: GoalContext,
    /// Anything the caller wants to find again.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// The field of a goal's `metadata` that has the inputs of its plan: expressions see them as `inputs`.
pub const INPUTS: &str = "inputs";

impl Goal {
    /// The names of the inputs of its plan; `None` when they are no object.
    pub fn input_names(&self) -> Option<Vec<String>> {
        match self.metadata.get(INPUTS) {
            None | Some(Value::Null) => Some(Vec::new()),
            Some(Value::Object(inputs)) => Some(inputs.keys().cloned().collect()),
            Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => None,
        }
    }

    /// Whether it says that it is of the type that a rule or a domain is for; `custom:tea` calls for those of `tea`.
    pub fn is_of_type(&self, name: &str) -> bool {
        let own = self.goal_type.strip_prefix(CUSTOM).and_then(|rest| rest.strip_prefix(':'));
        !self.goal_type.is_empty() && own.unwrap_or(&self.goal_type) == name
    }
}

/// A plan starts within this time after its acceptance, in milliseconds: a year.
pub const START_MS_MAX: u64 = 366 * 24 * 3_600_000;

/// The types of goals; [`CUSTOM`] may be followed by a name.
pub const GOAL_TYPES: [&str; 5] = ["travel_planning", "data_analysis", "research", "task_automation", CUSTOM];

/// The type of goals that only the rules of an installation know: `custom`, or `custom:tea`.
pub const CUSTOM: &str = "custom";

/// Whether a text is the type of a goal.
pub fn is_goal_type(text: &str) -> bool {
    let own = text.strip_prefix(CUSTOM).and_then(|rest| rest.strip_prefix(':'));
    GOAL_TYPES.contains(&text) || own.is_some_and(|name| name.len() <= 64 && crate::id::is_id(name))
}
