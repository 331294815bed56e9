//! Damages a valid draft in one way, so that its correct form is known.

use goalmill_common::random::Random;
use serde_json::{Map, Value, json};

/// A way to damage a draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Damage {
    /// One letter of a dependency is wrong.
    DependencyTypo,
    /// One letter of a step's own id is wrong.
    IdTypo,
    /// One letter of the step in an expression is wrong.
    ReferenceTypo,
    AgentTypo,
    ActionTypo,
    /// One letter of the name of a field is wrong.
    FieldTypo,
    /// An expression reads its own step.
    SelfReference,
    /// A dependency on the step itself stands in the place of another.
    SelfDependency,
    /// A dependency on the step itself stands beside the others.
    SelfDependencyAdded,
    /// A step that others wait for is not there.
    MissingStep,
    /// A step waits for one that waits for it.
    Cycle,
    /// A field has another name.
    FieldName,
    /// The text ends in the middle.
    Truncated,
    MissingId,
    DuplicateId,
    /// Dependencies are numbers of steps, counted from 0.
    Indices,
    /// Two neighbours are written in the wrong order.
    Order,
    /// The text is a Python literal in prose.
    Literal,
    /// A comma stands before each closing bracket.
    Commas,
    /// The status of a dependency is another word, without a list.
    StatusWord,
    /// One letter of the status of a dependency is wrong.
    StatusTypo,
}

pub const DAMAGES: [Damage; 19] = [
    Damage::DependencyTypo,
    Damage::IdTypo,
    Damage::ReferenceTypo,
    Damage::AgentTypo,
    Damage::ActionTypo,
    Damage::FieldTypo,
    Damage::SelfReference,
    Damage::SelfDependency,
    Damage::SelfDependencyAdded,
    Damage::MissingStep,
    Damage::Cycle,
    Damage::FieldName,
    Damage::Truncated,
    Damage::MissingId,
    Damage::DuplicateId,
    Damage::Indices,
    Damage::Order,
    Damage::Literal,
    Damage::Commas,
];

/// Those that only plans with statuses have a place for.
pub const STATUS_DAMAGES: [Damage; 2] = [Damage::StatusWord, Damage::StatusTypo];

/// Other names that models have for fields.
const FIELDS: [(&str, &[&str]); 6] = [
    ("id", &["step_id", "identifier", "key"]),
    ("description", &["step", "text", "instruction", "details", "what"]),
    ("agent_type", &["agent", "assignee", "executor"]),
    ("action", &["tool", "operation", "api", "tool_name"]),
    ("inputs", &["param", "params", "tool_input", "action_input", "input_data", "payload"]),
    ("dependencies", &["depends_on", "requires", "prerequisites", "parents", "prereqs"]),
];

