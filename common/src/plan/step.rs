//! A step of a plan: one thing to do.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::iteration::UNDONE;
use super::{
    Approval, DependencyStatus, Estimates, Fallback, ForEach, OnFailure, OnPartial, Plan, Question, Repeat, Retry,
    StepWait, is_default,
};
use crate::budget::Priority;
use crate::id::{AgentType, StepId};
use crate::json::Json;
use crate::limits::Limits;
use crate::status::StepStatus;

/// The kind of a step: what executes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// A worker, by an action.
    #[default]
    #[serde(alias = "tool_call")]
    Tool,
    /// A worker, by a model.
    #[serde(alias = "llm_call")]
    Llm,
    /// The engine: its inputs, rendered, are its outputs.
    Message,
    /// The engine, as `message`; by custom the last step.
    Finish,
    /// The engine, as `message`; for joins and computed values.
    Internal,
    /// A plan inside the plan (`plan`); its results roll up.
    Plan,
    /// The engine: it waits (`wait`), and holds no worker and no slot meanwhile.
    Wait,
}

impl StepKind {
    /// Whether the engine does it itself, without a worker.
    pub fn is_inline(self) -> bool {
        matches!(self, Self::Message | Self::Finish | Self::Internal | Self::Wait)
    }

    /// Whether a worker does it, so that the step has an agent type.
    pub fn needs_worker(self) -> bool {
        matches!(self, Self::Tool | Self::Llm)
    }
}

/// When a step's dependencies allow it to start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Join {
    /// Every dependency is satisfied.
    #[default]
    All,
    /// One is; the others are not waited for.
    Any,
    /// So many are.
    AtLeast(u32),
}

/// Caches a step's outputs for other steps with the same key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// A text with expressions, which see the step's `inputs` besides `goal` and `steps`: `{{ inputs.city }}`.
    pub key: String,
    /// How long the outputs are kept, in milliseconds.
    pub ttl_ms: u64,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Unlike that of any other step of the plan.
    pub id: StepId,
    /// What is to be done, in words; the router reads it for `auto`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// What sort of step it is: done by an agent, by the engine, by a plan inside.
    #[serde(default, skip_serializing_if = "is_default")]
    pub kind: StepKind,
    /// Who does it; `auto` only until the router has chosen. Empty for kinds that need no worker.
    #[serde(default = "no_agent", skip_serializing_if = "is_no_agent")]
    pub agent_type: AgentType,
    /// What the agent is to do.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub action: String,
    /// Any JSON; strings may hold expressions (`{{ steps.a.outputs.x }}`).
    #[serde(default, skip_serializing_if = "Json::is_empty_object")]
    pub inputs: Json,
    /// Steps that come before it; how many of them it waits for says `join`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<StepId>,
    /// With which statuses a dependency lets it start. One that is not named here does when it is completed, or skipped
    /// for a reason other than its own dependencies.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub dependency_status: BTreeMap<StepId, Vec<DependencyStatus>>,
    /// The phase it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Fields that its outputs must have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expected_outputs: Vec<String>,
    /// What its outputs are expected to be, in words: a judge reads them, and nothing is compared with them.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub expected_output: String,
    /// A JSON Schema that its outputs must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Json>,
    /// An expression; when false the step is skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// How many of its dependencies it waits for.
    #[serde(default, skip_serializing_if = "is_default")]
    pub join: Join,
    /// Limit of one attempt, from its start, in milliseconds. 60,000 by default; a `plan` step has as long as its plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// When, and how often, it is tried again.
    #[serde(default, skip_serializing_if = "is_default")]
    pub retry: Retry,
    /// Who else may do it once its attempts are used up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Fallback>,
    /// What becomes of the plan when it fails for good.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_failure: OnFailure,
    /// What becomes of a partial success.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_partial: OnPartial,
    /// Asks a person before it starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approve: Option<Approval>,
    /// The plan's by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// Steps of a plan that name the same resource exclude each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// What it is expected to take.
    #[serde(default, skip_serializing_if = "Estimates::is_none")]
    pub estimates: Estimates,
    /// Something to ask a person first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask: Option<Question>,
    /// Caches its outputs for other steps, if set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Cache>,
    /// Success criteria of the goal that its outputs judge: `{"verdicts": {"c1": {"verdict": "met", "evidence": "…"}}}`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub judges: Vec<String>,
    /// The plan of a `plan` step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Box<Plan>>,
    /// The version of the stored plan that `plan` is a copy of: `trip@3`.
    #[serde(default, rename = "use", skip_serializing_if = "Option::is_none")]
    pub stored: Option<String>,
    /// It runs once the outcome of the plan is known, whatever that is.
    #[serde(default, skip_serializing_if = "is_default")]
    pub always: bool,
    /// It takes back what this step did, when the plan fails or is cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoes: Option<StepId>,
    /// Its agent may accept the task and report the outcome later, to the address that comes with the task.
    #[serde(default, skip_serializing_if = "is_default")]
    pub callback: bool,
    /// Runs it again until a condition is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<Box<Repeat>>,
    /// Runs it once for each item of a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_each: Option<Box<ForEach>>,
    /// What a `wait` step waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<Box<StepWait>>,
}

