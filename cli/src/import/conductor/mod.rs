//! Workflows of Conductor: tasks one after the other, with forks, switches and loops, as a plan.
//!
//! Tasks of a list follow each other. A branch of a switch is a condition on each of its steps; a loop is a plan inside
//! the plan, which gets what it reads from outside as inputs. Source: Conductor OSS, "Workflow Definition" and "System
//! Tasks", conductor-oss.github.io, 2026.

mod fields;
mod leaf;
mod loop_end;
mod scope;
mod step_list;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use goalmill_common::id::is_id;
use serde_json::{Map, Value, json};

use super::conversion::{Findings, Place, convert_tags, convert_texts, object, path, quoted, step_id};
use fields::{TASK_FIELDS, TASK_IGNORED, WORKFLOW_FIELDS, WORKFLOW_IGNORED};
use loop_end::loop_end;
use scope::{ConductorScope, find_variables, inner_lists};
use step_list::{StepList, step};

/// Iterations of a loop whose condition names no number.
const ITERATIONS: u32 = 1_000;

/// Converts a workflow definition.
///
/// - `agent_type`: of all steps; else each has that of its task.
pub fn plan(document: &Value, agent_type: Option<&str>) -> (Value, Findings) {
    let root = Place::root(document);
    let variables = RefCell::default();
    let mut converter = ConductorConverter { findings: Findings::default(), agent_type, variables: &variables };
    converter.findings.check_fields(&root, WORKFLOW_FIELDS, WORKFLOW_IGNORED);
    let tasks = root.get("tasks").map(|tasks| tasks.items()).unwrap_or_default();
    find_variables(&tasks, &mut variables.borrow_mut());
    let scope = ConductorScope::new(&tasks, None);
    let mut list = StepList::default();
    let ends = converter.tasks(&tasks, Vec::new(), &[], &scope, &mut list);
    if let Some(outputs) = root.get("outputParameters").filter(|outputs| outputs.value != &json!({})) {
        let inputs = converter.value(&outputs, &scope);
        let id = scope.free_id("output");
        list.push(
            &mut converter.findings,
            &outputs,
            step(&id, ends, &list.stopped.clone()),
            [("kind", json!("finish")), ("inputs", inputs)],
        );
    }
    let mut plan = object([
        ("name", root.text("name").into()),
        ("description", root.text("description").into()),
        ("input_schema", input_schema(&root)),
    ]);
    if let Some(limit) = root.value.get("timeoutSeconds").and_then(Value::as_u64).filter(|limit| *limit > 0) {
        plan.insert("budget".into(), json!({ "seconds": limit }));
    }
    plan.insert("steps".into(), Value::Array(list.steps));
    if let Some(name) = root.text("failureWorkflow").filter(|name| !name.is_empty()) {
        let place = root.get("failureWorkflow").unwrap_or_else(|| root.clone());
        converter
            .findings
            .note(&place, format!("store the workflow `{name}`: goalmill plan put FILE --name {}", step_id(name)));
        let inputs = json!({"workflowInput": "{{ goal.metadata.inputs }}", "reason": "{{ plan.reason }}"});
        let run = json!({"id": scope.free_id("failure"), "use": step_id(name), "when": "plan.status == 'failed'", "inputs": inputs});
        plan.insert("always".into(), json!([run]));
    }
    (Value::Object(plan), converter.findings)
}

/// The inputs that a workflow names; those that are not given are null, as in Conductor.
fn input_schema(root: &Place<'_>) -> Value {
    let template = root.value.get("inputTemplate").and_then(Value::as_object);
    let named = root.get("inputParameters").map(|names| names.items()).unwrap_or_default();
    let names = named.iter().filter_map(|name| name.value.as_str());
    let mut properties: Map<String, Value> = names.map(|name| (name.to_owned(), json!({"default": null}))).collect();
    for (name, value) in template.into_iter().flatten() {
        properties.insert(name.clone(), json!({ "default": value }));
    }
    if properties.is_empty() { Value::Null } else { json!({"type": "object", "properties": properties}) }
}

struct ConductorConverter<'c> {
    findings: Findings,
    agent_type: Option<&'c str>,
    /// Variable → the tasks that set it.
    variables: &'c RefCell<BTreeMap<String, BTreeSet<String>>>,
}

