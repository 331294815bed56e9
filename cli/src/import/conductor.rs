//! Workflows of Conductor: tasks one after the other, with forks, switches and loops, as a plan.
//!
//! Tasks of a list follow each other. A branch of a switch is a condition on each of its steps; a loop is a plan inside
//! the plan, which gets what it reads from outside as inputs. Source: Conductor OSS, "Workflow Definition" and "System
//! Tasks", conductor-oss.github.io, 2026.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use goalmill_common::id::is_id;
use serde_json::{Map, Value, json};

use super::conversion::{Findings, Place, all_of, convert_tags, convert_texts, object, path, quoted, seconds, step_id};

/// Iterations of a loop whose condition names no number.
const ITERATIONS: u32 = 1_000;

const WORKFLOW_FIELDS: &[&str] = &[
    "name", "description", "version", "tasks", "inputParameters", "inputTemplate", "outputParameters",
    "timeoutSeconds", "failureWorkflow",
];
const WORKFLOW_IGNORED: &[&str] = &[
    "schemaVersion",
    "ownerEmail",
    "ownerApp",
    "restartable",
    "timeoutPolicy",
    "createTime",
    "updateTime",
    "createdBy",
    "updatedBy",
    "workflowStatusListenerEnabled",
    "accessPolicy",
    "variables",
    "metadata",
    "enforceSchema",
    "tags",
];
const TASK_FIELDS: &[&str] = &[
    "name",
    "taskReferenceName",
    "type",
    "description",
    "inputParameters",
    "optional",
    "startDelay",
    "retryCount",
    "taskDefinition",
    "decisionCases",
    "defaultCase",
    "evaluatorType",
    "expression",
    "caseValueParam",
    "caseExpression",
    "forkTasks",
    "joinOn",
    "loopOver",
    "loopCondition",
    "subWorkflowParam",
    "dynamicForkTasksParam",
    "dynamicForkTasksInputParamName",
    "displayName",
];
const TASK_IGNORED: &[&str] = &[
    "asyncComplete",
    "rateLimited",
    "permissive",
    "onStateChange",
    "defaultExclusiveJoinTask",
    "cacheConfig",
    "workflowTaskType",
    "taskType",
];

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

/// The steps of one plan.
#[derive(Default)]
struct StepList {
    steps: Vec<Value>,
    /// The last steps of each task, by its reference name.
    ends: BTreeMap<String, Vec<String>>,
    /// What must be true of the steps that follow: nobody has terminated the workflow.
    stopped: Vec<String>,
}

impl StepList {
    fn push<const N: usize>(
        &mut self,
        findings: &mut Findings,
        place: &Place<'_>,
        mut step: Map<String, Value>,
        fields: [(&str, Value); N],
    ) {
        if findings.count_step(place) {
            step.extend(object(fields));
            self.steps.push(Value::Object(step));
        }
    }
}

fn step(id: &str, dependencies: Vec<String>, conditions: &[String]) -> Map<String, Value> {
    let mut step = object([("id", id.into()), ("when", all_of(conditions).into())]);
    if !dependencies.is_empty() {
        step.insert("dependencies".into(), json!(dependencies));
    }
    step
}

/// The tasks of one plan, and of the plans around it.
struct ConductorScope<'s> {
    outer: Option<&'s ConductorScope<'s>>,
    /// The loop that the plan is the body of.
    looping: Option<String>,
    own: BTreeSet<String>,
    /// Task in a loop of this plan → the loop.
    in_loops: BTreeMap<String, String>,
    /// What is read from outside.
    read: RefCell<BTreeSet<String>>,
}

