//! Steps that do the same as another one or the same for another value, and outputs that no step reads. Warnings only:
//! a plan may mean it.

use std::collections::{BTreeMap, BTreeSet};

use goalmill_common::hash::HashMap;
use goalmill_common::id::StepId;
use goalmill_common::plan::{ExpressionText, Plan, Step, StepKind};
use serde_json::Value;

use super::origin::StepOrigin;
use crate::document::{ValidationContext, shorten};
use goalmill_expression as expression;

/// Steps with unread outputs that are named.
const NAMED_MAX: usize = 5;
/// Steps that differ in one value and could be one map.
const UNROLLED_MIN: usize = 10;
/// Steps with one action whose inputs are compared.
const COMPARED_MAX: usize = 1_000;

/// Warns of steps with the same agent, action and inputs as an earlier one.
///
/// In plans that are checked against a catalogue, it also notes once which declared outputs no step reads.
pub(super) fn warn_of_redundancy(context: &ValidationContext<'_>, plan: &Plan, origins: &[StepOrigin<'_>]) {
    let mut first: HashMap<(&str, &str, &str), usize> = HashMap::default();
    for (i, (step, origin)) in plan.steps.iter().zip(origins).enumerate() {
        // Without an action or inputs, the description says what a step does.
        if step.kind != StepKind::Tool || step.is_cleanup() || step.action.is_empty() || step.inputs.is_empty_object() {
            continue;
        }
        let work = (step.agent_type.as_str(), step.action.as_str(), step.inputs.text());
        let Some(earlier) = first.get(&work).copied() else {
            first.insert(work, i);
            continue;
        };
        let detail =
            format!("step `{}` has the same agent, action and inputs as `{}`", step.id, plan.steps[earlier].id);
        origin.with_key(origin.action_key, |at| {
            context.warn("REDUNDANT_STEP", at, detail, "remove it, or give both the same `cache` key");
        });
    }
    if context.rules.is_some_and(|rules| rules.catalogue.is_some()) {
        note_unread(context, plan, origins);
        warn_of_unrolled(context, plan, origins);
    }
}

/// Warns once of steps with the same agent, action and dependencies whose inputs differ in one literal value: a map says
/// the same in one step.
fn warn_of_unrolled(context: &ValidationContext<'_>, plan: &Plan, origins: &[StepOrigin<'_>]) {
    let mut same: BTreeMap<(&str, &str, &[StepId]), Vec<usize>> = BTreeMap::new();
    for (at, step) in plan.steps.iter().enumerate() {
        if step.kind.needs_worker() && step.for_each.is_none() && !step.is_cleanup() && !step.action.is_empty() {
            let work = (step.agent_type.as_str(), step.action.as_str(), step.dependencies.as_slice());
            same.entry(work).or_default().push(at);
        }
    }
    for steps in same.into_values().filter(|steps| steps.len() >= UNROLLED_MIN) {
        let Some((input, unrolled)) = unrolled(plan, &steps) else { continue };
        let Some((first, origin)) = unrolled.first().map(|at| (&plan.steps[*at], &origins[*at])) else { continue };
        let (count, id) = (unrolled.len(), shorten(first.id.as_str()));
        let detail =
            format!("{count} steps, from `{id}` on, ask the same and differ only in the input `{}`", shorten(&input));
        let hint = "write one step with `for_each`, a list of these values, and `{{ item }}` in their place";
        origin.with_key(origin.action_key, |at| context.warn("UNROLLED_STEPS", at, detail, hint));
    }
}

/// The input in which at least [`UNROLLED_MIN`] of the steps differ while all others are equal, and those steps.
fn unrolled(plan: &Plan, steps: &[usize]) -> Option<(String, Vec<usize>)> {
    let inputs: Vec<(usize, Value)> =
        steps.iter().take(COMPARED_MAX).map(|at| (*at, plan.steps[*at].inputs.value())).collect();
    let names: Vec<&String> = inputs.first()?.1.as_object()?.keys().collect();
    names.into_iter().find_map(|name| {
        let mut by_rest: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (at, inputs) in &inputs {
            let Some(mut rest) = inputs.as_object().cloned() else { continue };
            let is_literal = |value: &Value| match value {
                Value::String(text) => expression::is_plain(text),
                Value::Null | Value::Array(_) | Value::Object(_) => false,
                Value::Bool(_) | Value::Number(_) => true,
            };
            if rest.remove(name).is_some_and(|value| is_literal(&value)) {
                by_rest.entry(Value::Object(rest).to_string()).or_default().push(*at);
            }
        }
        by_rest.into_values().find(|steps| steps.len() >= UNROLLED_MIN).map(|steps| (name.clone(), steps))
    })
}

/// Notes the steps that declare outputs, have dependents, and are read by none of them.
fn note_unread(context: &ValidationContext<'_>, plan: &Plan, origins: &[StepOrigin<'_>]) {
    let mut read: BTreeSet<String> = BTreeSet::new();
    let mut awaited: BTreeSet<&str> = BTreeSet::new();
    for step in &plan.steps {
        read.extend(read_by(step));
        awaited.extend(step.dependencies.iter().map(StepId::as_str));
    }
    // An agent that gets other steps' outputs as a whole needs no expression.
    let is_unread = |step: &&(&Step, &StepOrigin<'_>)| {
        let declares = !step.0.expected_outputs.is_empty() || step.0.output_schema.is_some();
        declares && awaited.contains(step.0.id.as_str()) && !read.contains(step.0.id.as_str())
    };
    let steps: Vec<(&Step, &StepOrigin<'_>)> = plan.steps.iter().zip(origins).collect();
    let unread: Vec<&(&Step, &StepOrigin<'_>)> = steps.iter().filter(is_unread).collect();
    let Some((_, origin)) = unread.first() else { return };
    let named: Vec<String> =
        unread.iter().take(NAMED_MAX).map(|(step, _)| format!("`{}`", shorten(step.id.as_str()))).collect();
    let more = unread.len().saturating_sub(NAMED_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let detail = format!("no step reads the declared outputs of {}{more}", named.join(", "));
    origin.with_key("", |at| {
        context.warn("UNREAD_OUTPUTS", at, detail, "pass them on in `inputs`, or leave the dependency or the step out");
    });
}

/// The steps whose outputs a step reads.
fn read_by(step: &Step) -> Vec<String> {
    let mut read = Vec::new();
    for (field, texts) in step.expressions() {
        let names = field.names(step);
        let mut see = |text: &str| {
            let condition = || expression::examine_condition(text, &names).map(|facts| facts.refs);
            let found = if field.is_condition() { condition() } else { expression::references_seeing(text, &names) };
            read.extend(found.unwrap_or_default().into_iter().map(|r| r.step));
        };
        match texts {
            ExpressionText::Text(text) => see(text),
            ExpressionText::Value(json) if expression::is_plain(json.text()) => {}
            ExpressionText::Value(json) => expression::visit_templates(&json.value(), &mut see),
        }
    }
    read
}
