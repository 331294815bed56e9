//! What the steps of a document without references get to know: the goal, and the outputs of the steps that they depend
//! on, as the inputs `goal` and `results`.
//!
//! In the forms `subtasks`, `plan_and_execute`, `actions` and `phases` the executor of a plan hands both to each step.

use std::collections::BTreeSet;

use goalmill_common::document_format::DocumentFormat;
use goalmill_common::json::Json;
use goalmill_common::plan::{Plan, Step};
use goalmill_common::problem::Issue;
use serde_json::{Map, Value, json};

use super::context::{Conversion, LISTS};
use super::{DraftKind, references};
use goalmill_plan::document::{self, issue};
use goalmill_plan::validate::{Catalogue, own_id, step_field};

/// The field of a document that says whether it is so.
const FLAG: &str = "pass_context";
const GOAL: &str = "goal";
const RESULTS: &str = "results";
const GOAL_HERE: &str = "{{ goal.description }}";
const GOAL_AROUND: &str = "{{ goal.metadata.inputs.goal }}";
const RESULTS_AROUND: &str = "{{ goal.metadata.inputs.results }}";

/// What the steps of one plan see besides each other.
#[derive(Clone, Copy)]
struct ContextSource {
    /// The expression of the goal; none when there is no goal.
    goal: Option<&'static str>,
    /// Whether the step around the plan has results.
    has_results: bool,
}

/// Adds the inputs to each step of a document that refers to nothing itself.
pub(super) fn add_context_inputs(conversion: &mut Conversion<'_>, document: &mut Value) {
    if conversion.format.is_none() {
        return;
    }
    let is_wanted = take_flag(document);
    let hands_on = matches!(
        conversion.format,
        Some(
            DocumentFormat::Subtasks
                | DocumentFormat::PlanAndExecute
                | DocumentFormat::Actions
                | DocumentFormat::Phases
        )
    );
    if conversion.kind != DraftKind::Document || refers(document) {
        return;
    }
    let goal = document::split_goal(document).is_some().then_some(GOAL_HERE);
    let (plan, at) = match document {
        Value::Object(map) if map.get("plan").is_some_and(Value::is_object) => match map.get_mut("plan") {
            Some(Value::Object(inner)) => (inner, "/plan"),
            _ => return,
        },
        Value::Object(map) => (map, ""),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => return,
    };
    if !hands_on {
        if depends(plan) {
            let what = "give the order only: outputs reach the inputs that refer to them";
            conversion.rewrite.note_default(
                at,
                "edges",
                what,
                "write `{{ ID }}` or `{{ ID.field }}` in an input".into(),
            );
        }
        return;
    }
    if is_wanted && plan_steps(conversion, plan, at, ContextSource { goal, has_results: false }) {
        conversion.rewrite.hands_on = true;
        let what = "is true, the default of this form: steps get the goal, and the outputs of the steps that they depend \
                    on, as the inputs `goal` and `results`";
        let hint = "say `pass_context: false` for steps that get their own inputs only".to_owned();
        conversion.rewrite.note_default(at, FLAG, what, hint);
    }
}

/// Takes the flag out, beside the plan or in it.
fn take_flag(document: &mut Value) -> bool {
    let mut is_wanted = true;
    for at in ["", "/plan"] {
        let Some(map) = document.pointer_mut(at).and_then(Value::as_object_mut) else { continue };
        if map.get(FLAG).is_some_and(Value::is_boolean) {
            is_wanted &= map.shift_remove(FLAG) != Some(Value::Bool(false));
        }
    }
    is_wanted
}

