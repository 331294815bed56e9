//! Parses a model's proposal for a running plan; its steps are read, repaired and validated in the plan
//! as it would be.

use std::collections::BTreeMap;

use goalmill_common::command::Proposal;
use goalmill_common::plan::Plan;
use goalmill_common::problem::Issue;
use goalmill_plan::stored_plans::take_documents;
use goalmill_plan::validate::{Rules, Weight, WeightSettings, canonical_phase_change, own_id};
use goalmill_reader::ToolCatalogue as Actions;
use serde_json::{Map, Value, json};

use crate::llm::tidy_step::tidy_step;
use crate::proposal_forms::{NAMES, of_other_form, parts, tag, towards, whole_plan};
use crate::repair::{Edit, repair};
use crate::replan_context::ReplanContext;

/// Reads a proposal; its steps come out in the canonical form. Or what is wrong, with the places in the draft.
pub fn parse_proposal(
    value: &Value,
    replan: &ReplanContext<'_>,
    actions: &Actions,
    repairs: &mut Vec<Edit>,
) -> Result<Proposal, (Value, Vec<Issue>)> {
    let value = &of_other_form(value, replan, repairs);
    let mut draft = match whole_plan(value) {
        Some(plan) => towards(plan, replan, actions, repairs),
        None => value.clone(),
    };
    let mut issues = Vec::new();
    let mut changes = match draft.get_mut("changes").map(Value::take) {
        Some(Value::Array(changes)) => changes,
        Some(Value::Null) | None => Vec::new(),
        Some(one) => vec![one],
    };
    let named = named_steps(&mut draft);
    for (at, change) in changes.iter_mut().enumerate() {
        tag(change);
        canonical_phase_change(change);
        put_named_steps(change, &named);
        for step in steps_of_mut(change) {
            tidy_step(step, &format!("/changes/{at}"), actions, repairs);
        }
        refer(change, at, replan, &mut issues);
    }
    let stored = &replan.request.terms.stored_plans;
    put_stored_plans(&mut changes, replan, repairs);
    let after = after(&changes, replan);
    let unknown_agent = if replan.request.agents.is_empty() { Weight::Warning } else { Weight::Error };
    let steps_max = replan.request.limits.planned_steps_max.max(replan.situation().plan.steps.len() * 2);
    let rules = Rules {
        weights: WeightSettings { unknown_agent, ..WeightSettings::default() },
        in_order: false,
        steps_max: Some(steps_max),
        ..Rules::planned(&replan.catalogue)
    };
    let repaired = repair(after, &replan.request.limits, &rules);
    repairs.extend(repaired.edits);
    match repaired.outcome {
        Ok(valid) => {
            canonical(&mut changes, valid.plan());
            bring_undo(&mut changes, valid.plan(), replan);
        }
        Err(found) => {
            let found = stored.place_issues(found, &repaired.draft);
            issues.extend(found.into_iter().filter_map(|issue| of_changes(issue, &repaired.draft, &changes)));
            changes.iter_mut().flat_map(steps_of_mut).for_each(|step| drop(in_list(step, take_documents)));
        }
    }
    draft["changes"] = Value::Array(changes);
    if !issues.is_empty() {
        return Err((draft, issues));
    }
    if let Some(map) = draft.as_object_mut() {
        map.retain(|key, _| matches!(key.as_str(), "strategy" | "changes" | "summary" | "question" | "confidence"));
    }
    serde_json::from_value::<Proposal>(draft.clone()).map_err(|error| {
        let issue = Issue {
            code: "INVALID_PROPOSAL".into(),
            pointer: String::new(),
            detail: error.to_string(),
            hint: "keep to the form of the answer".into(),
        };
        (draft, vec![issue])
    })
}

