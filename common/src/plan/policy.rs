//! Policies: what follows when a step fails, when a person decides, and when a plan may change.

use serde::{Deserialize, Serialize};

use super::{Plan, Strategy};
use crate::id::AgentType;
use crate::revision_strategy::RevisionStrategy;

/// What happens when attempts and fallback are used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// The plan fails; nothing new starts.
    #[default]
    Abort,
    /// The step counts as skipped and satisfies its dependents.
    Skip,
    /// The step fails, its dependents are skipped, the rest continues; the plan ends `partial`.
    Continue,
    /// A planner is asked for a revision.
    Replan,
    /// A person is asked.
    AskUser,
}

/// What happens when an agent reports a partial success.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnPartial {
    /// The step is completed with incomplete outputs; dependents run, and the plan ends `partial`.
    #[default]
    Continue,
    /// The same, and a planner is asked for a revision.
    Replan,
    /// It counts as a failed attempt.
    Fail,
}

/// How often and how soon a failed attempt is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Retry {
    /// Attempts after the first one.
    pub max: u32,
    /// Ceiling of the first wait, in milliseconds.
    pub initial_ms: u64,
    /// Growth of the ceiling with each attempt; at least 1.
    pub factor: f64,
    /// Highest ceiling, in milliseconds.
    pub max_ms: u64,
    /// `full`: anywhere from 0 to the ceiling; `none`: the ceiling itself.
    pub jitter: Jitter,
}

impl Default for Retry {
    fn default() -> Self {
        Self { max: 3, initial_ms: 2_000, factor: 2.0, max_ms: 60_000, jitter: Jitter::Full }
    }
}

/// How waits between attempts are spread, so that what failed together does not come back together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Jitter {
    /// Anything between nothing and the whole wait, each as likely.
    #[default]
    Full,
    /// The whole wait.
    None,
}

/// Who else may do a step, or what else may be done, once its attempts are used up. It gets attempts of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Fallback {
    /// Another agent type; the step's own when missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_type: Option<AgentType>,
    /// Another action; the step's own when missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
}

/// Asks a person before something starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Approval {
    /// How long a person has, in milliseconds.
    pub limit_ms: u64,
    /// The default answer, when a person gives none in time.
    pub default: ApprovalDefault,
}

impl Default for Approval {
    fn default() -> Self {
        Self { limit_ms: 24 * 3_600_000, default: ApprovalDefault::Reject }
    }
}

/// The default answer, when a person gives none in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalDefault {
    /// They agreed.
    Approve,
    /// They refused.
    #[default]
    Reject,
}

/// Whether a revision may do what the plan could not do before: spend more, write where it could not, drop approvals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Widen {
    /// Such a revision is refused.
    #[default]
    Refuse,
    /// A person is asked.
    Approve,
    /// It is taken like any other.
    Allow,
}

/// When and how a running plan may change. With one, a plan also asks for a revision by itself: when results are not
/// what was expected, when too many steps fail, and when a budget runs low.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RevisionPolicy {
    /// Revisions by planners; `limits.revisions_max` by default, and never more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<u32>,
    /// Share of failed steps above which a revision is asked for, 0 to 1.
    pub threshold: f64,
    /// A revision that would leave less confidence than that ends the plan, 0 to 1.
    pub confidence_floor: f64,
    /// Share of a budget above which a revision is asked for, 0 to 1.
    pub budget_low: f64,
    /// Asks a person before a revision is taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approve: Option<Approval>,
    /// What becomes of a revision that would widen the plan.
    pub widen: Widen,
    /// The strategy that planners try first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<RevisionStrategy>,
    /// The language model that is asked first for revisions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

impl Default for RevisionPolicy {
    fn default() -> Self {
        Self {
            max: None,
            threshold: 0.3,
            confidence_floor: 0.3,
            budget_low: 0.8,
            approve: None,
            widen: Widen::Refuse,
            strategy: None,
            model: None,
        }
    }
}

/// How the plan of a goal is executed; what is missing is left to its planner.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ExecutionPolicy {
    /// How the plan's steps are run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,
    /// Most steps in flight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<u32>,
    /// The agent type of steps for which the planner names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_type: Option<AgentType>,
    /// What becomes of the plan when a step fails for good.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<OnFailure>,
    /// When, and how often, a step is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// Limit of one attempt, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

impl ExecutionPolicy {
    /// Whether everything is left to the planner.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Lets a plan be executed like that; a step's own time limit and agent type stay.
    pub fn apply_to(&self, plan: &mut Plan) {
        plan.strategy = self.strategy.unwrap_or(plan.strategy);
        plan.max_parallel = self.max_parallel.or(plan.max_parallel);
        for step in &mut plan.steps {
            step.on_failure = self.on_failure.unwrap_or(step.on_failure);
            if !step.kind.needs_worker() {
                continue;
            }
            step.retry = self.retry.unwrap_or(step.retry);
            step.timeout_ms = step.timeout_ms.or(self.timeout_ms);
            if let Some(agent) = self.agent_type.as_ref().filter(|_| step.agent_type.is_open()) {
                step.agent_type = agent.clone();
            }
        }
    }
}
