//! Retries a step with other inputs: suggested by a report, or a switch that the action declares.

use goalmill_common::command::Proposal;
use goalmill_common::failure::FailureClass;
use goalmill_common::json::Json;
use goalmill_common::plan::Step;
use goalmill_common::revision::{Change, RevisionStrategy};
use serde_json::{Map, Value};

use super::proposal;
use super::replan_case::{FailureCategory, ReplanCase, inputs};

/// Where reports put what they suggest.
const SUGGESTED: [&str; 4] = ["inputs", "suggested_inputs", "adjusted_inputs", "adjustments"];
/// Where reports put a list of other possibilities.
const ALTERNATIVES: [&str; 4] = ["alternatives", "options", "suggestions", "nearby"];
/// Words of a switch that widens what is looked for.
const WIDENS: [&str; 7] = ["nearby", "neighb", "alternativ", "flexible", "wider", "expand", "relax"];

/// The step once more, with what its report suggests; to keep to a constraint, where that is what it broke.
pub(super) fn suggested(case: &ReplanCase<'_>) -> Option<Proposal> {
    let is_over = case.cause() == Some(FailureCategory::OverLimit)
        || case.failure().is_some_and(|failure| failure.class == FailureClass::ConstraintViolation);
    let strategy = if is_over { RevisionStrategy::Adjust } else { RevisionStrategy::Workaround };
    let step = case.step()?;
    let other = differing(step, &case.suggestions()?).into_iter().find(|other| !was_tried(case, step, other))?;
    let names: Vec<String> = other.iter().map(|(name, value)| format!("`{name}` = {value}")).collect();
    let summary = format!("`{}` is tried again with what its agent suggests: {}", step.id, names.join(", "));
    Some(proposal(strategy, vec![with(step, other)], summary))
}

/// The same, where the failure says that there is nothing to be had.
pub(super) fn wider_as_suggested(case: &ReplanCase<'_>) -> Option<Proposal> {
    (case.cause() == Some(FailureCategory::NoResult)).then(|| wider(case))?
}

/// The step once more, looking further afield, where its action has a switch for that and changes nothing.
pub(super) fn wider(case: &ReplanCase<'_>) -> Option<Proposal> {
    let step = case.step()?;
    let action = case.action(step).filter(|action| !action.side_effect)?;
    let schema = action.inputs.as_ref()?.value();
    let given = inputs(step);
    let switches = schema.get("properties")?.as_object()?.iter().filter(|(name, property)| {
        let text = format!("{name} {}", property["description"].as_str().unwrap_or_default()).to_lowercase();
        let is_switch = property["type"] == "boolean" && given.get(*name) != Some(&Value::Bool(true));
        is_switch && WIDENS.iter().any(|word| text.contains(word))
    });
    let on: Map<String, Value> = switches.map(|(name, _)| (name.clone(), Value::Bool(true))).collect();
    if on.is_empty() || was_tried(case, step, &on) {
        return None;
    }
    let names: Vec<&str> = on.keys().map(String::as_str).collect();
    let summary = format!("`{}` looks further afield: {}", step.id, names.join(", "));
    Some(proposal(RevisionStrategy::Workaround, vec![with(step, on)], summary))
}

/// A step that the report asks for first, then the step again.
pub(super) fn recover(case: &ReplanCase<'_>) -> Option<Proposal> {
    let step = case.step()?;
    let mut wanted = case.suggestions()?.get("recovery")?.as_object()?.clone();
    let id = case.fresh(wanted.get("id").and_then(Value::as_str).unwrap_or(&format!("recover_{}", step.id)));
    wanted.insert("id".into(), id.as_str().into());
    // By way of text: payloads are carried as the text they are.
    let mut before: Step = serde_json::from_str(&Value::Object(wanted).to_string()).ok()?;
    before.dependencies.clone_from(&step.dependencies);
    before.phase.clone_from(&step.phase);
    let add = Change::AddStep { step: Box::new(before), before: vec![step.id.clone()] };
    let again = Change::RetryStep { step: step.id.clone(), agent_type: None, action: None, inputs: None };
    let summary = format!("`{id}` comes first, as the agent of `{}` wants", step.id);
    Some(proposal(RevisionStrategy::InsertRecovery, vec![add, again], summary))
}

