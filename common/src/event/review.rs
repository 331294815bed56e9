//! Payloads of events about what people and judges are asked, and about constraints.

use serde::{Deserialize, Serialize};

use crate::constraint::ConstraintStatus;
use crate::criterion::{CriterionVerdict, JudgeKind};
use crate::json::Json;
use crate::plan::Question;

/// The plan waits for a person's approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalRequested {
    /// The default answer counts from then, Unix milliseconds.
    pub due_ms: u64,
}

/// The plan stands differently with a constraint of its goal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConstraintChanged {
    /// The constraint's name.
    pub constraint: String,
    /// Where the plan stands with it from now on.
    pub status: ConstraintStatus,
    /// 1 to 10.
    pub priority: u8,
    /// Whether the plan must not go past it.
    pub hard: bool,
    /// What is measured.
    pub measure: String,
    /// The measured value.
    pub measured: f64,
    /// The limit, in the same unit.
    pub limit: f64,
    /// The unit of both; empty for a plain number.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// Why it was relaxed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// A model or a person is asked to judge success criteria.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JudgementRequested {
    /// `model` or `person`.
    pub judge: JudgeKind,
    /// The criteria's ids.
    pub criteria: Vec<String>,
    /// The verdicts are awaited until then, Unix milliseconds.
    pub due_ms: u64,
}

/// Success criteria were judged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CriteriaJudged {
    /// One for each criterion that was judged.
    pub verdicts: Vec<CriterionVerdict>,
    /// The phase at whose checkpoint it was; none at the end of the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// What a model took for it.
    #[serde(default)]
    pub usage: crate::goal::Usage,
    /// Why there are no verdicts.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// A planner wants to know something before it revises the plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuestionAsked {
    /// Names the question in the answer.
    pub id: String,
    /// What is asked, and the shape of the answer.
    pub question: Question,
    /// The default counts from then, Unix milliseconds.
    pub due_ms: u64,
    /// What it took to come up with it.
    #[serde(default)]
    pub usage: crate::goal::Usage,
}

/// A planner's question has an answer; the planners are asked again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionAnswered {
    /// The question's id.
    pub id: String,
    /// The answer.
    pub answer: Json,
    /// There was no answer in time: it is the question's default.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_default: bool,
    /// Why, in the person's words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The planner's answer is awaited until then, Unix milliseconds.
    pub due_ms: u64,
}