impl Damage {
    /// The damaged text; none when the draft has no place for it.
    #[expect(clippy::too_many_lines, reason = "one arm per damage")]
    pub fn apply(self, draft: &Value, random: &Random) -> Option<String> {
        let mut draft = draft.clone();
        let steps = draft["steps"].as_array_mut()?;
        match self {
            Self::DependencyTypo => {
                let (step, at) = pick(&dependencies(steps), random)?;
                let ids = ids(steps);
                let given = id_of(&mut steps[step]["dependencies"][at]);
                *given = typo(given.as_str()?, &ids, random)?.into();
            }
            Self::IdTypo => {
                let step = pick(&(0..steps.len()).collect::<Vec<_>>(), random)?;
                let ids = ids(steps);
                steps[step]["id"] = typo(&ids[step], &ids, random)?.into();
            }
            Self::ReferenceTypo => {
                let (step, input, target) = pick(&references(steps), random)?;
                let wrong = typo(&target, &ids(steps), random)?;
                refer(reader(&mut steps[step], &input), &target, &wrong);
            }
            Self::AgentTypo | Self::ActionTypo => {
                let field = if self == Self::AgentTypo { "agent_type" } else { "action" };
                let named: Vec<usize> = (0..steps.len()).filter(|step| steps[*step].get(field).is_some()).collect();
                let step = pick(&named, random)?;
                let given = steps[step][field].as_str()?.to_owned();
                steps[step][field] = typo(&given, &[], random)?.into();
            }
            Self::FieldTypo => {
                let step = pick(&(0..steps.len()).collect::<Vec<_>>(), random)?;
                let fields: Vec<String> = steps[step].as_object()?.keys().cloned().collect();
                let field = pick(&fields, random)?;
                let wrong = typo(&field, &[], random)?;
                rename(steps[step].as_object_mut()?, &field, &wrong);
            }
            Self::SelfReference => {
                let (step, input, target) = pick(&references(steps), random)?;
                let own = ids(steps)[step].clone();
                refer(reader(&mut steps[step], &input), &target, &own);
            }
            Self::SelfDependency => {
                let (step, at) = pick(&dependencies(steps), random)?;
                let own = steps[step]["id"].clone();
                *id_of(&mut steps[step]["dependencies"][at]) = own;
            }
            Self::SelfDependencyAdded => {
                let (step, _) = pick(&dependencies(steps), random)?;
                let own = steps[step]["id"].clone();
                steps[step]["dependencies"].as_array_mut()?.push(own);
            }
            Self::MissingStep => {
                let (step, at) = pick(&dependencies(steps), random)?;
                let gone = id_of(&mut steps[step]["dependencies"][at]).clone();
                steps.retain(|step| step["id"] != gone);
            }
            Self::Cycle => {
                let (step, at) = pick(&dependencies(steps), random)?;
                let later = steps[step]["id"].clone();
                let earlier = id_of(&mut steps[step]["dependencies"][at]).clone();
                let first = steps.iter_mut().find(|step| step["id"] == earlier)?;
                first["dependencies"].as_array_mut()?.push(later);
            }
            Self::FieldName => {
                let (field, others) = pick(&FIELDS, random)?;
                let other = pick(others, random)?;
                // A model that has another name for a field has it in every step.
                let is_everywhere = random.below(3) > 0;
                let only = pick(&(0..steps.len()).collect::<Vec<_>>(), random)?;
                for (at, step) in steps.iter_mut().enumerate() {
                    if is_everywhere || at == only {
                        rename(step.as_object_mut()?, field, other);
                    }
                }
            }
            Self::Truncated => {
                let text = draft.to_string();
                let chars = text.chars().count();
                let share = 10 + usize::try_from(random.below(88)).ok()?;
                return Some(text.chars().take((chars * share / 100).max(1)).collect());
            }
            Self::MissingId => {
                let step = pick(&(0..steps.len()).collect::<Vec<_>>(), random)?;
                steps[step].as_object_mut()?.remove("id");
            }
            Self::DuplicateId => {
                let step = pick(&(1..steps.len()).collect::<Vec<_>>(), random)?;
                let other = pick(&(0..step).collect::<Vec<_>>(), random)?;
                steps[step]["id"] = steps[other]["id"].clone();
            }
            Self::Indices => {
                dependencies(steps).first()?;
                let ids = ids(steps);
                for step in steps.iter_mut() {
                    for id in step["dependencies"].as_array_mut()?.iter_mut().map(id_of) {
                        *id = ids.iter().position(|known| known == id.as_str().unwrap_or_default())?.into();
                    }
                }
            }
            Self::Order => {
                let at = pick(&(1..steps.len()).collect::<Vec<_>>(), random)?;
                steps.swap(at - 1, at);
            }
            Self::Literal => {
                let text = draft.to_string();
                if text.contains('\'') || text.contains("\\\"") {
                    return None;
                }
                return Some(format!("Here is the plan:\n{}\nGood luck!", text.replace('"', "'")));
            }
            Self::Commas => return Some(draft.to_string().replace("}]", "},]")),
            Self::StatusWord | Self::StatusTypo => {
                let all = dependencies(steps);
                let with: Vec<(usize, usize)> =
                    all.into_iter().filter(|(step, at)| steps[*step]["dependencies"][*at].is_object()).collect();
                let (step, at) = pick(&with, random)?;
                let words = &mut steps[step]["dependencies"][at]["is"];
                if self == Self::StatusWord {
                    *words = pick(&["success", "succeeded", "complete", "COMPLETED"], random)?.into();
                } else {
                    words[0] = typo(words[0].as_str()?, &[], random)?.into();
                }
            }
        }
        Some(draft.to_string())
    }
}

