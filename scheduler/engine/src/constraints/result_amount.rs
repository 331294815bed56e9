//! The amount of a plan's result: what the thing costs that the plan is about.
//!
//! It is no spend of the run: agents report what the run costs, and the outputs of steps say what its result costs. Amounts
//! that a total was made of are in that total. Of several others it is unknown whether they add up or are alternatives: then
//! only what holds either way is said.

use std::collections::{BTreeMap, BTreeSet};

use goalmill_common::constraint::Constraint;
use goalmill_common::limits::Limits;
use goalmill_common::plan::Step;
use goalmill_common::status::StepStatus;
use goalmill_expression as expression;
use serde_json::Value;

use crate::graph::StepIndex;
use crate::{PlanState, render};

/// Names of an amount that is made of others, best first.
const TOTALS: [&str; 4] = ["total_cost", "grand_total", "total_price", "total"];
/// Names of other amounts, best first.
const PARTS: [&str; 3] = ["amount", "cost", "price"];
/// Names that mean money without a currency beside them.
const MONEY: [&str; 4] = ["total_cost", "total_price", "cost", "price"];
/// Most amounts that a reason lists.
const LISTED_MAX: usize = 5;
/// Outputs over this size are not searched for an amount, in bytes.
const TEXT_BYTES_MAX: usize = 64 << 10;
/// What sums may differ by.
const ROUNDING: f64 = 0.01;

/// An amount, and the expression that it was read by.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ResultAmount {
    pub(crate) amount: f64,
    pub(crate) path: String,
}

/// An amount in the outputs of a step.
#[derive(Debug)]
struct StepAmount<'s> {
    /// None where it is not in the currency that is asked for.
    amount: Option<f64>,
    is_total: bool,
    name: &'s str,
    path: String,
}

/// What outputs say, in the currency of a constraint: by the expression that the constraint names with `of`, else by the
/// amounts of completed steps. `None` if they say nothing, an error if their sum is ambiguous.
///
/// - `limit`: several amounts are known well enough if all of them together are within it, or each alone is not.
pub(crate) fn amount_said(
    state: &PlanState,
    constraint: &Constraint,
    limit: f64,
    limits: &Limits,
) -> Result<Option<ResultAmount>, String> {
    let Some(path) = &constraint.of else { return amount_in_outputs(state, constraint.unit(), limit) };
    let amount = render::path(state, path, limits).ok().and_then(|text| text.trim().parse::<f64>().ok());
    let amount = amount.filter(|amount| amount.is_finite() && *amount >= 0.0);
    Ok(amount.map(|amount| ResultAmount { amount, path: path.clone() }))
}

/// The same for a constraint without `of`.
pub(crate) fn amount_in_outputs(state: &PlanState, currency: &str, limit: f64) -> Result<Option<ResultAmount>, String> {
    let mut amounts = step_amounts(state, currency);
    for i in contained(state, &amounts) {
        amounts.remove(&i);
    }
    if amounts.values().all(|found| found.amount.is_none()) {
        return match amounts.values().next() {
            None => Ok(None),
            Some(other) => Err(format!("`{}` is not in {currency}", other.path)),
        };
    }
    let known: Vec<f64> = amounts.values().filter_map(|found| found.amount).collect();
    let (sum, least) = (known.iter().sum::<f64>(), known.iter().copied().fold(f64::INFINITY, f64::min));
    let are_all = known.len() == amounts.len();
    let paths: Vec<&str> = amounts.values().map(|found| found.path.as_str()).collect();
    if are_all && (known.len() == 1 || sum <= limit) || least > limit {
        let amount = if are_all { sum } else { least };
        return Ok(Some(ResultAmount { amount, path: paths.join(" + ") }));
    }
    let listed = paths.iter().take(LISTED_MAX).map(|path| format!("`{path}`")).collect::<Vec<_>>().join(", ");
    Err(format!("several outputs say amounts, and no step adds them up: {listed}"))
}

/// The amounts of completed steps, by step.
fn step_amounts(state: &PlanState, currency: &str) -> BTreeMap<StepIndex, StepAmount<'static>> {
    let completed = state.indices().filter(|i| state.steps[*i].status() == StepStatus::Completed);
    let counted = completed.filter(|i| !state.plan.step(*i).is_cleanup());
    counted.filter_map(|i| Some((i, step_amount(state, i, currency)?))).collect()
}

