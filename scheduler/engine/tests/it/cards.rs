//! Who may do a step, by the cards of agents: when it is sent, when it falls back, when an agent returns a plan.

use std::sync::Arc;

use goalmill_common::agent::Agent;
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::plan::{Fallback, Plan, Retry, Step};
use goalmill_common::report::{Report, What};
use goalmill_common::status::{PlanStatus, StepStatus};
use goalmill_engine::Cards;
use serde_json::json;

use crate::world::{World, failed, permanent, report, transient};

fn cards() -> Cards {
    let cards = json!([
        {"agent_type": "till", "actions": [{"name": "charge", "side_effect": true}]},
        {"agent_type": "spare_till", "actions": [{"name": "charge", "side_effect": true}]},
        {"agent_type": "shelf", "actions": [{"name": "look"}]},
        {"agent_type": "spare_shelf", "actions": [{"name": "look"}]},
        {"agent_type": "hand"},
    ]);
    let cards: Vec<Agent> = serde_json::from_value(cards).expect("they are cards");
    Cards::from_lookup(Arc::new(cards))
}

fn one(agent_type: &str, action: &str, fallback: Option<&str>) -> World {
    let mut world = World::new();
    world.context.cards = cards();
    let fallback = fallback.map(|agent| Fallback { agent_type: Some(agent.into()), action: None });
    let retry = Retry { max: 1, ..Retry::default() };
    let step = Step { action: action.into(), fallback, retry, ..Step::new("a", agent_type) };
    world.submit(Plan { steps: vec![step], ..Plan::default() }).expect("the plan fits");
    world
}

#[test]
fn a_step_is_not_sent_to_an_agent_type_whose_card_lacks_its_action() {
    for (agent_type, action, is_sent) in [
        ("shelf", "look", true),
        ("hand", "look", true),
        ("hand", "", true),
        ("comes_later", "look", true),
        ("shelf", "", true),
        ("shelf", "charge", false),
        ("shelf", "looks", false),
    ] {
        let mut world = one(agent_type, action, None);
        world.dispatch_all();
        let tasks = world.open_tasks();
        assert_eq!(!tasks.is_empty(), is_sent, "{agent_type}.{action}");
        if !is_sent {
            assert_eq!((world.state.status(), world.code("a").as_str()), (PlanStatus::Failed, "UNKNOWN_ACTION"));
        }
    }
}

#[test]
fn what_changes_something_falls_back_only_if_nothing_was_done() {
    let refused = || permanent();
    let cut = || transient().with_unknown_outcome();
    let late = || Failure::new(FailureClass::Timeout, "STEP_TIMEOUT", "too late");
    let unsent = || late().without_effect();
    for (failures, acts, falls_back) in [
        (vec![refused()], true, true),
        (vec![transient(), transient()], true, true),
        (vec![unsent(), unsent()], true, true),
        (vec![cut(), refused()], true, false),
        (vec![late(), refused()], true, false),
        (vec![late(), late()], true, false),
        (vec![cut(), refused()], false, true),
        (vec![late(), late()], false, true),
    ] {
        let (agent, action, other) =
            if acts { ("till", "charge", "spare_till") } else { ("shelf", "look", "spare_shelf") };
        let mut world = one(agent, action, Some(other));
        for failure in &failures {
            let task = world.dispatch("a");
            assert_eq!(task.agent_type.as_str(), agent);
            world.report(failed(&task, failure.clone())).expect("the report is current");
            if world.status("a") == StepStatus::Retrying {
                world.step_due("a");
            }
        }
        let what = format!("{failures:?} {acts}");
        if falls_back {
            assert_eq!(world.dispatch("a").agent_type.as_str(), other, "{what}");
        } else {
            assert_eq!((world.status("a"), world.state.status()), (StepStatus::Failed, PlanStatus::Failed), "{what}");
        }
        world.restart();
    }
}

#[test]
fn a_plan_of_an_agent_has_actions_of_those_who_do_its_steps_only() {
    for (step, fits) in [
        (json!({"id": "x", "agent_type": "shelf", "action": "look"}), true),
        (json!({"id": "x", "action": "look"}), true),
        (json!({"id": "x", "agent_type": "shelf", "action": "sing"}), false),
        (json!({"id": "x", "action": "sing"}), false),
        (json!({"id": "x", "action": "look", "fallback": {"action": "sing"}}), false),
    ] {
        let mut world = one("shelf", "look", None);
        let task = world.dispatch("a");
        let sub_plan = Some(json!({"steps": [step.clone()]}).into());
        let answer = Report { sub_plan, sub_plans: ["*".to_owned()].into(), ..report(&task, What::Completed) };
        world.report(answer).expect("the report is current");
        let is_refused = world.status("a") == StepStatus::Failed && world.code("a") == "SUB_PLAN_INVALID";
        assert_eq!(!is_refused, fits, "{step}");
    }
}
