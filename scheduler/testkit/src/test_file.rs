//! Files of tests: what is submitted, what agents answer, what happens meanwhile, what is expected.

use std::collections::BTreeMap;
use std::fmt;

use goalmill_common::problem::Issue;
use goalmill_common::status::{PlanStatus, StepStatus};
use schemars::{JsonSchema, schema_for};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{DeserializeOwned, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::duration::TestDuration;

/// Tests of one file, at most.
const TESTS_MAX: usize = 500;
/// Answers of the mock agents of one test, at most.
const ANSWERS_MAX: usize = 10_000;
/// Events, approvals and questions of one test, at most each.
const SCRIPT_MAX: usize = 1_000;

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
    /// What steps read as `goal.metadata.inputs`.
    pub inputs: Map<String, Value>,
    /// When the plan is submitted, RFC 3339; by default `2027-01-04T09:00:00Z`, a Monday.
    pub start: Option<String>,
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

/// Reads a file of tests; the issues have JSON Pointers into the document.
pub fn parse_test_file(document: &Value) -> Result<TestFile, Vec<Issue>> {
    let mut file: TestFile = parse(document)?;
    let count = file.tests.len();
    if count == 0 || count > TESTS_MAX {
        let hint = "write a list `tests`; divide a long one into several files";
        return Err(vec![issue("/tests", format!("there are {count} tests, and 1 to {TESTS_MAX} are run"), hint)]);
    }
    let mut issues = check_agents(&file.agents, "/agents");
    for (at, test) in file.tests.iter_mut().enumerate() {
        let place = format!("/tests/{at}");
        if test.name.is_empty() {
            test.name = format!("test {}", at + 1);
        }
        if test.plan.is_none() && test.goal.is_none() {
            test.plan.clone_from(&file.plan);
        }
        if test.plan.is_some() == test.goal.is_some() {
            issues.push(issue(&place, "a test has a plan or a goal".into(), "give `plan` or `goal`, one of the two"));
        }
        issues.extend(check_test(test, &place));
        for (name, plan) in &file.plans {
            test.plans.entry(name.clone()).or_insert_with(|| plan.clone());
        }
        for (agent, actions) in &file.agents {
            test.agents.entry(agent.clone()).or_insert_with(|| actions.clone());
        }
    }
    if issues.is_empty() { Ok(file) } else { Err(issues) }
}

/// Reads mock agents, as `agents` of a file of tests has them.
pub fn parse_agents(document: &Value) -> Result<AgentMocks, Vec<Issue>> {
    let agents = parse(document)?;
    let issues = check_agents(&agents, "");
    if issues.is_empty() { Ok(agents) } else { Err(issues) }
}

/// Reads a test that is not in a file, such as that of a test kit.
pub fn parse_test(document: &Value) -> Result<PlanTest, Vec<Issue>> {
    let test: PlanTest = parse(document)?;
    let mut issues = check_test(&test, "");
    if test.plan.is_some() == test.goal.is_some() {
        issues.push(issue("", "a run has a plan or a goal".into(), "give `plan` or `goal`, one of the two"));
    }
    if issues.is_empty() { Ok(test) } else { Err(issues) }
}

fn parse<T: DeserializeOwned>(document: &Value) -> Result<T, Vec<Issue>> {
    serde_path_to_error::deserialize(document).map_err(|error| {
        let pointer: String = error.path().iter().map(pointer_part).collect();
        let hint = "see docs/testing.md, or `goalmill schema test`";
        vec![issue(&pointer, error.into_inner().to_string(), hint)]
    })
}

fn pointer_part(segment: &serde_path_to_error::Segment) -> String {
    match segment {
        serde_path_to_error::Segment::Seq { index } => format!("/{index}"),
        serde_path_to_error::Segment::Map { key } => format!("/{}", key.replace('~', "~0").replace('/', "~1")),
        serde_path_to_error::Segment::Enum { variant } => format!("/{variant}"),
        serde_path_to_error::Segment::Unknown => String::new(),
    }
}

fn check_test(test: &PlanTest, place: &str) -> Vec<Issue> {
    let mut issues = check_agents(&test.agents, &format!("{place}/agents"));
    if test.start.as_deref().is_some_and(|start| goalmill_common::clock::parse_rfc3339(start).is_none()) {
        let hint = "write a time such as `2027-01-04T09:00:00Z`";
        issues.push(issue(&format!("{place}/start"), "it is no time in RFC 3339".into(), hint));
    }
    let lists = [
        ("events", test.events.len()),
        ("approvals", test.approvals.len()),
        ("answers", test.answers.len()),
        ("commands", test.commands.len()),
        ("plans", test.plans.len()),
    ];
    for (name, count) in lists.into_iter().filter(|(_, count)| *count > SCRIPT_MAX) {
        let detail = format!("the list has {count} entries, and at most {SCRIPT_MAX} are read");
        issues.push(issue(&format!("{place}/{name}"), detail, "test a smaller plan"));
    }
    let expected = [("events", &test.expect.events), ("no_events", &test.expect.no_events)];
    for (name, events) in expected {
        for (at, event) in events.iter().enumerate() {
            let event_type = event.parts().event_type;
            if !goalmill_common::event::types().any(|known| known == event_type) {
                let known: Vec<&str> = goalmill_common::event::types().collect();
                let hint = match goalmill_common::suggest::nearest(&event_type, known.iter().copied()) {
                    Some(known) => format!("did you mean `{known}`?"),
                    None => "docs/plan-lifecycle.md lists the types".into(),
                };
                let place = format!("{place}/expect/{name}/{at}");
                issues.push(issue(&place, format!("there is no type of events `{event_type}`"), &hint));
            }
        }
    }
    issues
}

fn check_agents(agents: &AgentMocks, place: &str) -> Vec<Issue> {
    let mut issues = Vec::new();
    let count: usize = agents.values().flat_map(BTreeMap::values).map(|answers| answers.0.len()).sum();
    if count > ANSWERS_MAX {
        let detail = format!("the mock agents have {count} answers, and at most {ANSWERS_MAX} are read");
        issues.push(issue(place, detail, "use `times`"));
    }
    for (agent, actions) in agents {
        for (action, answers) in actions {
            let at = format!("{place}/{agent}/{action}");
            if answers.0.is_empty() {
                issues.push(issue(&at, "the list has no answers".into(), "write `{outputs: {}}`"));
            }
            for (number, answer) in answers.0.iter().enumerate() {
                if let Some(detail) = contradiction(answer) {
                    issues.push(issue(&format!("{at}/{number}"), detail, "see docs/testing.md"));
                }
            }
        }
    }
    issues
}

/// What is wrong with an answer by itself.
fn contradiction(answer: &MockAnswer) -> Option<String> {
    if answer.fail.is_some() && (answer.outputs.is_some() || answer.sub_plan.is_some()) {
        return Some("an answer with `fail` has neither `outputs` nor `sub_plan`".into());
    }
    if answer.fail.is_none() && (answer.code.is_some() || answer.message.is_some() || answer.retry_after.is_some()) {
        return Some("`code`, `message` and `retry_after` belong to `fail`".into());
    }
    if answer.times == Some(0) {
        return Some("`times` is at least 1".into());
    }
    let is_cost = (0.0..=goalmill_common::json_limits::COST_MAX).contains(&answer.cost);
    (!is_cost).then(|| "`cost` is no amount of money".into())
}

fn issue(pointer: &str, detail: String, hint: &str) -> Issue {
    Issue { code: "INVALID_VALUE".into(), pointer: pointer.into(), detail, hint: hint.into() }
}
