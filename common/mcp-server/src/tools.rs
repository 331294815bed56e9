//! The tools: names, schemas, and the requests that they stand for.

use goalmill_client::{Client, ClientError, PlanQuery};
use goalmill_common::id::PlanId;
use goalmill_common::random::Random;
use goalmill_common::status::PlanStatus;
use goalmill_common::stored_plan::{REF_FORM, StoredPlanRef};
use goalmill_common::text::shorten;
use rmcp::model::{CallToolResult, Tool, ToolAnnotations};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// The name of the tool with which a person decides.
pub(crate) const APPROVAL_TOOL: &str = "decide_approval";
/// Plans in one answer.
const PLANS_MAX: usize = 100;

/// Characters of an argument that an error repeats.
const GIVEN_CHARS_MAX: usize = 60;

/// Why a tool has failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum McpToolError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("the arguments are not valid: {0}")]
    Arguments(String),
}

/// What a tool does to the installation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ToolEffect {
    Reads,
    Adds,
    Destroys,
}

/// All tools that are offered.
///
/// - `writes`: with those that change something.
pub(crate) fn list(writes: bool) -> Vec<Tool> {
    use ToolEffect::{Adds, Destroys, Reads};
    let goal = json!({
        "goal": {"type": "string", "description": "What is to be done, in one or more sentences."},
        "constraints": {"type": "object", "description": "Limits by name, such as {\"budget\": \"2000 USD\", \"deadline\": \"2027-05-01\"}."},
        "inputs": {"type": "object", "description": "Values that the plan works with, by name."},
        "success_criteria": {"type": "array", "items": {"type": "string"}, "description": "When the goal is reached."},
        "planner": {"type": "string", "description": "The planner that is asked first: rules, htn, llm or tools."},
    });
    let key = json!({"type": "string", "description": "The same key gives the same plan."});
    let plan = json!({"plan_id": {"type": "string", "description": "The plan's id, or @latest."}});
    let submission = with(
        &goal,
        json!({
            "require_approval": {"type": "boolean", "description": "Whether a person must approve the plan before it runs."},
            "idempotency_key": key,
        }),
    );
    let reason = with(&plan, json!({"reason": {"type": "string", "description": "For the log."}}));
    let answer = with(
        &plan,
        json!({
            "question": {"type": "string", "description": "The question's id, as plan_status shows it."},
            "answer": {"description": "The person's answer."},
        }),
    );
    let status = json!({
        "status": {"type": "string", "enum": PlanStatus::ALL.iter().map(|status| status.as_str()).collect::<Vec<_>>()},
        "limit": {"type": "integer", "minimum": 1, "maximum": PLANS_MAX},
        "stored": {"type": "boolean", "description": "Lists the stored plans that run_plan can run, with the schemas of their inputs."},
    });
    let stored = json!({
        "plan": {"type": "string", "description": "The stored plan: trip, its newest version, or trip@3."},
        "inputs": {"type": "object", "description": "What the plan works with, as its input_schema says (list_plans with stored)."},
        "idempotency_key": key,
    });
    let event = json!({
        "name": {"type": "string", "description": "The name of the event, such as payment."},
        "key": {"type": "string", "description": "What it is about, such as the number of an order."},
        "data": {"description": "The outputs of the step that waits for it."},
        "id": {"type": "string", "description": "A plan takes an event with the same id once."},
        "plan_id": {"type": "string", "description": "The only plan that gets it: its id, or @latest."},
    });
    let task = json!({"task": {"type": "string", "description": "The task in words."}});
    let all = [
        (
            "preview_plan",
            "Plans a goal without running it: steps, agents, estimated cost and time.",
            Reads,
            goal,
            "goal",
        ),
        (
            "plan_status",
            "The status of a plan: steps, open questions, and why it waits.",
            Reads,
            plan.clone(),
            "plan_id",
        ),
        (
            "plan_results",
            "The outputs of a plan and the verdicts on its success criteria.",
            Reads,
            plan.clone(),
            "plan_id",
        ),
        ("list_plans", "The newest plans, or the stored plans.", Reads, status, ""),
        ("list_agents", "The agent types with their capabilities, cost and latency.", Reads, json!({}), ""),
        ("route", "Which agent types fit a task, best first, with scores.", Reads, task, "task"),
        (
            "submit_goal",
            "Submits a goal. It is planned and run; the answer has the plan's id.",
            Adds,
            submission,
            "goal",
        ),
        ("run_plan", "Runs a stored plan; the answer has the plan's id.", Adds, stored, "plan"),
        (
            APPROVAL_TOOL,
            "Asks the person at this client to approve or reject a plan that waits.",
            Adds,
            plan,
            "plan_id",
        ),
        (
            "answer_question",
            "Passes a person's answer to a question of a plan.",
            Adds,
            answer,
            "plan_id question answer",
        ),
        ("send_event", "Sends an event to the plans that wait for it, or to one plan.", Adds, event, "name"),
        ("cancel_plan", "Cancels a plan and stops its running steps.", Destroys, reason, "plan_id"),
    ];
    let offered = all.into_iter().filter(|(_, _, effect, _, _)| writes || *effect == Reads);
    offered.map(|(name, about, effect, properties, required)| tool(name, about, effect, properties, required)).collect()
}