impl<'s> ConductorScope<'s> {
    fn new(tasks: &[Place<'_>], outer: Option<(&'s ConductorScope<'s>, &str)>) -> Self {
        let (mut own, mut in_loops) = (BTreeSet::new(), BTreeMap::new());
        find_names(tasks, None, &mut own, &mut in_loops);
        let looping = outer.map(|(_, name)| name.to_owned());
        Self { outer: outer.map(|(scope, _)| scope), looping, own, in_loops, read: RefCell::default() }
    }

    fn free_id(&self, id: &str) -> String {
        let taken = |id: &str| self.own.contains(id);
        if taken(id) { format!("{id}_of_workflow") } else { id.to_owned() }
    }

    /// The outputs of a task, as an expression.
    fn outputs(&self, task: &str) -> Option<String> {
        if self.own.contains(task) {
            return Some(path("steps", [task, "outputs"]));
        }
        if let Some(around) = self.in_loops.get(task) {
            return Some(path("steps", [around.as_str(), "outputs", task]));
        }
        self.outer?.outputs(task)?;
        self.read.borrow_mut().insert(task.to_owned());
        Some(path("goal.metadata.inputs", [task]))
    }

    /// The inputs of the workflow, as an expression.
    fn inputs(&self) -> String {
        if self.outer.is_none() {
            return "goal.metadata.inputs".to_owned();
        }
        self.read.borrow_mut().insert("workflow".to_owned());
        "goal.metadata.inputs.workflow".to_owned()
    }

    /// What the step around the plan gives to it.
    fn given(&self) -> Map<String, Value> {
        let Some(outer) = self.outer else { return Map::new() };
        let value = |name: &String| match name.as_str() {
            "workflow" => format!("{{{{ {} }}}}", outer.inputs()),
            "iteration" => "{{ iteration }}".to_owned(),
            task => format!("{{{{ {} }}}}", outer.outputs(task).unwrap_or_default()),
        };
        self.read.borrow().iter().map(|name| (name.clone(), value(name).into())).collect()
    }
}

/// Collects the reference names of tasks; those in loops are outputs of the loop.
fn find_names(
    tasks: &[Place<'_>],
    looping: Option<&str>,
    own: &mut BTreeSet<String>,
    in_loops: &mut BTreeMap<String, String>,
) {
    for task in tasks {
        let Some(name) = task.text("taskReferenceName") else { continue };
        match looping {
            Some(around) => drop(in_loops.insert(name.to_owned(), around.to_owned())),
            None => drop(own.insert(name.to_owned())),
        }
        for list in inner_lists(task) {
            find_names(&list, looping, own, in_loops);
        }
        if let Some(body) = task.get("loopOver") {
            find_names(&body.items(), looping.or(Some(name)), own, in_loops);
        }
    }
}

/// The lists of tasks of a fork or a switch.
fn inner_lists<'v>(task: &Place<'v>) -> Vec<Vec<Place<'v>>> {
    let forks = task.get("forkTasks").map(|forks| forks.items()).unwrap_or_default();
    let cases = task.get("decisionCases").map(|cases| cases.fields()).unwrap_or_default();
    let cases = cases.into_iter().map(|(_, tasks)| tasks);
    forks.into_iter().chain(cases).chain(task.get("defaultCase")).map(|list| list.items()).collect()
}

