//! Steps that do the same as another one, and outputs that nobody reads.

use goalmill_common::agent::Agent;
use goalmill_common::limits::Limits;
use goalmill_plan::validate::{Catalogue, Rules, validate_plan, validate_plan_by};
use serde_json::{Value, json};

#[test]
fn a_step_with_the_agent_action_and_inputs_of_another_is_told() {
    let step =
        |id: &str, city: &str| json!({"id": id, "agent_type": "web", "action": "search", "inputs": {"city": city}});
    let plan = json!({"steps": [step("a", "Paris"), step("b", "Rome"), step("c", "Paris"), step("d", "Paris")]});
    assert_eq!(told(&plan), ["REDUNDANT_STEP /steps/2/action", "REDUNDANT_STEP /steps/3/action"]);
}

#[test]
fn steps_that_only_look_alike_are_not_told() {
    let plan = json!({"steps": [
        {"id": "a", "agent_type": "web", "action": "search"},
        {"id": "b", "agent_type": "web", "action": "search"},
        {"id": "c", "agent_type": "web", "action": "search", "inputs": {"n": 1}},
        {"id": "d", "agent_type": "mail", "action": "search", "inputs": {"n": 1}},
        {"id": "e", "agent_type": "web", "action": "book", "inputs": {"n": 1}},
    ]});
    assert_eq!(told(&plan), [""; 0]);
}

#[test]
fn declared_outputs_that_no_dependent_reads_are_noted_once_and_only_against_a_catalogue() {
    let plan = json!({"steps": [
        {"id": "a", "agent_type": "web", "expected_outputs": ["x"]},
        {"id": "b", "agent_type": "web", "expected_outputs": ["y"]},
        {"id": "c", "agent_type": "web", "needs": ["a", "b"], "inputs": {"y": "{{ steps.b.outputs.y }}"},
         "expected_outputs": ["last"]},
    ]});
    assert_eq!(told(&plan), [""; 0]);
    let web: Agent = serde_json::from_value(json!({"agent_type": "web"})).expect("it is an agent");
    let catalogue = Catalogue::from_agents(&[web]);
    let rules = Rules::submitted(&catalogue);
    let valid = validate_plan_by(&plan, &Limits::default(), &rules).expect("they are warnings");
    let unread: Vec<_> = valid.warnings().iter().filter(|issue| issue.code == "UNREAD_OUTPUTS").collect();
    assert_eq!(unread.len(), 1);
    assert!(unread[0].pointer == "/steps/0" && unread[0].detail.contains("`a`"), "{unread:?}");
}

#[test]
fn steps_that_differ_in_one_literal_could_be_a_map() {
    let web: Agent = serde_json::from_value(json!({"agent_type": "web"})).expect("it is an agent");
    let catalogue = Catalogue::from_agents(&[web]);
    let unrolled = |count: usize, inputs: &dyn Fn(usize) -> Value| {
        let step =
            |n: usize| json!({"id": format!("s{n}"), "agent_type": "web", "action": "search", "inputs": inputs(n)});
        let plan = json!({"steps": (0..count).map(step).collect::<Vec<_>>()});
        let valid =
            validate_plan_by(&plan, &Limits::default(), &Rules::submitted(&catalogue)).expect("they are warnings");
        let told = valid.warnings().iter().filter(|issue| issue.code == "UNROLLED_STEPS");
        told.map(|issue| format!("{} {}", issue.pointer, issue.detail)).collect::<Vec<_>>()
    };
    let city = |n: usize| json!({"city": format!("city {n}"), "nights": 2});
    let told = unrolled(30, &city);
    assert_eq!(told, ["/steps/0/action 30 steps, from `s0` on, ask the same and differ only in the input `city`"]);
    assert!(unrolled(9, &city).is_empty());
    assert!(unrolled(30, &|n| json!({"city": format!("city {n}"), "nights": n})).is_empty());
    assert!(unrolled(30, &|n| json!({"city": format!("{{{{ goal.inputs.c{n} }}}}")})).is_empty());
}

fn told(plan: &Value) -> Vec<String> {
    let valid = validate_plan(plan, &Limits::default()).expect("they are warnings");
    valid.warnings().iter().map(|issue| format!("{} {}", issue.code, issue.pointer)).collect()
}
