//! `now` in expressions: the time of the command, and the same whenever a task is rendered again.

use goalmill_common::clock::rfc3339;
use goalmill_common::plan::{Plan, StepKind};
use goalmill_common::status::StepStatus;
use goalmill_engine::{StepIndex, attempt};
use serde_json::{Value, json};

use crate::world::{START_MS, World, plan, with};

const LATER_MS: u64 = 90_000;

/// `a`, and `b` after it with these inputs.
fn two(inputs: &Value) -> Plan {
    with(plan(&[("a", &[]), ("b", &["a"])]), "b", |step| step.inputs = inputs.clone().into())
}

#[test]
fn now_is_the_time_at_which_the_attempt_was_queued() {
    let mut world = World::of(two(&json!({"at": "{{ now }}"})));
    world.now_ms += LATER_MS;
    world.complete("a", json!({}));
    world.now_ms += LATER_MS;
    let sent = world.dispatch("b");
    let expected = json!({"at": rfc3339(START_MS + 2 * LATER_MS)});
    assert_eq!(sent.inputs.value(), expected);
    world.now_ms += LATER_MS;
    let again = attempt::task(&world.state, StepIndex(1), &world.context).unwrap().unwrap();
    assert_eq!(again.inputs.value(), expected, "a task that is sent again is the same");
}

#[test]
fn the_time_of_a_plan_does_not_go_back() {
    let mut world = World::of(two(&json!({"at": "{{ now }}"})));
    world.now_ms = START_MS + LATER_MS;
    world.complete("a", json!({}));
    world.now_ms = START_MS;
    world.complete("b", json!({}));
    assert!(world.state.is_final());
    assert_eq!(world.log.last().map(|record| record.time_ms), Some(START_MS + LATER_MS));
    assert!(world.log.is_sorted_by_key(|record| record.time_ms), "{:?}", world.log);
}

#[test]
fn conditions_and_steps_of_the_engine_see_the_time_of_their_command() {
    let due = rfc3339(START_MS + LATER_MS);
    for (is_late, status) in [(false, StepStatus::Skipped), (true, StepStatus::Completed)] {
        let document = with(two(&json!({"at": "{{ now | add_duration('1s') }}"})), "b", |step| {
            step.kind = StepKind::Message;
            step.agent_type = "".into();
            step.when = Some(format!("now >= '{due}'"));
        });
        let mut world = World::of(document);
        world.now_ms += if is_late { LATER_MS } else { 1 };
        world.complete("a", json!({}));
        assert_eq!(world.status("b"), status);
        if is_late {
            assert_eq!(world.outputs("b"), json!({"at": rfc3339(START_MS + LATER_MS + 1_000)}));
        }
    }
}
