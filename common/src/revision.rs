//! Revisions of a running plan: why, the proposal, and the record.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::call::RecordedCall;
use crate::event::Route;
use crate::failure::Failure;
use crate::goal::Usage;
use crate::id::{AgentType, PlanId, StepId};
use crate::json::Json;
use crate::plan::{Phase, Plan, Question, Step};
use crate::problem::Issue;
pub use crate::revision_strategy::RevisionStrategy;
use crate::word_enum::word_enum;

word_enum! {
    /// Why a running plan may have to change.
    Trigger {
        /// A step was given up on, and its policy is `replan`.
        StepFailure = "step_failure",
        /// A step's outputs are not what was expected of them.
        UnexpectedResult = "unexpected_result",
        /// A result breaks a constraint.
        ConstraintViolation = "constraint_violation",
        /// A report brought `adjustments`.
        NewInformation = "new_information",
        /// A step succeeded in part, and its policy is `replan`.
        PartialSuccess = "partial_success",
        /// A person requested it.
        UserRequest = "user_request",
        /// A success criterion is not met, and the goal requires it.
        CriterionUnmet = "criterion_unmet",
        /// More of a budget is used than the plan's policy allows.
        BudgetLow = "budget_low",
        /// A phase with a checkpoint has ended.
        PhaseCheckpoint = "phase_checkpoint",
        /// More steps have failed than the plan's policy allows.
        FailureRate = "failure_rate",
        /// A planner whose answer took long has a plan with more confidence than the one that runs.
        BetterPlan = "better_plan",
        /// The rest of a plan that began while it was written never came.
        IncompletePlan = "incomplete_plan",
        /// A step was given up on, and its policy is to ask a person.
        AskUser = "ask_user",
        /// A person changed the plan; no planner was asked.
        Edit = "edit",
    }
}

impl Trigger {
    /// Whether the plan continues as it was when no revision comes of it.
    pub fn is_optional(self) -> bool {
        match self {
            Self::NewInformation
            | Self::PartialSuccess
            | Self::UserRequest
            | Self::BudgetLow
            | Self::CriterionUnmet
            | Self::PhaseCheckpoint
            | Self::FailureRate
            | Self::BetterPlan
            | Self::Edit => true,
            Self::StepFailure
            | Self::UnexpectedResult
            | Self::ConstraintViolation
            | Self::IncompletePlan
            | Self::AskUser => false,
        }
    }
}

/// What each revision so far takes off the confidence of the next one.
pub const CONFIDENCE_PER_REVISION: f64 = 0.1;

/// One change of a plan. Steps that are completed are never changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Change {
    /// A new step.
    AddStep {
        /// The step, as a plan has it.
        step: Box<Step>,
        /// Steps that are to wait for it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        before: Vec<StepId>,
    },
    /// The step as it is to be, under its id. One that failed or was skipped starts again.
    ModifyStep {
        /// The step.
        step: Box<Step>,
    },
    /// Some fields of a step, spelled as in a plan; `null` takes one away. As `modify_step` otherwise.
    SetFields {
        /// The step's id.
        step: StepId,
        /// Fields by name.
        fields: Map<String, Value>,
    },
    /// Takes a step away.
    RemoveStep {
        /// The step's id.
        step: StepId,
    },
    /// Counts as done for the steps that depend on it.
    SkipStep {
        /// The step's id.
        step: StepId,
        /// Why, for the log.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
    },
    /// The step once more, with what is given in place of its own.
    RetryStep {
        /// The step's id.
        step: StepId,
        /// Another agent type.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent_type: Option<AgentType>,
        /// Another action.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        action: Option<String>,
        /// Other inputs, all of them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        inputs: Option<Json>,
    },
    /// Other steps in place of one. What depended on it depends on those of them that nothing else of them depends on;
    /// when that is one, expressions are rewritten to see it.
    ReplaceStep {
        /// The step's id.
        step: StepId,
        /// What comes in its place, as a plan has it.
        with: Vec<Step>,
    },
    /// A plan of its own in place of the step; without one the planners make it from the step's description.
    DecomposeStep {
        /// The step's id.
        step: StepId,
        /// The plan in its place.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        plan: Option<Box<Plan>>,
    },
    /// The steps one after the other, in this order.
    Order {
        /// All of the steps that are put in order, by their ids.
        steps: Vec<StepId>,
    },
    /// A new phase.
    AddPhase {
        /// The phase.
        phase: Phase,
        /// The phase before it; at the end without one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<String>,
        /// Its steps, as a plan has them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        steps: Vec<Step>,
    },
    /// All steps of the phase that are not final count as done.
    SkipPhase {
        /// The phase's id.
        phase: String,
        /// Why, for the log.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
    },
}

