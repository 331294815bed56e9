//! Steps that do the same as another one, and outputs that nobody reads. Warnings only: a plan may mean it.

use std::collections::BTreeSet;

use goalmill_common::hash::HashMap;
use goalmill_common::id::StepId;
use goalmill_common::plan::{Plan, Step, StepKind};

use super::origin::Origin;
use crate::document::{ValidationContext, shorten};
use goalmill_expression::{self as expression, ExpressionError, StepRef};

/// Steps with unread outputs that are named.
const NAMED_MAX: usize = 5;

/// Warns of steps with the same agent, action and inputs as an earlier one.
///
/// In plans that are checked against a catalogue, it also notes once which declared outputs no step reads.
pub(super) fn warn_of_redundancy(context: &ValidationContext<'_>, plan: &Plan, origins: &[Origin<'_>]) {
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
    }
}

/// Notes the steps that declare outputs, have dependents, and are read by none of them.
fn note_unread(context: &ValidationContext<'_>, plan: &Plan, origins: &[Origin<'_>]) {
    let mut read: BTreeSet<String> = BTreeSet::new();
    let mut awaited: BTreeSet<&str> = BTreeSet::new();
    for step in &plan.steps {
        read.extend(read_by(step));
        awaited.extend(step.dependencies.iter().map(StepId::as_str));
    }
    // An agent that gets other steps' outputs as a whole needs no expression.
    let is_unread = |step: &&(&Step, &Origin<'_>)| {
        let declares = !step.0.expected_outputs.is_empty() || step.0.output_schema.is_some();
        declares && awaited.contains(step.0.id.as_str()) && !read.contains(step.0.id.as_str())
    };
    let steps: Vec<(&Step, &Origin<'_>)> = plan.steps.iter().zip(origins).collect();
    let unread: Vec<&(&Step, &Origin<'_>)> = steps.iter().filter(is_unread).collect();
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
    let mut texts = Vec::new();
    if !expression::is_plain(step.inputs.text()) {
        expression::visit_templates(&step.inputs.value(), &mut |text| texts.push(text.to_owned()));
    }
    texts.extend(step.ask.iter().map(|ask| ask.question.clone()));
    texts.extend(step.wait.iter().flat_map(|wait| wait.templates().map(|(_, text)| text.clone())));
    let of = |found: Result<Vec<StepRef>, ExpressionError>| found.unwrap_or_default().into_iter().map(|r| r.step);
    let names = step.names();
    if let Some(map) = &step.for_each {
        expression::visit_templates(&map.items.value(), &mut |text| texts.push(text.to_owned()));
    }
    let mut read: Vec<String> = texts.iter().flat_map(|text| of(expression::references_seeing(text, &names))).collect();
    let condition = |when| expression::examine_condition(when, &names).map(|facts| facts.refs);
    read.extend(step.when.iter().flat_map(|when| of(condition(when))));
    read
}
