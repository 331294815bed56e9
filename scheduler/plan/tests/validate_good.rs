//! Good plans: whatever the spelling, one canonical form.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use goalmill_common::limits::Limits;
use goalmill_common::plan::Plan;
use goalmill_plan::document::{self, Format};
use goalmill_plan::states::ValidPlan;
use goalmill_plan::validate::{self, forecast};
use serde_json::{Value, json};

#[test]
fn every_spelling_gives_the_same_plan() {
    let canonical = json!({"steps": [
        {"id": "flights", "description": "Find flights", "agent_type": "flight_agent", "action": "search",
         "inputs": {"to": "Paris"}},
        {"id": "hotel", "description": "Find a hotel", "agent_type": "auto", "dependencies": ["flights"]},
    ]});
    let expected = plan_of(&canonical);
    for (name, text) in [
        (
            "subtasks",
            r#"{"subtasks": [
            {"task_id": "flights", "description": "Find flights", "assigned_agent": "flight_agent", "tool": "search", "parameters": {"to": "Paris"}, "depends_on": []},
            {"task_id": "hotel", "description": "Find a hotel", "assigned_agent": "TBD", "depends_on": ["flights"]}]}"#,
        ),
        (
            "tasks by name",
            r#"{"tasks": [
            {"name": "flights", "desc": "Find flights", "agent": "flight_agent", "function": "search", "args": {"to": "Paris"}, "type": "tool_call"},
            {"name": "hotel", "desc": "Find a hotel", "agent": "auto", "needs": "flights"}]}"#,
        ),
        (
            "a list",
            r#"[
            {"id": "flights", "description": "Find flights", "agent_type": "flight_agent", "action": "search", "arguments": {"to": "Paris"}},
            {"id": "hotel", "description": "Find a hotel", "dep": ["flights"]}]"#,
        ),
        (
            "a wrapper",
            r#"{"goal": "A trip", "plan": {"steps": [
            {"id": "flights", "description": "Find flights", "agentType": "flight_agent", "action": "search", "input": {"to": "Paris"}},
            {"id": "hotel", "description": "Find a hotel", "dependsOn": ["flights"], "timeout": null}]}}"#,
        ),
        (
            "a graph with pairs",
            r#"{"nodes": [
            {"id": "flights", "description": "Find flights", "agent": "flight_agent", "action": "search", "inputs": {"to": "Paris"}},
            {"id": "hotel", "description": "Find a hotel"}],
            "edges": [["START", "flights"], ["flights", "hotel"], ["hotel", "END"]]}"#,
        ),
        (
            "a graph with from and to",
            r#"{"nodes": [
            {"id": "flights", "title": "Find flights", "agent": "flight_agent", "action": "search", "inputs": {"to": "Paris"}},
            {"id": "hotel", "title": "Find a hotel"}],
            "links": [{"source": "flights", "target": "hotel"}]}"#,
        ),
        (
            "YAML, steps by id",
            "
steps:
  flights: {description: Find flights, agent: flight_agent, action: search, inputs: {to: Paris}}
  hotel:
    description: Find a hotel
    needs: [flights]
",
        ),
        (
            "YAML with merged defaults",
            "
steps:
  - &a
    id: flights
    description: Find flights
    agent-type: flight_agent
    action: search
    inputs: {to: Paris}
  - id: hotel
    description: Find a hotel
    dependencies: flights
metadata:
  copy: {<<: *a}
",
        ),
    ] {
        let mut plan = validate::validate_text(text.as_bytes(), Format::Auto, &Limits::default())
            .unwrap_or_else(|e| panic!("{name}: {e:#?}"))
            .into_plan();
        plan.metadata.clear();
        assert_eq!(plan, expected, "{name}");
    }
    assert_eq!(serde_json::to_value(&expected).unwrap(), canonical);
}

