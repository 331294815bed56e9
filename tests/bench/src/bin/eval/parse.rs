//! Measures the reader on plans and actions that models wrote: what it reads, what it changes, and what it costs.
//!
//! The value a strict reader gives is the measure where there is one: `serde_json` for strict JSON, alone or in a
//! fence, and [`literal`] for Python. The rest is hard: there, the steps are compared, as they stand in the text.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::Path;

use anyhow::Result;
use goalmill_common::clock::unix_us;
use goalmill_reader::{ReaderLimits, Reading, ToolCatalogue, Verdict, parse_calls, parse_value};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::literal;
use crate::rows::{self, Out};

/// Where the texts are cut, in percent of their characters.
const CUTS: [usize; 4] = [30, 50, 70, 90];
/// How often everything is read for the speed.
const ROUNDS: usize = 5;

#[derive(Deserialize)]
struct Plan {
    id: String,
    raw: String,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Strict,
    Literal,
    Fenced,
    Hard,
}

pub fn run(dir: &Path, out: &mut Out) -> Result<Value> {
    let plans: Vec<Plan> = rows::read(&dir.join("parse/ultratool.jsonl"))?;
    let mut tally: BTreeMap<String, u64> = BTreeMap::new();
    let mut add = |name: &str, by: bool| *tally.entry(name.to_owned()).or_default() += u64::from(by);
    for plan in &plans {
        let reading = parse_value(&plan.raw, &ToolCatalogue::default(), &ReaderLimits::default());
        let (class, value) = oracle(&plan.raw);
        add(class.name(), true);
        match value {
            Some(value) => {
                let same = reading.value.as_ref() == Some(&value);
                add(&format!("{}_same_value", class.name()), same);
                let silent = !same && reading.edits.is_empty() || class != Class::Strict && reading.edits.is_empty();
                add("silent_edits", silent);
            }
            None => add("hard_steps_exact", steps(&reading) == written_steps(&plan.raw)),
        }
        for cut in CUTS {
            let text: String = plan.raw.chars().take(plan.raw.chars().count() * cut / 100).collect();
            let cut = parse_value(&text, &ToolCatalogue::default(), &ReaderLimits::default());
            add("cuts", true);
            add("cuts_flagged", matches!(cut.verdict, Verdict::Truncated { .. }));
            let complete = reading.items.iter().filter(|i| i.span.end <= text.len()).count();
            add("cuts_with_every_complete_step", cut.items.len() >= complete);
            add("cuts_with_an_invented_step", !reading.items.starts_with(&cut.items));
        }
        out.row(&json!({
            "id": plan.id,
            "verdict": reading.verdict,
            "value": reading.value,
            "items": reading.items.iter().map(|i| &i.value).collect::<Vec<_>>(),
            "edits": reading.edits,
        }))?;
    }
    actions(dir, out, &mut add)?;
    let speed = speed(&plans);
    let mut figures = json!({"what": "parse", "rows": plans.len()});
    if let Some(map) = figures.as_object_mut() {
        map.extend(tally.into_iter().map(|(name, n)| (name, json!(n))));
        map.insert("speed".to_owned(), speed);
    }
    Ok(figures)
}

impl Class {
    fn name(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Literal => "literal",
            Self::Fenced => "fenced",
            Self::Hard => "hard",
        }
    }
}

/// What a text says beyond doubt, by a strict reader of its notation.
fn oracle(raw: &str) -> (Class, Option<Value>) {
    if let Ok(value) = serde_json::from_str(raw) {
        return (Class::Strict, Some(value));
    }
    if let Some(value) = literal::read(raw.trim()) {
        return (Class::Literal, Some(value));
    }
    let inside =
        raw.split_once("```").and_then(|(_, rest)| rest.split_once('\n')).and_then(|(_, r)| r.split_once("```"));
    match inside.and_then(|(body, _)| serde_json::from_str(body).ok()) {
        Some(value) => (Class::Fenced, Some(value)),
        None => (Class::Hard, None),
    }
}

fn steps(reading: &Reading) -> Vec<String> {
    reading.items.iter().map(|i| i.value["step"].as_str().unwrap_or_default().to_owned()).collect()
}