/// Whether a step of the document, or of a plan inside, has an expression in anything but words for people.
pub(super) fn refers(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains("{{"),
        Value::Array(items) => items.iter().any(refers),
        Value::Object(map) => map.iter().any(|(key, value)| {
            let is_words = matches!(key.as_str(), "goal" | "query" | "metadata" | "expected_output")
                || matches!(step_field(key), Some("description" | "name"));
            !is_words && refers(value)
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Whether a step of the form `nodes` has others before it.
fn depends(plan: &Map<String, Value>) -> bool {
    let steps = LISTS.iter().filter_map(|key| plan.get(*key));
    let named = |step: &Value| {
        let Some(step) = step.as_object() else { return false };
        is_tool(step) && dependencies(step).next().is_some()
    };
    plan.get("edges").and_then(Value::as_array).is_some_and(|edges| !edges.is_empty())
        || steps.into_iter().any(|list| match list {
            Value::Array(items) => items.iter().any(named),
            Value::Object(map) => map.values().any(named),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        })
}

/// Adds the inputs to the steps of one plan; whether it added any.
fn plan_steps(conversion: &mut Conversion<'_>, plan: &mut Map<String, Value>, at: &str, around: ContextSource) -> bool {
    let ids = references::ids(plan);
    let mut is_any = false;
    let mut lists: Vec<(String, &mut Value)> = Vec::new();
    for (key, value) in plan.iter_mut() {
        if LISTS.contains(&key.as_str()) {
            lists.push((format!("{at}/{key}"), value));
        } else if let (Value::Array(phases), "phases") = (value, key.as_str()) {
            for (n, phase) in phases.iter_mut().enumerate() {
                let steps = phase.as_object_mut().into_iter().flatten();
                let steps = steps.filter(|(key, _)| LISTS.contains(&key.as_str()));
                lists.extend(steps.map(|(key, list)| (format!("{at}/phases/{n}/{key}"), list)));
            }
        }
    }
    for (at, list) in lists {
        for (n, step) in list.as_array_mut().into_iter().flatten().enumerate() {
            let Some(step) = step.as_object_mut() else { continue };
            is_any |= one_step(conversion, step, &format!("{at}/{n}"), (&ids, around));
        }
    }
    is_any
}

fn one_step(
    conversion: &mut Conversion<'_>,
    step: &mut Map<String, Value>,
    at: &str,
    (ids, around): (&BTreeSet<String>, ContextSource),
) -> bool {
    if !(is_tool(step) || step.get("plan").is_some_and(Value::is_object)) {
        return false;
    }
    let own = own_id(&Value::Object(step.clone()));
    let results: Map<String, Value> = dependencies(step)
        .filter(|id| ids.contains(id) && Some(id) != own.as_ref())
        .map(|id| (id.clone(), json!(format!("{{{{ {} | default(none) }}}}", references::outputs_of(&id)))))
        .collect();
    let results = match (results.is_empty(), around.has_results) {
        (false, _) => Some(Value::Object(results)),
        (true, true) => Some(json!(RESULTS_AROUND)),
        (true, false) => None,
    };
    let has_results = results.is_some();
    let is_added = add_inputs(conversion, step, at, [(GOAL, around.goal.map(|goal| json!(goal))), (RESULTS, results)]);
    if let (Some(Value::Object(inner)), true) = (step.get_mut("plan"), is_added) {
        let goal = around.goal.map(|_| GOAL_AROUND);
        plan_steps(conversion, inner, &format!("{at}/plan"), ContextSource { goal, has_results });
    }
    is_added
}

/// Adds what a step does not have to its inputs; whether it could.
fn add_inputs(
    conversion: &mut Conversion<'_>,
    step: &mut Map<String, Value>,
    at: &str,
    inputs: [(&str, Option<Value>); 2],
) -> bool {
    if inputs.iter().all(|(_, value)| value.is_none()) {
        return false;
    }
    let key = step.iter().find(|(key, value)| step_field(key) == Some("inputs") && !value.is_null());
    let key = key.map_or_else(|| "inputs".to_owned(), |(key, _)| key.clone());
    let before = conversion.rewrite.original(at);
    if !step.contains_key(&key) {
        conversion.rewrite.moved(format!("{at}/{key}"), before.clone());
    }
    let Some(own) = super::context::object_under(step, &key) else { return false };
    for (name, value) in inputs {
        let Some(value) = value.filter(|_| !own.contains_key(name)) else { continue };
        own.insert(name.into(), value);
        conversion.rewrite.moved(format!("{at}/{key}/{name}"), before.clone());
    }
    true
}

/// Whether somebody else than the engine does the step.
fn is_tool(step: &Map<String, Value>) -> bool {
    let field = |name: &str| step.iter().find(|(key, value)| step_field(key) == Some(name) && !value.is_null());
    let is_engine = |word: &str| matches!(word, "message" | "finish" | "internal" | "wait" | "plan");
    let kind = field("kind").and_then(|(_, kind)| kind.as_str()).is_some_and(is_engine);
    !kind && ["plan", "use", "wait", "for", "for_ms", "until", "event", "ask"].iter().all(|name| field(name).is_none())
}

/// The ids of the steps before a step.
fn dependencies(step: &Map<String, Value>) -> impl Iterator<Item = String> + '_ {
    let lists = step.iter().filter(|(key, _)| step_field(key) == Some("dependencies"));
    lists.filter_map(|(_, list)| list.as_array()).flatten().filter_map(|item| match item {
        Value::String(id) => Some(id.trim().to_owned()),
        Value::Number(id) => Some(id.to_string()),
        Value::Object(map) => map.get("step").and_then(Value::as_str).map(ToOwned::to_owned),
        Value::Null | Value::Bool(_) | Value::Array(_) => None,
    })
}

/// Takes the inputs out again where the action of the step takes no others than its own; says where.
pub fn withhold_context(plan: &mut Plan, catalogue: &Catalogue) -> Vec<Issue> {
    let mut withheld = Vec::new();
    withhold(plan, catalogue, "", &mut withheld);
    withheld
}

fn withhold(plan: &mut Plan, catalogue: &Catalogue, at: &str, withheld: &mut Vec<Issue>) {
    for (n, step) in plan.steps.iter_mut().enumerate() {
        let at = format!("{at}/steps/{n}");
        if let Some(inner) = &mut step.plan {
            withhold(inner, catalogue, &format!("{at}/plan"), withheld);
            continue;
        }
        if !step.inputs.text().contains("{{") {
            continue;
        }
        let Value::Object(mut inputs) = step.inputs.value() else { continue };
        let is_refused = |name: &str, value: &Value| {
            is_handed_on(name, value) && !catalogue.takes_input(step.agent_type.as_str(), &step.action, name)
        };
        let names: Vec<String> =
            inputs.iter().filter(|(name, value)| is_refused(name, value)).map(|(name, _)| name.clone()).collect();
        if names.is_empty() {
            continue;
        }
        names.iter().for_each(|name| drop(inputs.shift_remove(name)));
        withheld.push(withheld_from(step, &at, &names));
        step.inputs = Json::from(Value::Object(inputs));
    }
}

fn withheld_from(step: &Step, at: &str, names: &[String]) -> Issue {
    let detail = format!(
        "step `{}` does not get {}: its action takes no other inputs than its own",
        step.id,
        names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" and ")
    );
    let hint = "refer to what it needs in an input that it takes: `{{ steps.ID.outputs.field }}`";
    issue("FORMAT_CONVERTED", &format!("{at}/inputs"), detail, hint)
}

/// Whether an input is one that [`add_context_inputs`] makes.
fn is_handed_on(name: &str, value: &Value) -> bool {
    match (name, value) {
        (GOAL, Value::String(text)) => text == GOAL_HERE || text == GOAL_AROUND,
        (RESULTS, Value::String(text)) => text == RESULTS_AROUND,
        (RESULTS, Value::Object(map)) => {
            map.values().all(|value| value.as_str().is_some_and(|text| text.ends_with(".outputs | default(none) }}")))
        }
        _ => false,
    }
}