/// - `required`: names of properties, with spaces between them.
fn tool(name: &'static str, about: &'static str, effect: ToolEffect, properties: Value, required: &str) -> Tool {
    let required: Vec<&str> = required.split_whitespace().collect();
    let schema = Map::from_iter([
        ("type".to_owned(), json!("object")),
        ("properties".to_owned(), properties),
        ("required".to_owned(), json!(required)),
        ("additionalProperties".to_owned(), json!(false)),
    ]);
    let hints =
        ToolAnnotations::new().read_only(effect == ToolEffect::Reads).destructive(effect == ToolEffect::Destroys);
    Tool::new(name, about, schema).with_annotations(hints)
}

/// Properties with some more.
fn with(properties: &Value, more: Value) -> Value {
    let both = [properties, &more].into_iter().filter_map(Value::as_object).flatten();
    Value::Object(both.map(|(name, property)| (name.clone(), property.clone())).collect())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GoalArguments {
    goal: String,
    #[serde(default)]
    constraints: Map<String, Value>,
    #[serde(default)]
    inputs: Map<String, Value>,
    #[serde(default)]
    success_criteria: Vec<String>,
    planner: Option<String>,
    #[serde(default)]
    require_approval: bool,
    idempotency_key: Option<String>,
}

impl GoalArguments {
    fn document(&self) -> Value {
        let mut planning = Map::new();
        if let Some(planner) = &self.planner {
            planning.insert("planner".into(), json!(planner));
        }
        if self.require_approval {
            planning.insert("require_approval".into(), json!(true));
        }
        let mut goal = Map::from_iter([("description".to_owned(), json!(self.goal))]);
        let objects = [("constraints", &self.constraints), ("inputs", &self.inputs), ("planning", &planning)];
        for (name, value) in objects {
            if !value.is_empty() {
                goal.insert(name.into(), Value::Object(value.clone()));
            }
        }
        if !self.success_criteria.is_empty() {
            goal.insert("success_criteria".into(), json!(self.success_criteria));
        }
        Value::Object(goal)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlanArguments {
    pub(crate) plan_id: String,
    #[serde(default)]
    reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswerArguments {
    plan_id: String,
    question: String,
    answer: Value,
}

#[derive(Deserialize)]
struct EventArguments {
    plan_id: Option<String>,
    /// Checked by the API.
    #[serde(flatten)]
    event: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListArguments {
    status: Option<PlanStatus>,
    limit: Option<usize>,
    stored: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RunArguments {
    plan: String,
    inputs: Option<Map<String, Value>>,
    idempotency_key: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RouteArguments {
    task: String,
}

pub(crate) fn arguments<T: DeserializeOwned>(arguments: Value) -> Result<T, McpToolError> {
    serde_json::from_value(arguments).map_err(|error| McpToolError::Arguments(error.to_string()))
}

/// Checks arguments against the schema of their tool, in the words of the schema.
pub(crate) fn check_arguments(tool: &Tool, given: &Map<String, Value>) -> Result<(), McpToolError> {
    let no_fields = Map::new();
    let properties = tool.input_schema.get("properties").and_then(Value::as_object).unwrap_or(&no_fields);
    let required = tool.input_schema.get("required").and_then(Value::as_array);
    let required: Vec<&str> = required.into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, value) in given {
        let Some(schema) = properties.get(name) else {
            let known: Vec<&str> = properties.keys().map(String::as_str).collect();
            let known =
                if known.is_empty() { "it takes none".into() } else { format!("it takes {}", known.join(", ")) };
            return Err(McpToolError::Arguments(format!("there is no argument `{name}`; {known}")));
        };
        let is_left_out = value.is_null() && !required.contains(&name.as_str());
        if !is_left_out && !fits(schema, value) {
            let given = shorten(&value.to_string(), GIVEN_CHARS_MAX).into_owned();
            return Err(McpToolError::Arguments(format!("`{name}` must be {}, not `{given}`", wanted(schema))));
        }
    }
    // A misspelled name is reported first.
    if let Some(name) = required.iter().find(|name| !given.contains_key(**name)) {
        return Err(McpToolError::Arguments(format!("`{name}` is missing")));
    }
    Ok(())
}

/// Whether a value has the type of a property, is one of its words, and is within its bounds.
fn fits(schema: &Value, value: &Value) -> bool {
    let has_type = match schema["type"].as_str() {
        Some("string") => value.is_string(),
        Some("integer") => value.is_u64(),
        Some("boolean") => value.is_boolean(),
        Some("object") => value.is_object(),
        Some("array") => value.as_array().is_some_and(|items| items.iter().all(|item| fits(&schema["items"], item))),
        Some(_) | None => true,
    };
    let is_known = schema["enum"].as_array().is_none_or(|words| words.contains(value));
    let is_within = value.as_u64().is_none_or(|number| {
        schema["minimum"].as_u64().is_none_or(|least| number >= least)
            && schema["maximum"].as_u64().is_none_or(|most| number <= most)
    });
    has_type && is_known && is_within
}

/// What a property wants, in words.
fn wanted(schema: &Value) -> String {
    if let Some(words) = schema["enum"].as_array() {
        let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
        return format!("one of {}", words.join(", "));
    }
    match schema["type"].as_str() {
        Some("string") => "a text".into(),
        Some("integer") => match (schema["minimum"].as_u64(), schema["maximum"].as_u64()) {
            (Some(least), Some(most)) => format!("a whole number from {least} to {most}"),
            _ => "a whole number".into(),
        },
        Some("boolean") => "true or false".into(),
        Some("object") => "an object".into(),
        Some("array") => "a list of texts".into(),
        Some(_) | None => "JSON".into(),
    }
}

/// A failed call that the model can read: the API's problem with places and hints.
pub(crate) fn refused(error: &McpToolError) -> CallToolResult {
    CallToolResult::structured_error(if let McpToolError::Client(ClientError::Problem(problem)) = error {
        json!(problem)
    } else {
        json!({ "detail": error.to_string() })
    })
}

/// Calls a tool of [`list`], except for approvals.
pub(crate) async fn call(client: &Client, name: &str, given: Value) -> Result<Value, McpToolError> {
    Ok(match name {
        "preview_plan" => json!(client.preview(&arguments::<GoalArguments>(given)?.document()).await?),
        "submit_goal" => {
            let goal: GoalArguments = arguments(given)?;
            json!(client.submit_goal(&goal.document(), &key_or_new(goal.idempotency_key.clone())).await?)
        }
        "run_plan" => {
            let RunArguments { plan, inputs, idempotency_key } = arguments(given)?;
            let plan = StoredPlanRef::parse(&plan).ok_or_else(|| {
                let given = shorten(&plan, GIVEN_CHARS_MAX).into_owned();
                McpToolError::Arguments(format!("`plan` must be {REF_FORM}, not `{given}`"))
            })?;
            json!(client.run_stored_plan(&plan, &inputs.unwrap_or_default(), &key_or_new(idempotency_key)).await?)
        }
        "plan_status" => status(client, &arguments::<PlanArguments>(given)?.plan_id).await?,
        "plan_results" => {
            let plan = client.resolve(&arguments::<PlanArguments>(given)?.plan_id).await?;
            json!(client.results(&plan).await?)
        }
        "list_plans" => {
            let ListArguments { status, limit, stored } = arguments(given)?;
            if stored == Some(true) {
                if status.is_some() || limit.is_some() {
                    let detail = "`stored` lists all stored plans: leave `status` and `limit` out";
                    return Err(McpToolError::Arguments(detail.into()));
                }
                return Ok(json!(client.stored_plans().await?));
            }
            let limit = limit.unwrap_or(20).clamp(1, PLANS_MAX);
            json!(client.plans(&PlanQuery { limit, status, ..PlanQuery::default() }).await?)
        }
        "list_agents" => json!(client.agents().await?),
        "route" => json!(client.route(&arguments::<RouteArguments>(given)?.task, None).await?),
        "answer_question" => {
            let AnswerArguments { plan_id, question, answer } = arguments(given)?;
            let plan = client.resolve(&plan_id).await?;
            json!(client.answer(&plan, &question, json!({ "answer": answer })).await?)
        }
        "send_event" => {
            let EventArguments { plan_id, event } = arguments(given)?;
            let body = Value::Object(event);
            match plan_id {
                Some(plan) => json!(client.send_event(&client.resolve(&plan).await?, body).await?),
                None => json!(client.publish_event(body).await?),
            }
        }
        "cancel_plan" => {
            let PlanArguments { plan_id, reason } = arguments(given)?;
            let plan = client.resolve(&plan_id).await?;
            json!(client.steer_plan(&plan, "cancel", json!({ "reason": reason })).await?)
        }
        name => return Err(McpToolError::Arguments(format!("there is no tool `{name}`"))),
    })
}

fn key_or_new(key: Option<String>) -> String {
    key.unwrap_or_else(|| Random::system().token())
}

/// The plan's summary, its steps in short, open questions, and the answer to "why does it wait?".
async fn status(client: &Client, plan: &str) -> Result<Value, McpToolError> {
    let plan: PlanId = client.resolve(plan).await?;
    let view = client.plan(&plan).await?;
    let steps: Vec<Value> = view
        .steps
        .iter()
        .map(|step| json!({"id": step.id, "agent_type": step.agent_type, "status": step.status, "attempt": step.attempt}))
        .collect();
    let mut status = json!({"plan": view.summary, "steps": steps});
    if !view.summary.status.is_final() {
        status["questions"] = json!(client.questions(&plan).await?.items);
        status["explanation"] = json!(client.explain(&plan).await?);
    }
    Ok(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_that_does_not_fit_is_refused_in_the_words_of_its_schema() {
        let tools = list(true);
        for (name, given, said) in [
            ("list_plans", json!({"limit": "2"}), "`limit` must be a whole number from 1 to 100, not `\"2\"`"),
            ("list_plans", json!({"limit": 0}), "`limit` must be a whole number from 1 to 100, not `0`"),
            ("list_plans", json!({"limit": -1.5}), "`limit` must be a whole number"),
            ("list_plans", json!({"status": "success"}), "`status` must be one of planning,"),
            ("list_plans", json!({"x": 1}), "there is no argument `x`; it takes"),
            ("list_agents", json!({"x": 1}), "it takes none"),
            ("plan_status", json!({}), "`plan_id` is missing"),
            ("plan_status", json!({"plan_id": 7}), "`plan_id` must be a text, not `7`"),
            (
                "submit_goal",
                json!({"goal": "g", "success_criteria": [1]}),
                "`success_criteria` must be a list of texts",
            ),
            (
                "submit_goal",
                json!({"goal": "g", "require_approval": "yes"}),
                "`require_approval` must be true or false",
            ),
        ] {
            let tool = tools.iter().find(|tool| tool.name == name).expect("the tool is there");
            let given = given.as_object().expect("they are an object").clone();
            let refused = check_arguments(tool, &given).expect_err(said).to_string();
            assert!(refused.contains(said), "{refused}");
        }
        let submit = tools.iter().find(|tool| tool.name == "submit_goal").expect("the tool is there");
        let given =
            json!({"goal": "g", "constraints": {"budget": 5}, "success_criteria": ["a"], "require_approval": true});
        check_arguments(submit, given.as_object().expect("they are an object")).expect("they fit");
    }
}
