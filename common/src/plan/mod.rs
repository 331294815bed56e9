//! A plan as data, in its canonical form: the result of validation, as it is stored and exported.
//!
//! Other spellings are accepted on input by the engine's `validate`; this is the one that is written.

mod dependency;
mod expression_field;
mod iteration;
mod policy;
mod question;
mod step;
mod wait;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use self::dependency::DependencyStatus;
pub use self::expression_field::{ExpressionField, ExpressionText, ExpressionTextMut};
pub use self::iteration::{ForEach, OnItemFailure, OnMax, Repeat};
pub use self::policy::{
    Approval, ApprovalDefault, ExecutionPolicy, Fallback, Jitter, OnFailure, OnPartial, Retry, RevisionPolicy, Widen,
};
pub use self::question::{INTO_EACH, Question};
pub use self::step::{Cache, Join, Step, StepKind};
pub use self::wait::{OnTimeout, StepWait};
use crate::budget::Budget;
use crate::json::Json;

/// A graph of steps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Plan {
    /// For people; the goal's description when empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// How its steps are run.
    #[serde(skip_serializing_if = "is_default")]
    pub strategy: Strategy,
    /// Most steps in flight; no limit when missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<u32>,
    /// JSON Schema of the inputs that it takes; `default` of its properties stands for missing
    /// ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Json>,
    /// What it may use up, besides what the goal allows.
    #[serde(skip_serializing_if = "Budget::is_unlimited")]
    pub budget: Budget,
    /// Asks a person before the plan runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approve: Option<Approval>,
    /// When and how it may change while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<RevisionPolicy>,
    /// Steps whose `on_failure` is `abort` behave as if it were `continue`.
    #[serde(skip_serializing_if = "is_default")]
    pub continue_on_failure: bool,
    /// It fails when more steps than that have failed, whatever their `on_failure` says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failures_max: Option<u32>,
    /// After which outcomes its steps are undone; both when missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undo_on: Option<Vec<UndoOn>>,
    /// What it gives to the step that it runs for.
    #[serde(skip_serializing_if = "is_default")]
    pub collect: Collect,
    /// What its author thinks of it, 0 to 1; a plan that was submitted without one has 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// What its author expects it to take.
    #[serde(skip_serializing_if = "Estimates::is_none")]
    pub estimates: Estimates,
    /// In their order; empty when the graph alone decides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<Phase>,
    /// In any order: `dependencies` say what comes first.
    pub steps: Vec<Step>,
    /// Anything the caller wants to find again; `planning` says whether it is written part by part.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

impl Plan {
    /// Whether it is written part by part, as `metadata.planning` says: a checkpoint at its end asks for the next part.
    pub fn is_iterative(&self) -> bool {
        self.metadata.get("planning").is_some_and(|word| word == "iterative")
    }
}

/// How many steps of a plan run concurrently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// One step at a time.
    Sequential,
    /// Everything that is ready, up to `max_parallel`.
    #[default]
    #[serde(alias = "hybrid")]
    Parallel,
    /// Starts sequentially, widens while all goes well, narrows when not.
    Adaptive,
}

/// An ordered group of steps: a phase starts when the one before it is final.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Unlike that of any other phase of the plan.
    pub id: String,
    /// What the phase is for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Whether the planner may revise the rest when this phase ends.
    #[serde(default, skip_serializing_if = "is_default")]
    pub checkpoint: bool,
}

/// What a step is expected to take; orders the ready set and prices a dry run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Estimates {
    /// How long one attempt takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Tokens of language models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
}

impl Estimates {
    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// What a plan gives to the step that it runs for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Collect {
    /// The outputs of its `finish` step, or those of all steps that nothing depends on, by step.
    #[default]
    Last,
    /// A list with the outputs of each step in their order, `null` where there are none.
    List,
}

/// An outcome of a plan after which its steps are undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UndoOn {
    /// It failed.
    Failed,
    /// It was cancelled.
    Cancelled,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
