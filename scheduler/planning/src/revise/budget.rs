//! Chooses cheaper alternatives among existing results.

use goalmill_common::command::Proposal;
use goalmill_common::id::StepId;
use goalmill_common::json::Json;
use goalmill_common::plan::{Step, StepKind};
use goalmill_common::revision::{Change, RevisionStrategy};
use goalmill_common::status::StepStatus;
use serde_json::{Map, Value};

use super::proposal;
use super::replan_case::{ReplanCase, renamed};

/// What prices are called.
const PRICES: [&str; 4] = ["price", "total", "cost", "amount"];
/// What the chosen one of several offers is called.
const CHOSEN: [&str; 3] = ["best", "chosen", "selected"];

/// An offer that costs less than the one that was chosen.
struct Saving<'a> {
    step: &'a Step,
    outputs: Map<String, Value>,
    /// The list of offers, and the place of the cheaper one in it.
    list: String,
    place: usize,
    price: &'static str,
    saves: f64,
}

/// Puts a step in between that chooses the cheapest offer of a result that is there, and lets what comes after see that
/// one. The offers themselves are not touched.
pub(super) fn cheaper(case: &ReplanCase<'_>) -> Option<Proposal> {
    let failed = case.step()?;
    let over = case.failure().and_then(|failure| over(&failure.message));
    let mut savings: Vec<Saving<'_>> = failed.dependencies.iter().filter_map(|id| saving(case, id)).collect();
    savings.sort_by(|a, b| b.saves.total_cmp(&a.saves).then_with(|| a.step.id.cmp(&b.step.id)));
    let mut sum = 0.0;
    let mut chosen = Vec::new();
    for saving in savings {
        if over.is_some_and(|over| sum >= over) || (over.is_none() && !chosen.is_empty()) {
            break;
        }
        sum += saving.saves;
        chosen.push(saving);
    }
    if chosen.is_empty() || over.is_some_and(|over| sum < over) {
        return None;
    }
    let names: Vec<String> = chosen.iter().map(|saving| format!("`{}`", saving.step.id)).collect();
    let changes = changes(case, failed, &chosen);
    let summary = format!("the cheapest offers of {} are taken, which saves {sum:.2}", names.join(", "));
    Some(proposal(RevisionStrategy::Adjust, changes, summary))
}

fn changes(case: &ReplanCase<'_>, failed: &Step, chosen: &[Saving<'_>]) -> Vec<Change> {
    let is_open = |step: &&Step| case.at(&step.id).is_some_and(|at| !at.status.is_final());
    let mut changes = Vec::new();
    let mut readers: Vec<(&Step, String)> = vec![(failed, failed.inputs.text().to_owned())];
    let open = case.situation.plan.steps.iter().filter(is_open).filter(|step| step.id != failed.id);
    readers.extend(open.map(|step| (step, step.inputs.text().to_owned())));
    for saving in chosen {
        let id = case.fresh(&format!("cheaper_{}", saving.step.id));
        let mut before = Vec::new();
        for (step, text) in &mut readers {
            let other = renamed(text, &saving.step.id, &id);
            if other != *text {
                *text = other;
                before.push(step.id.clone());
            }
        }
        if !before.is_empty() {
            changes.push(Change::AddStep { step: Box::new(choice(saving, id)), before });
        }
    }
    for (step, text) in readers {
        if text == step.inputs.text() {
            continue;
        }
        let Ok(inputs) = Json::from_text(text) else { continue };
        changes.push(if step.id == failed.id {
            Change::RetryStep { step: step.id.clone(), agent_type: None, action: None, inputs: Some(inputs) }
        } else {
            let fields = Map::from_iter([("inputs".to_owned(), inputs.value())]);
            Change::SetFields { step: step.id.clone(), fields }
        });
    }
    changes
}

/// The step that chooses: what the other one gave, with the cheaper offer as the chosen one.
fn choice(saving: &Saving<'_>, id: StepId) -> Step {
    let source = format!("steps.{}.outputs", saving.step.id);
    let offer = format!("{source}.{}[{}]", saving.list, saving.place);
    let price = format!("{{{{ {offer}.{} }}}}", saving.price);
    let inputs: Map<String, Value> = saving
        .outputs
        .iter()
        .filter(|(name, _)| is_name(name))
        .map(|(name, value)| {
            let text = if CHOSEN.contains(&name.as_str()) {
                format!("{{{{ {offer} }}}}")
            } else if PRICES.contains(&name.as_str()) && value.is_number() {
                price.clone()
            } else if name == "summary" && value.is_string() {
                // What was said of the other choice is not so of this one.
                format!("the cheapest of the {}", saving.list.replace('_', " "))
            } else {
                format!("{{{{ {source}.{name} }}}}")
            };
            (name.clone(), Value::String(text))
        })
        .collect();
    Step {
        kind: StepKind::Internal,
        description: format!("Take the cheapest offer of {}", saving.step.id),
        inputs: Json::of(&inputs),
        dependencies: vec![saving.step.id.clone()],
        phase: None,
        ..Step::new(id, "")
    }
}

/// What could be saved on a step that is completed.
fn saving<'a>(case: &ReplanCase<'a>, id: &StepId) -> Option<Saving<'a>> {
    let step = case.find(id).filter(|step| is_name(step.id.as_str()))?;
    let at = case.at(id).filter(|at| at.status == StepStatus::Completed)?;
    let Value::Object(outputs) = at.outputs.as_ref()?.value() else { return None };
    let chosen = CHOSEN.iter().find_map(|name| outputs.get(*name));
    let (list, place, price, least) = outputs.iter().filter(|(name, _)| is_name(name)).find_map(|(name, value)| {
        let offers = value.as_array()?;
        let price = PRICES.into_iter().find(|price| offers.iter().any(|offer| offer[*price].is_number()))?;
        let priced = offers.iter().enumerate().filter_map(|(place, offer)| Some((place, offer[price].as_f64()?)));
        let (place, least) = priced.min_by(|a, b| a.1.total_cmp(&b.1))?;
        Some((name.clone(), place, price, least))
    })?;
    let now = chosen.and_then(|offer| offer[price].as_f64())?;
    let saves = now - least;
    (saves > 0.0).then_some(Saving { step, outputs, list, place, price, saves })
}

/// How much too much it is, as the message says: the last number before `over`.
fn over(message: &str) -> Option<f64> {
    let text = message.to_lowercase();
    let at = text.find(" over ").or_else(|| text.find(" above "))?;
    let numbers = text[..at].split(|c: char| !(c.is_ascii_digit() || c == '.'));
    numbers.filter_map(|word| word.trim_matches('.').parse::<f64>().ok()).next_back()
}

/// Whether a name can stand in an expression as it is.
fn is_name(name: &str) -> bool {
    let mut letters = name.chars();
    letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && letters.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::over;

    #[test]
    fn how_much_too_much_it_is_is_read_from_the_message() {
        assert_eq!(over("the total of 2207.00 USD is 207.00 USD over the budget of 2000.00 USD"), Some(207.0));
        assert_eq!(over("too expensive"), None);
    }
}
