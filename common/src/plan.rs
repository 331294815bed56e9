//! A plan as data, in its canonical form: the result of validation, as it is stored and exported.
//!
//! Other spellings are accepted on input by the engine's `validate`; this is the one that is written.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::goal::{Budget, Priority};
use crate::id::{AgentType, StepId};
use crate::json::Json;
use crate::limits::Limits;
use crate::revision_strategy::RevisionStrategy;
use crate::status::StepStatus;

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

/// A status of a dependency that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DependencyStatus {
    /// It is done.
    Completed,
    /// Its attempts and its fallback are used up.
    Failed,
    /// It did not run, for whatever reason.
    Skipped,
}

impl DependencyStatus {
    /// The word used in plans.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }

    /// That of a step; `None` for one that has not ended by itself.
    pub fn of(status: StepStatus) -> Option<Self> {
        match status {
            StepStatus::Completed => Some(Self::Completed),
            StepStatus::Failed => Some(Self::Failed),
            StepStatus::Skipped => Some(Self::Skipped),
            StepStatus::Pending
            | StepStatus::Blocked
            | StepStatus::Ready
            | StepStatus::Queued
            | StepStatus::Running
            | StepStatus::Retrying
            | StepStatus::Waiting
            | StepStatus::AwaitingApproval
            | StepStatus::Cancelled
            | StepStatus::Revised => None,
        }
    }
}

/// What happens when attempts and fallback are used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// The plan fails; nothing new starts.
    #[default]
    Abort,
    /// The step counts as skipped and satisfies its dependents.
    Skip,
    /// The step fails, its dependents are skipped, the rest goes on; the plan ends `partial`.
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
    /// The step is completed with incomplete outputs; dependents go on, and the plan ends `partial`.
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

/// Asks a person something, with an answer of a known shape.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// What is asked; in a step it may hold expressions.
    pub question: String,
    /// JSON Schema of the answer; anything goes without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Json>,
    /// What counts as the answer when nobody gives one; without it the step, or the revision, fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Json>,
    /// How long a person has, in milliseconds.
    #[serde(default = "day_ms")]
    pub limit_ms: u64,
    /// The input of the step that the answer becomes; without it the answer is the step's outputs and nothing else
    /// is done. With `*` each field of the answer becomes the input of its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub into: Option<String>,
}

/// [`Question::into`] of an answer whose fields are inputs of the step.
pub const INTO_EACH: &str = "*";

impl Question {
    /// Whether the answer gives this input of the step.
    pub fn gives(&self, input: &str) -> bool {
        match self.into.as_deref() {
            Some(INTO_EACH) => {
                let schema = self.schema.as_ref().map(Json::value);
                schema
                    .is_some_and(|schema| schema.pointer("/properties").is_some_and(|given| given.get(input).is_some()))
            }
            into => into == Some(input),
        }
    }
}

fn day_ms() -> u64 {
    24 * 3_600_000
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
    /// Who does steps for which the planner names nobody.
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
            if let Some(agent) = self.agent_type.as_ref().filter(|_| step.agent_type.is_auto()) {
                step.agent_type = agent.clone();
            }
        }
    }
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

/// Expands a step into one step for each item of a list, once the list is known. Its outputs are a list in the order of
/// the items, with `null` for each that failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForEach {
    /// A list, or an expression that gives one. The fields of the step see each item as `item`, its place as `index`.
    pub items: Json,
    /// Another name for `item`.
    #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Groups the items into lists of so many; `item` is such a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<u32>,
    /// Most items, or batches, that run at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<u32>,
    /// Most items; `limits.items_max` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items_max: Option<u32>,
    /// What happens when an item fails.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_item_failure: OnItemFailure,
}

/// Runs a step again until a condition is true. Its outputs are those of the last iteration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Repeat {
    /// A bare expression that sees the `outputs` of the iteration and its number, `iteration`, from 1.
    pub until: String,
    /// Most iterations.
    pub max: u32,
    /// The wait between two iterations, in milliseconds.
    #[serde(default, skip_serializing_if = "is_default")]
    pub delay_ms: u64,
    /// What happens when the condition is not true after the last iteration.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_max: OnMax,
}

/// What becomes of a loop whose condition is never true.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnMax {
    /// It fails.
    #[default]
    Fail,
    /// It completes with the outputs of the last iteration.
    Continue,
}

/// What becomes of a map when an item fails for good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnItemFailure {
    /// It fails; nothing new starts.
    #[default]
    Fail,
    /// The other items go on; the output of this one is `null`.
    Continue,
    /// The same, while no more than so many fail.
    AtMost(u32),
}

/// The name of an item in the undo step of a map: its outputs.
const UNDONE: &str = "outputs";

impl ForEach {
    /// That of the undo step of a map: one step for each item that gave outputs, one at a time, the last one first.
    pub fn of_undo() -> Self {
        Self {
            items: Json::from(Value::from("{{ outputs }}")),
            name: Some(UNDONE.into()),
            batch: None,
            max_parallel: Some(1),
            items_max: None,
            on_item_failure: OnItemFailure::Continue,
        }
    }

    /// What the fields of the step see besides `goal` and `steps`.
    pub fn names(&self) -> Vec<&str> {
        ["item", "index"].into_iter().chain(self.name.as_deref()).collect()
    }
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

/// What a `wait` step waits for: one of `for_ms`, `until` and `event`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StepWait {
    /// How long, from the moment the step could start, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub for_ms: Option<u64>,
    /// Until when: RFC 3339, or an expression that gives such a time or Unix milliseconds. A time in the past ends the
    /// wait immediately.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// The name of an event from outside; its data are the outputs of the step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// The key that the event has; it may hold expressions. Without it an event without a key is awaited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// JSON Schema of the event's data; other events are refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Json>,
    /// How long the event is awaited, in milliseconds; until the plan ends without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// What happens when no event has come by then.
    #[serde(skip_serializing_if = "is_default")]
    pub on_timeout: OnTimeout,
}

impl StepWait {
    /// The fields that may hold expressions, with their values.
    pub fn templates(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let fields = [("until", self.until.as_ref()), ("key", self.key.as_ref())];
        fields.into_iter().filter_map(|(field, text)| Some((field, text?)))
    }
}

/// What happens when a `wait` step has waited too long for its event.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnTimeout {
    /// The step fails with `WAIT_TIMEOUT`; its `on_failure` applies.
    #[default]
    Fail,
    /// The step is skipped and satisfies its dependents.
    Skip,
    /// The step completes with these outputs.
    Default(Json),
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
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
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
            Some(allowed) => DependencyStatus::of(status).is_some_and(|status| allowed.contains(&status)),
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
    /// JSON Schema of the inputs that it takes as `goal.metadata.inputs`; `default` of its properties stands for missing
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
    /// Steps whose `on_failure` is `abort` go on as if it were `continue`.
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
