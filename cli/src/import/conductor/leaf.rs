//! Tasks that become one step.

use goalmill_common::clock::{parse_rfc3339, rfc3339};
use serde_json::{Map, Value, json};

use super::ConductorConverter;
use super::scope::ConductorScope;
use super::step_list::StepList;
use crate::import::conversion::{Place, path, seconds, step_id};

impl ConductorConverter<'_> {
    /// A task that is one step.
    pub(super) fn leaf(
        &mut self,
        kind: &str,
        name: &str,
        task: &Place<'_>,
        base: Map<String, Value>,
        scope: &ConductorScope<'_>,
        list: &mut StepList,
    ) {
        match kind {
            "SET_VARIABLE" => {
                let inputs = self.inputs(task, scope);
                list.push(&mut self.findings, task, base, [("kind", "internal".into()), ("inputs", inputs)]);
            }
            "TERMINATE" => self.terminate(name, task, base, scope, list),
            "WAIT" => {
                let wait = self.wait(name, task);
                list.push(&mut self.findings, task, base, [("wait", wait)]);
            }
            "HUMAN" => {
                let question =
                    task.text("displayName").or_else(|| task.text("description")).or_else(|| task.text("name"));
                self.findings.note(task, "a person has 24 hours to answer; `ask: {limit: 3d}` gives more");
                list.push(&mut self.findings, task, base, [("ask", json!({"question": question.unwrap_or(name)}))]);
            }
            "HTTP" => self.request(task, base, scope, list),
            "INLINE" | "LAMBDA" | "JSON_JQ_TRANSFORM" => {
                self.refuse_type(kind, task, "write the value as expressions in the inputs of a step of kind `internal`, or let an agent compute it");
            }
            "EVENT" | "KAFKA_PUBLISH" => {
                self.refuse_type(kind, task, "let an agent send the message: a SIMPLE task");
            }
            "DYNAMIC" | "EXCLUSIVE_JOIN" | "START_WORKFLOW" | "TERMINATE_WORKFLOW" | "NOOP" | "JDBC"
            | "BUSINESS_RULE" => self.refuse_type(kind, task, "write the task by hand as a step"),
            kind => {
                let inputs = self.inputs(task, scope);
                let called = task.text("name").unwrap_or(kind);
                let own = step_id(if kind == "SIMPLE" { called } else { kind });
                let agent = self.agent_type.map_or(own, ToOwned::to_owned);
                let fields = [
                    ("description", task.text("description").into()),
                    ("agent_type", agent.into()),
                    ("action", called.into()),
                    ("inputs", inputs),
                ];
                list.push(&mut self.findings, task, with_policies(task, base), fields);
            }
        }
    }

    /// A task that ends the workflow: the steps that follow are skipped.
    fn terminate(
        &mut self,
        name: &str,
        task: &Place<'_>,
        base: Map<String, Value>,
        scope: &ConductorScope<'_>,
        list: &mut StepList,
    ) {
        let status = task.value.pointer("/inputParameters/terminationStatus").and_then(Value::as_str);
        let inputs = self.inputs(task, scope);
        let fails = status == Some("FAILED");
        if fails {
            self.findings.note(task, "the step fails with `UNEXPECTED_RESULT`: its `output_schema` takes nothing");
        }
        let schema = if fails { json!({"not": {}}) } else { Value::Null };
        let fields = [("kind", "internal".into()), ("inputs", inputs), ("output_schema", schema)];
        list.push(&mut self.findings, task, base, fields);
        list.stopped.push(format!("{} == 'skipped'", path("steps", [name, "status"])));
    }

    fn request(&mut self, task: &Place<'_>, base: Map<String, Value>, scope: &ConductorScope<'_>, list: &mut StepList) {
        let request = task.get("inputParameters").map(|given| given.get("http_request").unwrap_or(given));
        let inputs = request.map_or(Value::Null, |request| self.value(&request, scope));
        let method = inputs.get("method").and_then(Value::as_str).unwrap_or("GET").to_owned();
        self.findings
            .note(task, "an agent of type `http` makes the request, and gives `response` with `body` and `statusCode`");
        let agent = self.agent_type.unwrap_or("http");
        list.push(
            &mut self.findings,
            task,
            with_policies(task, base),
            [("agent_type", agent.into()), ("action", method.into()), ("inputs", inputs)],
        );
    }

    fn refuse_type(&mut self, kind: &str, task: &Place<'_>, hint: &str) {
        let place = task.get("type").unwrap_or_else(|| task.clone());
        self.findings.no_equal(&place, format!("a task of type `{kind}`"), hint);
    }

    fn wait(&mut self, name: &str, task: &Place<'_>) -> Value {
        let given = |key: &str| task.get("inputParameters").and_then(|given| given.get(key));
        let refused = |this: &mut Self, place: &Place<'_>, what: &str, hint: &str| {
            this.findings.no_equal(place, what, hint);
            Value::Null
        };
        match (given("duration"), given("until")) {
            (Some(duration), _) => match duration.value.as_str().and_then(seconds) {
                Some(seconds) => json!({"for": format!("{seconds}s")}),
                None => refused(self, &duration, "this duration", "write one as `10 seconds` or `2h`"),
            },
            (None, Some(until)) => match until.value.as_str().and_then(parse_rfc3339) {
                Some(ms) => json!({"until": rfc3339(ms)}),
                None => refused(self, &until, "this form of a time", "write it as `2027-01-31T12:00:00Z`"),
            },
            (None, None) => {
                self.findings.note(
                    task,
                    format!("the step waits for an event: goalmill event send {name} --plan PLAN --data JSON"),
                );
                json!({ "event": name })
            }
        }
    }
}

/// Retries, time limit and optionality of a task.
fn with_policies(task: &Place<'_>, mut step: Map<String, Value>) -> Map<String, Value> {
    let definition = task.get("taskDefinition");
    let number = |key: &str| {
        let own = task.value.get(key).and_then(Value::as_u64);
        own.or_else(|| definition.as_ref()?.value.get(key)?.as_u64())
    };
    if let Some(max) = number("retryCount") {
        let logic = definition.as_ref().and_then(|definition| definition.text("retryLogic"));
        let factor = if logic == Some("EXPONENTIAL_BACKOFF") { 2 } else { 1 };
        let delay = number("retryDelaySeconds").unwrap_or(60);
        step.insert("retry".into(), json!({"max": max, "initial": format!("{delay}s"), "factor": factor, "max_delay": format!("{}s", delay.max(3_600))}));
    }
    if let Some(limit) =
        number("timeoutSeconds").or_else(|| number("responseTimeoutSeconds")).filter(|limit| *limit > 0)
    {
        step.insert("timeout".into(), format!("{limit}s").into());
    }
    if task.value.get("optional") == Some(&Value::Bool(true)) {
        step.insert("on_failure".into(), "skip".into());
    }
    step
}
