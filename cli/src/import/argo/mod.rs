//! Workflows of Argo: templates of steps, graphs and containers, as a plan.
//!
//! The entry template is the plan. A template of steps or of a graph that is called from another one is a plan inside the
//! plan, with its arguments as inputs; a container, a script or a request is a step of an agent, which gets what the
//! container would get. Source: Argo Workflows, "Field Reference" and the examples in its repository, 2026.

mod condition;
mod dependencies;
mod fields;
mod items;
mod leaf;
mod scope;

use std::collections::BTreeMap;

use goalmill_common::id::is_id;
use serde_json::{Map, Value, json};

use super::conversion::{Findings, Place, convert_tags, convert_texts, object, step_id};
use condition::condition;
use dependencies::dependencies_of;
use fields::{CALL_FIELDS, INFRASTRUCTURE, SPEC_FIELDS, TEMPLATE_FIELDS};
use scope::ArgoScope;

/// Templates that call each other, one inside the other.
const CALLS_MAX: usize = 8;

/// Converts a workflow, a template of one, or the workflow of a cron workflow.
///
/// - `agent_type`: of all steps; else each has the name of its template.
pub fn plan(document: &Value, agent_type: Option<&str>) -> (Value, Findings) {
    let root = Place::root(document);
    let mut findings = Findings::default();
    findings.check_fields(&root, &["apiVersion", "kind", "metadata", "spec"], &["status"]);
    let spec = root.get("spec").unwrap_or_else(|| root.clone());
    if root.text("kind") == Some("CronWorkflow") {
        let place = spec.get("schedule").or_else(|| spec.get("schedules")).unwrap_or_else(|| spec.clone());
        let hint = "take its `workflowSpec` as the `spec` of a Workflow, and run the plan from cron: goalmill run NAME";
        findings.no_equal(&place, "a schedule", hint);
        return (Value::Null, findings);
    }
    findings.check_fields(&spec, SPEC_FIELDS, INFRASTRUCTURE);
    let listed = spec.get("templates").map(|list| list.items()).unwrap_or_default();
    let templates = listed.into_iter().filter_map(|template| Some((template.text("name")?.to_owned(), template)));
    let mut converter = ArgoConverter { findings, agent_type, templates: templates.collect(), calls: 0 };
    let entry = spec.text("entrypoint").unwrap_or_default();
    let Some(template) = converter.templates.get(entry).cloned() else {
        let place = spec.get("entrypoint").unwrap_or(spec);
        converter.findings.refuse(
            &place,
            "MISSING_FIELD",
            format!("there is no template `{entry}` to begin with"),
            "name one of `templates` as `entrypoint`",
        );
        return (Value::Null, converter.findings);
    };
    let scope = ArgoScope::of_workflow();
    let mut plan = object([
        (
            "name",
            root.value
                .pointer("/metadata/name")
                .or_else(|| root.value.pointer("/metadata/generateName"))
                .cloned()
                .unwrap_or(entry.into()),
        ),
        ("input_schema", input_schema(&spec)),
        ("max_parallel", spec.value.get("parallelism").cloned().unwrap_or_default()),
    ]);
    if let Some(limit) = spec.value.get("activeDeadlineSeconds").and_then(Value::as_u64) {
        plan.insert("budget".into(), json!({ "seconds": limit }));
    }
    let steps = converter.body(&template, &scope);
    plan.insert("steps".into(), Value::Array(steps));
    if let Some(exit) = spec.get("onExit") {
        plan.insert("always".into(), converter.exit_steps(&exit).into());
    }
    (Value::Object(plan), converter.findings)
}