fn step_amount(state: &PlanState, i: StepIndex, currency: &str) -> Option<StepAmount<'static>> {
    let (spec, outputs) = (state.plan.step(i), state.steps[i].outputs()?);
    let text = outputs.text();
    // Most outputs have no amount; those that do are short.
    let is_named = TOTALS.iter().chain(&PARTS).any(|name| text.contains(name));
    if text.len() > TEXT_BYTES_MAX || !is_named {
        return None;
    }
    let outputs = outputs.value();
    let path = format!("steps.{}.outputs", spec.id);
    match &outputs {
        // What the items of a map cost adds up.
        Value::Array(items) if spec.for_each.is_some() || spec.plan.is_some() => {
            let amounts: Vec<StepAmount<'static>> =
                items.iter().filter_map(|item| amount_of(item, spec, currency, &path)).collect();
            let first = amounts.first()?;
            let (name, is_total) = (first.name, first.is_total);
            let is_whole = amounts.len() == items.len();
            let amount = amounts.iter().map(|found| found.amount.filter(|_| is_whole)).sum::<Option<f64>>();
            Some(StepAmount { amount, is_total, name, path })
        }
        Value::Object(fields) => amount_of(&outputs, spec, currency, &path).or_else(|| {
            // For a sub-plan it is unknown how the amounts of its steps belong together.
            let mut inside = fields.values().filter(|_| spec.plan.is_some());
            let found = inside.find_map(|inner| amount_of(inner, spec, currency, &path))?;
            Some(StepAmount { amount: None, ..found })
        }),
        Value::Array(_) | Value::String(_) | Value::Number(_) | Value::Bool(_) | Value::Null => None,
    }
}

/// The steps whose amount is in that of another step: a total that reads it, also by way of steps without an amount, and
/// is not below the sum of all that it reads; or a step that takes one of several offers in its place.
fn contained(state: &PlanState, amounts: &BTreeMap<StepIndex, StepAmount<'_>>) -> Vec<StepIndex> {
    if amounts.len() < 2 {
        return Vec::new();
    }
    let readers = readers(state);
    let readers_of = |i: StepIndex| readers.get(state.plan.step(i).id.as_str()).into_iter().flatten();
    let mut parts: BTreeMap<StepIndex, BTreeSet<StepIndex>> = BTreeMap::new();
    let mut replaced = Vec::new();
    for (i, found) in amounts {
        let is_amount = |path: &str| path == "outputs" || path.strip_prefix("outputs.") == Some(found.name);
        let mut open = Vec::new();
        for (reader, path) in readers_of(*i) {
            if is_amount(path) {
                open.push(*reader);
            } else if amounts.contains_key(reader) && is_offer(path) {
                replaced.push(*i);
            }
        }
        let mut seen: BTreeSet<StepIndex> = open.iter().copied().collect();
        while let Some(reader) = open.pop() {
            match amounts.get(&reader) {
                Some(total) if total.is_total => drop(parts.entry(reader).or_default().insert(*i)),
                Some(_) => {}
                None => open.extend(readers_of(reader).map(|(next, _)| *next).filter(|next| seen.insert(*next))),
            }
        }
    }
    let amount = |i: &StepIndex| amounts.get(i).and_then(|found| found.amount);
    let holds = parts.into_iter().filter(|(total, parts)| {
        // What is in another currency than the total cannot be compared with it.
        let sum: f64 = parts.iter().filter_map(amount).sum();
        amount(total).is_some_and(|total| total + ROUNDING >= sum)
    });
    holds.flat_map(|(_, parts)| parts).chain(replaced).collect()
}

/// Which steps read the outputs of a step, by its id, and what they read: `outputs.total`.
fn readers(state: &PlanState) -> BTreeMap<String, Vec<(StepIndex, String)>> {
    let mut readers: BTreeMap<String, Vec<(StepIndex, String)>> = BTreeMap::new();
    for i in state.indices() {
        let inputs = &state.plan.step(i).inputs;
        if expression::is_plain(inputs.text()) {
            continue;
        }
        expression::visit_templates(&inputs.value(), &mut |template| {
            for path in output_paths(template) {
                if let Some((id, path)) = path.strip_prefix("steps.").and_then(|path| path.split_once('.')) {
                    readers.entry(id.to_owned()).or_default().push((i, path.to_owned()));
                }
            }
        });
    }
    readers
}

/// The amount among the fields of an output, best name first.
fn amount_of(outputs: &Value, spec: &Step, currency: &str, path: &str) -> Option<StepAmount<'static>> {
    let number = |name: &&&str| outputs.get(**name).is_some_and(Value::is_number);
    let name = TOTALS.iter().chain(&PARTS).find(number)?;
    let named = outputs.get("currency").and_then(Value::as_str).map(str::to_owned);
    let named = named.or_else(|| Some(spec.inputs.value().get("currency")?.as_str()?.to_owned()));
    // A total or an amount of something that is no money has no currency.
    if named.is_none() && !MONEY.contains(name) {
        return None;
    }
    let amount = outputs.get(*name)?.as_f64().filter(|amount| amount.is_finite() && *amount >= 0.0);
    Some(StepAmount {
        amount: amount.filter(|_| named.is_some_and(|named| named.eq_ignore_ascii_case(currency))),
        is_total: TOTALS.contains(name),
        name,
        path: format!("{path}.{name}"),
    })
}

/// Whether a path leads to the price of one of several offers: `outputs.hotels[1].price`.
fn is_offer(path: &str) -> bool {
    PARTS.iter().chain(&TOTALS).any(|name| path.ends_with(&format!("].{name}")))
}

/// The outputs that an expression names: `steps.total.outputs.sum`.
pub(crate) fn output_paths(check: &str) -> impl Iterator<Item = &str> {
    check.match_indices("steps.").map(|(at, _)| {
        let rest = &check[at..];
        let end = rest
            .find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '[' | ']')))
            .unwrap_or(rest.len());
        rest[..end].trim_end_matches(['.', '-', ']', '['])
    })
}