/// Puts the documents of the stored plans that the changes use in their places. A step that continues using its version
/// keeps the document, even if the version was retired.
fn put_stored_plans(changes: &mut [Value], replan: &ReplanContext<'_>, repairs: &mut Vec<Edit>) {
    let held = |step: &Value| {
        let id = own_id(step)?;
        let known = replan.situation().plan.steps.iter().find(|known| known.id.as_str() == id)?;
        (known.stored.as_deref() == step.get("use")?.as_str()).then_some(known.plan.as_ref()?)
    };
    for (at, change) in changes.iter_mut().enumerate() {
        let steps = match change.get("set_fields") {
            Some(_) => change.pointer_mut("/set_fields/fields").into_iter().collect(),
            None => steps_of_mut(change),
        };
        for step in steps.into_iter().filter(|step| step.get("use").is_some_and(|plan| !plan.is_null())) {
            let edits = in_list(step, |list| replan.request.terms.stored_plans.put_into(list));
            repairs.extend(edits.into_iter().map(|edit| Edit { pointer: format!("/changes/{at}"), ..edit }));
            if step.get("plan").is_none() {
                step["plan"] = held(step).map_or(Value::Null, |plan| json!(plan));
            }
        }
    }
}

/// Does something with a step as with a plan of this step alone.
fn in_list<T>(step: &mut Value, act: impl FnOnce(&mut Value) -> T) -> T {
    let mut list = json!([step.take()]);
    let done = act(&mut list);
    *step = list[0].take();
    done
}

/// The steps that stand beside the changes, by id: in the strict form of the schema changes name them.
fn named_steps(draft: &mut Value) -> BTreeMap<String, Value> {
    let steps = draft.as_object_mut().and_then(|map| map.remove("steps"));
    let steps = steps.as_ref().and_then(Value::as_array).into_iter().flatten();
    steps.filter_map(|step| Some((own_id(step)?, step.clone()))).collect()
}

fn put_named_steps(change: &mut Value, named: &BTreeMap<String, Value>) {
    let places = match place_of_steps(change) {
        Some(Value::Array(steps)) => steps.iter_mut().collect(),
        Some(step) => vec![step],
        None => Vec::new(),
    };
    for place in places {
        if let Some(step) = place.as_str().and_then(|id| named.get(id)) {
            *place = step.clone();
        }
    }
}

/// Where the steps stand that a change brings.
fn place_of_steps(change: &mut Value) -> Option<&mut Value> {
    let (name, body) = change.as_object_mut()?.iter_mut().next()?;
    let key = match name.as_str() {
        "add_step" | "modify_step" => "step",
        "replace_step" => "with",
        "add_phase" => "steps",
        _ => return None,
    };
    body.get_mut(key)
}

/// The steps that a change brings.
fn steps_of_mut(change: &mut Value) -> Vec<&mut Value> {
    match place_of_steps(change) {
        Some(Value::Array(steps)) => steps.iter_mut().collect(),
        Some(step @ Value::Object(_)) => vec![step],
        _ => Vec::new(),
    }
}

fn brought(change: &Value) -> Vec<Value> {
    steps_of_mut(&mut change.clone()).into_iter().map(|step| step.clone()).collect()
}

/// The step that a change is about: one that is there, and is not completed.
fn refer(change: &Value, at: usize, replan: &ReplanContext<'_>, issues: &mut Vec<Issue>) {
    let mut issue = |code: &str, pointer: String, detail: String, hint: &str| {
        issues.push(Issue { code: code.into(), pointer, detail, hint: hint.into() });
    };
    let Some((name, body)) = parts(change).filter(|(name, _)| NAMES.contains(name)) else {
        let detail = "a change is one object with one key, its kind".to_owned();
        issue("UNKNOWN_CHANGE", format!("/changes/{at}"), detail, &format!("use one of: {}", NAMES.join(", ")));
        return;
    };
    if name == "add_phase" {
        for (key, detail) in wrong_phase(body) {
            let hint = "write `{\"phase\": {\"id\": …, \"description\": …}, \"after\": \"ID\", \"steps\": […]}`";
            issue("INVALID_PROPOSAL", format!("/changes/{at}/add_phase/{key}"), detail, hint);
        }
    }
    let named = match (name, body.get("step")) {
        ("add_step", _) => None,
        (_, Some(Value::String(id))) => Some(id.as_str()),
        ("modify_step", Some(step)) => step.get("id").and_then(Value::as_str),
        (_, _) => None,
    };
    let Some(id) = named else { return };
    let pointer = format!("/changes/{at}/{name}/step");
    if !replan.knows(id) {
        let known: Vec<&str> = replan.situation().plan.steps.iter().map(|step| step.id.as_str()).take(50).collect();
        issue("UNKNOWN_STEP", pointer, format!("there is no step `{id}`"), &format!("there are: {}", known.join(", ")));
    } else if replan.is_completed(id) {
        let hint = "leave it, and add steps behind it";
        issue("STEP_COMPLETED", pointer, format!("step `{id}` is completed and stays as it is"), hint);
    }
}

