//! The tool `decide_approval`: the person at the client approves or rejects, never the model.
//!
//! The person is asked by elicitation: up to protocol 2025-11-25 by a request of the server, from 2026-07-28 on by a result
//! that asks for input, after which the client calls the tool again with the answer.

use std::collections::BTreeMap;
use std::time::Duration;

use goalmill_client::Client;
use goalmill_common::view::PlanView;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ElicitRequestParams, ErrorData, InputRequest,
    InputRequiredResult, ProtocolVersion,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Value, json};

use crate::tools::{McpToolError, PlanArguments, arguments, refused};

/// The key of the answer in the second call.
const ANSWER: &str = "decision";
/// How long a person may take to answer within one call.
const WAIT: Duration = Duration::from_mins(10);

/// Asks the person, and passes the decision on.
pub(crate) async fn decide(
    client: &Client,
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let given = Value::Object(request.arguments.clone().unwrap_or_default());
    let plan = match find_plan(client, given).await {
        Ok(plan) => plan,
        Err(error) => return Ok(refused(&error).into()),
    };
    if !asks_by_form(context) {
        let how =
            format!("this client cannot ask a person; decide with: goalmill plan approve {}", plan.summary.plan_id);
        return Ok(CallToolResult::structured_error(json!({ "detail": how })).into());
    }
    let question = question(&plan);
    let asks_by_result = context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28);
    let answer = match request.input_responses.as_ref().and_then(|responses| responses.get(ANSWER)) {
        Some(answer) => answer.clone(),
        None if asks_by_result => {
            let request = json!({"method": "elicitation/create", "params": question});
            let request: InputRequest = serde_json::from_value(request).map_err(internal)?;
            return Ok(InputRequiredResult::from_input_requests(BTreeMap::from([(ANSWER.to_owned(), request)])).into());
        }
        None => {
            let question: ElicitRequestParams = serde_json::from_value(question).map_err(internal)?;
            let answer = context.peer.create_elicitation_with_timeout(question, Some(WAIT)).await;
            json!(answer.map_err(internal)?)
        }
    };
    let result = match answer["action"].as_str() {
        Some("accept") => pass_on(client, &plan, &answer["content"]).await,
        _ => Ok(json!({"decision": "none", "detail": "the person did not decide; the plan still waits"})),
    };
    Ok(match result {
        Ok(value) => CallToolResult::structured(value),
        Err(error) => refused(&error),
    }
    .into())
}

/// Whether the client can show a form; one that names no kind of elicitation can.
fn asks_by_form(context: &RequestContext<RoleServer>) -> bool {
    let elicitation = context.client_capabilities().and_then(|capabilities| capabilities.elicitation);
    elicitation.is_some_and(|kinds| kinds.form.is_some() || kinds.url.is_none())
}

async fn find_plan(client: &Client, given: Value) -> Result<PlanView, McpToolError> {
    let PlanArguments { plan_id, .. } = arguments(given)?;
    Ok(client.plan(&client.resolve(&plan_id).await?).await?)
}

async fn pass_on(client: &Client, plan: &PlanView, content: &Value) -> Result<Value, McpToolError> {
    let verb = match content["decision"].as_str() {
        Some("approve") => "approve",
        Some("reject") => "reject",
        _ => return Err(McpToolError::Arguments("`decision` must be `approve` or `reject`".into())),
    };
    let reason = content["reason"].as_str().unwrap_or_default();
    let summary = client.steer_plan(&plan.summary.plan_id, verb, json!({ "reason": reason })).await?;
    Ok(json!({"decision": verb, "plan": summary}))
}

/// What the person sees: the goal, and the steps that will run.
fn question(plan: &PlanView) -> Value {
    let steps = plan.steps.iter().map(|step| format!("- {} ({})", step.id, step.agent_type));
    let steps: Vec<String> = steps.take(30).collect();
    let more = plan.steps.len().saturating_sub(steps.len());
    let rest = if more > 0 { format!("\nand {more} more") } else { String::new() };
    let (id, goal) = (&plan.summary.plan_id, &plan.goal.description);
    json!({
        "mode": "form",
        "message": format!("Plan {id} waits for approval.\nGoal: {goal}\nSteps:\n{}{rest}", steps.join("\n")),
        "requestedSchema": {
            "type": "object",
            "properties": {
                "decision": {"type": "string", "enum": ["approve", "reject"]},
                "reason": {"type": "string", "description": "For the log of the plan."},
            },
            "required": ["decision"],
        },
    })
}

fn internal(error: impl std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}
