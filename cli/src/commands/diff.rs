//! `plan diff`: compares two plans or two revisions.

use goalmill_common::clock::parse_rfc3339;
use goalmill_common::goal::INPUTS;
use goalmill_common::id::PlanId;
use goalmill_common::limits::Limits;
use goalmill_common::number::whole_u64;
use goalmill_common::stored_plan::StoredPlanRef;
use goalmill_common::view::PlanView;
use serde::Serialize;
use serde_json::{Map, Value};

use super::validate::{Checked, check_document};
use crate::args::DiffArgs;
use crate::context::CommandContext;
use crate::exit::{CommandResult, Exit, Failed};
use crate::output::{Palette, Table, Tone, seconds};
use crate::watch::short;

/// What is different.
#[derive(Debug, Serialize)]
struct Difference {
    /// `plan`, or `plan@revision`.
    a: Side,
    b: Side,
    added: Vec<String>,
    removed: Vec<String>,
    modified: Vec<ModifiedStep>,
    /// Steps with different outcomes; for two plans only.
    outcomes: Vec<Outcomes>,
}

/// One of the two, as a whole.
#[derive(Debug, Serialize)]
struct Side {
    plan: String,
    revision: u32,
    steps: usize,
    #[serde(flatten)]
    end: Option<PlanEnding>,
}

/// Status and figures of a plan.
#[derive(Debug, Serialize)]
struct PlanEnding {
    status: String,
    completed: u32,
    failed: u32,
    cost: f64,
    tokens: u64,
    /// From acceptance to the end, or to the last change.
    seconds: f64,
    confidence: f64,
    #[serde(skip_serializing_if = "Value::is_null")]
    inputs: Value,
}

#[derive(Debug, Serialize)]
struct ModifiedStep {
    step: String,
    fields: Vec<Field>,
}

#[derive(Debug, Serialize)]
struct Field {
    name: String,
    a: Value,
    b: Value,
}

#[derive(Debug, PartialEq, Serialize)]
struct Outcomes {
    step: String,
    a: String,
    b: String,
    same_outputs: bool,
}

/// A plan: its document and its status.
struct LoadedPlan {
    document: Value,
    view: PlanView,
}

pub async fn run(context: &CommandContext, args: &DiffArgs) -> CommandResult {
    let client = &context.client;
    if let Some((a, b)) = stored_versions(args) {
        let (before, after) = (canonical_of(context, &a).await?, canonical_of(context, &b).await?);
        let side = |plan: &StoredPlanRef, document: &Value| Side {
            plan: plan.name.clone(),
            revision: plan.version.unwrap_or_default(),
            steps: steps(document).len(),
            end: None,
        };
        let difference = compare(side(&a, &before), side(&b, &after), &before, &after, Vec::new());
        context.screen.show(&difference, "", |palette| people(&difference, palette))?;
        return Ok(Exit::Done);
    }
    let a = client.resolve(&args.plan).await?;
    let difference = match (&args.other, args.revision) {
        (Some(other), _) => {
            let b = client.resolve(other).await?;
            let (a, b) = (load_plan(context, &a).await?, load_plan(context, &b).await?);
            compare(side(&a), side(&b), &a.document, &b.document, outcomes(&a.view, &b.view))
        }
        (None, revision) => {
            let (from, to) = revision.unwrap_or((0, None));
            let last = client.plan(&a).await?.summary.revision;
            let to = to.unwrap_or(last);
            let (before, after) = (client.graph_at(&a, from).await?, client.graph_at(&a, to).await?);
            let side = |revision, document: &Value| Side {
                plan: a.to_string(),
                revision,
                steps: steps(document).len(),
                end: None,
            };
            compare(side(from, &before), side(to, &after), &before, &after, Vec::new())
        }
    };
    context.screen.show(&difference, "", |palette| people(&difference, palette))?;
    Ok(Exit::Done)
}