#[test]
fn every_policy_spelling_gives_the_same_policy() {
    for (spelling, canonical) in [
        (json!({"timeout": 30}), json!({"timeout_ms": 30_000})),
        (json!({"timeout": "60s"}), json!({"timeout_ms": 60_000})),
        (json!({"timeout": "5m"}), json!({"timeout_ms": 300_000})),
        (json!({"timeout": "500ms"}), json!({"timeout_ms": 500})),
        (json!({"timeout_seconds": 1.5}), json!({"timeout_ms": 1_500})),
        (json!({"retry": 5}), retry(5, 2_000, 2.0, 60_000, "full")),
        (json!({"max_retries": 0}), retry(0, 2_000, 2.0, 60_000, "full")),
        (json!({"retry": false}), retry(0, 2_000, 2.0, 60_000, "full")),
        (json!({"retry": {"max_attempts": 3}}), retry(2, 2_000, 2.0, 60_000, "full")),
        (
            json!({"retry": {"max": 1, "initial": "1s", "multiplier": 3, "max_backoff": "2m", "jitter": false}}),
            retry(1, 1_000, 3.0, 120_000, "none"),
        ),
        (
            json!({"retry": {"max": 1, "backoff": {"initial_ms": 10, "factor": 1, "max_ms": 20, "jitter": "none"}}}),
            retry(1, 10, 1.0, 20, "none"),
        ),
        (json!({"retry": {"max": 1, "backoff": "fixed", "delay": 90}}), retry(1, 90_000, 1.0, 90_000, "full")),
        (json!({"continue_on_failure": true}), json!({"on_failure": "continue"})),
        (json!({"on_error": "Ask User"}), json!({"on_failure": "ask_user"})),
        (json!({"fallback_action": "use_train"}), json!({"fallback": {"action": "use_train"}})),
        (json!({"fallback": {"agent": "train_agent"}}), json!({"fallback": {"agent_type": "train_agent"}})),
        (json!({"approve": true}), json!({"approve": {"limit_ms": 86_400_000, "default": "reject"}})),
        (json!({"approval_required": true}), json!({"approve": {"limit_ms": 86_400_000, "default": "reject"}})),
        (
            json!({"approve": {"limit": "10m", "default": "approve"}}),
            json!({"approve": {"limit_ms": 600_000, "default": "approve"}}),
        ),
        (json!({"approve": false, "approval_required": false}), json!({})),
        (json!({"priority": "high"}), json!({"priority": 8})),
        (json!({"priority": 3.0}), json!({"priority": 3})),
        (json!({"condition": true}), json!({"when": "true"})),
        (json!({"if": "goal.priority > 3"}), json!({"when": "goal.priority > 3"})),
        (json!({"expected_output": "price", "strict_outputs": true}), json!({"expected_outputs": ["price"]})),
        (json!({"expected_outputs": ["the price", "per night"]}), json!({"expected_output": "the price; per night"})),
        (json!({"outputs": ["price", {"name": "hits"}]}), json!({"expected_outputs": ["price", "hits"]})),
        (json!({"outputs": {"price": "a number"}}), json!({"expected_outputs": ["price"]})),
        (
            json!({"outputs": {"type": "object", "required": ["price"]}}),
            json!({"output_schema": {"type": "object", "required": ["price"]}}),
        ),
        (
            json!({"estimated_duration": "2m", "estimates": {"cost_usd": 0.5}}),
            json!({"estimates": {"seconds": 120.0, "cost": 0.5}}),
        ),
        (
            json!({"cache": "{{ goal.description }}"}),
            json!({"cache": {"key": "{{ goal.description }}", "ttl_ms": 3_600_000}}),
        ),
        (
            json!({"inputs": {"city": "Rome"}, "cache": "{{ inputs.city | upper }}"}),
            json!({"inputs": {"city": "Rome"}, "cache": {"key": "{{ inputs.city | upper }}", "ttl_ms": 3_600_000}}),
        ),
        (json!({"cache": true}), json!({"cache": {"key": "{{ inputs | tojson }}", "ttl_ms": 3_600_000}})),
        (json!({"cache": false}), json!({})),
        (json!({"cache": {"ttl": "1d"}}), json!({"cache": {"key": "{{ inputs | tojson }}", "ttl_ms": 86_400_000}})),
        (json!({"cache": {"key": "k", "ttl": "1d"}}), json!({"cache": {"key": "k", "ttl_ms": 86_400_000}})),
        (json!({"dependencies": [-1]}), json!({})),
        (json!({"kind": "llm_call", "assigned_to": "auto"}), json!({"kind": "llm"})),
        (json!({"task": "object-detection"}), json!({"action": "object-detection"})),
        (json!({"task": "find the objects"}), json!({"description": "find the objects"})),
    ] {
        let document = |fields: &Value| {
            let mut step = json!({"id": "a", "agent_type": "auto"});
            step.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            json!({"steps": [step]})
        };
        let with = |fields: &Value| plan_of(&document(fields));
        let expected: Plan = serde_json::from_value(document(&canonical)).unwrap();
        assert_eq!(with(&spelling), expected, "{spelling}");
        assert_eq!(with(&canonical), expected, "{canonical}");
    }
}