fn pick<T: Clone>(among: &[T], random: &Random) -> Option<T> {
    let count = u64::try_from(among.len()).ok().filter(|count| *count > 0)?;
    among.get(usize::try_from(random.below(count)).ok()?).cloned()
}

fn ids(steps: &[Value]) -> Vec<String> {
    steps.iter().map(|step| step["id"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Every dependency: the step, and the place in its list.
fn dependencies(steps: &[Value]) -> Vec<(usize, usize)> {
    let count = |step: &Value| step["dependencies"].as_array().map_or(0, Vec::len);
    steps.iter().enumerate().flat_map(|(step, value)| (0..count(value)).map(move |at| (step, at))).collect()
}

/// The id in a dependency, which may have statuses.
fn id_of(dependency: &mut Value) -> &mut Value {
    if dependency.is_object() { &mut dependency["step"] } else { dependency }
}

/// What reads another step: an input, or the list of a map.
fn reader<'v>(step: &'v mut Value, name: &str) -> &'v mut Value {
    if name == "for_each" { &mut step["for_each"] } else { &mut step["inputs"][name] }
}

/// Every reference: the step, the name of the input, and the id of the step it reads.
fn references(steps: &[Value]) -> Vec<(usize, String, String)> {
    let mut found = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        let list = step.as_object().and_then(|fields| fields.get_key_value("for_each"));
        for (name, text) in step["inputs"].as_object().into_iter().flatten().chain(list) {
            let text = text.as_str().unwrap_or_default();
            let target = text.split_once("steps['").and_then(|(_, rest)| rest.split_once('\''));
            found.extend(target.map(|(target, _)| (at, name.clone(), target.to_owned())));
        }
    }
    found
}

fn refer(input: &mut Value, target: &str, other: &str) {
    let text = input.as_str().unwrap_or_default();
    *input = text.replacen(&format!("steps['{target}']"), &format!("steps['{other}']"), 1).into();
}

fn rename(map: &mut Map<String, Value>, field: &str, other: &str) {
    let entries = std::mem::take(map).into_iter();
    *map = entries.map(|(key, value)| if key == field { (other.to_owned(), value) } else { (key, value) }).collect();
}

/// One letter replaced, left out, added or swapped with the next; none when that is another known name.
fn typo(name: &str, known: &[String], random: &Random) -> Option<String> {
    let mut letters: Vec<char> = name.chars().collect();
    let places: Vec<usize> = (0..letters.len()).filter(|at| letters[*at].is_alphanumeric()).collect();
    let at = pick(&places, random)?;
    let other = pick(&"abcdefghijklmnopqrstuvwxyz".chars().collect::<Vec<_>>(), random)?;
    match random.below(4) {
        0 => letters[at] = other,
        1 => {
            letters.remove(at);
        }
        2 => letters.insert(at, other),
        _ if at + 1 < letters.len() => letters.swap(at, at + 1),
        _ => letters[at] = other,
    }
    let wrong: String = letters.into_iter().collect();
    (wrong != name && !wrong.is_empty() && !known.contains(&wrong)).then_some(wrong)
}

/// The name of a damage in the figures: `self_reference`.
pub fn name(damage: Damage) -> String {
    let mut name = String::new();
    for letter in format!("{damage:?}").chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

/// A step of an undamaged draft.
pub fn step(id: &str, description: &str, action: &str, inputs: Value, dependencies: &[String]) -> Value {
    let mut step = json!({"id": id, "description": description});
    if !action.is_empty() {
        step["agent_type"] = action.split('/').next().unwrap_or_default().into();
        step["action"] = action.split('/').nth(1).unwrap_or_default().into();
    }
    step["inputs"] = inputs;
    step["dependencies"] = json!(dependencies);
    step
}
