//! Actions with a side effect: what was not done is not reported as completed.

use goalmill_common::agent::Agent;
use goalmill_common::failure::FailureClass;
use goalmill_common::task::Task;
use goalmill_demo::scripted::{Script, Scripted};
use serde_json::{Value, json};

use crate::world::{Ended, World, answers, calls, task};

/// A card with an action that changes something, and one that only writes a text.
fn card() -> Agent {
    let card = json!({"agent_type": "writer", "actions": [{"name": "save", "side_effect": true}, {"name": "draft"}]});
    serde_json::from_value(card).expect("the card is valid")
}

async fn run(settings: Value, action: &str, replies: Vec<Scripted>) -> (World, Ended) {
    let world = World::with_card(settings, Some(&card()), Script::new(replies)).await;
    let ended = world.run(&Task { action: action.into(), ..task(json!({})) }).await;
    (world, ended)
}

fn tools() -> Value {
    json!({"tools": ["read_file", "write_file", "list_files"]})
}

fn claims() -> Scripted {
    answers(json!({"result": "saved successfully"}))
}

fn write() -> Scripted {
    calls([("write_file", json!({"path": "a.txt", "text": "a"}))])
}

/// Whether the step is a partial success, and the code of its first error.
fn told(ended: &Ended) -> (bool, Option<&str>) {
    let result = ended.result.as_ref().expect("the attempt has an answer");
    (result.partial, result.errors.first().map(|error| error.code.as_str()))
}

const NOT_DONE: (bool, Option<&str>) = (true, Some("AGENT_ACT_NOT_DONE"));

#[tokio::test]
async fn an_act_that_is_only_claimed_is_a_partial_success() {
    let (world, ended) = run(tools(), "save", vec![claims(), claims()]).await;
    assert_eq!(told(&ended), NOT_DONE);
    assert_eq!(ended.outputs(), json!({"result": "saved successfully"}), "what the agent says is kept");
    let error = &ended.result.as_ref().expect("there is an answer").errors[0];
    assert_eq!(error.class, FailureClass::Permanent);
    assert!(error.message.contains("`save`") && error.message.contains("saved successfully"), "{}", error.message);
    let seen = world.seen();
    assert_eq!(seen.len(), 2, "the model is told once");
    assert!(seen[1].prompt.contains("Nothing was done"), "{}", seen[1].prompt);
}

#[tokio::test]
async fn a_model_that_is_told_can_still_do_it() {
    let (world, ended) = run(tools(), "save", vec![claims(), write(), claims()]).await;
    assert_eq!(told(&ended), (false, None));
    assert!(world.file("a.txt").exists());
    let in_text = Scripted::text("{\"result\": \"saved\"}");
    let (_, ended) = run(tools(), "save", vec![in_text, write(), claims()]).await;
    assert_eq!(told(&ended), (false, None), "an answer in text is asked about as well");
}

#[tokio::test]
async fn calls_that_fail_or_only_read_do_nothing() {
    let fails = calls([("write_file", json!({"path": "../a.txt", "text": "a"}))]);
    let reads = calls([("list_files", json!({}))]);
    let unknown = calls([("delete_event", json!({"id": "00000012"}))]);
    for call in [fails, reads, unknown] {
        let (_, ended) = run(tools(), "save", vec![call, claims(), claims()]).await;
        assert_eq!(told(&ended), NOT_DONE);
    }
    let (world, ended) = run(tools(), "save", vec![write(), claims()]).await;
    assert_eq!((told(&ended), world.seen().len()), ((false, None), 2), "an act that was done costs no call");
}

#[tokio::test]
async fn an_agent_without_turns_or_tools_for_the_act_has_not_done_it() {
    let mut hasty = tools();
    hasty["limits"] = json!({"turns": 2});
    let (world, ended) = run(hasty, "save", vec![claims(), claims()]).await;
    assert_eq!((told(&ended), world.seen().len()), (NOT_DONE, 1), "no turn is left for a call and an answer");
    let (_, ended) = run(json!({}), "save", vec![Scripted::text("{\"result\": \"saved\"}"); 2]).await;
    assert_eq!(told(&ended), NOT_DONE);
}

#[tokio::test]
async fn actions_without_a_side_effect_are_as_before() {
    let (world, ended) = run(tools(), "draft", vec![claims()]).await;
    assert_eq!((told(&ended), world.seen().len()), ((false, None), 1));
}
