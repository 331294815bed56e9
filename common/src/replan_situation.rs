//! The situation of a running plan that a planner revises.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::goal::{Budget, Goal, Usage};
use crate::id::{PlanId, StepId};
use crate::json::{Json, read_given};
use crate::plan::{Plan, RevisionPolicy};
use crate::planning::{Planning, ReplanOptions};
use crate::problem::Issue;
use crate::revision::{RevisionRecord, Trigger};
use crate::revision_strategy::RevisionStrategy;
use crate::status::StepStatus;

/// The context of a request for a revision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Situation {
    /// The plan's id.
    pub plan_id: PlanId,
    /// The one that is asked for: an answer for any other is refused.
    pub revision: u32,
    /// The goal.
    pub goal: Goal,
    /// Constraints that were given up; the goal is without them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub relaxed: Vec<String>,
    /// As it stands, without the steps that were replaced.
    pub plan: Plan,
    /// The state of each step, by its id.
    pub steps: BTreeMap<StepId, StepSituation>,
    /// See [`Trigger`].
    pub trigger: String,
    /// The step that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepId>,
    /// The reason, in words.
    pub reason: String,
    /// What a person requested.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hint: String,
    /// What a person asks of this replan.
    #[serde(default, skip_serializing_if = "ReplanOptions::is_default")]
    pub options: ReplanOptions,
    /// What the step's report suggested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub information: Option<Json>,
    /// The strategy that a hook chose: any other is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen: Option<RevisionStrategy>,
    /// The plan's confidence, 0 to 1.
    pub confidence: f64,
    /// A revision that would leave less confidence than this is refused, 0 to 1.
    pub confidence_floor: f64,
    /// What was revised before, oldest first.
    pub revisions: Vec<RevisionRecord>,
    /// How many more revisions by planners there may be.
    pub revisions_left: u32,
    /// What the plan has used up.
    pub usage: Usage,
    /// What is left of the budgets; `seconds` from acceptance, as the budget counts them.
    pub left: Budget,
    /// The plan ends by then, Unix milliseconds.
    pub deadline_ms: u64,
    /// Proposals for this very revision that were refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Refusal>,
    /// What people were asked for this very revision.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<Answered>,
}

impl Situation {
    /// The strategy that planners try first: of the request, else of the plan's policy, else of the goal.
    pub fn wanted_strategy(&self) -> Option<RevisionStrategy> {
        let of_goal = || self.goal.planning.revision.as_ref().and_then(|policy| policy.strategy);
        let of_plan = || self.plan.revision.as_ref().and_then(|policy| policy.strategy);
        self.options.strategy.or_else(of_plan).or_else(of_goal)
    }

    /// The goal's planning parameters, with those of the revision policy and of the request in their place.
    pub fn planning(&self) -> Planning {
        let of_policy = |policy: &Option<RevisionPolicy>| policy.as_ref().and_then(|policy| policy.model.clone());
        let planning = &self.goal.planning;
        let model = self.options.model.clone().or_else(|| of_policy(&self.plan.revision));
        Planning {
            model: model.or_else(|| of_policy(&planning.revision)).or_else(|| planning.model.clone()),
            temperature: self.options.temperature.or(planning.temperature),
            ..planning.clone()
        }
    }

    /// Whether the next part of a plan is wanted that is written part by part: no changes mean that it is whole.
    pub fn wants_part(&self) -> bool {
        self.trigger == Trigger::PhaseCheckpoint.as_str() && self.plan.is_iterative()
    }
}

/// The state of one step, for a planner.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepSituation {
    /// Its status.
    pub status: StepStatus,
    /// The last attempt; 0 as long as there was none.
    pub attempt: u32,
    /// Its outputs, once it is completed.
    #[serde(default, deserialize_with = "read_given", skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Json>,
    /// Of the last failed attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// Whether an attempt may have done its work, though none completed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_be_done: bool,
    /// New information that its report brought.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adjustments: Option<Json>,
}

/// A refused proposal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The planner's strategy.
    pub strategy: RevisionStrategy,
    /// The reason of the refusal.
    pub reason: String,
    /// Located errors, where there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub issues: Vec<Issue>,
}

/// A question with its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answered {
    /// What was asked.
    pub question: String,
    /// The answer.
    pub answer: Json,
    /// There was no answer in time: it is the question's default.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_default: bool,
}
