//! Plans before they run, and the planners and models that make them.

use serde::{Deserialize, Serialize};

use crate::command::{Planned, SUBMITTED};
use crate::event::{GoalChanged, Route};
use crate::json::Json;
use crate::layout::PlanLayout;
use crate::plan::Plan;
use crate::problem::Issue;

/// The answer to a validation or a preview.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Preview {
    /// Whether the plan would be accepted.
    pub valid: bool,
    /// The plan as it would run; none when it is not valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    /// What is wrong with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub issues: Vec<Issue>,
    /// Warnings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Issue>,
    /// The router's choices for `auto` steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Route>,
    /// The fields of the goal with what a model read in its text; none when nothing was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<Box<GoalChanged>>,
    /// Who made the plan: `submitted`, `rules`, `htn`, `llm`, `tools`.
    pub planner: String,
    /// The plan's confidence, 0 to 1.
    pub confidence: f64,
    /// Estimated seconds on the longest path.
    pub critical_path_seconds: f64,
    /// Where the seconds of the steps come from.
    #[serde(default)]
    pub seconds_from: SecondsFrom,
    /// Estimated US dollars of all steps.
    pub cost: f64,
    /// How a planner made it: parameters, prompts, answers, repairs, stages, and the planners that were tried before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planning_trace: Option<Json>,
    /// Where the steps stand in a drawing of the plan; set by the API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<PlanLayout>,
}

/// How far the planning of a preview has come: an event of its stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct PlanningProgress {
    /// The model that is asked, by its name in the settings; empty before the first call.
    pub model: String,
    /// How the form of its answer is requested: `json_schema`, `forced_tool`, `json_object`, `tools`, `text`.
    pub mode: String,
    /// Calls of models that have begun.
    pub calls: u64,
    /// Tokens of the answers so far; those of the answer under way are estimated.
    pub output_tokens: u64,
    /// Seconds since planning began.
    pub seconds: f64,
}

/// How many steps of a plan, those inside steps too, have their expected duration from where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct SecondsFrom {
    /// From recent measurements of the action.
    pub measured: u64,
    /// From the step's own `estimates`.
    pub estimated: u64,
    /// From the `latency_ms` that the agent type declares.
    pub declared: u64,
    /// Unknown: they count as 0.
    pub unknown: u64,
}

impl Preview {
    /// Of a plan that is in order, and what it would take: see the fields.
    pub fn from_planned(planned: Planned, critical_path_seconds: f64, seconds_from: SecondsFrom, cost: f64) -> Self {
        Self {
            valid: true,
            issues: Vec::new(),
            warnings: planned.warnings,
            routes: planned.routes,
            goal: planned.goal,
            planner: planned.planner,
            planning_trace: planned.provenance,
            confidence: planned.confidence,
            plan: Some(planned.plan),
            critical_path_seconds,
            seconds_from,
            cost,
            layout: None,
        }
    }

    /// Of a plan that is not.
    pub fn refused(issues: Vec<Issue>) -> Self {
        Self {
            valid: false,
            plan: None,
            issues,
            warnings: Vec::new(),
            routes: Vec::new(),
            goal: None,
            planner: SUBMITTED.into(),
            confidence: 0.0,
            critical_path_seconds: 0.0,
            seconds_from: SecondsFrom::default(),
            planning_trace: None,
            cost: 0.0,
            layout: None,
        }
    }
}

/// A planner, and what its goals look like.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PlannerView {
    /// `llm`, `tools`, `htn`, `rules`.
    pub planner: String,
    /// Its place in `planner.order`, counted from 1; none when only goals that name it are planned by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<u32>,
    /// Whether it asks language models.
    #[serde(default)]
    pub asks_models: bool,
    /// Rules or domains, if it has any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RuleView>,
}

/// A rule of a planner.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RuleView {
    /// The id of the rule or domain.
    pub rule: String,
    /// The planner that has it: `rules`, `htn`.
    #[serde(default)]
    pub planner: String,
    /// Its version.
    pub version: u32,
    /// The type of its goals.
    pub goal_type: String,
    /// Confidence of its plans, 0 to 1.
    pub confidence: f64,
    /// Sum of weights from which a goal is recognised; none for the rule that takes what the others leave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// What it matches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signals: Vec<SignalView>,
    /// Facts without which it makes no plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_facts: Vec<String>,
}

/// A sign of a kind of goal, or against it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SignalView {
    /// What it adds to the score.
    pub weight: f64,
    /// Phrases of which one must occur; a fact as `fact:budget`.
    pub any: Vec<String>,
}

/// A language model with its live rates; they decay with a half-life of 30 minutes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ModelView {
    /// Its name in the settings.
    pub model: String,
    /// Calls behind the rates, with decay.
    pub calls: f64,
    /// Share of calls that returned an answer, 0 to 1.
    pub success_rate: f64,
    /// Share of answers that could not be parsed, 0 to 1.
    pub parse_failure_rate: f64,
    /// Share of parsed answers that were not valid, 0 to 1.
    pub validation_failure_rate: f64,
    /// Mean latency in milliseconds; 0 before the first answer.
    pub latency_ms: f64,
    /// Input tokens of all calls of this scheduler since its start, also of failed ones.
    #[serde(default)]
    pub input_tokens: u64,
    /// Output tokens of the same calls.
    #[serde(default)]
    pub output_tokens: u64,
    /// US dollars of the same calls.
    #[serde(default)]
    pub cost: f64,
    /// US dollars of all judged answers, divided by the valid ones; none before the first valid one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_per_usable_plan: Option<f64>,
    /// Whether its circuit is open: nothing is sent.
    pub is_circuit_open: bool,
    /// Why it cannot be called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub obstacle: Option<String>,
}