#[test]
fn numbers_are_ids_and_phases_hold_steps() {
    let plan = plan_of(&json!({"strategy": "Hybrid", "phases": [
        {"name": "search", "steps": [{"id": 1}, {"id": 2, "dep": [1]}]},
        {"id": "book", "name": "Book it", "replan": true, "steps": [{"id": 3, "dep": [2, 1], "join": {"at_least": 1},
            "inputs": {"x": "{{ steps['1'].outputs.x }}"}}]},
    ]}));
    let expected: Plan = serde_json::from_value(json!({
        "strategy": "parallel",
        "phases": [{"id": "search"}, {"id": "book", "description": "Book it", "checkpoint": true}],
        "steps": [
            {"id": "1", "agent_type": "auto", "phase": "search"},
            {"id": "2", "agent_type": "auto", "phase": "search", "dependencies": ["1"]},
            {"id": "3", "agent_type": "auto", "phase": "book", "dependencies": ["2", "1"], "join": {"at_least": 1},
             "inputs": {"x": "{{ steps['1'].outputs.x }}"}},
        ],
    }))
    .unwrap();
    assert_eq!(plan, expected);
}

#[test]
fn steps_of_all_kinds_pass_and_inline_ones_have_no_agent() {
    let checked = check(&json!({"steps": [
        {"id": "a", "type": "internal", "agent": "x"},
        {"id": "b", "plan": [{"id": "x", "estimated_seconds": 4}], "needs": ["a", "a"]},
        {"id": "c", "kind": "finish", "needs": ["b"], "inputs": "{{ steps.a.outputs }}", "expected_outputs": "some nice text"},
    ]}));
    assert_eq!(checked.plan().steps[0].agent_type.as_str(), "");
    assert_eq!(checked.plan().steps[1].plan.as_ref().unwrap().steps[0].id.as_str(), "x");
    let warnings: Vec<(&str, &str)> =
        checked.warnings().iter().map(|w| (w.code.as_str(), w.pointer.as_str())).collect();
    let expected = [("UNUSED_FIELD", "/steps/0/agent"), ("DUPLICATE_DEPENDENCY", "/steps/1/needs/1")];
    assert_eq!(warnings, expected);
}

#[test]
fn the_critical_path_is_the_longest_through_steps_and_phases() {
    let seconds = |plan: Value| forecast(check(&plan).plan(), None).seconds;
    let diamond = json!([{"id": "a", "duration": 1}, {"id": "b", "needs": ["a"], "duration": 5},
        {"id": "c", "needs": ["a"], "duration": 2}, {"id": "d", "needs": ["b", "c"], "duration": 1}]);
    assert!((seconds(diamond.clone()) - 7.0).abs() < 1e-9);
    assert!((seconds(json!({"strategy": "sequential", "steps": diamond})) - 9.0).abs() < 1e-9);
    let phased = json!({"phases": [{"id": "p", "steps": [{"id": "a", "duration": 3}, {"id": "b", "duration": 2}]},
        {"id": "q", "steps": [{"id": "c", "needs": ["b"], "duration": 1}]}]});
    assert!((seconds(phased) - 4.0).abs() < 1e-9);
}

#[test]
fn a_goal_is_a_sentence_or_an_object() {
    let goal = |value: Value| validate::goal(&value, &Limits::default()).unwrap();
    assert_eq!(goal(json!("Plan a trip")).description, "Plan a trip");
    let full = goal(json!({
        "query": "Plan a trip", "goal_type": "travel planning", "constraints": {"days": 3}, "success_criteria": "booked",
        "deadline": "2027-01-01T00:00:00Z", "priority": "high", "budget": {"usd": 2000}, "tenant": "acme",
    }));
    assert_eq!(full.deadline_ms, Some(1_798_761_600_000));
    assert_eq!((full.priority.0, full.budget.cost, full.success_criteria.len()), (8, Some(2_000.0), 1));
    assert_eq!(full.namespace, Some("acme".into()), "documents may still call it `tenant`");
    let written = serde_json::to_value(&full).unwrap();
    assert_eq!(written["namespace"], "acme");
    assert_eq!(goal(written), full);
    assert_eq!(goal(json!({"goal": {"description": "x"}})).description, "x");
}