impl ConductorConverter<'_> {
    /// Converts a list of tasks; returns the steps that end it.
    fn tasks(
        &mut self,
        tasks: &[Place<'_>],
        mut after: Vec<String>,
        conditions: &[String],
        scope: &ConductorScope<'_>,
        list: &mut StepList,
    ) -> Vec<String> {
        for task in tasks {
            let Some(name) = task.text("taskReferenceName").filter(|name| is_id(name)) else {
                let hint = "give it a letter or digit, then up to 127 of letters, digits, `.`, `_`, `:`, `-`";
                self.findings.refuse(task, "INVALID_ID", "the task has no `taskReferenceName` that is an id", hint);
                continue;
            };
            self.findings.check_fields(task, TASK_FIELDS, TASK_IGNORED);
            if let Some(delay) = task.value.get("startDelay").and_then(Value::as_u64).filter(|delay| *delay > 0) {
                let id = format!("{name}_delay");
                let holds = [conditions, &list.stopped].concat();
                list.push(
                    &mut self.findings,
                    task,
                    step(&id, after, &holds),
                    [("wait", json!({"for": format!("{delay}s")}))],
                );
                after = vec![id];
            }
            after = self.task(name, task, after, conditions, scope, list);
            list.ends.insert(name.to_owned(), after.clone());
        }
        after
    }

    fn task(
        &mut self,
        name: &str,
        task: &Place<'_>,
        after: Vec<String>,
        conditions: &[String],
        scope: &ConductorScope<'_>,
        list: &mut StepList,
    ) -> Vec<String> {
        let holds = [conditions, &list.stopped].concat();
        let base = step(name, after.clone(), &holds);
        match task.text("type").unwrap_or("SIMPLE") {
            "FORK_JOIN" => {
                let (stopped, mut ends, mut stops) = (list.stopped.clone(), Vec::new(), Vec::new());
                for branch in inner_lists(task) {
                    ends.extend(self.tasks(&branch, after.clone(), conditions, scope, list));
                    stops.extend(list.stopped.drain(stopped.len()..));
                }
                list.stopped.extend(stops);
                return ends;
            }
            "SWITCH" | "DECISION" => return self.switch(name, task, base, conditions, scope, list),
            "DO_WHILE" => self.repeat(name, task, base, scope, list),
            "JOIN" => self.join(name, task, after, &holds, scope, list),
            "SUB_WORKFLOW" => {
                let inputs = self.inputs(task, scope);
                self.sub_workflow(task, base, inputs, list);
            }
            "FORK_JOIN_DYNAMIC" => self.dynamic_fork(task, base, scope, list),
            kind => self.leaf(kind, name, task, base, scope, list),
        }
        vec![name.to_owned()]
    }

    /// A step with the outputs of the tasks that are joined.
    fn join(
        &mut self,
        name: &str,
        task: &Place<'_>,
        after: Vec<String>,
        holds: &[String],
        scope: &ConductorScope<'_>,
        list: &mut StepList,
    ) {
        let joined = task.get("joinOn").map(|names| names.items()).unwrap_or_default();
        let names: Vec<&str> = joined.iter().filter_map(|name| name.value.as_str()).collect();
        let mut ends: Vec<String> = names.iter().filter_map(|name| list.ends.get(*name)).flatten().cloned().collect();
        ends.dedup();
        let ends = if ends.is_empty() { after } else { ends };
        let outputs =
            |name: &&str| Some(((*name).to_owned(), Value::from(format!("{{{{ {} }}}}", scope.outputs(name)?))));
        let inputs: Map<String, Value> = names.iter().filter_map(outputs).collect();
        let base = step(name, ends, holds);
        list.push(&mut self.findings, task, base, [("kind", "internal".into()), ("inputs", Value::Object(inputs))]);
    }

    fn switch(
        &mut self,
        name: &str,
        task: &Place<'_>,
        base: Map<String, Value>,
        conditions: &[String],
        scope: &ConductorScope<'_>,
        list: &mut StepList,
    ) -> Vec<String> {
        let script = task.text("expression").or_else(|| task.text("caseExpression"));
        let is_value = matches!(task.text("evaluatorType"), None | Some("value-param"));
        let parameter = match (script, task.text("caseValueParam")) {
            (Some(script), _) if is_value => Some(script),
            (Some(script), _) => script.trim().trim_end_matches(';').strip_prefix("$.").filter(|name| is_id(name)),
            (None, parameter) => parameter,
        };
        let value = parameter.and_then(|parameter| task.get("inputParameters")?.get(parameter));
        let Some(value) = value else {
            let place = task.get("expression").or_else(|| task.get("caseExpression")).unwrap_or_else(|| task.clone());
            let hint = "let it choose by one value: `evaluatorType: value-param`, and the name of an input parameter as `expression`";
            self.findings.no_equal(&place, "a switch by a script", hint);
            return vec![name.to_owned()];
        };
        let value = self.value(&value, scope);
        let text = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
        let case = text.strip_suffix(" }}").map_or(text.clone(), |start| format!("{start} | string }}}}"));
        list.push(&mut self.findings, task, base, [("kind", "internal".into()), ("inputs", json!({ "case": case }))]);
        let chosen = path("steps", [name, "outputs", "case"]);
        let cases = task.get("decisionCases").map(|cases| cases.fields()).unwrap_or_default();
        let names: Vec<String> = cases.iter().map(|(case, _)| quoted(case)).collect();
        let default = format!("{chosen} not in [{}]", names.join(", "));
        let branches =
            names.iter().zip(&cases).map(|(case, (_, tasks))| (format!("{chosen} == {case}"), tasks.items()));
        let default = task.get("defaultCase").map(|tasks| (default, tasks.items()));
        let (start, mut ends, mut stops) = (vec![name.to_owned()], vec![name.to_owned()], Vec::new());
        let before = list.stopped.len();
        for (condition, tasks) in branches.chain(default).filter(|(_, tasks)| !tasks.is_empty()) {
            let holds = [conditions, &[condition]].concat();
            ends.extend(self.tasks(&tasks, start.clone(), &holds, scope, list));
            stops.extend(list.stopped.drain(before..));
        }
        list.stopped.extend(stops);
        if ends.len() > 1 {
            ends.remove(0);
        }
        ends
    }

    fn repeat(
        &mut self,
        name: &str,
        task: &Place<'_>,
        base: Map<String, Value>,
        scope: &ConductorScope<'_>,
        list: &mut StepList,
    ) {
        let tasks = task.get("loopOver").map(|tasks| tasks.items()).unwrap_or_default();
        let inner = ConductorScope::new(&tasks, Some((scope, name)));
        let mut body = StepList::default();
        let ends = self.tasks(&tasks, Vec::new(), &[], &inner, &mut body);
        let outputs = inner
            .own
            .iter()
            .filter_map(|task| Some((task.clone(), format!("{{{{ {} }}}}", inner.outputs(task)?).into())));
        let outputs: Map<String, Value> = outputs.collect();
        let last = step(&inner.free_id("iteration_result"), ends, &[]);
        body.push(&mut self.findings, task, last, [("kind", "finish".into()), ("inputs", Value::Object(outputs))]);
        let condition = task.get("loopCondition");
        let text = condition.as_ref().and_then(|condition| condition.value.as_str()).unwrap_or_default();
        let Some((until, max)) = loop_end(text, name) else {
            let place = condition.unwrap_or_else(|| task.clone());
            let hint = "write comparisons of `$.TASK['field']` and of `$.LOOP['iteration']` with values, joined by `&&` and `||`";
            return self.findings.no_equal(&place, "the condition of the loop", hint);
        };
        if max.is_none() {
            self.findings
                .note(task, format!("the loop fails after {ITERATIONS} iterations; in Conductor it has no limit"));
        }
        let repeat = json!({"until": until, "max": max.unwrap_or(ITERATIONS)});
        let inputs = Value::Object(inner.given());
        let fields = [("inputs", inputs), ("repeat", repeat), ("plan", json!({"steps": body.steps}))];
        list.push(&mut self.findings, task, base, fields);
    }

    fn sub_workflow(&mut self, task: &Place<'_>, base: Map<String, Value>, inputs: Value, list: &mut StepList) {
        let Some(parameter) = task.get("subWorkflowParam") else {
            return self.findings.refuse(
                task,
                "MISSING_FIELD",
                "a sub-workflow needs `subWorkflowParam`",
                "name the workflow in it",
            );
        };
        let inline = parameter.get("workflowDefinition").filter(|definition| definition.value.is_object());
        if let Some(definition) = inline {
            let (plan, findings) = plan(definition.value, self.agent_type);
            let located = |mut issue: goalmill_common::problem::Issue| {
                issue.pointer = format!("{}{}", definition.pointer, issue.pointer);
                issue
            };
            self.findings.refused.extend(findings.refused.into_iter().map(located));
            self.findings.notes.extend(findings.notes.into_iter().map(located));
            return list.push(&mut self.findings, task, base, [("inputs", inputs), ("plan", plan)]);
        }
        let Some(name) = parameter.text("name") else {
            return self.findings.no_equal(&parameter, "a sub-workflow without a name", "name the workflow");
        };
        let version = parameter.value.get("version").and_then(Value::as_u64);
        let used = version.map_or(step_id(name), |version| format!("{}@{version}", step_id(name)));
        self.findings.note(
            &parameter,
            format!("store the workflow `{name}` first: goalmill plan put FILE --name {}", step_id(name)),
        );
        list.push(&mut self.findings, task, base, [("use", used.into()), ("inputs", inputs)]);
    }

    /// Forks of one task, or one workflow, over a list of inputs.
    fn dynamic_fork(
        &mut self,
        task: &Place<'_>,
        base: Map<String, Value>,
        scope: &ConductorScope<'_>,
        list: &mut StepList,
    ) {
        let given = |key: &str| task.get("inputParameters").and_then(|given| given.get(key));
        let (name, workflow) = (given("forkTaskName"), given("forkTaskWorkflow"));
        let (Some(items), Some(called)) = (given("forkTaskInputs"), name.clone().or_else(|| workflow.clone())) else {
            let place = task.get("dynamicForkTasksParam").unwrap_or_else(|| task.clone());
            let hint = "fork one task over a list: `forkTaskName` and `forkTaskInputs` in `inputParameters`";
            return self.findings.no_equal(&place, "a fork of tasks that are known only when it runs", hint);
        };
        let Some(called) = called.value.as_str().filter(|called| !called.contains("${")) else {
            return self.findings.no_equal(
                &called,
                "a name that is known only when the workflow runs",
                "write the name",
            );
        };
        let items = self.value(&items, scope);
        let mut fields = object([("for_each", items), ("inputs", "{{ item }}".into())]);
        if name.is_some() {
            let agent = self.agent_type.map_or_else(|| step_id(called), ToOwned::to_owned);
            fields.extend(object([("agent_type", agent.into()), ("action", called.into())]));
        } else {
            fields.insert("use".into(), step_id(called).into());
        }
        list.push(&mut self.findings, task, base.into_iter().chain(fields).collect(), []);
    }

    /// A value with `${…}` as expressions.
    fn value(&mut self, place: &Place<'_>, scope: &ConductorScope<'_>) -> Value {
        convert_texts(place, &mut |text, place| self.text(text, place, scope))
    }

    fn inputs(&mut self, task: &Place<'_>, scope: &ConductorScope<'_>) -> Value {
        task.get("inputParameters").map_or(Value::Null, |given| self.value(&given, scope))
    }

    fn text(&mut self, text: &str, place: &Place<'_>, scope: &ConductorScope<'_>) -> String {
        convert_tags(text, ("${", "}"), |reference| {
            let expression = self.reference(reference, scope);
            if expression.is_none() {
                let hint = "read `${workflow.input.…}`, `${workflow.variables.…}` or `${TASK.output.…}`";
                self.findings.no_equal(place, format!("`${{{reference}}}`"), hint);
            }
            expression.map(|expression| format!("{{{{ {expression} }}}}"))
        })
    }

    fn reference(&self, text: &str, scope: &ConductorScope<'_>) -> Option<String> {
        let flat = text.trim().replace("['", ".").replace("']", "").replace('[', ".").replace(']', "");
        let mut parts = flat.split('.');
        let (root, field) = (parts.next()?, parts.next()?);
        match (root, field) {
            ("workflow", "input") => Some(path(&scope.inputs(), parts)),
            ("workflow", "variables") => {
                let variable = parts.next()?;
                let variables = self.variables.borrow();
                let set = variables.get(variable)?;
                let outputs = scope.outputs(set.first().filter(|_| set.len() == 1)?)?;
                Some(path(&path(&outputs, [variable]), parts))
            }
            ("workflow", _) => None,
            (task, "output") if scope.looping.as_deref() == Some(task) => {
                scope.read.borrow_mut().insert("iteration".into());
                (parts.next() == Some("iteration")).then(|| "goal.metadata.inputs.iteration".to_owned())
            }
            (task, "output") => Some(path(&scope.outputs(task)?, parts)),
            (task, "status") if scope.own.contains(task) => {
                Some(format!("{} | upper", path("steps", [task, "status"])))
            }
            _ => None,
        }
    }
}