/// The parameters of the workflow, with their values as defaults.
fn input_schema(spec: &Place<'_>) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for parameter in parameters(spec.get("arguments")) {
        let Some(name) = parameter.text("name") else { continue };
        let default = parameter.get("value").or_else(|| parameter.get("default"));
        let mut property = object([("description", parameter.text("description").into())]);
        match default {
            Some(default) => drop(property.insert("default".into(), default.value.clone())),
            None => required.push(name),
        }
        if let Some(choices) = parameter.get("enum") {
            property.insert("enum".into(), choices.value.clone());
        }
        properties.insert(name.to_owned(), Value::Object(property));
    }
    if properties.is_empty() {
        return Value::Null;
    }
    let mut schema = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn parameters(holder: Option<Place<'_>>) -> Vec<Place<'_>> {
    holder.and_then(|holder| holder.get("parameters")).map(|list| list.items()).unwrap_or_default()
}

struct ArgoConverter<'c> {
    findings: Findings,
    agent_type: Option<&'c str>,
    templates: BTreeMap<String, Place<'c>>,
    /// Calls around the template at hand.
    calls: usize,
}

impl ArgoConverter<'_> {
    /// The steps of a template that is a plan of its own.
    fn body(&mut self, template: &Place<'_>, scope: &ArgoScope) -> Vec<Value> {
        self.findings.check_fields(template, TEMPLATE_FIELDS, INFRASTRUCTURE);
        let mut scope = self.with_defaults(template, scope);
        if let Some(groups) = template.get("steps") {
            let groups: Vec<Vec<Place<'_>>> = groups
                .items()
                .iter()
                .map(|group| if group.value.is_array() { group.items() } else { vec![group.clone()] })
                .collect();
            self.name_tasks(groups.iter().flatten(), &mut scope);
            let (mut steps, mut after) = (Vec::new(), Vec::new());
            for group in &groups {
                let mut ends = Vec::new();
                for call in group {
                    ends.extend(self.call(call, after.clone(), false, &scope, &mut steps));
                }
                after = ends;
            }
            return steps;
        }
        if let Some(dag) = template.get("dag") {
            self.findings.check_fields(&dag, &["tasks", "target", "failFast"], &[]);
            if let Some(place) = dag.get("target") {
                self.findings.no_equal(&place, "`target`", "leave out the tasks that are not run");
            }
            if let Some(place) = dag.get("failFast").filter(|place| place.value == &json!(false)) {
                self.findings.note(
                    &place,
                    "the plan stops at the first failure; `on_failure: continue` of a step lets the others go on",
                );
            }
            let tasks = dag.get("tasks").map(|tasks| tasks.items()).unwrap_or_default();
            self.name_tasks(tasks.iter(), &mut scope);
            let mut steps = Vec::new();
            for task in &tasks {
                let (after, is_any) = self.dependencies(task, &scope);
                self.call(task, after, is_any, &scope, &mut steps);
            }
            return steps;
        }
        // A leaf is a plan of one step.
        let id = step_id(template.text("name").unwrap_or("main"));
        let mut steps = Vec::new();
        self.leaf(template, object([("id", id.into())]), &scope, &mut steps);
        steps
    }

    /// The steps of the template that runs when the outcome is known.
    fn exit_steps(&mut self, exit: &Place<'_>) -> Vec<Value> {
        let name = exit.value.as_str().unwrap_or_default();
        let Some(template) = self.templates.get(name).cloned() else {
            let detail = format!("there is no template `{name}`");
            self.findings.refuse(exit, "MISSING_FIELD", detail, "name one of `templates`");
            return Vec::new();
        };
        self.body(&template, &ArgoScope { in_exit: true, ..ArgoScope::of_workflow() })
    }

    fn name_tasks<'p, 'v: 'p>(&mut self, calls: impl Iterator<Item = &'p Place<'v>>, scope: &mut ArgoScope) {
        scope.tasks.clear();
        for call in calls {
            let Some(name) = call.text("name") else { continue };
            let template = call.text("template").and_then(|name| self.templates.get(name));
            let is_plan = template.is_some_and(is_plan);
            scope.tasks.insert(name.to_owned(), (step_id(name), is_plan));
        }
    }

    /// The inputs of a template that its caller does not give.
    fn with_defaults(&mut self, template: &Place<'_>, scope: &ArgoScope) -> ArgoScope {
        let mut scope = scope.clone();
        if let Some(inputs) = template.get("inputs") {
            self.findings.check_fields(&inputs, &["parameters"], &[]);
        }
        for parameter in parameters(template.get("inputs")) {
            let Some(name) = parameter.text("name") else { continue };
            if scope.inputs.contains_key(name) {
                continue;
            }
            let default = parameter.get("value").or_else(|| parameter.get("default"));
            if let Some(default) = default {
                let text = self.scalar(&default, &scope);
                scope.inputs.insert(name.to_owned(), text);
            }
        }
        scope
    }

    /// Converts the call of a template; returns the step that ends it.
    fn call(
        &mut self,
        call: &Place<'_>,
        after: Vec<Value>,
        is_any: bool,
        scope: &ArgoScope,
        steps: &mut Vec<Value>,
    ) -> Vec<Value> {
        self.findings.check_fields(call, CALL_FIELDS, &[]);
        let name = call.text("name").unwrap_or_default();
        let id = step_id(name);
        if name.is_empty() || !is_id(&id) {
            self.findings.refuse(
                call,
                "INVALID_ID",
                "the step has no `name` that can be an id",
                "name it by letters, digits, `-`",
            );
            return after;
        }
        if let Some(exit) = call.get("onExit") {
            self.findings.no_equal(
                &exit,
                "`onExit` of a step",
                "write a step behind it, or use `onExit` of the workflow",
            );
        }
        let named = call.text("template").and_then(|name| self.templates.get(name)).cloned();
        let Some(template) = named.or_else(|| call.get("inline")) else {
            let place = call.get("template").or_else(|| call.get("templateRef")).unwrap_or_else(|| call.clone());
            let detail = format!("the template of `{name}` is not in the document");
            self.findings.refuse(&place, "MISSING_FIELD", detail, "copy it into `templates`");
            return after;
        };
        let when = call.get("when").and_then(|when| self.condition(&when, scope));
        let mut step = object([("id", id.as_str().into()), ("when", when.into())]);
        if !after.is_empty() {
            step.insert("dependencies".into(), json!(after));
        }
        if is_any {
            step.insert("join".into(), "any".into());
        }
        if let Some(items) = self.items(call, scope) {
            step.insert("for_each".into(), items);
        }
        if let Some(on) = call.get("continueOn") {
            self.findings.check_fields(&on, &["failed", "error"], &[]);
            step.insert("on_failure".into(), "skip".into());
        }
        let arguments = self.arguments(call, scope);
        if is_plan(&template) {
            self.inner_plan(call, &template, step, arguments, scope, steps);
        } else {
            let inner = ArgoScope { inputs: arguments, ..scope.clone() };
            self.leaf(&template, step, &inner, steps);
        }
        vec![id.into()]
    }

    /// The parameters that a call gives.
    fn arguments(&mut self, call: &Place<'_>, scope: &ArgoScope) -> BTreeMap<String, String> {
        let mut arguments = BTreeMap::new();
        let Some(given) = call.get("arguments") else { return arguments };
        if let Some(artifacts) = given.get("artifacts") {
            let hint = "let the agent put the file somewhere, and pass its address as a parameter";
            self.findings.no_equal(&artifacts, "a file that is passed between steps", hint);
        }
        for parameter in parameters(Some(given)) {
            let value = parameter.get("value").or_else(|| parameter.get("default"));
            let Some((name, value)) = parameter.text("name").zip(value) else {
                self.findings.no_equal(&parameter, "a parameter without `name` and `value`", "give it a value");
                continue;
            };
            arguments.insert(name.to_owned(), self.scalar(&value, scope));
        }
        arguments
    }

    /// A template of steps that another one calls.
    fn inner_plan(
        &mut self,
        call: &Place<'_>,
        template: &Place<'_>,
        mut step: Map<String, Value>,
        arguments: BTreeMap<String, String>,
        scope: &ArgoScope,
        steps: &mut Vec<Value>,
    ) {
        self.calls += 1;
        if self.calls > CALLS_MAX {
            let place = call.get("template").unwrap_or_else(|| call.clone());
            self.findings.no_equal(
                &place,
                "a template that calls itself",
                "write a loop: `repeat: {until: …, max: 5}` of a step",
            );
        } else {
            let with_defaults = self.with_defaults(template, &ArgoScope { inputs: arguments, ..scope.clone() }).inputs;
            let inner = ArgoScope::of_plan_inside(with_defaults.keys());
            let body = self.body(template, &inner);
            let mut inputs: Map<String, Value> =
                with_defaults.into_iter().map(|(name, text)| (name, text.into())).collect();
            if inner.reads_workflow.get() {
                scope.reads_workflow.set(true);
                inputs.insert("workflow".into(), format!("{{{{ {} }}}}", scope.workflow).into());
            }
            step.extend(object([("inputs", Value::Object(inputs)), ("plan", json!({ "steps": body }))]));
            self.push(call, step, steps);
        }
        self.calls -= 1;
    }

    fn push(&mut self, place: &Place<'_>, step: Map<String, Value>, steps: &mut Vec<Value>) {
        if self.findings.count_step(place) {
            steps.push(Value::Object(step));
        }
    }

    /// The steps that come before a task of a graph, and whether one of them is enough.
    fn dependencies(&mut self, task: &Place<'_>, scope: &ArgoScope) -> (Vec<Value>, bool) {
        if let Some(listed) = task.get("dependencies") {
            let names = listed.items();
            return (names.iter().filter_map(|name| Some(step_id(name.value.as_str()?).into())).collect(), false);
        }
        let Some(place) = task.get("depends") else { return (Vec::new(), false) };
        let text = place.value.as_str().unwrap_or_default();
        dependencies_of(text, |name| scope.tasks.contains_key(name)).unwrap_or_else(|| {
            let hint =
                "name tasks, or outcomes as `A.Succeeded`, `A.Failed`, `A.Skipped`, joined by `&&`, or all by `||`";
            self.findings.no_equal(&place, format!("the dependency `{text}`"), hint);
            (Vec::new(), false)
        })
    }

    fn condition(&mut self, place: &Place<'_>, scope: &ArgoScope) -> Option<String> {
        let text = place.value.as_str().filter(|text| !text.trim().is_empty())?;
        let refused = |part| {
            let hint = "write comparisons by `==`, `!=`, `<`, `>`, `<=`, `>=`, joined by `&&` and `||`";
            self.findings.no_equal(place, format!("the condition `{part}`"), hint);
        };
        condition(text, scope).map_err(refused).ok()
    }

    /// A value with tags as expressions.
    fn value(&mut self, place: &Place<'_>, scope: &ArgoScope) -> Value {
        convert_texts(place, &mut |text, place| self.text(text, place, scope))
    }

    /// The text of a parameter: numbers and booleans are texts there.
    fn scalar(&mut self, place: &Place<'_>, scope: &ArgoScope) -> String {
        match place.value.as_str() {
            Some(text) => self.text(text, place, scope),
            None => place.value.to_string(),
        }
    }

    fn text(&mut self, text: &str, place: &Place<'_>, scope: &ArgoScope) -> String {
        convert_tags(text, ("{{", "}}"), |tag| {
            let tag = tag.trim();
            let expression = scope.tag_text(tag);
            if expression.is_none() {
                let hint = "read `{{inputs.parameters.…}}`, `{{workflow.parameters.…}}`, `{{item}}`, or outputs of a task or step";
                self.findings.no_equal(place, format!("`{{{{{tag}}}}}`"), hint);
            }
            expression
        })
    }
}

fn is_plan(template: &Place<'_>) -> bool {
    template.get("steps").is_some() || template.get("dag").is_some()
}
