//! Files of tests: what is submitted, what agents answer, what happens meanwhile, what is expected.

use std::collections::BTreeMap;
use std::fmt;

use goalmill_common::status::{PlanStatus, StepStatus};
use schemars::{JsonSchema, schema_for};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::duration::TestDuration;

/// Tests of plans, with defaults for all of them.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TestFile {
    /// The plan of tests that have none.
    pub plan: Option<PlanSource>,
    /// Stored plans that steps of every test `use`, by name; those of a test win.
    pub plans: BTreeMap<String, PlanSource>,
    /// Mock agents of every test; those of a test win.
    pub agents: AgentMocks,
    pub tests: Vec<PlanTest>,
}

/// The answers of mock agents, by agent type and action; `*` stands for every other action, and for none.
pub type AgentMocks = BTreeMap<String, BTreeMap<String, OneOrMany<MockAnswer>>>;

/// A plan in the file, or the path of its file, relative to that of the tests.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum PlanSource {
    Path(String),
    Document(Map<String, Value>),
}

/// One test of a plan.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PlanTest {
    pub name: String,
    /// The plan that is submitted.
    pub plan: Option<PlanSource>,
    /// Stored plans that steps `use`, by name; of any version.
    pub plans: BTreeMap<String, PlanSource>,
    /// A goal in place of a plan; the planner `rules` makes its plan.
    pub goal: Option<Value>,
    /// What expressions read as `inputs`.
    pub inputs: Map<String, Value>,
    /// When the plan is submitted, RFC 3339; by default `2027-01-04T09:00:00Z`, a Monday.
    pub start: Option<String>,
    /// The time zone of a local `start`: `Europe/Berlin`.
    pub tz: Option<String>,
    /// Of the random numbers, such as the jitter of backoffs.
    pub seed: u64,
    pub agents: AgentMocks,
    /// Events from outside.
    pub events: Vec<ScriptedEvent>,
    /// Decisions about steps, the plan or its revisions that wait for a person; each is given once.
    pub approvals: Vec<ScriptedApproval>,
    /// Answers to questions; each is given once.
    pub answers: Vec<ScriptedAnswer>,
    /// Pauses, resumptions and the cancellation of the plan.
    pub commands: Vec<ScriptedCommand>,
    pub expect: RunExpectation,
}

/// One answer of a mock agent: outputs, or a failure.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MockAnswer {
    /// Only for tasks whose inputs contain these.
    pub inputs: Option<Value>,
    /// `{}` by default.
    pub outputs: Option<Value>,
    pub fail: Option<MockFailure>,
    /// Code of the failure.
    pub code: Option<String>,
    /// Message of the failure.
    pub message: Option<String>,
    /// With `fail: rate_limited`: how long the agent asks to wait.
    pub retry_after: Option<TestDuration>,
    /// How long the agent works.
    pub delay: TestDuration,
    /// US dollars.
    pub cost: f64,
    /// Tokens of language models.
    pub tokens: u64,
    /// A plan that runs in place of the step.
    pub sub_plan: Option<Value>,
    /// How often it is given before the next one; the last one is given for ever. 1 by default.
    pub times: Option<u32>,
}

/// How an attempt fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MockFailure {
    /// It may succeed when it is repeated.
    Retryable,
    /// It fails again.
    Fatal,
    RateLimited,
    ConstraintViolation,
    /// The worker vanishes.
    Lost,
}

/// The data of an event whose sender gives none.
fn no_data() -> Value {
    Value::Object(Map::new())
}

/// An event from outside.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScriptedEvent {
    pub name: String,
    #[serde(default)]
    pub key: String,
    #[serde(default = "no_data")]
    pub data: Value,
    /// How long after the start.
    #[serde(default)]
    pub at: TestDuration,
}

/// A decision of a person.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ScriptedApproval {
    /// The step; the plan or its revision without one.
    pub step: Option<String>,
    /// Rejects instead.
    pub reject: bool,
    pub reason: String,
    /// How long the person takes.
    pub after: TestDuration,
}

/// An answer of a person.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScriptedAnswer {
    /// The step that asks.
    pub step: String,
    pub answer: Value,
    /// How long the person takes.
    #[serde(default)]
    pub after: TestDuration,
}

/// A command to the plan at a time.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScriptedCommand {
    pub verb: ScriptedVerb,
    /// How long after the start.
    #[serde(default)]
    pub at: TestDuration,
    #[serde(default)]
    pub reason: String,
}

/// What a person commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScriptedVerb {
    Pause,
    Resume,
    Cancel,
}

/// What is expected of the end and of the log.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RunExpectation {
    /// Status of the plan; `completed` by default.
    pub status: Option<PlanStatus>,
    /// Code of the plan's failure.
    pub code: Option<String>,
    /// Parts of the outputs, by step.
    pub outputs: BTreeMap<String, Value>,
    /// A part of the output of the plan as a whole.
    pub final_output: Option<Value>,
    /// Statuses of steps.
    pub steps: BTreeMap<String, StepStatus>,
    /// Attempts of steps.
    pub attempts: BTreeMap<String, u32>,
    /// Events that are in the log in this order, others between them.
    pub events: Vec<ExpectedEvent>,
    /// Events that are not in the log.
    pub no_events: Vec<ExpectedEvent>,
    /// US dollars at most.
    pub cost_max: Option<f64>,
    /// Tokens at most.
    pub tokens_max: Option<u64>,
    /// Time from submission to end, at most.
    pub duration_max: Option<TestDuration>,
    /// Time from submission to end, at least.
    pub duration_min: Option<TestDuration>,
}

/// An event: `step_completed pay`, `plan_revised`, or an object with a part of its data.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ExpectedEvent {
    Words(String),
    Parts(ExpectedEventParts),
}

/// The parts of an expected event.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExpectedEventParts {
    #[serde(rename = "type")]
    pub event_type: String,
    #[serde(default)]
    pub step: Option<String>,
    /// A part of its data.
    #[serde(default)]
    pub data: Value,
}

impl ExpectedEvent {
    /// Its type, its step and a part of its data.
    pub(crate) fn parts(&self) -> ExpectedEventParts {
        match self {
            Self::Parts(parts) => parts.clone(),
            Self::Words(words) => {
                let (event_type, step) = words.trim().split_once(' ').unwrap_or((words.trim(), ""));
                let step = Some(step.trim().to_owned()).filter(|step| !step.is_empty());
                ExpectedEventParts { event_type: event_type.to_owned(), step, data: Value::Null }
            }
        }
    }
}

/// A list, or its only element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneOrMany<T>(pub Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Elements<T>(std::marker::PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Elements<T> {
            type Value = OneOrMany<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object, or a list of objects")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(|one| OneOrMany(vec![one]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(seq)).map(OneOrMany)
            }
        }

        deserializer.deserialize_any(Elements(std::marker::PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for OneOrMany<T> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("OneOrMany{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let one = generator.subschema_for::<T>();
        schemars::json_schema!({ "anyOf": [one, { "type": "array", "items": one }] })
    }
}

/// The schema of a file of tests.
pub fn test_schema() -> Value {
    schema_for!(TestFile).to_value()
}