/// Steps that have not begun take over what a report says of their inputs.
pub(super) fn informed(case: &ReplanCase<'_>) -> Option<Proposal> {
    let said = case.suggestions()?;
    let by_step = said.get("steps").and_then(Value::as_object);
    let common = SUGGESTED.iter().find_map(|name| said.get(*name)).and_then(Value::as_object);
    let mut changes = Vec::new();
    for step in &case.situation.plan.steps {
        let begun = case.at(&step.id).is_none_or(|at| at.attempt > 0 || at.status.is_final());
        if begun || case.situation.step.as_ref() == Some(&step.id) {
            continue;
        }
        let own = by_step.and_then(|steps| steps.get(step.id.as_str())).and_then(Value::as_object);
        let given = inputs(step);
        let other: Map<String, Value> = match own {
            Some(own) => own.iter().filter(|(n, v)| given.get(*n) != Some(v)).map(pair).collect(),
            // Only what the step has a plain value for: an expression knows better.
            None => common
                .into_iter()
                .flatten()
                .filter(|(n, v)| given.get(*n).is_some_and(|has| has != *v && is_plain(has)))
                .map(pair)
                .collect(),
        };
        if !other.is_empty() {
            let inputs = Json::from_value(&merged(step, other));
            let fields = Map::from_iter([("inputs".to_owned(), inputs.value())]);
            changes.push(Change::SetFields { step: step.id.clone(), fields });
        }
    }
    let summary = format!("{} steps take over what a report says", changes.len());
    (!changes.is_empty()).then(|| proposal(RevisionStrategy::Adjust, changes, summary))
}

fn pair((name, value): (&String, &Value)) -> (String, Value) {
    (name.clone(), value.clone())
}

fn is_plain(value: &Value) -> bool {
    !value.to_string().contains("{{")
}

/// Inputs that a report suggests and that differ from the step's, the first suggestion first.
fn differing(step: &Step, said: &Value) -> Vec<Map<String, Value>> {
    let given = inputs(step);
    let mut found: Vec<Map<String, Value>> = Vec::new();
    let mut take = |fields: &Map<String, Value>| {
        let known = fields.iter().filter(|(name, value)| {
            !ALTERNATIVES.contains(&name.as_str()) && *name != "recovery" && given.get(*name) != Some(value)
        });
        let other: Map<String, Value> = known.map(pair).collect();
        if !other.is_empty() && !found.contains(&other) {
            found.push(other);
        }
    };
    let Some(fields) = said.as_object() else { return found };
    SUGGESTED.iter().find_map(|name| fields.get(*name)).and_then(Value::as_object).into_iter().for_each(&mut take);
    for name in ALTERNATIVES {
        match fields.get(name) {
            // Whole sets of inputs.
            Some(Value::Array(all)) => all.iter().filter_map(Value::as_object).for_each(&mut take),
            // For one input, a list of values.
            Some(Value::Object(by_input)) => {
                for (input, values) in by_input {
                    for value in values.as_array().into_iter().flatten() {
                        take(&Map::from_iter([(input.clone(), value.clone())]));
                    }
                }
            }
            _ => {}
        }
    }
    found
}

/// Whether a revision before this one gave the step these inputs.
fn was_tried(case: &ReplanCase<'_>, step: &Step, other: &Map<String, Value>) -> bool {
    let records = case.situation.revisions.iter().flat_map(|record| &record.modified);
    records.filter(|modified| modified.after.id == step.id).any(|modified| {
        let before = [inputs(&modified.before), inputs(&modified.after)];
        before.iter().any(|had| other.iter().all(|(name, value)| had.get(name) == Some(value)))
    })
}

fn merged(step: &Step, other: Map<String, Value>) -> Map<String, Value> {
    let mut all = inputs(step);
    all.extend(other);
    all
}

/// The step once more, with some inputs changed.
fn with(step: &Step, other: Map<String, Value>) -> Change {
    let inputs = Some(Json::from_value(&merged(step, other)));
    Change::RetryStep { step: step.id.clone(), agent_type: None, action: None, inputs }
}