/// A planner's answer to a situation. Untrusted: validated like a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Proposal {
    /// The planner's strategy; decides how much confidence the revision costs.
    pub strategy: RevisionStrategy,
    /// What changes, in this order; none when it merely continues.
    #[serde(default)]
    pub changes: Vec<Change>,
    /// For people: one line.
    #[serde(default)]
    pub summary: String,
    /// For `ask_user`: what a person is asked before the planners are asked again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<Question>,
    /// `rules`, `htn`, `llm`.
    #[serde(default)]
    pub planner: String,
    /// The planner's own confidence in it, 0 to 1; recorded only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// Provenance: model, prompts, repairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Json>,
    /// The router's choices for new `auto` steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Route>,
    /// What it may do that the plan could not do before, as far as the catalogue of actions tells: permissions,
    /// write access. The engine adds what it sees itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub widens: Vec<Issue>,
    /// What it took to make it.
    #[serde(default)]
    pub usage: Usage,
}

impl Proposal {
    /// A proposal without a description.
    pub fn new(strategy: RevisionStrategy, changes: Vec<Change>) -> Self {
        Self {
            strategy,
            changes,
            summary: String::new(),
            question: None,
            planner: String::new(),
            confidence: None,
            provenance: None,
            routes: Vec::new(),
            widens: Vec::new(),
            usage: Usage::default(),
        }
    }
}

/// One revision, with all it changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RevisionRecord {
    /// Counted from 1; 0 is the plan as it began.
    pub revision: u32,
    /// Unix milliseconds.
    pub time_ms: u64,
    /// The actor who decided it, when it was not a planner alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// See [`Trigger`]; `edit` when a person made it.
    pub trigger: String,
    /// The step that it was about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepId>,
    /// The reason, in words.
    pub reason: String,
    /// The planner's strategy.
    pub strategy: RevisionStrategy,
    /// The planner's, in one line.
    pub summary: String,
    /// Who made it; empty when a person did.
    pub planner: String,
    /// For people, a line each.
    pub changes: Vec<String>,
    /// Steps that are new.
    pub added: Vec<Step>,
    /// Steps that are gone, as they were.
    pub removed: Vec<Step>,
    /// Steps that were changed.
    pub modified: Vec<Modified>,
    /// Steps that count as done since then.
    pub skipped: Vec<StepId>,
    /// Phases that are new, by their ids.
    pub phases: Vec<String>,
    /// The plan's confidence before, 0 to 1.
    pub confidence_before: f64,
    /// The plan's confidence after it, 0 to 1.
    pub confidence_after: f64,
}

/// A step before and after a revision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Modified {
    /// As it was.
    pub before: Step,
    /// As it is since then.
    pub after: Step,
}

/// A plan that continues from another one's results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fork {
    /// The other plan.
    pub plan: PlanId,
    /// The other plan's revision.
    pub revision: u32,
    /// The step that is done again, with all that follows from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepId>,
    /// Results that are kept.
    pub kept: BTreeMap<StepId, Json>,
    /// Those of them that are partial, with what failed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub partial: BTreeMap<StepId, Vec<Failure>>,
    /// Calls that steps begin with, numbered from 1, as if an earlier attempt had recorded them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub calls: BTreeMap<StepId, Vec<RecordedCall>>,
    /// When set, the remaining steps are planned again before any step is dispatched; the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replan: Option<String>,
}

impl Fork {
    /// About how many bytes it takes in the log.
    pub(crate) fn bytes(&self) -> usize {
        let kept: usize = self.kept.values().map(|outputs| outputs.text().len()).sum();
        kept + self.calls.values().flatten().map(RecordedCall::bytes).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_reads_back() {
        for word in Trigger::ALL {
            assert_eq!(Trigger::parse(word.as_str()), Some(*word));
            assert_eq!(Json::from_value(word).text(), format!("\"{word}\""));
        }
        for word in RevisionStrategy::ALL {
            assert_eq!(RevisionStrategy::parse(word.as_str()), Some(*word));
            assert_eq!(Json::from_value(word).text(), format!("\"{word}\""));
        }
    }

    #[test]
    fn a_change_is_one_object_with_its_name() {
        let change: Change = serde_json::from_str(r#"{"skip_step":{"step":"a"}}"#).expect("it is a change");
        assert_eq!(change, Change::SkipStep { step: "a".into(), reason: String::new() });
        assert!(serde_json::from_str::<Change>(r#"{"skip_step":{"stpe":"a"}}"#).is_err());
    }
}
