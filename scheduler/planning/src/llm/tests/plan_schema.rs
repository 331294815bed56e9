//! What the schema of a plan admits, in each form.

use goalmill_common::planning::PlanFeature;
use goalmill_common::random::Random;
use goalmill_llm::{AnswerSchema, SchemaForm};
use goalmill_plan::validate::{Catalogue, Rules};
use serde_json::Map;

use super::*;
use crate::llm::plan_schema::{KnownStep, PlanVocabulary, RevisedPlan, features};
use crate::llm::tool_shortlist::ToolShortlist;

const STEPS_MAX: usize = 4;

/// Agents of an office: texts, numbers, one of several words, optional inputs, and lists.
fn office() -> Vec<Agent> {
    let action = |name: &str, inputs: Value, outputs: Value| {
        let closed = |properties: Value, required: Value| json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
        let required: Vec<&String> =
            inputs.as_object().into_iter().flatten().map(|(name, _)| name).filter(|name| *name != "note").collect();
        let (required, gives) = (json!(required), json!(outputs.as_object().map(|map| map.keys().collect::<Vec<_>>())));
        Action {
            name: name.into(),
            description: String::new(),
            inputs: Some(Json::from_value(&closed(inputs, required))),
            outputs: Some(Json::from_value(&closed(outputs, gives))),
            side_effect: false,
        }
    };
    let text = || json!({"type": "string"});
    let files = vec![
        action(
            "read_file",
            json!({"path": text()}),
            json!({"text": text(), "lines": {"type": "integer"}, "names": {"type": "array", "items": text()}}),
        ),
        action("split", json!({"text": text(), "parts": {"type": "integer"}, "note": text()}), json!({"text": text()})),
    ];
    let mail = vec![action(
        "send",
        json!({"to": text(), "body": text(), "urgency": {"enum": ["low", "high"]}, "copies": {"type": "array", "items": text()}}),
        json!({"text": text()}),
    )];
    let agent = |name: &str, actions: Vec<Action>| Agent { actions, ..Agent::named(name.into()) };
    vec![agent("files", files), agent("mail", mail)]
}

fn vocabulary(agents: &[Agent]) -> PlanVocabulary {
    PlanVocabulary {
        agents: agents.to_vec(),
        plans: Vec::new(),
        fallbacks: false,
        parts: false,
        nested: true,
        features: Vec::new(),
        output_tokens_max: 400,
    }
}

