//! A plan that means a goal is admitted by each form of the schema, and is valid as it is written there.

use goalmill_common::problem::Issue;
use goalmill_llm::SchemaForm;
use goalmill_plan::validate::{Catalogue, Rules, validate_plan_by};

use super::plan_schema::{all_features, validator, with_typed_ids, with_work};
use super::*;
use crate::llm::plan_schema::PlanVocabulary;
use crate::llm::tool_shortlist::ToolShortlist;

fn fixture() -> Value {
    serde_yaml_ng::from_str(include_str!("meant_plans.yaml")).expect("it is YAML")
}

fn schema_of(fields: &Value) -> Json {
    let field = |kind: &Value| {
        let kind = kind.as_str().unwrap_or_default();
        let single = json!({"type": kind.to_lowercase()});
        if kind.starts_with(char::is_uppercase) { json!({"type": "array", "items": single}) } else { single }
    };
    let fields = fields.as_object().expect("fields");
    let properties: serde_json::Map<String, Value> =
        fields.iter().map(|(name, kind)| (name.clone(), field(kind))).collect();
    let required: Vec<&String> = fields.keys().collect();
    Json::from_value(
        &json!({"type": "object", "required": required, "properties": properties, "additionalProperties": false}),
    )
}

fn agents(fixture: &Value) -> Vec<Agent> {
    let agent = |(name, actions): (&String, &Value)| {
        let action = |(name, schemas): (&String, &Value)| Action {
            name: name.clone(),
            description: String::new(),
            inputs: Some(schema_of(&schemas[0])),
            outputs: Some(schema_of(&schemas[1])),
            side_effect: false,
        };
        let actions = actions.as_object().into_iter().flatten().map(action).collect();
        Agent { actions, ..Agent::named(name.as_str().into()) }
    };
    fixture["agents"].as_object().into_iter().flatten().map(agent).collect()
}

/// The steps with agent, action, description and dependencies, in the order of the schema.
fn whole(steps: &Value) -> Value {
    let split = |work: &Value| {
        let (agent, action) = work.as_str().and_then(|work| work.split_once('.')).expect("agent.action");
        [("agent_type", json!(agent)), ("action", json!(action))]
    };
    let step = |step: &Value| {
        let mut fields = step.as_object().expect("a step").clone();
        if let Some(work) = fields.shift_remove("do") {
            fields.extend(split(&work).map(|(name, value)| (name.to_owned(), value)));
        }
        if let Some(undo) = fields.get_mut("undo") {
            let [(_, agent), (_, action)] = split(&undo["do"]);
            *undo = json!({"agent_type": agent, "action": action, "inputs": undo["inputs"]});
        }
        if let Some(plan) = fields.get_mut("plan") {
            plan["steps"] = whole(&plan["steps"]);
        }
        fields.insert("description".into(), json!("Does a part of the goal"));
        if !fields.contains_key("always") {
            fields.entry("dependencies").or_insert(json!([]));
        }
        Value::Object(fields)
    };
    steps.as_array().into_iter().flatten().map(step).collect()
}

/// The steps as the strict form has them: nothing is left out.
fn with_all_fields(steps: &Value) -> Value {
    let step = |step: &Value| {
        let mut step = step.clone();
        let is_inside = step["id"].as_str().is_some_and(|id| id.starts_with('i'));
        let optional: &[&str] = match () {
            () if is_inside => &[],
            () if step["action"].is_string() => &["when", "approve", "for_each", "repeat", "undo", "always"],
            () if step["kind"] == "plan" => &["when", "approve"],
            () => &["when"],
        };
        let fields = step.as_object_mut().expect("a step");
        for name in optional {
            fields.entry(*name).or_insert(Value::Null);
        }
        fields.entry("dependencies").or_insert(json!([]));
        for (field, name) in [("repeat", "delay"), ("ask", "schema")] {
            if let Some(inner) = fields.get_mut(field).and_then(Value::as_object_mut) {
                inner.entry(name).or_insert(Value::Null);
            }
        }
        if let Some(plan) = fields.get_mut("plan") {
            plan["steps"] = with_all_fields(&plan["steps"]);
        }
        step
    };
    let text = Value::Array(steps.as_array().into_iter().flatten().map(step).collect()).to_string();
    // The strict form has no ids of its own for steps at the end.
    let text = text.replace("\"e1\"", "\"s8\"").replace("\"e2\"", "\"s9\"");
    serde_json::from_str(&text).expect("it was JSON")
}

#[test]
fn each_form_admits_the_plan_that_is_meant_and_it_is_valid() {
    let fixture = fixture();
    let agents = agents(&fixture);
    let catalogue = Catalogue::from_agents(&agents);
    let rules = Rules { in_order: true, ..Rules::planned(&catalogue) };
    let actions = ToolShortlist::choose(&agents, "", 100).catalogue();
    let vocabulary = PlanVocabulary {
        agents: agents.clone(),
        plans: Vec::new(),
        fallbacks: false,
        parts: false,
        nested: true,
        features: all_features(),
        output_tokens_max: 4_096,
    };
    let schema = vocabulary.plan_answer_schema(Limits::default().planned_steps_max);
    let grammar = validator(schema.form(SchemaForm::Grammar));
    let strict = validator(schema.form(SchemaForm::Strict));
    let prompt = validator(schema.prompt());
    let mut wrong = Vec::new();
    for case in fixture["goals"].as_array().into_iter().flatten() {
        let steps = whole(&case["steps"]);
        let typed = with_typed_ids(&json!({ "steps": steps }));
        let forms = [
            ("grammar", &grammar, typed),
            ("strict", &strict, with_work(json!({"steps": with_all_fields(&steps)}))),
            ("prompt", &prompt, json!({ "steps": steps })),
        ];
        for (form, schema, answer) in forms {
            // Steps that always run have no dependencies in prompts either.
            if !schema.is_valid(&answer) && form != "prompt" {
                wrong.push(format!("{form} refuses {answer}"));
            }
            let (_, outcome) = validate_answer(&answer.to_string(), &actions, &rules);
            if let Err(issues) = outcome {
                wrong.push(format!("{form}: {issues:?}: {answer}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn references_are_checked_in_every_field() {
    let fixture = fixture();
    let agents = agents(&fixture);
    let catalogue = Catalogue::from_agents(&agents);
    let actions = ToolShortlist::choose(&agents, "", 100).catalogue();
    let now_ms = goalmill_common::clock::parse_rfc3339("2026-11-29T12:00:00Z");
    for case in fixture["mistakes"].as_array().into_iter().flatten() {
        let plan = json!({"steps": whole(&case["steps"])});
        let draft = Rules { in_order: true, now_ms, ..Rules::planned(&catalogue) };
        let (_, outcome) = validate_answer(&plan.to_string(), &actions, &draft);
        let codes = |issues: &[Issue]| issues.iter().map(|issue| issue.code.clone()).collect::<Vec<_>>();
        let code = [case["code"].as_str().expect("a code").to_owned()];
        assert_eq!(outcome.map_err(|issues| codes(&issues)).expect_err("a draft is refused"), code, "{plan}");
        let submitted = Rules { now_ms, ..Rules::submitted(&catalogue) };
        let valid = validate_plan_by(&plan, &Limits::default(), &submitted).expect("a submitted plan gets a warning");
        assert_eq!(codes(valid.warnings()), code, "{plan}");
    }
}