/// What of a new phase has another form: serde would leave out what it does not know, with the steps in it.
fn wrong_phase(body: &Map<String, Value>) -> Vec<(String, String)> {
    let mut wrong = Vec::new();
    match body.get("phase") {
        Some(Value::Object(phase)) => {
            if !phase.get("id").is_some_and(Value::is_string) {
                wrong.push(("phase/id".to_owned(), "a phase has an id, a text".to_owned()));
            }
            let others = phase.keys().filter(|key| !matches!(key.as_str(), "id" | "description" | "checkpoint"));
            wrong.extend(others.map(|key| (format!("phase/{key}"), format!("a phase has no field `{key}`"))));
        }
        _ => wrong.push(("phase".to_owned(), "the phase is an object".to_owned())),
    }
    if body.get("steps").is_some_and(|steps| !steps.is_array()) {
        wrong.push(("steps".to_owned(), "the steps are a list".to_owned()));
    }
    let others = body.keys().filter(|key| !matches!(key.as_str(), "phase" | "after" | "steps"));
    wrong.extend(others.map(|key| (key.clone(), format!("`add_phase` has no field `{key}`"))));
    wrong
}

/// The plan as it would be, as far as steps tell: those that are replaced stay beside the new ones, since what read
/// them is rewritten later.
fn after(changes: &[Value], replan: &ReplanContext<'_>) -> Value {
    let mut plan = serde_json::to_value(&replan.situation().plan).unwrap_or_default();
    let mut phases: Vec<Value> = plan.get("phases").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut steps: Vec<Value> = plan.get("steps").and_then(Value::as_array).cloned().unwrap_or_default();
    for change in changes {
        let Some((name, body)) = parts(change) else { continue };
        let text = |key: &str| body.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        match name {
            "add_phase" => {
                let phase = body.get("phase").cloned().unwrap_or_default();
                let id = phase.get("id").cloned();
                let after = phases.iter().position(|known| known.get("id").is_some_and(|id| *id == text("after")));
                phases.insert(after.map_or(phases.len(), |at| at + 1), phase);
                for mut step in brought(change) {
                    if let (Some(map), Some(id)) = (step.as_object_mut(), &id) {
                        map.entry("phase").or_insert_with(|| id.clone());
                    }
                    put(&mut steps, step);
                }
            }
            "add_step" | "modify_step" | "replace_step" => {
                // A new step of a plan with phases goes where the step is that it stands for, or last.
                let phase = steps.iter().find(|step| step.get("id").is_some_and(|id| *id == text("step")));
                let phase = phase.and_then(|step| step.get("phase").cloned());
                let last = phases.last().and_then(|phase| phase.get("id").cloned());
                for mut step in brought(change) {
                    if let (Some(map), Some(phase)) = (step.as_object_mut(), phase.clone().or(last.clone())) {
                        map.entry("phase").or_insert(phase);
                    }
                    put(&mut steps, step);
                }
            }
            "remove_step" => remove(&mut steps, &text("step")),
            "set_fields" => {
                let fields = body.get("fields").and_then(Value::as_object);
                overwrite(&mut steps, &text("step"), fields.into_iter().flatten());
            }
            "retry_step" => {
                let fields = body.iter().filter(|(key, _)| matches!(key.as_str(), "agent_type" | "action" | "inputs"));
                overwrite(&mut steps, &text("step"), fields);
            }
            _ => {}
        }
    }
    if !phases.is_empty() {
        plan["phases"] = Value::Array(phases);
    }
    plan["steps"] = Value::Array(steps);
    // A plan holds its own budget and policies already; what is checked here are the steps.
    if let Some(map) = plan.as_object_mut() {
        map.retain(|key, _| matches!(key.as_str(), "steps" | "phases"));
    }
    plan
}

