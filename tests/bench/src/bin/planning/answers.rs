//! Writes plans as models do: in several spellings, with remarks, sometimes with a mistake that can be repaired.

use goalmill_common::agent::Agent;
use goalmill_common::json::Json;
use goalmill_common::random::Random;
use serde_json::{Map, Value, json};

/// One step in so many has the agent type `auto`; every second one of these names no action.
const AUTO: u64 = 4;
/// One answer in so many has mistakes.
const WRONG: usize = 3;
/// A step depends on some of so many steps before it.
const BACK: usize = 8;
/// Most dependencies of a step.
const DEPENDENCIES_MAX: u64 = 3;
/// Steps of the largest plan that gets mistakes.
const SPOILED_STEPS_MAX: usize = 200;

const PLACES: [&str; 12] = [
    "Paris", "Osaka", "Nairobi", "Quito", "Tallinn", "Adelaide", "Montréal", "Lübeck", "Fès", "Split", "Pune", "Bergen",
];
const PEOPLE: [&str; 10] = [
    "the customer", "Ms. O'Hara", "the board", "our partner", "the \"night shift\"", "Dr. Lindqvist", "finance",
    "the new office", "the audit", "both teams",
];

/// A goal in plain words.
pub fn goal(agents: &[Agent], random: &Random) -> String {
    let what = |_| subject(&agents[below(random, agents.len())], random);
    let parts: Vec<&str> = (0..3).map(what).collect();
    format!(
        "Arrange {} in {} for {}, within {} days",
        parts.join(", "),
        any(&PLACES, random),
        any(&PEOPLE, random),
        2 + random.below(30)
    )
}

/// An answer with a plan of so many steps.
///
/// - `number`: counted from 0; spellings and mistakes take turns.
pub fn write(agents: &[Agent], steps: usize, number: usize, random: &Random) -> String {
    let names: Vec<String> = (0..steps).map(|n| format!("s{n}_{:04x}", random.below(0x1_0000))).collect();
    let is_wrong = number % WRONG == WRONG - 1 && steps <= SPOILED_STEPS_MAX;
    let mut list: Vec<Value> = (0..steps).map(|n| step(agents, &names, n, random)).collect();
    if is_wrong {
        spoil(&mut list);
    }
    let plan = json!({"name": format!("plan {:016x}", random.draw()), "thought": "First what is known, then what is open.", "steps": list});
    match number % 4 {
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
    let agent = &agents[below(random, agents.len())];
    let action = &agent.actions[below(random, agent.actions.len())];
    let mut needs: Vec<usize> = Vec::new();
    if n > 0 {
        for _ in 0..random.below(DEPENDENCIES_MAX + 1) {
            needs.push(n - 1 - below(random, n.min(BACK)));
        }
        needs.sort_unstable();
        needs.dedup();
    }
    let (place, who) = (any(&PLACES, random), any(&PEOPLE, random));
    let mut source = needs.first().map(|earlier| format!("{{{{ steps.{}.outputs.summary }}}}", names[*earlier]));
    let schema = action.inputs.as_ref().map(Json::value).unwrap_or_default();
    let mut inputs = Map::new();
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        let value = match schema["type"].as_str() {
            Some("number" | "integer") => Value::from(1 + random.below(100)),
            Some("boolean") => Value::from(random.below(2) == 0),
            Some("array") => json!([random.below(100)]),
            Some("object") => json!({}),
            _ => Value::from(source.take().unwrap_or_else(|| format!("{place}, no. {}", random.below(100_000)))),
        };
        inputs.insert(name.clone(), value);
    }
    let mut step = json!({
        "id": names[n],
        "description": format!("{} for {who} in {place}, case {}", subject(agent, random), random.below(100_000)),
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

/// What the agent does, in words: one of its capabilities, or its description.
fn subject<'a>(agent: &'a Agent, random: &Random) -> &'a str {
    match agent.capabilities.len() {
        0 => &agent.description,
        count => &agent.capabilities[below(random, count)],
    }
}

/// Makes mistakes of models: an expression without its dependency, a misspelled action.
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

/// The value as a Python literal.
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
