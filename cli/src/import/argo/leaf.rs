//! Templates that become one step: a container, a script, a request or a wait.

use serde_json::{Map, Value, json};

use super::ArgoConverter;
use super::fields::{INFRASTRUCTURE, TEMPLATE_FIELDS};
use super::scope::ArgoScope;
use crate::import::conversion::{Place, object, seconds, step_id};

impl ArgoConverter<'_> {
    /// A template that is one step.
    pub(super) fn leaf(
        &mut self,
        template: &Place<'_>,
        mut step: Map<String, Value>,
        scope: &ArgoScope,
        steps: &mut Vec<Value>,
    ) {
        self.findings.check_fields(template, TEMPLATE_FIELDS, INFRASTRUCTURE);
        if let Some(outputs) = template.get("outputs").and_then(|outputs| outputs.get("artifacts")) {
            let hint = "let the agent put the file somewhere, and give its address as an output";
            self.findings.no_equal(&outputs, "a file as an output", hint);
        }
        let scope = self.with_defaults(template, scope);
        let name = template.text("name").unwrap_or("main");
        if let Some(suspend) = template.get("suspend") {
            let wait = self.wait(&suspend, &step, name, &scope);
            step.insert("wait".into(), wait);
            return self.push(template, step, steps);
        }
        let kinds = ["container", "script", "http"];
        let Some((kind, work)) = kinds.iter().find_map(|kind| Some((*kind, template.get(kind)?))) else {
            let other = ["resource", "data", "plugin", "containerSet"]
                .iter()
                .find_map(|kind| Some((*kind, template.get(kind)?)));
            let (what, place) =
                other.map_or(("a template of this kind", template.clone()), |(kind, place)| (kind, place));
            self.findings.no_equal(&place, format!("`{what}`"), "let an agent do it: a container or a script");
            return;
        };
        let known: &[&str] = if kind == "http" {
            &["url", "method", "headers", "body", "timeoutSeconds", "successCondition"]
        } else {
            &["image", "command", "args", "source", "env", "name"]
        };
        self.findings.check_fields(&work, known, INFRASTRUCTURE);
        let mut inputs = self.value(&work, &scope).as_object().cloned().unwrap_or_default();
        INFRASTRUCTURE.iter().for_each(|field| drop(inputs.shift_remove(*field)));
        if !scope.inputs.is_empty() {
            let given = scope.inputs.iter().map(|(name, text)| (name.clone(), Value::from(text.clone())));
            inputs.insert("parameters".into(), Value::Object(given.collect()));
        }
        if kind == "http" {
            self.findings.note(&work, "an agent of type `http` makes the request");
        }
        let own = if kind == "http" { "http".to_owned() } else { step_id(name) };
        let agent = self.agent_type.map_or(own, ToOwned::to_owned);
        step.extend(object([("agent_type", agent.into()), ("action", name.into()), ("inputs", Value::Object(inputs))]));
        self.policies(template, &scope, &mut step);
        self.push(template, step, steps);
    }

    /// How long a step waits, or for which event.
    fn wait(&mut self, suspend: &Place<'_>, step: &Map<String, Value>, name: &str, scope: &ArgoScope) -> Value {
        let Some(duration) = suspend.get("duration") else {
            let id = step.get("id").and_then(Value::as_str).unwrap_or(name);
            self.findings.note(suspend, format!("the step waits for an event: goalmill event send {id} --plan PLAN"));
            return json!({ "event": id });
        };
        let Some(seconds) = seconds(&self.scalar(&duration, scope)) else {
            self.findings.no_equal(&duration, "this duration", "write one as `20`, `30m` or `1d`");
            return Value::Null;
        };
        json!({"for": format!("{seconds}s")})
    }

    /// Retries, time limit and exclusion of a template.
    fn policies(&mut self, template: &Place<'_>, scope: &ArgoScope, step: &mut Map<String, Value>) {
        let limit = template.get("activeDeadlineSeconds").or_else(|| template.get("timeout"));
        if let Some(limit) = limit {
            match seconds(&self.scalar(&limit, scope)) {
                Some(seconds) if seconds > 0 => drop(step.insert("timeout".into(), format!("{seconds}s").into())),
                Some(_) | None => self.findings.no_equal(&limit, "this time limit", "write it as seconds, or as `30m`"),
            }
        }
        if let Some(mutex) = template.get("synchronization") {
            match mutex.get("mutex").and_then(|mutex| mutex.text("name").map(ToOwned::to_owned)) {
                Some(name) => {
                    self.findings
                        .note(&mutex, "the steps of one plan exclude each other; those of several plans do not");
                    step.insert("resource".into(), name.into());
                }
                None => self.findings.no_equal(
                    &mutex,
                    "this synchronization",
                    "`max_parallel` limits the steps of a plan, slots those of an agent",
                ),
            }
        }
        if let Some(strategy) = template.get("retryStrategy") {
            step.insert("retry".into(), self.retry(&strategy));
        }
    }

    fn retry(&mut self, strategy: &Place<'_>) -> Value {
        self.findings.check_fields(strategy, &["limit", "retryPolicy", "backoff"], &["affinity"]);
        let number = |value: &Value| value.as_u64().or_else(|| value.as_str()?.parse().ok());
        let max = strategy.value.get("limit").and_then(number);
        if max.is_none() {
            self.findings.note(strategy, "the step is retried 100 times at most");
        }
        let mut retry = object([("max", max.unwrap_or(100).into()), ("initial", "0s".into()), ("factor", 1.into())]);
        if let Some(backoff) = strategy.get("backoff") {
            self.findings.check_fields(&backoff, &["duration", "factor", "cap"], &["maxDuration"]);
            let length = |key: &str| {
                backoff.value.get(key).and_then(|value| seconds(value.as_str().unwrap_or(&value.to_string())))
            };
            let initial = length("duration").unwrap_or(0);
            let most = length("cap").unwrap_or(3_600).max(initial);
            retry.insert("initial".into(), format!("{initial}s").into());
            retry.insert("max_delay".into(), format!("{most}s").into());
            if let Some(factor) = backoff.value.get("factor").and_then(number) {
                retry.insert("factor".into(), factor.into());
            }
        }
        Value::Object(retry)
    }
}