fn put(steps: &mut Vec<Value>, step: Value) {
    let id = step.get("id").cloned();
    if step.get("undo").is_some_and(|undo| !undo.is_null()) {
        steps.retain(|known| known.get("undoes").is_none() || known.get("undoes") != id.as_ref());
    }
    match steps.iter().position(|known| id.is_some() && known.get("id").cloned() == id) {
        Some(at) => steps[at] = step,
        None => steps.push(step),
    }
}

fn remove(steps: &mut Vec<Value>, id: &str) {
    let is_gone = |step: &Value| ["id", "undoes"].iter().any(|key| step.get(*key).is_some_and(|known| known == id));
    steps.retain(|step| !is_gone(step));
    for step in steps {
        if let Some(dependencies) = step.get_mut("dependencies").and_then(Value::as_array_mut) {
            dependencies.retain(|known| known != id);
        }
    }
}

fn overwrite<'v>(steps: &mut [Value], id: &str, fields: impl Iterator<Item = (&'v String, &'v Value)>) {
    let Some(step) = steps.iter_mut().find(|step| step.get("id").is_some_and(|known| known == id)) else { return };
    for (key, value) in fields {
        step[key.as_str()] = value.clone();
    }
}

/// Gives the changes' steps the form that the checked plan has them in.
fn canonical(changes: &mut [Value], plan: &Plan) {
    for change in changes {
        let gives_phase = matches!(parts(change), Some(("add_phase" | "add_step", _)));
        for step in steps_of_mut(change) {
            let id = own_id(step);
            let Some(found) = plan.steps.iter().find(|known| id.as_deref() == Some(known.id.as_str())) else {
                continue;
            };
            let had_phase = step.get("phase").is_some();
            let mut written = serde_json::to_value(found).unwrap_or_default();
            if let Some(map) = written.as_object_mut().filter(|_| !had_phase && !gives_phase) {
                map.remove("phase");
            }
            *step = written;
        }
    }
}

/// Adds the undo steps of the steps that the changes bring: in a running plan they are steps of their own.
fn bring_undo(changes: &mut Vec<Value>, plan: &Plan, replan: &ReplanContext<'_>) {
    let brought: Vec<Value> = changes.iter().flat_map(brought).collect();
    let is_brought = |id: &str| brought.iter().any(|step| step.get("id").is_some_and(|known| known == id));
    let held = &replan.situation().plan.steps;
    let mut more = Vec::new();
    for undo in plan.steps.iter().filter(|step| step.undoes.as_ref().is_some_and(|target| is_brought(target.as_str())))
    {
        match held.iter().find(|step| step.id == undo.id) {
            Some(known) if known == undo => {}
            Some(_) => more.push(json!({"modify_step": {"step": undo}})),
            None => more.push(json!({"add_step": {"step": undo, "before": []}})),
        }
    }
    changes.extend(more);
}

/// An issue of the plan as it would be, if it is about what the changes brought; with the place said in words.
fn of_changes(issue: Issue, after: &Value, changes: &[Value]) -> Option<Issue> {
    let mut segments = issue.pointer.split('/').skip(1);
    let step = match (segments.next(), segments.next()) {
        (Some("steps"), Some(at)) => after.pointer(&format!("/steps/{at}")),
        _ => None,
    };
    let Some(id) = step.and_then(own_id) else { return Some(issue) };
    let touched = |(at, change): (usize, &Value)| {
        let (name, body) = parts(change)?;
        let is_named = body.get("step").is_some_and(|step| step == &json!(id));
        let is_brought = brought(change).iter().any(|step| own_id(step).as_ref() == Some(&id));
        (is_named || is_brought).then(|| format!("/changes/{at}/{name}"))
    };
    let place = changes.iter().enumerate().find_map(touched)?;
    Some(Issue { pointer: place, detail: format!("step `{id}`: {}", issue.detail), ..issue })
}