/// The forms that servers enforce.
fn enforced(schema: &AnswerSchema) -> [(&'static str, &Value); 2] {
    let [grammar, strict, _] = forms(schema);
    [grammar, strict]
}

fn forms(schema: &AnswerSchema) -> [(&'static str, &Value); 3] {
    [("grammar", SchemaForm::Grammar), ("strict", SchemaForm::Strict), ("prompt", SchemaForm::Prompt)]
        .map(|(name, form)| (name, schema.form(form)))
}

/// All that plans may use.
pub fn all_features() -> Vec<PlanFeature> {
    PlanFeature::ALL.to_vec()
}

/// What the id of a step says of it in the grammar form.
fn suffix(step: &Value) -> Option<String> {
    let action = step["action"].as_str().or_else(|| step["use"].as_str()?.split('@').next());
    let way = || ["for", "until", "event"].into_iter().find(|way| step["wait"][way].is_string());
    Some(match (action, step["kind"].as_str()) {
        (Some(action), _) if step["always"] == true => format!("always_{action}"),
        (Some(action), _) if !step["for_each"].is_null() => format!("each_{action}"),
        (Some(action), _) => action.to_owned(),
        (None, Some("wait")) => if way()? == "for" { "wait" } else { way()? }.to_owned(),
        (None, Some("plan")) if !step["for_each"].is_null() => "each".to_owned(),
        (None, Some("plan")) => "plan".to_owned(),
        (None, _) => step.get("ask").map(|_| "ask".to_owned())?,
    })
}

/// The same answer with the actions of new steps in their ids, as the grammar form has them: `s1` becomes `s1_send`.
pub fn with_typed_ids(answer: &Value) -> Value {
    fn gather(value: &Value, ids: &mut Vec<(String, String)>) {
        if let Some(id) = value["id"].as_str()
            && id.starts_with(['s', 'i', 'e'])
            && id[1..].parse::<u32>().is_ok()
            && let Some(suffix) = suffix(value)
        {
            ids.push((id.to_owned(), format!("{id}_{suffix}")));
        }
        match value {
            Value::Array(items) => items.iter().for_each(|item| gather(item, ids)),
            Value::Object(map) => map.values().for_each(|item| gather(item, ids)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut ids = Vec::new();
    gather(answer, &mut ids);
    let mut text = answer.to_string();
    for (id, typed) in ids {
        text = text.replace(&format!("\"{id}\""), &format!("\"{typed}\""));
        text = text.replace(&format!("steps.{id}."), &format!("steps.{typed}."));
    }
    serde_json::from_str(&text).expect("it was JSON")
}

/// An answer as a form has it.
fn written(form: &str, answer: &Value) -> Value {
    match form {
        "grammar" => with_typed_ids(answer),
        "strict" => with_work(answer.clone()),
        _ => answer.clone(),
    }
}

/// The same answer with agent, action and inputs of its steps in an object, as the strict form has them.
pub fn with_work(mut answer: Value) -> Value {
    match &mut answer {
        Value::Array(items) => items.iter_mut().for_each(|item| *item = with_work(item.take())),
        Value::Object(map) => {
            map.values_mut().for_each(|value| *value = with_work(value.take()));
            if map.contains_key("id") && (map.contains_key("agent_type") || map.contains_key("use")) {
                let is_work = |key: &str| ["agent_type", "action", "use", "inputs", "fallback"].contains(&key);
                let (work, mut step): (Map<_, _>, Map<_, _>) =
                    std::mem::take(map).into_iter().partition(|(key, _)| is_work(key));
                step.insert("work".into(), work.into());
                *map = step;
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    answer
}

fn admits(schema: &Value, answer: &Value) -> bool {
    validator(schema).is_valid(answer)
}

pub fn validator(schema: &Value) -> jsonschema::Validator {
    jsonschema::validator_for(schema).expect("it is a schema")
}

/// A step of a draft.
fn known(id: &str, agent_type: &str, action: &str) -> KnownStep {
    KnownStep { id: id.into(), agent_type: agent_type.into(), action: action.into(), is_map: false }
}

/// A step of `office` with given inputs.
fn step(id: usize, agent: &str, action: &str, inputs: &Value, dependencies: &[&str]) -> Value {
    json!({"id": format!("s{id}"), "description": format!("Do part {id}"), "agent_type": agent, "action": action,
           "inputs": inputs, "dependencies": dependencies})
}

fn read(id: usize) -> Value {
    step(id, "files", "read_file", &json!({"path": "a.txt"}), &[])
}

fn send(id: usize, body: &str, dependencies: &[&str]) -> Value {
    let inputs = json!({"to": "ann@example.org", "body": body, "urgency": "low", "copies": ["bob@example.org"]});
    step(id, "mail", "send", &inputs, dependencies)
}

fn split(id: usize, parts: &Value, dependencies: &[&str]) -> Value {
    step(id, "files", "split", &json!({"text": "{{ steps.s1.outputs.text }}", "parts": parts}), dependencies)
}

#[test]
fn the_schema_admits_plans_of_the_catalogue() {
    let agents = office();
    let schema = vocabulary(&agents).plan_answer_schema(STEPS_MAX);
    let (grammar, prompt) = (validator(schema.form(SchemaForm::Grammar)), validator(schema.prompt()));
    for steps in [
        json!([read(1)]),
        json!([read(1), send(2, "Here: {{ steps.s1.outputs.text }}.", &["s1"])]),
        json!([read(1), split(2, &json!("{{ steps.s1.outputs.lines }}"), &["s1"]), send(3, "Done", &["s1", "s2"])]),
        json!([read(1), split(2, &json!(3), &["s1"])]),
    ] {
        let answer = json!({"steps": steps});
        assert!(grammar.is_valid(&with_typed_ids(&answer)) && prompt.is_valid(&answer), "{answer}");
    }
    let all_fields = step(
        2,
        "files",
        "split",
        &json!({"text": "a", "parts": "{{ steps.s1.outputs.lines }}", "note": null}),
        &["s1"],
    );
    assert!(admits(schema.form(SchemaForm::Strict), &with_work(json!({"steps": [read(1), all_fields]}))));
}

#[test]
fn the_schema_refuses_what_the_catalogue_does_not_have() {
    let agents = office();
    let schema = vocabulary(&agents).plan_answer_schema(STEPS_MAX);
    let validators = forms(&schema).map(|(form, schema)| (form, validator(schema)));
    let changed = |field: &str, value: Value| {
        let mut step = send(2, "Done", &["s1"]);
        step[field] = value;
        json!({"steps": [read(1), step]})
    };
    let where_names_stand = [
        ("agent", changed("agent_type", json!("pigeon"))),
        ("action", changed("action", json!("shout"))),
        ("action of another agent", changed("action", json!("read_file"))),
        ("id", changed("id", json!("last"))),
        ("dependency", changed("dependencies", json!(["s9"]))),
        ("field", changed("colour", json!("red"))),
        ("no steps", json!({"steps": []})),
        ("too many steps", json!({"steps": (1..=5).map(read).collect::<Vec<_>>()})),
    ];
    for (what, answer) in &where_names_stand {
        for (form, schema) in &validators[..2] {
            assert!(!schema.is_valid(&written(form, answer)), "{form}: {what}");
        }
    }
    let mut inputs = send(2, "Done", &["s1"])["inputs"].clone();
    inputs["mood"] = json!("good");
    let where_inputs_stand = [
        ("unknown input", changed("inputs", inputs)),
        ("missing input", changed("inputs", json!({"to": "ann@example.org"}))),
        ("no inputs", changed("inputs", json!({}))),
    ];
    for (what, answer) in &where_inputs_stand {
        for (form, schema) in &validators[..2] {
            assert!(!schema.is_valid(&written(form, answer)), "{form}: {what}");
        }
    }
    let in_the_grammar = [
        ("own id", changed("dependencies", json!(["s2"]))),
        ("later step", json!({"steps": [step(1, "files", "read_file", &json!({"path": "a"}), &["s2"]), read(2)]})),
        ("same id twice", json!({"steps": [read(1), read(1)]})),
        ("wrong order of ids", json!({"steps": [read(2), read(1)]})),
        ("reference to a later step", json!({"steps": [read(1), send(2, "{{ steps.s3.outputs.text }}", &["s1"])]})),
        ("reference to no output", json!({"steps": [read(1), send(2, "{{ steps.s1.outputs.mood }}", &["s1"])]})),
        (
            "reference of another type",
            json!({"steps": [read(1), split(2, &json!("{{ steps.s1.outputs.text }}"), &["s1"])]}),
        ),
        ("braces", json!({"steps": [send(1, "Dear {name}", &[])]})),
        ("empty text", json!({"steps": [send(1, "", &[])]})),
        (
            "empty description",
            json!({"steps": [{"id": "s1", "description": "", "agent_type": "files", "action": "read_file",
                                                "inputs": {"path": "a"}, "dependencies": []}]}),
        ),
    ];
    for (what, answer) in &in_the_grammar {
        assert!(!validators[0].1.is_valid(&with_typed_ids(answer)), "{what}");
    }
}

/// A plan that the grammar form admits: texts or references, to outputs that the step has.
fn random_plan(random: &Random, agents: &[Agent]) -> Value {
    let pick = |count: usize| goalmill_common::number::to_usize(random.below(count as u64));
    let mut steps: Vec<Value> = Vec::new();
    for at in 0..=pick(STEPS_MAX) {
        if at == STEPS_MAX {
            break;
        }
        let agent = &agents[pick(agents.len())];
        let action = &agent.actions[pick(agent.actions.len())];
        let schema = action.inputs.as_ref().map(Json::value).unwrap_or_default();
        let mut used = Vec::new();
        let mut inputs = serde_json::Map::new();
        let has_names = |step: &Value| step["action"] == "read_file" && step["for_each"].is_null();
        let list = (0..at).find(|at| has_names(&steps[*at])).filter(|_| pick(2) == 0);
        used.extend(list.map(|at| format!("s{}", at + 1)));
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            if name == "note" && pick(2) == 0 {
                continue;
            }
            let source = (at > 0 && pick(2) == 0).then(|| pick(at));
            let output = match field["type"].as_str() {
                Some("string") => Some("text"),
                Some("integer") => Some("lines"),
                _ => None,
            };
            let gives = |(at, output): &(usize, &str)| match *output {
                "text" => steps[*at]["for_each"].is_null(),
                _ => has_names(&steps[*at]),
            };
            let from = source.zip(output).filter(gives);
            let value = match (from, field["type"].as_str()) {
                (Some((at, output)), _) => {
                    used.push(format!("s{}", at + 1));
                    json!(format!("{{{{ steps.s{}.outputs.{output} }}}}", at + 1))
                }
                (None, Some("integer")) => json!(random.below(9)),
                (None, Some("array")) => match source {
                    Some(at) if has_names(&steps[at]) => {
                        used.push(format!("s{}", at + 1));
                        json!(format!("{{{{ steps.s{}.outputs.names }}}}", at + 1))
                    }
                    _ => json!(["x"]),
                },
                (None, Some("string")) if list.is_some() => json!("About {{ item }}"),
                (None, Some("string")) if source.is_some_and(|at| !steps[at]["for_each"].is_null()) => {
                    let at = source.unwrap_or_default() + 1;
                    used.push(format!("s{at}"));
                    json!(format!("All: {{{{ steps.s{at}.outputs | tojson }}}}"))
                }
                (None, Some("string")) => json!(["Rome", "Kaffee, bitte!", "a/b.txt", "100 %"][pick(4)]),
                (None, _) => json!("high"),
            };
            inputs.insert(name.clone(), value);
        }
        used.sort();
        used.dedup();
        let used: Vec<&str> = used.iter().map(String::as_str).collect();
        let mut step = step(at + 1, agent.agent_type.as_str(), &action.name, &inputs.into(), &used);
        if let Some(at) = list {
            step["for_each"] = format!("{{{{ steps.s{}.outputs.names }}}}", at + 1).into();
        }
        steps.push(step);
    }
    json!({ "steps": steps })
}

#[test]
fn what_the_grammar_admits_is_a_valid_plan() {
    let agents = office();
    let schema = PlanVocabulary { features: all_features(), ..vocabulary(&agents) }.plan_answer_schema(STEPS_MAX);
    let validator = validator(schema.form(SchemaForm::Grammar));
    let catalogue = Catalogue::from_agents(&agents);
    let rules = Rules { in_order: true, ..Rules::planned(&catalogue) };
    let actions = ToolShortlist::choose(&agents, "", 100).catalogue();
    let random = Random::seeded(11);
    for _ in 0..300 {
        let plan = with_typed_ids(&random_plan(&random, &agents));
        assert!(validator.is_valid(&plan), "{plan}");
        let (edits, outcome) = validate_answer(&plan.to_string(), &actions, &rules);
        assert!(outcome.is_ok() && edits.is_empty(), "{plan}: {edits:?} {outcome:?}");
    }
}

#[test]
fn the_grammar_has_the_features_that_are_allowed() {
    let agents = office();
    let schema = |features| PlanVocabulary { features, ..vocabulary(&agents) }.plan_answer_schema(STEPS_MAX);
    let (with, without) = (schema(all_features()), schema(Vec::new()));
    let [with, without] = [&with, &without].map(|schema| validator(schema.form(SchemaForm::Grammar)));
    let given = |mut step: Value, name: &str, field: Value| {
        step[name] = field;
        step
    };
    let until = |text: &str, max: u32| given(read(1), "repeat", json!({"until": text, "max": max}));
    let undo = |action: &str, body: &str| {
        let inputs = json!({"to": "ann@example.org", "body": body, "urgency": "low", "copies": ["bob@example.org"]});
        given(read(1), "undo", json!({"agent_type": "mail", "action": action, "inputs": inputs}))
    };
    let always = || {
        let mut step = given(send(1, "It is over", &[]), "always", true.into());
        step["id"] = "e1".into();
        step.as_object_mut().expect("it is a step").remove("dependencies");
        step
    };
    let catalogue = Catalogue::from_agents(&agents);
    let rules = Rules { in_order: true, ..Rules::planned(&catalogue) };
    let actions = ToolShortlist::choose(&agents, "", 100).catalogue();
    for steps in [
        json!([until("outputs.lines > 3", 5)]),
        json!([until("outputs.lines == -1.5", 10)]),
        json!([until("outputs.text == 'the end'", 1)]),
        json!([undo("send", "Forget {{ outputs.text }}, {{ outputs.names | tojson }}")]),
        json!([read(1), send(2, "Done", &["s1"]), always()]),
        json!([read(1), given(send(2, "Done", &["s1"]), "when", json!("steps.s1.outputs.lines > 3"))]),
    ] {
        let answer = with_typed_ids(&json!({ "steps": steps }));
        assert!(with.is_valid(&answer) && !without.is_valid(&answer), "{answer}");
        let (edits, outcome) = validate_answer(&answer.to_string(), &actions, &rules);
        assert!(outcome.is_ok() && edits.is_empty(), "{answer}: {edits:?} {outcome:?}");
    }
    for steps in [
        json!([until("outputs.pages > 3", 5)]),
        json!([until("true", 5)]),
        json!([until("outputs.lines > 3", 101)]),
        json!([undo("erase", "Forget it")]),
        json!([undo("send", "Forget {{ outputs.pages }}")]),
        json!([read(1), always(), send(2, "Done", &["s1"])]),
        json!([read(1), given(send(2, "Done", &["s1"]), "when", json!("steps.s2.outputs.text == 'x'"))]),
        json!([read(1), given(send(2, "Done", &["s1"]), "when", json!("steps.s1.outputs.pages > 3"))]),
    ] {
        let answer = with_typed_ids(&json!({ "steps": steps }));
        assert!(!with.is_valid(&answer), "{answer}");
    }
}

#[test]
fn a_plan_that_cannot_be_nested_deeper_has_no_plan_inside() {
    let agents = office();
    let map = json!({"id": "s1_each", "description": "Send each", "kind": "plan", "for_each": ["Ann"],
                     "inputs": {"item": "{{ item }}"}, "plan": {"steps": [with_typed_ids(&json!({"steps": [
                         {"id": "i1", "description": "Read it", "agent_type": "files", "action": "read_file",
                          "inputs": {"path": "{{ goal.metadata.inputs.item }}"}, "dependencies": []}]}))["steps"][0]]},
                     "dependencies": []});
    for nested in [true, false] {
        let schema =
            PlanVocabulary { nested, features: all_features(), ..vocabulary(&agents) }.plan_answer_schema(STEPS_MAX);
        assert_eq!(admits(schema.form(SchemaForm::Grammar), &json!({"steps": [map]})), nested);
    }
}

#[test]
fn parts_and_fallbacks_are_steps_where_they_are_wanted() {
    let agents = office();
    let part = json!({"id": "s1", "kind": "plan", "description": "Plan the rest", "dependencies": []});
    let mut fallback = read(1);
    fallback["fallback"] = json!({"agent_type": "mail", "action": "send"});
    let with = PlanVocabulary { parts: true, fallbacks: true, ..vocabulary(&agents) }.plan_answer_schema(STEPS_MAX);
    let without = vocabulary(&agents).plan_answer_schema(STEPS_MAX);
    for ((form, with), (_, without)) in enforced(&with).into_iter().zip(enforced(&without)) {
        for step in [&part, &fallback] {
            let answer = written(form, &json!({"steps": [step]}));
            assert!(admits(with, &answer) && !admits(without, &answer), "{form}: {answer}");
        }
        let answer = written(form, &json!({"steps": [read(1)]}));
        assert!(!admits(with, &answer) && admits(without, &answer), "{form}: a fallback is missing");
    }
}

#[test]
fn steps_use_stored_plans_with_their_inputs() {
    let agents = office();
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    let trip = json!({"name": "trip", "version": 3, "steps": 1, "actor": "ann", "stored_at": "2026-01-01T00:00:00Z",
                      "input_schema": schema});
    let trip = serde_json::from_value(trip).expect("it is a version");
    let with = PlanVocabulary { plans: vec![trip], ..vocabulary(&agents) }.plan_answer_schema(STEPS_MAX);
    let without = vocabulary(&agents).plan_answer_schema(STEPS_MAX);
    let plan = |name: &str, inputs: Value| {
        let step =
            json!({"id": "s2", "description": "Do part 2", "use": name, "inputs": inputs, "dependencies": ["s1"]});
        json!({"steps": [read(1), step, send(3, "Done: {{ steps.s2.outputs.go.to }}", &["s2"])]})
    };
    for ((form, with), (_, without)) in enforced(&with).into_iter().zip(enforced(&without)) {
        let (with, without) = (validator(with), validator(without));
        let answer = |name: &str, inputs: Value| written(form, &plan(name, inputs));
        let right = answer("trip@3", json!({"city": "{{ steps.s1.outputs.text }}"}));
        assert!(with.is_valid(&right) && !without.is_valid(&right), "{form}: {right}");
        assert!(!with.is_valid(&answer("tour@1", json!({"city": "Rome"}))), "{form}");
        assert!(!with.is_valid(&answer("trip@3", json!({"town": "Rome"}))), "{form}");
    }
}

#[test]
fn a_correction_names_steps_of_the_draft_and_new_ones() {
    let agents = office();
    let steps = || vec![known("read_it", "files", "read_file"), known("s1", "mail", "send")];
    let schema = vocabulary(&agents).correction(steps(), &[]);
    let frozen = vocabulary(&agents).correction(steps(), &["s1".to_owned()]);
    let answer = |form: &str, id: &str| {
        let mut step = read(1);
        step["id"] = id.into();
        let answer = json!({"steps": [step], "remove": []});
        if id == "s1" && form == "grammar" { answer } else { written(form, &answer) }
    };
    for (form, schema) in enforced(&schema) {
        assert!(["read_it", "s1", "s2", "s7"].iter().all(|id| admits(schema, &answer(form, id))), "{form}");
        assert!(!admits(schema, &answer(form, "other")), "{form}");
        let mut removes = answer(form, "s1");
        removes["remove"] = json!(["other"]);
        assert!(!admits(schema, &removes), "{form}");
    }
    for (form, schema) in enforced(&frozen) {
        let mut depends = answer(form, "read_it");
        depends["steps"][0]["dependencies"] = json!(["s1"]);
        assert!(!admits(schema, &answer(form, "s1")) && admits(schema, &depends), "{form}: `s1` has begun");
    }
    let grammar = schema.form(SchemaForm::Grammar);
    for (output, is_given) in
        [("read_it.outputs.text", true), ("read_it.outputs.mood", false), ("s1.outputs.text", true)]
    {
        let mut reads = answer("grammar", "s2");
        reads["steps"][0]["inputs"]["path"] = format!("{{{{ steps.{output} }}}}").into();
        assert_eq!(admits(grammar, &reads), is_given, "{output}");
    }
}

/// Takes the steps out of a change and leaves their ids, as the strict form has them.
fn steps_beside(change: &mut Value) -> Vec<Value> {
    let mut steps = Vec::new();
    for at in ["/add_step/step", "/modify_step/step", "/replace_step/with/0"] {
        if let Some(place) = change.pointer_mut(at).filter(|place| place.is_object()) {
            let id = place["id"].clone();
            steps.push(std::mem::replace(place, id));
        }
    }
    steps
}

#[test]
fn a_revision_changes_steps_that_may_change() {
    let agents = office();
    let plan = RevisedPlan {
        steps: vec![known("fetch", "files", "read_file"), known("mail", "mail", "send")],
        open: vec!["mail".into()],
        phases: Vec::new(),
        may_nest: false,
    };
    let schema = vocabulary(&agents).revision(plan);
    let proposal = |change: Value| json!({"strategy": "workaround", "summary": "Another way", "changes": [change], "question": null});
    let mut changed = send(1, "Done", &["fetch"]);
    changed["id"] = "mail".into();
    let right = [
        json!({"add_step": {"step": send(1, "Done", &["fetch"]), "before": ["mail"]}}),
        json!({"modify_step": {"step": changed}}),
        json!({"replace_step": {"step": "mail", "with": [send(2, "Done", &[])]}}),
        json!({"remove_step": {"step": "mail"}}),
        json!({"retry_step": {"step": "mail", "agent_type": "files", "action": "read_file", "inputs": {"path": "a"}}}),
    ];
    let wrong = [
        json!({"remove_step": {"step": "fetch"}}),
        json!({"remove_step": {"step": "other"}}),
        json!({"decompose_step": {"step": "mail"}}),
        json!({"modify_step": {"step": send(1, "Done", &[])}}),
        json!({"retry_step": {"step": "mail", "agent_type": "pigeon", "action": "read_file", "inputs": {"path": "a"}}}),
        json!({"add_step": {"step": send(1, "Done", &["other"]), "before": []}}),
    ];
    for (form, schema) in enforced(&schema) {
        let answer = |change: &Value| {
            let mut answer = proposal(change.clone());
            if form == "strict" {
                answer["steps"] = steps_beside(&mut answer["changes"][0]).into();
            } else {
                answer.as_object_mut().expect("it is an object").remove("question");
            }
            written(form, &answer)
        };
        let schema = validator(schema);
        right.iter().for_each(|change| assert!(schema.is_valid(&answer(change)), "{form}: {change}"));
        wrong.iter().for_each(|change| assert!(!schema.is_valid(&answer(change)), "{form}: {change}"));
    }
}

/// Agents with ten actions each.
fn many(actions: usize) -> Vec<Agent> {
    let schema = |names: [&str; 3]| {
        let fields: Map<_, _> = names
            .iter()
            .map(|name| ((*name).to_owned(), json!({"type": "string", "description": "What it says."})))
            .collect();
        Some(Json::from_value(
            &json!({"type": "object", "properties": fields, "required": names, "additionalProperties": false}),
        ))
    };
    let action = |number: usize| Action {
        name: format!("action_{number}"),
        description: "Does a part of the work.".into(),
        inputs: schema(["subject", "text", "recipient"]),
        outputs: schema(["result", "text", "id"]),
        side_effect: false,
    };
    let agent = |at: usize| Agent {
        actions: (at * 10..(at + 1) * 10).map(action).collect(),
        ..Agent::named(format!("agent_{at}").into())
    };
    (0..actions / 10).map(agent).collect()
}

/// The schemas that stand in a schema, with the number of objects and lists around each.
fn schemas<'s>(schema: &'s Value, defs: &'s Value, depth: usize, seen: &mut Vec<(usize, &'s Value)>) {
    let schema = match schema["$ref"].as_str() {
        Some(name) => &defs[name.trim_start_matches("#/$defs/")],
        None => schema,
    };
    seen.push((depth, schema));
    let alternatives = schema["anyOf"].as_array().into_iter().flatten().map(|inner| (depth, inner));
    let fields = schema["properties"].as_object().into_iter().flatten().map(|(_, inner)| (depth + 1, inner));
    let items = schema.get("items").map(|inner| (depth + 1, inner));
    for (depth, inner) in alternatives.chain(fields).chain(items) {
        schemas(inner, defs, depth, seen);
    }
}

/// The demo agents, and the shipped ones.
fn real_catalogues() -> [Vec<Agent>; 2] {
    let demo = serde_json::from_str(include_str!("../../../../../config/agents/demo.json")).expect("they are cards");
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/agents");
    let files = std::fs::read_dir(folder).expect("the folder of shipped agents");
    let shipped =
        files.map(|file| file.expect("a file").path()).filter(|path| path.extension().is_some_and(|e| e == "yaml"));
    let shipped = shipped.map(|path| {
        let text = std::fs::read_to_string(&path).expect("it can be read");
        let mut card = serde_yaml_ng::from_str::<Value>(&text).expect("it is YAML")["card"].take();
        card["agent_type"] = path.file_stem().and_then(|name| name.to_str()).into();
        serde_json::from_value(card).expect("it is a card")
    });
    [demo, shipped.collect()]
}

#[test]
fn the_strict_form_stays_within_the_documented_subset() {
    let [demo, shipped] = real_catalogues();
    for agents in [office(), demo, shipped, many(40)] {
        let vocabulary = PlanVocabulary { features: all_features(), parts: true, ..vocabulary(&agents) };
        let schema = vocabulary.plan_answer_schema(Limits::default().planned_steps_max);
        let strict = schema.form(SchemaForm::Strict);
        let mut all = Vec::new();
        schemas(strict, &strict["$defs"], 1, &mut all);
        for (depth, schema) in all {
            assert!(depth <= 10, "nested {depth} deep: {schema}");
            if schema["type"] == "object" {
                let fields: Vec<&String> = schema["properties"].as_object().expect("no open object").keys().collect();
                assert_eq!((&schema["required"], &schema["additionalProperties"]), (&json!(fields), &json!(false)));
            }
            let unknown = ["prefixItems", "pattern", "minLength", "maxLength", "const", "oneOf", "allOf", "format"];
            assert!(unknown.iter().all(|word| schema.get(word).is_none()), "{schema}");
        }
        // Definitions count once.
        let (mut fields, mut values, mut characters) = (0, 0, 0);
        let own = std::iter::once(strict).chain(strict["$defs"].as_object().into_iter().flatten().map(|(_, def)| def));
        for schema in own {
            let mut all = Vec::new();
            schemas(schema, &Value::Null, 1, &mut all);
            for (_, schema) in all {
                let names = schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.len());
                let words = schema["enum"].as_array().into_iter().flatten().map(|word| word.to_string().len());
                (fields, values) = (fields + names.clone().count(), values + words.clone().count());
                characters += names.chain(words).sum::<usize>();
            }
        }
        assert!(fields <= 5_000 && values <= 1_000 && characters <= 120_000, "{fields} {values} {characters}");
    }
}

/// The schema with each definition at every place that refers to it, as LiteLLM sends it to Claude.
fn inlined(schema: &Value, defs: &Value) -> Value {
    match schema {
        Value::Object(map) => match map.get("$ref").and_then(Value::as_str) {
            Some(name) => inlined(&defs[name.trim_start_matches("#/$defs/")], defs),
            None => {
                let fields = map.iter().filter(|(key, _)| *key != "$defs");
                fields.map(|(key, value)| (key.clone(), inlined(value, defs))).collect()
            }
        },
        Value::Array(items) => items.iter().map(|item| inlined(item, defs)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => schema.clone(),
    }
}

#[test]
fn the_strict_form_is_bounded_with_its_definitions_written_out() {
    let [demo, shipped] = real_catalogues();
    let sizes = [demo, shipped, many(40)].map(|agents| {
        let vocabulary = PlanVocabulary { features: all_features(), parts: true, ..vocabulary(&agents) };
        let ids = (1..=12).map(|number| format!("step_{number}"));
        let steps: Vec<KnownStep> = ids.map(|id| KnownStep { id, ..KnownStep::default() }).collect();
        let open = steps.iter().map(|step| step.id.clone()).collect();
        let plan = RevisedPlan { steps: steps.clone(), open, phases: Vec::new(), may_nest: true };
        let schemas = [
            vocabulary.clone().plan_answer_schema(Limits::default().planned_steps_max),
            vocabulary.clone().correction(steps, &[]),
            vocabulary.revision(plan),
        ];
        schemas.map(|schema| {
            let strict = schema.form(SchemaForm::Strict);
            let inlined = inlined(strict, strict.get("$defs").expect("it is no prompt"));
            (inlined.to_string().len(), inlined.to_string().contains("\"undo\""))
        })
    });
    // Of docs/planners.md.
    let expected = [
        [(34_874, true), (35_519, true), (51_272, true)],
        [(22_481, true), (23_126, true), (33_076, true)],
        [(54_995, true), (55_640, true), (46_562, false)],
    ];
    assert_eq!(sizes, expected);
    assert!(sizes.iter().flatten().all(|(bytes, _)| *bytes <= 60_000), "{sizes:?}");
}

#[test]
fn each_form_has_a_bounded_size() {
    let (steps_max, actions_max) = (Limits::default().planned_steps_max, LlmSettings::default().actions_max);
    let bytes = |agents: &[Agent], steps_max: usize, features| {
        let vocabulary = PlanVocabulary { output_tokens_max: 4_096, features, ..vocabulary(agents) };
        forms(&vocabulary.plan_answer_schema(steps_max)).map(|(_, schema)| schema.to_string().len())
    };
    let shortlist = |actions: usize| ToolShortlist::choose(&many(actions), "do a part of the work", actions_max);
    let prompt = |shortlist: &ToolShortlist| {
        let context = json!({"agents": shortlist.context(), "left_out": shortlist.left_out,
                             "limits": {"steps": steps_max}, "features": features::lines(&all_features())});
        let prompt = PromptStore::built_in().render("plan", &context).expect("the template is valid");
        prompt.messages.iter().map(|message| message.text().len()).sum::<usize>()
    };
    let sizes = [10, 20, 200].map(|actions| {
        let shortlist = shortlist(actions);
        let [grammar, strict, prompt_form] = bytes(&shortlist.agents, steps_max, all_features());
        [grammar, bytes(&shortlist.agents, steps_max, Vec::new())[0], strict, prompt_form, prompt(&shortlist)]
    });
    // The table of docs/planners.md.
    let expected = [
        [385_757, 96_578, 6_869, 1_670, 8_919],
        [269_298, 170_588, 9_239, 1_800, 14_989],
        [285_259, 318_608, 13_979, 2_070, 27_200],
    ];
    assert_eq!(sizes, expected);
    for (actions, steps_max) in [(200, 60), (400, 1)] {
        let vocabulary = PlanVocabulary { features: all_features(), ..vocabulary(&many(actions)) };
        let schema = vocabulary.plan_answer_schema(steps_max);
        let strict = schema.form(SchemaForm::Strict);
        let [grammar, strict_form, prompt] = forms(&schema).map(|(_, schema)| schema.to_string().len());
        let sizes = [grammar, strict_form, inlined(strict, &strict["$defs"]).to_string().len(), prompt];
        let limits = [384 << 10, 60_000, 60_000, 4 << 10];
        assert!(sizes.iter().zip(limits).all(|(bytes, limit)| *bytes <= limit), "{sizes:?}");
    }
}

#[tokio::test]
async fn the_model_is_asked_with_the_schema_of_the_catalogue() {
    let first = says(&json!({"steps": [flight(), bad_room()]}));
    let world = world(LlmSettings::default(), vec![vec![first, says(&json!({"steps": [room()]}))]]).await;
    let mut request = request();
    request.limits.planned_steps_max = 2;
    world.llm.plan(&request).await.expect("the correction is valid");
    let schema = |call: usize| world.servers[0].seen()[call].body["response_format"]["json_schema"]["schema"].clone();
    let plan = |step: Value| json!({"steps": [step]});
    let valid = step(1, "air", "find_flight", &json!({"to": "Rome"}), &[]);
    let other_action = step(1, "air", "book_room", &json!({"to": "Rome"}), &[]);
    assert!(
        admits(&schema(0), &with_typed_ids(&plan(valid))) && !admits(&schema(0), &with_typed_ids(&plan(other_action)))
    );
    let correction = |id: &str| {
        let mut step = room();
        step["id"] = id.into();
        json!({"steps": [step], "remove": []})
    };
    assert!(admits(&schema(1), &correction("room")) && !admits(&schema(1), &correction("inn")));
}

#[tokio::test]
async fn a_server_that_refuses_the_grammar_gets_the_strict_form_and_then_a_prompt() {
    let refuses = |reason: &str| Scripted { status: Some(400), error: Some(reason.into()), ..Scripted::default() };
    let answers = vec![
        refuses("failed to parse grammar"),
        refuses("response_format is not supported"),
        refuses("tool_choice is not supported"),
        refuses("response_format is not supported"),
        says(&good()),
    ];
    let world = world(LlmSettings::default(), vec![answers]).await;
    let planned = world.llm.plan(&request()).await.expect("the last mode works").planned;
    assert_eq!(ids(&planned), ["flight", "room"]);
    let seen = world.servers[0].seen();
    let schema = |call: usize| seen[call].body["response_format"]["json_schema"]["schema"].to_string();
    assert!(schema(0).contains("prefixItems") && !schema(1).contains("prefixItems"));
    assert_eq!(seen[1].body["response_format"]["json_schema"]["strict"], true);
    assert!(prompt_of(&world, 4).contains("book_room") && !prompt_of(&world, 4).contains("prefixItems"));
}

#[tokio::test]
async fn a_model_that_repeats_the_example_is_told_so() {
    let mut example = flight();
    example["inputs"]["to"] = "report.txt".into();
    let answers = vec![says(&json!({"steps": [example]})), says(&json!({"steps": [flight()]}))];
    let world = world(LlmSettings::default(), vec![answers]).await;
    let mut request = request();
    let prompt = r#"Plan.
{% raw %}{"steps": [{"description": "Read the report", "inputs": {"path": "report.txt"}}]}{% endraw %}
--- user ---
{{ goal.description }}"#;
    request.goal.planning.prompt = Some(prompt.into());
    let planned = world.llm.plan(&request).await.expect("the correction is a plan of its own").planned;
    assert_eq!(account(&planned)["rounds"][0]["issues"][0]["code"], "EXAMPLE_REPEATED");
    assert!(prompt_of(&world, 1).contains("repeats the example"));
}

#[tokio::test]
async fn tools_name_the_agents_and_actions_of_the_catalogue() {
    let turn = calls(&[("add_step", flight()), ("finalize_plan", json!({}))]);
    let world = world(LlmSettings::default(), vec![vec![turn]]).await;
    world.tools.plan(&request()).await.expect("the calls give a plan");
    let tools = world.servers[0].seen()[0].body["tools"].clone();
    let add = tools.as_array().into_iter().flatten().find(|tool| tool["function"]["name"] == "add_step");
    let fields = &add.expect("there is such a tool")["function"]["parameters"]["properties"];
    assert_eq!(fields["agent_type"]["enum"], json!(["air", "rooms", "inns"]));
    assert_eq!(fields["action"]["enum"], json!(["book_room", "find_flight"]));
}