/// The texts of the steps as they stand between `'step': '` and `', 'tool'`.
fn written_steps(raw: &str) -> Vec<String> {
    let mut steps = Vec::new();
    for part in raw.split("step'").flat_map(|p| p.split("step\"")).skip(1) {
        let body = part.trim_start_matches([':', ' ']);
        let end = ["', 'tool'", "\", 'tool'", "\", \"tool\"", "', \"tool\""].iter().filter_map(|e| body.find(e)).min();
        steps.extend(end.map(|end| body[1..end].to_owned()));
    }
    steps
}

#[derive(Deserialize)]
struct Run {
    id: String,
    model: String,
    raw: String,
}

/// Actions in the final text of a run that were never executed; those of one model are cut.
fn actions(dir: &Path, out: &mut Out, add: &mut impl FnMut(&str, bool)) -> Result<()> {
    let runs: Vec<Run> = rows::read(&dir.join("parse/workbench_lost_actions.jsonl"))?;
    for run in &runs {
        let reading = parse_calls(&run.raw, &ToolCatalogue::default(), &ReaderLimits::default());
        let object = first_object(&run.raw);
        let truncated = matches!(reading.verdict, Verdict::Truncated { .. });
        match object {
            Some(object) => {
                add("actions_complete", true);
                let action = object["action"].as_str().unwrap_or_default();
                let input = &object["action_input"];
                let same = reading.calls.first().is_some_and(|c| {
                    c.name == action && (input.is_null() || Value::Object(c.arguments.clone()) == *input)
                });
                add("actions_executable", same && !truncated);
                add("actions_gpt4", run.model == "gpt-4");
                add("actions_gpt4_executable", run.model == "gpt-4" && same && !truncated);
            }
            None => {
                // Not strict, and more brackets open than close: it ends in the middle.
                let cut = run.raw.matches('{').count() > run.raw.matches('}').count();
                add("actions_cut", cut);
                add("actions_cut_flagged", cut && truncated);
                add("actions_cut_executed", cut && !reading.calls.is_empty());
            }
        }
        out.row(&json!({"id": run.id, "verdict": reading.verdict, "calls": reading.calls}))?;
    }
    Ok(())
}

/// The first strict JSON object with an action in a text.
fn first_object(raw: &str) -> Option<Value> {
    let mut values = serde_json::Deserializer::from_str(&raw[raw.find('{')?..]).into_iter::<Value>();
    values.next()?.ok().filter(|v| v.get("action").is_some())
}

/// Time of the reader over time of strict `serde_json` on the same plans: as they are when strict, else as `serde_json`
/// would have written them.
fn speed(plans: &[Plan]) -> Value {
    let clear: Vec<(Class, &str, String)> = plans
        .iter()
        .filter_map(|p| match oracle(&p.raw) {
            (class, Some(value)) => Some((class, p.raw.as_str(), value.to_string())),
            (_, None) => None,
        })
        .collect();
    let mut figures = BTreeMap::new();
    for class in [Class::Strict, Class::Literal, Class::Fenced] {
        let of: Vec<_> = clear.iter().filter(|(c, _, _)| *c == class).collect();
        if of.is_empty() {
            continue;
        }
        let strict = best(|| {
            for (_, raw, json) in &of {
                let text = if class == Class::Strict { raw } else { json.as_str() };
                black_box(serde_json::from_str::<Value>(text)).ok();
            }
        });
        let ours = best(|| {
            for (_, raw, _) in &of {
                black_box(parse_value(raw, &ToolCatalogue::default(), &ReaderLimits::default()));
            }
        });
        figures.insert(format!("{}_ratio", class.name()), round(ours / strict));
        figures.insert(format!("{}_us", class.name()), round(ours / count(of.len())));
    }
    let slowest = plans.iter().map(|p| {
        best(|| {
            black_box(parse_value(&p.raw, &ToolCatalogue::default(), &ReaderLimits::default()));
        })
    });
    figures.insert("slowest_us".to_owned(), slowest.fold(0.0, f64::max));
    json!(figures)
}

/// The shortest of some rounds, in microseconds: other work of the machine only ever adds to it.
fn best(mut work: impl FnMut()) -> f64 {
    let mut shortest = f64::MAX;
    for _ in 0..ROUNDS {
        let begun = unix_us();
        work();
        shortest = shortest.min(count(usize::try_from(unix_us() - begun).unwrap_or(usize::MAX)));
    }
    shortest
}

#[expect(clippy::cast_precision_loss, reason = "figures are rounded")]
fn count(n: usize) -> f64 {
    n as f64
}

fn round(x: f64) -> f64 {
    (x * 100.0).round() / 100.0
}
