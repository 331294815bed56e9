//! Answers as models write them: several spellings, remarks, and now and then a mistake that can be repaired.

use goalmill_common::agent::Agent;
use goalmill_common::random::Random;
use serde_json::{Map, Value, json};

use super::registry::phrase;

/// One step in so many asks for an agent, and every second one of these names no action.
const AUTO: u64 = 4;
/// One answer in so many has mistakes.
const WRONG: usize = 3;
/// How far back a step looks.
const BACK: u64 = 8;
/// Most dependencies of a step.
const DEPENDENCIES_MAX: u64 = 3;
/// Larger plans are not repaired, only validated.
const MENDED_MAX: usize = 200;

const PLACES: [&str; 12] = [
    "Paris",
    "Osaka",
    "Nairobi",
    "Quito",
    "Tallinn",
    "Adelaide",
    "Montréal",
    "Lübeck",
    "Fès",
    "Split",
    "Pune",
    "Bergen",
];
const PEOPLE: [&str; 10] = [
    "the customer",
    "Ms. O'Hara",
    "the board",
    "our partner",
    "the \"night shift\"",
    "Dr. Lindqvist",
    "finance",
    "the new office",
    "the audit",
    "both teams",
];

/// A goal in plain words.
pub fn goal(agents: &[Agent], random: &Random) -> String {
    let what = |_| phrase(below(random, agents.len()));
    let parts: Vec<&str> = (0..3).map(what).collect();
    format!(
        "Arrange {} in {} for {}, within {} days",
        parts.join(", "),
        any(&PLACES, random),
        any(&PEOPLE, random),
        2 + random.below(30)
    )
}

/// The answer with a plan of so many steps.
///
/// - `at`: which answer it is, counted from 0: spelling and mistakes take turns.
pub fn write(agents: &[Agent], steps: usize, at: usize, random: &Random) -> String {
    let names: Vec<String> = (0..steps).map(|n| format!("s{n}_{:04x}", random.below(0x1_0000))).collect();
    let is_wrong = at % WRONG == WRONG - 1 && steps <= MENDED_MAX;
    let mut list: Vec<Value> = (0..steps).map(|n| step(agents, &names, n, random)).collect();
    if is_wrong {
        spoil(&mut list);
    }
    let plan = json!({"name": format!("plan {:016x}", random.draw()), "thought": "First what is known, then what is open.", "steps": list});
    match at % 4 {
        0 => plan.to_string(),
        1 => format!(
            "Here is the plan:\n\n```json\n{plan:#}\n```\n\nTell me if {} should change it.",
            any(&PEOPLE, random)
        ),
        2 => python(&plan),
        _ => format!("{plan:#}"),
    }
}

fn step(agents: &[Agent], names: &[String], n: usize, random: &Random) -> Value {
    let chosen = below(random, agents.len());
    let agent = &agents[chosen];
    let action = &agent.actions[below(random, agent.actions.len())];
    let mut needs: Vec<usize> = Vec::new();
    if n > 0 {
        for _ in 0..random.below(DEPENDENCIES_MAX + 1) {
            needs.push(n - 1 - below(random, n.min(usize::try_from(BACK).unwrap_or(1))));
        }
        needs.sort_unstable();
        needs.dedup();
    }
    let verb = action.name.split('_').next().unwrap_or_default();
    let (place, who) = (any(&PLACES, random), any(&PEOPLE, random));
    let source = match needs.first() {
        Some(earlier) => format!("{{{{ steps.{}.outputs.summary }}}}", names[*earlier]),
        None => format!("{} in {place}, no. {}", phrase(chosen), random.below(100_000)),
    };
    let mut inputs = Map::new();
    match verb {
        "find" => {
            inputs.extend([("query".to_owned(), source.into()), ("limit".to_owned(), (1 + random.below(100)).into())]);
        }
        "prepare" => inputs.extend([("source".to_owned(), source.into()), ("style".to_owned(), "short".into())]),
        _ => {
            inputs
                .extend([("subject".to_owned(), source.into()), ("strict".to_owned(), (random.below(2) == 0).into())]);
        }
    }
    let mut step = json!({
        "id": names[n],
        "description": format!("{verb} {} for {who} in {place}, case {}", phrase(chosen), random.below(100_000)),
        "agent_type": agent.agent_type,
        "action": action.name,
        "inputs": inputs,
        "dependencies": needs.iter().map(|at| names[*at].as_str()).collect::<Vec<_>>(),
    });
    if random.below(AUTO) == 0 {
        step["agent_type"] = "auto".into();
        if random.below(2) == 0
            && let Some(map) = step.as_object_mut()
        {
            map.remove("action");
        }
    }
    step
}

/// Mistakes that models make: a dependency that is read and not named, an action in another spelling.
fn spoil(steps: &mut [Value]) {
    for (at, step) in steps.iter_mut().enumerate() {
        match at % 5 {
            1 => step["dependencies"] = json!([]),
            3 => {
                let spelled = step["action"].as_str().map(|action| action.replace('_', " ").to_uppercase());
                if let Some(spelled) = spelled.filter(|_| step["agent_type"] != "auto") {
                    step["action"] = spelled.into();
                }
            }
            _ => {}
        }
    }
}

/// The same as a literal of Python.
fn python(value: &Value) -> String {
    match value {
        Value::Null => "None".into(),
        Value::Bool(true) => "True".into(),
        Value::Bool(false) => "False".into(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', "\\n")),
        Value::Array(items) => format!("[{}]", items.iter().map(python).collect::<Vec<_>>().join(", ")),
        Value::Object(map) => {
            let entries: Vec<String> = map.iter().map(|(key, value)| format!("'{key}': {}", python(value))).collect();
            format!("{{{}}}", entries.join(", "))
        }
    }
}

fn any<'a>(words: &[&'a str], random: &Random) -> &'a str {
    words[below(random, words.len())]
}

fn below(random: &Random, count: usize) -> usize {
    usize::try_from(random.below(count as u64)).expect("it is below a number of this size")
}