/// Finds which tasks set each variable.
fn find_variables(tasks: &[Place<'_>], found: &mut BTreeMap<String, BTreeSet<String>>) {
    for task in tasks {
        if task.text("type") == Some("SET_VARIABLE")
            && let (Some(name), Some(set)) = (task.text("taskReferenceName"), task.get("inputParameters"))
        {
            for (variable, _) in set.fields() {
                found.entry(variable.to_owned()).or_default().insert(name.to_owned());
            }
        }
        inner_lists(task).iter().for_each(|list| find_variables(list, found));
        if let Some(body) = task.get("loopOver") {
            find_variables(&body.items(), found);
        }
    }
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
        let inputs = |this: &mut Self| match task.get("inputParameters") {
            Some(given) => this.value(&given, scope),
            None => Value::Null,
        };
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
                let inputs = inputs(self);
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

    /// A task that is one step.
    fn leaf(
        &mut self,
        kind: &str,
        name: &str,
        task: &Place<'_>,
        base: Map<String, Value>,
        scope: &ConductorScope<'_>,
        list: &mut StepList,
    ) {
        let inputs = |this: &mut Self| match task.get("inputParameters") {
            Some(given) => this.value(&given, scope),
            None => Value::Null,
        };
        match kind {
            "SET_VARIABLE" => {
                let inputs = inputs(self);
                list.push(&mut self.findings, task, base, [("kind", "internal".into()), ("inputs", inputs)]);
            }
            "TERMINATE" => {
                let status = task.value.pointer("/inputParameters/terminationStatus").and_then(Value::as_str);
                let inputs = inputs(self);
                let fails = status == Some("FAILED");
                if fails {
                    self.findings
                        .note(task, "the step fails with `UNEXPECTED_RESULT`: its `output_schema` takes nothing");
                }
                let schema = if fails { json!({"not": {}}) } else { Value::Null };
                let fields = [("kind", "internal".into()), ("inputs", inputs), ("output_schema", schema)];
                list.push(&mut self.findings, task, base, fields);
                list.stopped.push(format!("{} == 'skipped'", path("steps", [name, "status"])));
            }
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
            "HTTP" => {
                let request = task.get("inputParameters").map(|given| given.get("http_request").unwrap_or(given));
                let inputs = request.map_or(Value::Null, |request| self.value(&request, scope));
                let method = inputs.get("method").and_then(Value::as_str).unwrap_or("GET").to_owned();
                self.findings.note(
                    task,
                    "an agent of type `http` makes the request, and gives `response` with `body` and `statusCode`",
                );
                let agent = self.agent_type.unwrap_or("http");
                list.push(
                    &mut self.findings,
                    task,
                    self_policies(task, base),
                    [("agent_type", agent.into()), ("action", method.into()), ("inputs", inputs)],
                );
            }
            kind @ ("INLINE" | "LAMBDA" | "JSON_JQ_TRANSFORM" | "EVENT" | "KAFKA_PUBLISH" | "DYNAMIC"
            | "EXCLUSIVE_JOIN" | "START_WORKFLOW" | "TERMINATE_WORKFLOW" | "NOOP" | "JDBC"
            | "BUSINESS_RULE") => {
                let hint = match kind {
                    "INLINE" | "LAMBDA" | "JSON_JQ_TRANSFORM" => {
                        "write the value as expressions in the inputs of a step of kind `internal`, or let an agent compute it"
                    }
                    "EVENT" | "KAFKA_PUBLISH" => "let an agent send the message: a SIMPLE task",
                    _ => "write the task by hand as a step",
                };
                self.findings.no_equal(
                    &task.get("type").unwrap_or_else(|| task.clone()),
                    format!("a task of type `{kind}`"),
                    hint,
                );
            }
            kind => {
                let inputs = inputs(self);
                let called = task.text("name").unwrap_or(kind);
                let own = step_id(if kind == "SIMPLE" { called } else { kind });
                let agent = self.agent_type.map_or(own, ToOwned::to_owned);
                let fields = [
                    ("description", task.text("description").into()),
                    ("agent_type", agent.into()),
                    ("action", called.into()),
                    ("inputs", inputs),
                ];
                list.push(&mut self.findings, task, self_policies(task, base), fields);
            }
        }
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
            (None, Some(until)) => match until.value.as_str().and_then(goalmill_common::clock::parse_rfc3339) {
                Some(ms) => json!({"until": goalmill_common::clock::rfc3339(ms)}),
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

/// Retries, time limit and optionality of a task.
fn self_policies(task: &Place<'_>, mut step: Map<String, Value>) -> Map<String, Value> {
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

/// When a loop ends, and after how many iterations at most, from the condition under which it goes on; `None` for a
/// condition that is more than comparisons.
fn loop_end(script: &str, name: &str) -> Option<(String, Option<u32>)> {
    let script = script.trim();
    let condition = match script.strip_prefix("if") {
        Some(rest) => {
            let rest = rest.trim_start().strip_prefix('(')?;
            let mut depth = 1_usize;
            let end = rest.char_indices().find_map(|(at, c)| {
                depth = match c {
                    '(' => depth + 1,
                    ')' => depth - 1,
                    _ => depth,
                };
                (depth == 0).then_some(at)
            })?;
            let tail: String = rest[end + 1..].chars().filter(|c| !c.is_whitespace() && *c != ';').collect();
            (tail == "{true}else{false}" || tail == "trueelsefalse").then_some(&rest[..end])?
        }
        None => script.trim_end_matches(';'),
    };
    let (mut out, mut rest, mut max) = (String::new(), condition.trim(), None);
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("$.") {
            let end =
                after.find(|c: char| !(c.is_ascii_alphanumeric() || "_.[]'\"".contains(c))).unwrap_or(after.len());
            let flat = after[..end].replace(['"', '\''], "").replace('[', ".").replace(']', "");
            let mut parts = flat.split('.');
            let root = parts.next()?;
            if root == name {
                (parts.next()? == "iteration" && parts.next().is_none()).then_some(())?;
                out.push_str("iteration");
                let bound = after[end..].trim_start().strip_prefix('<').filter(|bound| !bound.starts_with('='));
                let digits = bound.map(|bound| bound.trim_start().bytes().take_while(u8::is_ascii_digit).count());
                let number = bound.zip(digits).and_then(|(bound, digits)| bound.trim_start()[..digits].parse().ok());
                max = max.or(number);
            } else {
                out.push_str(&path("outputs", std::iter::once(root).chain(parts)));
            }
            rest = &after[end..];
            continue;
        }
        let word = |word: &str| rest.strip_prefix(word);
        let (text, after) = if let Some(after) = word("&&") {
            (" and ", after)
        } else if let Some(after) = word("||") {
            (" or ", after)
        } else if let Some(after) = word("===").or_else(|| word("==")) {
            (" == ", after)
        } else if let Some(after) = word("!==").or_else(|| word("!=")) {
            (" != ", after)
        } else if c == '\'' || c == '"' {
            let end = rest[1..].find(c)? + 2;
            (&rest[..end], &rest[end..])
        } else if c.is_ascii_digit() || "<>=().- ".contains(c) {
            (&rest[..1], &rest[1..])
        } else {
            (
                word("true").map(|_| "true").or_else(|| word("false").map(|_| "false"))?,
                rest.trim_start_matches(char::is_alphabetic),
            )
        };
        out.push_str(text);
        rest = after;
    }
    if out.trim().is_empty() {
        return None;
    }
    // With a bound beside other conditions the loop ends at the bound in any case.
    Some((format!("not ({})", out.split_whitespace().collect::<Vec<_>>().join(" ")), max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_of_loops_become_their_ends() {
        let end = |script: &str| loop_end(script, "loop");
        let classic = "if ( $.loop['iteration'] < 3 ) { true; } else { false; }";
        assert_eq!(end(classic), Some(("not (iteration < 3)".into(), Some(3))));
        let both = "$.loop['iteration'] < 5 && $.poll['status'] != 'DONE'";
        assert_eq!(end(both), Some(("not (iteration < 5 and outputs.poll.status != 'DONE')".into(), Some(5))));
        assert_eq!(end("$.poll.n < 5 || false"), Some(("not (outputs.poll.n < 5 or false)".into(), None)));
        for other in ["", "f($.x)", "$.loop['iteration'] < n", "if (true) { false; }", "(function(){})()"] {
            assert_eq!(end(other), None, "{other}");
        }
    }
}