fn no_agent() -> AgentType {
    "".into()
}

fn is_no_agent(agent: &AgentType) -> bool {
    agent.as_str().is_empty()
}

impl Step {
    /// A `tool` step with every policy at its default.
    pub fn new(id: impl Into<StepId>, agent_type: impl Into<AgentType>) -> Self {
        Self {
            id: id.into(),
            description: String::new(),
            kind: StepKind::Tool,
            agent_type: agent_type.into(),
            action: String::new(),
            inputs: Json::empty_object(),
            dependencies: Vec::new(),
            dependency_status: BTreeMap::new(),
            phase: None,
            expected_outputs: Vec::new(),
            expected_output: String::new(),
            output_schema: None,
            when: None,
            join: Join::All,
            timeout_ms: None,
            retry: Retry::default(),
            fallback: None,
            on_failure: OnFailure::Abort,
            on_partial: OnPartial::Continue,
            approve: None,
            priority: None,
            resource: None,
            estimates: Estimates::default(),
            ask: None,
            cache: None,
            judges: Vec::new(),
            plan: None,
            stored: None,
            always: false,
            undoes: None,
            callback: false,
            repeat: None,
            for_each: None,
            wait: None,
        }
    }

    /// Whether a dependency that has ended lets it start.
    ///
    /// - `satisfied`: whether it does where nothing else is said.
    pub fn is_met_by(&self, dependency: &StepId, status: StepStatus, satisfied: bool) -> bool {
        match self.dependency_status.get(dependency) {
            None => satisfied,
            Some(allowed) => DependencyStatus::from_status(status).is_some_and(|status| allowed.contains(&status)),
        }
    }

    /// Whether it runs when this dependency has failed.
    pub fn handles_failure_of(&self, dependency: &StepId) -> bool {
        self.dependency_status.get(dependency).is_some_and(|allowed| allowed.contains(&DependencyStatus::Failed))
    }

    /// Whether it runs after the outcome of the plan is known.
    pub fn is_cleanup(&self) -> bool {
        self.always || self.undoes.is_some()
    }

    /// What its expressions see besides `goal` and `steps`.
    pub fn names(&self) -> Vec<&str> {
        let map = self.for_each.as_ref().filter(|_| !self.undoes_map());
        let map = map.map(|map| map.names()).unwrap_or_default();
        let plan = self.is_cleanup().then_some("plan");
        let undone: &[&str] = if self.undoes.is_some() { &["inputs", "outputs"] } else { &[] };
        let iterated: &[&str] = if self.repeat.is_some() { &["iteration", "previous"] } else { &[] };
        map.into_iter().chain(iterated.iter().copied()).chain(plan).chain(undone.iter().copied()).collect()
    }

    /// Whether it undoes each item of a map.
    pub fn undoes_map(&self) -> bool {
        self.undoes.is_some() && self.for_each.as_ref().is_some_and(|map| map.name.as_deref() == Some(UNDONE))
    }

    /// Whether a plan runs in its place.
    pub fn starts_plan(&self) -> bool {
        self.kind == StepKind::Plan || self.for_each.is_some()
    }

    /// Limit of one attempt that a worker makes, from its start, in milliseconds.
    pub fn run_limit_ms(&self, limits: &Limits) -> u64 {
        self.timeout_ms.unwrap_or(limits.timeout_ms).min(limits.timeout_ms_max)
    }
}