/// Two versions of stored plans, where both arguments name one.
fn stored_versions(args: &DiffArgs) -> Option<(StoredPlanRef, StoredPlanRef)> {
    let version = |text: &str| StoredPlanRef::parse(text).filter(|plan| plan.version.is_some());
    Some((version(&args.plan)?, version(args.other.as_deref()?)?))
}

/// The document of a stored plan, with its steps as a list where it can be read here.
async fn canonical_of(context: &CommandContext, plan: &StoredPlanRef) -> Result<Value, Failed> {
    let document = context.client.stored_plan(plan).await?.document;
    Ok(match check_document(document.to_string().as_bytes(), &Limits::default()) {
        Ok(Checked::Plan(planned)) => serde_json::json!(planned.plan),
        Ok(Checked::Goal { .. }) | Err(_) => document,
    })
}

async fn load_plan(context: &CommandContext, plan: &PlanId) -> Result<LoadedPlan, Failed> {
    let (document, view) = (context.client.graph(plan).await?, context.client.plan(plan).await?);
    Ok(LoadedPlan { document, view })
}

fn side(loaded: &LoadedPlan) -> Side {
    let plan = &loaded.view.summary;
    let until = plan.finished_at.as_ref().unwrap_or(&plan.updated_at);
    let ms = |time: &str| parse_rfc3339(time).unwrap_or_default();
    let end = PlanEnding {
        status: plan.status.as_str().into(),
        completed: plan.counts.completed,
        failed: plan.counts.failed,
        cost: plan.usage.cost,
        tokens: plan.usage.tokens,
        seconds: ms(until).saturating_sub(ms(&plan.created_at)) as f64 / 1_000.0,
        confidence: loaded.view.confidence,
        inputs: loaded.view.goal.metadata.get(INPUTS).cloned().unwrap_or_default(),
    };
    Side {
        plan: plan.plan_id.to_string(),
        revision: plan.revision,
        steps: steps(&loaded.document).len(),
        end: Some(end),
    }
}

fn steps(document: &Value) -> Vec<&Map<String, Value>> {
    document.get("steps").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object).collect()
}

fn compare(a: Side, b: Side, before: &Value, after: &Value, outcomes: Vec<Outcomes>) -> Difference {
    let (before, after) = (steps(before), steps(after));
    let id = |step: &Map<String, Value>| step.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
    let find = |steps: &[&Map<String, Value>], wanted: &str| steps.iter().copied().find(|s| id(s) == wanted).cloned();
    let only = |these: &[&Map<String, Value>], those: &[&Map<String, Value>]| -> Vec<String> {
        these.iter().map(|step| id(step)).filter(|step| find(those, step).is_none()).collect()
    };
    let modified = before.iter().filter_map(|old| {
        let new = find(&after, &id(old))?;
        let names = old.keys().chain(new.keys().filter(|name| !old.contains_key(*name)));
        let value = |step: &Map<String, Value>, name: &str| step.get(name).cloned().unwrap_or(Value::Null);
        let fields = names.map(|name| Field { name: name.clone(), a: value(old, name), b: value(&new, name) });
        let fields: Vec<Field> = fields.filter(|field| field.a != field.b).collect();
        (!fields.is_empty()).then(|| ModifiedStep { step: id(old), fields })
    });
    let modified = modified.collect();
    Difference { added: only(&after, &before), removed: only(&before, &after), a, b, modified, outcomes }
}

fn outcomes(a: &PlanView, b: &PlanView) -> Vec<Outcomes> {
    let both = a.steps.iter().filter_map(|old| Some((old, b.steps.iter().find(|new| new.id == old.id)?)));
    let ended = both.map(|(old, new)| Outcomes {
        step: old.id.to_string(),
        a: old.status.as_str().into(),
        b: new.status.as_str().into(),
        same_outputs: old.outputs == new.outputs,
    });
    ended.filter(|ended| ended.a != ended.b || !ended.same_outputs).collect()
}

