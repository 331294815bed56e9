//! Cases for real processes: a random case that takes seconds, with the names of its plan alone.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Map, Value, json};

use crate::case::Case;
use crate::generator::generate;
use crate::script::{Does, Wish};

/// By how much waits before retries and iterations, and waits by time, are shorter.
const FASTER: u64 = 20;
/// How long an attempt takes at most, milliseconds; one of eight takes so long that its start is reported.
const WORK_MS: u64 = 50;
const LONG_WORK_MS: u64 = 600;
/// The lease of a task in the installation, milliseconds: a lost worker is noticed after it.
pub const LEASE_MS: u64 = 4_000;
/// Time limit of an attempt that has one: longer than a loss takes.
const LIMIT_MS: u64 = 6_000;
/// Time limit of a wait for an event: longer than a scheduler is away.
const EVENT_LIMIT_MS: u64 = 8_000;
/// Time limit of a plan inside: longer than three losses take.
const INSIDE_LIMIT_MS: u64 = 14_000;
/// Time limit of an attempt that outlasts the plan.
pub(crate) const ENDLESS_MS: u64 = 3_600_000;
/// Between two events from outside.
const EVENT_MS: u64 = 40;

/// The random case of a seed, made fit for real processes.
///
/// - Stored plans stand in the places of their uses, as in the log.
/// - Everything is short. When the plan is cancelled, or at its deadline, something is out that never ends.
/// - Actions and events begin with `prefix`, so that agents and waits know the plan.
/// - Items of a map that are done at the same time are all answered alike, or are done one at a time.
/// - `slowness`: how many times as long everything takes but a loss, where faults may take longer.
pub fn hurry(seed: u64, prefix: &str, slowness: u64) -> Case {
    let case = generate(seed);
    let mut case = Case { document: case.whole(), stored: Vec::new(), script: case.script };
    let mut random = StdRng::seed_from_u64(seed);
    let script = &mut case.script;
    // Other deeds need their moment.
    script.deeds.retain(|deed| deed.does == Wish::Cancel);
    (script.start_ms, script.fork) = (None, None);
    if script.cancel_ms().is_some() {
        script.deadline_ms = None;
    }
    let ends_from_outside = script.cancel_ms().is_some() || script.deadline_ms.is_some();
    let main: Vec<String> = script.acts.keys().filter(|action| action.starts_with('a')).cloned().collect();
    let endless = main.get(random.random_range(0..main.len().max(1))).filter(|_| ends_from_outside);
    for (action, acts) in &mut script.acts {
        if Some(action) == endless {
            acts[0].does = Does::Silent;
        }
        for act in acts {
            let most = if random.random_ratio(1, 8) { LONG_WORK_MS } else { WORK_MS };
            act.after_ms =
                if act.does == Does::Lost { LEASE_MS + 500 } else { random.random_range(1..most * slowness) };
            // The agents of the installation answer at once, and their outputs are small.
            (act.accepts_ms, act.records, act.stores) = (None, false, false);
            // A 5xx tells nothing of what was used up.
            act.tokens = if matches!(act.does, Does::Cut | Does::Silent) { 0 } else { act.tokens };
        }
    }
    (1..).zip(&mut script.events).for_each(|(n, event)| event.at_ms = n * EVENT_MS * slowness);
    let mut alike = Vec::new();
    shorten(&mut case.document, endless.map(String::as_str), slowness, &mut random, &mut alike);
    for action in alike {
        let acts = case.script.acts.get_mut(&action).into_iter();
        acts.for_each(|acts| (1..acts.len()).for_each(|n| acts[n] = acts[0].clone()));
    }
    name(&mut case, prefix);
    case
}

/// - `endless`: an action whose first attempt outlasts the plan.
/// - `alike`: gets actions of which all attempts are to do the same.
fn shorten(value: &mut Value, endless: Option<&str>, slowness: u64, random: &mut StdRng, alike: &mut Vec<String>) {
    let Value::Object(fields) = value else {
        let items = value.as_array_mut().into_iter().flatten();
        return items.for_each(|item| shorten(item, endless, slowness, random, alike));
    };
    for name in ["initial", "delay", "for", "limit"] {
        if let Some(duration) = fields.get_mut(name) {
            *duration = format!("{}ms", 1 + milliseconds(duration) * slowness / FASTER).into();
        }
    }
    // What is in the cache depends on times.
    fields.shift_remove("cache");
    fields.shift_remove("callback");
    let limit_ms = match fields.get("kind").and_then(Value::as_str) {
        Some("plan") => INSIDE_LIMIT_MS,
        _ if fields.contains_key("event") => EVENT_LIMIT_MS,
        _ => LIMIT_MS,
    };
    if endless.is_some() && fields.get("action").and_then(Value::as_str) == endless {
        fields.insert("timeout".into(), format!("{ENDLESS_MS}ms").into());
    } else if let Some(limit) = fields.get_mut("timeout") {
        *limit = format!("{}ms", limit_ms * slowness).into();
    }
    if fields.contains_key("for_each") && fields.contains_key("action") {
        one_at_a_time_or_alike(fields, random, alike);
    }
    fields.values_mut().for_each(|field| shorten(field, endless, slowness, random, alike));
}

fn one_at_a_time_or_alike(fields: &mut Map<String, Value>, random: &mut StdRng, alike: &mut Vec<String>) {
    if random.random_bool(0.5) {
        fields.insert("max_parallel".into(), 1.into());
        return;
    }
    let actions = [fields.get("action"), fields.get("fallback").and_then(|fallback| fallback.get("action"))];
    alike.extend(actions.into_iter().flatten().filter_map(Value::as_str).map(String::from));
}

fn milliseconds(duration: &Value) -> u64 {
    let number = duration.as_str().and_then(|text| text.strip_suffix("ms"));
    number.and_then(|number| number.parse().ok()).expect("the generator writes milliseconds")
}

fn name(case: &mut Case, prefix: &str) {
    prefix_names(&mut case.document, prefix);
    let script = &mut case.script;
    script.acts =
        std::mem::take(&mut script.acts).into_iter().map(|(name, acts)| (prefix.to_owned() + &name, acts)).collect();
    script.events.iter_mut().for_each(|event| event.name.insert_str(0, prefix));
}

fn prefix_names(value: &mut Value, prefix: &str) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                match (field.as_str(), &value) {
                    ("action" | "event", Value::String(name)) => *value = json!(format!("{prefix}{name}")),
                    _ => prefix_names(value, prefix),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| prefix_names(item, prefix)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
