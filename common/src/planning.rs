//! Planning parameters of one goal.

use serde::{Deserialize, Serialize};

use crate::config::PlanningStrategy;
use crate::limits::Limits;
use crate::plan::RevisionPolicy;
use crate::revision_strategy::RevisionStrategy;
use crate::word_enum::word_enum;

/// Candidate answers of one goal at most.
pub const CANDIDATES_MAX: u32 = 8;
/// Highest temperature of a model.
pub const TEMPERATURE_MAX: f64 = 2.0;

word_enum! {
    /// Whether a model turns the text of a goal into structured fields before the goal is planned.
    #[derive(Default)]
    ReadGoal {
        /// No model is asked.
        #[default]
        Off = "off",
        /// What the text states holds for the plan.
        Use = "use",
        /// The plan also waits for the approval of a person.
        Approve = "approve",
    }
}

word_enum! {
    /// What a model may use in a plan besides steps with an action and the steps that they depend on.
    PlanFeature {
        /// `when` on steps.
        Conditions = "conditions",
        /// Dependencies with a status: `{step, is}`.
        Statuses = "statuses",
        /// `approve` on steps.
        Approvals = "approvals",
        /// Steps that ask a person.
        Questions = "questions",
        /// `for_each` on steps.
        Maps = "maps",
        /// `repeat` on steps.
        Loops = "loops",
        /// Steps of kind `wait`.
        Waits = "waits",
        /// `undo` on steps.
        Undo = "undo",
        /// `always` on steps.
        Always = "always",
    }
}

/// Who plans a goal, how, and the conditions of its plan. What is missing is up to the settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Planning {
    /// The planner that is asked first; the others of the settings follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub planner: Option<String>,
    /// No other planner is asked.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub planner_only: bool,
    /// The language model that is asked first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// No other model is asked; without `model` it has no effect.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub model_only: bool,
    /// How far a plan is worked out before it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<PlanningStrategy>,
    /// Plans inside plans; at most `limits.depth_max`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_depth: Option<u32>,
    /// Steps of the plan and of each plan inside it; at most `limits.planned_steps_max`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_steps: Option<usize>,
    /// The id of a prompt template, a whole template, or instructions that are added to the prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Temperature of the models, 0 to 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 2.0))]
    pub temperature: Option<f64>,
    /// First answers that models are asked for, 1 to 8; the best one is taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 8))]
    pub candidates: Option<u32>,
    /// Whether a model reviews the plan before it begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub review: Option<bool>,
    /// Whether a model reads constraints, criteria, deadline and inputs from the text of the goal first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_goal: Option<ReadGoal>,
    /// What models may use in the plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub features: Option<Vec<PlanFeature>>,
    /// The plan needs the approval of a person, whichever planner makes it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub require_approval: bool,
    /// In a plan of several steps, each step depends on another one or is a dependency of one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub require_dependencies: bool,
    /// Each step that a worker does has a fallback.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub require_fallbacks: bool,
    /// Milliseconds after which another planner's plan begins while a model is still asked; 0: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback_after_ms: Option<u64>,
    /// How the plan may be revised, as in a plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<RevisionPolicy>,
}

impl Planning {
    /// Whether the goal leaves everything to the settings.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The limits of the installation, lowered to those of the goal.
    #[must_use]
    pub fn lower_limits(&self, limits: &Limits) -> Limits {
        Limits {
            depth_max: self.max_depth.unwrap_or(limits.depth_max).min(limits.depth_max),
            planned_steps_max: self.max_steps.unwrap_or(limits.planned_steps_max).min(limits.planned_steps_max),
            ..limits.clone()
        }
    }
}

/// What a person asks of one replan; in the other respects the goal's planning parameters count.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ReplanOptions {
    /// The language model that is asked first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Temperature of the models, 0 to 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 2.0))]
    pub temperature: Option<f64>,
    /// The strategy that is tried first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<RevisionStrategy>,
}

impl ReplanOptions {
    /// Whether nothing is asked.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_lowers_limits_and_never_raises_them() {
        let limits = Limits::default();
        let planning = Planning { max_depth: Some(1), max_steps: Some(1_000), ..Planning::default() };
        let lowered = planning.lower_limits(&limits);
        assert_eq!((lowered.depth_max, lowered.planned_steps_max), (1, limits.planned_steps_max));
        assert_eq!(Planning::default().lower_limits(&limits), limits);
    }
}
