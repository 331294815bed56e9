//! The goal that is submitted: of a text or a file, with the flags.

use goalmill_client::Document;
use goalmill_common::goal::INPUTS;
use goalmill_common::number::milliseconds;
use serde_json::{Map, Value, json};

use super::input;
use super::plan_inputs::{json_or_text, name_and_value, plan_inputs};
use crate::args::SubmitArgs;
use crate::exit::{Exit, Failed};

/// The goal document from the file or the text, with the flags.
pub(super) fn goal_of(args: &SubmitArgs, document: Option<&Document>, now_ms: u64) -> Result<Value, Failed> {
    let mut goal = given_goal(args, document)?;
    let mut state = object(&mut goal, "state")?;
    for text in &args.state {
        let (name, value) = name_and_value("state", text)?;
        state.insert(name.into(), json!(value));
    }
    put(&mut goal, "state", state);
    let mut constraints = constraints(&mut goal)?;
    for text in &args.constraint {
        let (name, value) = name_and_value("constraint", text)?;
        constraints.add(name, json_or_text(value));
    }
    if !args.demo_fault.is_empty() {
        let faults: Map<String, Value> =
            args.demo_fault.iter().map(|(agent, fault)| (agent.clone(), json!(fault))).collect();
        constraints.add("demo_fault", Value::Object(faults));
    }
    constraints.put(&mut goal);
    let mut inputs = object(&mut goal, INPUTS)?;
    inputs.extend(plan_inputs(&args.input)?);
    put(&mut goal, INPUTS, inputs);
    let mut budget = object(&mut goal, "budget")?;
    if let Some(cost) = args.max_cost {
        budget.insert("cost".into(), json!(cost));
    }
    if let Some(tokens) = args.max_tokens {
        budget.insert("tokens".into(), json!(tokens));
    }
    put(&mut goal, "budget", budget);
    if !args.criterion.is_empty() {
        goal.insert("success_criteria".into(), json!(args.criterion));
    }
    if let Some(priority) = args.priority {
        goal.insert("priority".into(), json!(priority));
    }
    set_planning(args, &mut goal)?;
    if let Some(deadline) = args.deadline {
        let in_ms = milliseconds(deadline);
        goal.insert("deadline_ms".into(), json!(now_ms.saturating_add(in_ms)));
    }
    Ok(Value::Object(goal))
}

/// The goal of the text, or of the file.
fn given_goal(args: &SubmitArgs, document: Option<&Document>) -> Result<Map<String, Value>, Failed> {
    match (&args.goal, args.file.as_ref().zip(document)) {
        (Some(text), _) if text.trim().is_empty() => Err(Failed::invalid("the text of the goal is empty")
            .help("say in a sentence what is to be done, goalmill submit 'YOUR GOAL'")),
        (Some(text), _) => Ok(Map::from_iter([("description".to_owned(), json!(text))])),
        (None, Some((path, document))) => {
            let Value::Object(fields) = input::parse(path, &document.text)? else {
                return Err(Failed::invalid(format!("`{path}` holds no goal, which is an object"))
                    .help("write at least `description: YOUR GOAL` into it"));
            };
            Ok(fields)
        }
        (None, None) => Err(Failed::new(Exit::Usage, "no goal is given")
            .help("give it as a text, goalmill submit 'YOUR GOAL', or by --file FILE")),
    }
}

/// Puts the options about planners and revisions into the goal.
fn set_planning(args: &SubmitArgs, goal: &mut Map<String, Value>) -> Result<(), Failed> {
    let mut planning = object(goal, "planning")?;
    args.planning.set(&mut planning);
    if args.require_approval {
        planning.insert("require_approval".into(), json!(true));
    }
    let mut revision = object(&mut planning, "revision")?;
    if args.approve_revisions {
        revision.insert("approve".into(), json!({}));
    }
    if let Some(least) = args.min_confidence {
        revision.insert("confidence_floor".into(), json!(least));
    }
    put(&mut planning, "revision", revision);
    put(goal, "planning", planning);
    Ok(())
}

/// Constraints by name, or as a list that other planners write.
enum Constraints {
    ByName(Map<String, Value>),
    Listed(Vec<Value>),
}

fn constraints(goal: &mut Map<String, Value>) -> Result<Constraints, Failed> {
    match goal.remove("constraints") {
        Some(Value::Array(list)) => Ok(Constraints::Listed(list)),
        Some(given) => {
            goal.insert("constraints".into(), given);
            object(goal, "constraints").map(Constraints::ByName)
        }
        None => Ok(Constraints::ByName(Map::new())),
    }
}

impl Constraints {
    fn add(&mut self, name: &str, value: Value) {
        match self {
            Self::ByName(map) => drop(map.insert(name.into(), value)),
            Self::Listed(list) => list.push(json!({"type": name, "value": value})),
        }
    }

    fn put(self, goal: &mut Map<String, Value>) {
        match self {
            Self::ByName(map) => put(goal, "constraints", map),
            Self::Listed(list) => drop(goal.insert("constraints".into(), Value::Array(list))),
        }
    }
}

pub(super) fn object(goal: &mut Map<String, Value>, name: &str) -> Result<Map<String, Value>, Failed> {
    match goal.remove(name) {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(fields)) => Ok(fields),
        Some(_) => Err(Failed::invalid(format!("the goal's `{name}` is no object"))),
    }
}

pub(super) fn put(goal: &mut Map<String, Value>, name: &str, fields: Map<String, Value>) {
    if !fields.is_empty() {
        goal.insert(name.into(), Value::Object(fields));
    }
}