#[test]
fn the_goal_of_a_plan_document_is_passed_on() {
    let split = |document: Value| document::split_goal(&document);
    assert_eq!(split(json!({"goal": "x", "steps": []})), Some(json!("x")));
    assert_eq!(split(json!({"plan": {"goal": {"description": "x"}, "steps": []}})), Some(json!({"description": "x"})));
    assert_eq!(split(json!({"plan": {"description": "x"}})), Some(json!({"description": "x"})));
    assert_eq!(split(json!([{"id": "a"}])), None);
}

#[test]
fn a_byte_order_mark_is_passed_over() {
    let text = b"\xEF\xBB\xBF{\"steps\": [{\"id\": \"a\"}]}";
    assert_eq!(validate::validate_text(text, Format::Json, &Limits::default()).unwrap().plan().steps.len(), 1);
}

#[test]
fn ten_thousand_steps_with_wide_joins_and_far_references_pass() {
    let layer = 100;
    let steps: Vec<Value> = (0..10_000)
        .map(|i| {
            let needs: Vec<usize> = match i {
                0..100 => vec![],
                // Every hundredth step joins the whole layer before it.
                _ if i % layer == 0 => (i - layer..i).collect(),
                _ => vec![i / layer * layer],
            };
            let inputs = if i < layer || i % 2 == 1 {
                json!({})
            } else {
                json!({"x": format!("{{{{ steps['{}'].outputs.x }}}}", i % layer)})
            };
            json!({"id": i.to_string(), "dependencies": needs, "inputs": inputs})
        })
        .collect();
    assert_eq!(check(&json!(steps)).plan().steps.len(), 10_000);
    let chain: Vec<Value> = (0..10_000_usize)
        .map(|i| json!({"id": i, "needs": i.checked_sub(1), "when": if i > 0 { Some("steps['0'].outputs.go") } else { None }}))
        .collect();
    assert_eq!(check(&json!(chain)).plan().steps.len(), 10_000);
}

#[test]
fn a_cycle_of_ten_thousand_steps_is_found_without_harm() {
    let ring: Vec<Value> = (0..10_000_usize).map(|i| json!({"id": i, "needs": [(i + 9_999) % 10_000]})).collect();
    let issues = validate::validate_plan(&json!(ring), &Limits::default()).unwrap_err();
    assert_eq!((issues.len(), issues[0].code.as_str()), (1, "PLAN_CYCLE"));
    assert!(issues[0].detail.len() < 400);
}

#[test]
fn retries_may_stand_beside_each_other_on_a_step() {
    let step = |more: Value| {
        let mut step = json!({"id": "a", "agent_type": "w"});
        step.as_object_mut().expect("it is an object").extend(more.as_object().cloned().unwrap_or_default());
        json!({"steps": [step]})
    };
    let plan = plan_of(&step(json!({"max_retries": 2, "retry_delay": 1.5, "on_failure": "retry"})));
    let step_of = &plan.steps[0];
    assert_eq!((step_of.retry.max, step_of.retry.initial_ms), (2, 1_500));
    assert_eq!(step_of.on_failure, goalmill_common::plan::OnFailure::Abort, "after the last attempt");
    let both = step(json!({"retry": {"max": 1}, "retry_delay": 1}));
    let issues = validate::validate_plan(&both, &Limits::default()).expect_err("they are two places for one thing");
    assert_eq!((issues[0].code.as_str(), issues[0].pointer.as_str()), ("CONFLICTING_FIELDS", "/steps/0/retry_delay"));
}

fn check(plan: &Value) -> ValidPlan {
    validate::validate_plan(plan, &Limits::default()).unwrap_or_else(|issues| panic!("{issues:#?}"))
}

fn plan_of(plan: &Value) -> Plan {
    check(plan).into_plan()
}

fn retry(max: u32, initial_ms: u64, factor: f64, max_ms: u64, jitter: &str) -> Value {
    json!({"retry": {"max": max, "initial_ms": initial_ms, "factor": factor, "max_ms": max_ms, "jitter": jitter}})
}