fn people(difference: &Difference, palette: Palette) -> String {
    let Difference { a, b, added, removed, modified, outcomes } = difference;
    let name = |side: &Side| {
        if side.end.is_some() { side.plan.clone() } else { format!("{}@{}", side.plan, side.revision) }
    };
    let mut table = Table::new(&["", "A", "B"]);
    let mut row = |what: &str, of: &dyn Fn(&Side) -> String| {
        table.row([what.to_owned(), of(a), of(b)]);
    };
    row("plan", &name);
    row("revision", &|side| side.revision.to_string());
    row("steps", &|side| side.steps.to_string());
    if a.end.is_some() {
        let end = |side: &Side, of: &dyn Fn(&PlanEnding) -> String| side.end.as_ref().map(of).unwrap_or_default();
        row("outcome", &|side| end(side, &|end| end.status.replace('_', " ")));
        row("completed", &|side| end(side, &|end| end.completed.to_string()));
        row("failed", &|side| end(side, &|end| end.failed.to_string()));
        row("cost", &|side| end(side, &|end| format!("{:.2} USD", end.cost)));
        row("tokens", &|side| end(side, &|end| end.tokens.to_string()));
        row("time", &|side| end(side, &|end| seconds(whole_u64(end.seconds * 1_000.0))));
        row("confidence", &|side| end(side, &|end| format!("{:.2}", end.confidence)));
        if [a, b].iter().any(|side| side.end.as_ref().is_some_and(|end| !end.inputs.is_null())) {
            row("inputs", &|side| end(side, &|end| value(&end.inputs)));
        }
    }
    let mut text = table.render(palette, "");
    if added.is_empty() && removed.is_empty() && modified.is_empty() {
        text.push_str("the steps are the same\n");
    }
    added.iter().for_each(|step| text.push_str(&format!("{} {step}\n", palette.tone(Tone::Good, "+"))));
    removed.iter().for_each(|step| text.push_str(&format!("{} {step}\n", palette.tone(Tone::Bad, "-"))));
    for ModifiedStep { step, fields } in modified {
        text.push_str(&format!("{} {step}\n", palette.tone(Tone::Wait, "~")));
        for Field { name, a, b } in fields {
            text.push_str(&format!("    {name}: {} → {}\n", value(a), value(b)));
        }
    }
    for Outcomes { step, a, b, same_outputs } in outcomes {
        let how = if a == b && !same_outputs { format!("{a}, with other outputs") } else { format!("{a} → {b}") };
        text.push_str(&format!("  {step}: {how}\n"));
    }
    text
}

fn value(value: &Value) -> String {
    match value {
        Value::Null => "–".into(),
        Value::String(text) => short(text),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => short(&value.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn side(revision: u32) -> Side {
        Side { plan: "p0-1".into(), revision, steps: 2, end: None }
    }

    #[test]
    fn steps_are_added_removed_and_modified() {
        let before = json!({"steps": [{"id": "a", "inputs": {"x": 1}}, {"id": "b"}]});
        let after = json!({"steps": [{"id": "a", "inputs": {"x": 2}, "when": "true"}, {"id": "c"}]});
        let difference = compare(side(0), side(1), &before, &after, Vec::new());
        assert_eq!((&difference.added[..], &difference.removed[..]), (&["c".to_owned()][..], &["b".to_owned()][..]));
        let fields: Vec<&str> = difference.modified[0].fields.iter().map(|field| field.name.as_str()).collect();
        assert_eq!((difference.modified[0].step.as_str(), fields), ("a", vec!["inputs", "when"]));
        let text = people(&difference, Palette::plain());
        for line in ["p0-1@0", "+ c", "- b", "~ a", "    inputs: {\"x\":1} → {\"x\":2}", "    when: – → true"] {
            assert!(text.contains(line), "`{line}` is missing in\n{text}");
        }
    }
}
