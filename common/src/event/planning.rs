//! Payloads of events about planning: calls of models, the plan they give, and who does its steps.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::{AgentType, StepId};
use crate::json::Json;
use crate::plan::Plan;
use crate::problem::Issue;
use crate::revision::Fork;

use super::event_bytes::{FIXED_BYTES, json};

/// A language model is about to be asked for the plan, for a change of it, or for verdicts on its success criteria.
///
/// It is written before the call goes out, so that a call whose scheduler ends in the middle is known to have been made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelAsked {
    /// 0 for the plan itself, else the revision that is being made; of a judge the revision that is judged.
    pub revision: u32,
    /// `llm`, `tools`, `judge`, `goal_reader`.
    pub planner: String,
    /// Counted from 1 each time the planner is asked.
    pub call: u32,
    /// The prompt's template.
    pub template: String,
    /// The most that it may take: the prompt by estimate, and the longest answer, by the most expensive model.
    pub reserved: crate::goal::Usage,
    /// The same call was begun before, by a scheduler that ended before it had written down an answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeated: bool,
}

impl ModelAsked {
    /// The `planner` of calls that judge success criteria.
    pub const JUDGE: &str = "judge";
    /// The `planner` of calls that read the text of a goal.
    pub const GOAL_READER: &str = "goal_reader";
}

/// The result of a call of a language model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelAnswered {
    /// With `planner` and `call`: which [`ModelAsked`] it is about.
    pub revision: u32,
    /// `llm`, `tools`.
    pub planner: String,
    /// Counted from 1 each time the planner is asked.
    pub call: u32,
    /// What it took, tries that failed included; it belongs to what the plan has used up.
    pub usage: crate::goal::Usage,
    /// Some of it was counted from texts, because a server did not say or a call was cut short.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
    /// The answer, for a scheduler that has to continue the planning; none when it holds what looks like a secret, or
    /// is very long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Json>,
    /// Why there is no answer.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
}

/// The tools that a planner's model called in one answer, and the result of each; written when the calls of that answer
/// have run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolsCalled {
    /// With `planner` and `call`: the [`ModelAnswered`] that has asked for them.
    pub revision: u32,
    /// `tools`.
    pub planner: String,
    /// The number of the model call.
    pub call: u32,
    /// In order.
    pub tools: Vec<PlannerToolCall>,
    /// Number of further calls for which the event has no room.
    #[serde(default)]
    pub left_out: u32,
}

/// A tool call of a planner's model. Long values and values that look like secrets are texts, cut and masked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlannerToolCall {
    /// Such as `add_step`.
    pub tool: String,
    /// As the planner has read them; null when they cannot be read.
    pub arguments: Json,
    /// Whether the tool has done what it was asked for.
    pub ok: bool,
    /// What the model gets as the result; none when the call ends the planning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Json>,
}

impl PlannerToolCall {
    /// About how many bytes it takes in the log.
    pub(super) fn bytes(&self) -> usize {
        FIXED_BYTES + self.arguments.text().len() + json(self.result.as_ref())
    }
}

/// Errors of calls that end before anything goes to a model, unless a try before them has taken something.
const NOT_SENT: [&str; 4] = ["LLM_NONE", "LLM_OVER_BUDGET", "LLM_RESTING", "LLM_CANCELLED"];

impl ModelAnswered {
    /// Whether a model was asked at all.
    pub fn was_sent(&self) -> bool {
        let has_taken = self.usage.tokens > 0 || self.usage.cost > 0.0;
        has_taken || self.answer.is_some() || !NOT_SENT.contains(&self.error.as_str())
    }
}

/// No planner has a plan, or a change of one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanningFailed {
    /// Why there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// A planner advised to end the plan: none of them failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub aborted: bool,
    /// Located errors of the best try.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub issues: Vec<Issue>,
    /// The planners' outputs, with the prompts of model calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Json>,
}

/// The plan was created, by a planner or by its submission.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanCreated {
    /// Shared with the state.
    pub plan: Arc<Plan>,
    /// `submitted`, `rules`, `htn`, `llm`.
    pub planner: String,
    /// 0 to 1.
    pub confidence: f64,
    /// How the plan came about: rule or template id and version, model, prompt, repairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Json>,
    /// More steps are to come: the planner is still writing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub open: bool,
    /// The plan it continues from; steps whose results are kept are completed from the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<Box<Fork>>,
}

/// The plan is valid: checked against agents, schemas, budgets and policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanValidated {
    /// Warnings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Issue>,
    /// The router's choices for `auto` steps, with reasons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Route>,
    /// Estimated seconds on the longest path.
    #[serde(default)]
    pub critical_path_seconds: f64,
}

/// One decision of the router.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Route {
    /// The step that asked for `auto`.
    pub step: StepId,
    /// Who was chosen.
    pub agent_type: AgentType,
    /// Best first.
    pub candidates: Vec<RouteCandidate>,
    /// How likely it is that anybody fits, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// Time that the choice took, in milliseconds: its share of that of the whole plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<f64>,
}

/// An agent type that the router weighed for a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RouteCandidate {
    /// The agent type.
    pub agent_type: AgentType,
    /// 0 to 1.
    pub similarity: f64,
    /// 0 to 1.
    pub success_rate: f64,
    /// US dollars a step.
    pub cost: f64,
    /// What the candidates are ordered by, among near equals.
    pub score: f64,
    /// Believed duration of a step, in milliseconds; none if neither declared nor measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<u64>,
    /// What the similarity is made of, 0 to 1 each: `bm25`, `char_ngrams`, `embedding`, …
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub factors: std::collections::BTreeMap<String, f64>,
}
