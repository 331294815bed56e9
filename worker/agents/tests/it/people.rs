//! Decisions of people while an agent works: approvals of tool calls, and answers.

use goalmill_common::call::CallWaitKind;
use serde_json::{Value, json};

use crate::world::{World, answers, calls, results, task};

fn write() -> [goalmill_demo::scripted::Scripted; 2] {
    [calls([("write_file", json!({"path": "a.txt", "text": "hi"}))]), answers(json!({"result": "done"}))]
}

fn careful() -> Value {
    json!({"tools": [{"name": "write_file", "policy": "approve"}]})
}

#[tokio::test]
async fn a_tool_that_needs_approval_is_run_only_when_a_person_agrees() {
    for (decision, is_written) in [
        (json!({"approved": true, "reason": ""}), true),
        (json!({"approved": false, "reason": "not now"}), false),
        (json!({}), false),
    ] {
        let world = World::new(careful(), write()).await;
        let (ended, asked) = world.run_with(&task(json!({})), [decision]).await;
        assert_eq!(ended.outputs(), json!({"result": "done"}));
        assert_eq!(world.file("a.txt").exists(), is_written);
        assert_eq!((asked.len(), asked[0].kind), (1, CallWaitKind::Approval));
        assert!(asked[0].text.contains("write_file") && asked[0].text.contains("a.txt"), "{}", asked[0].text);
        let told = results(&world.seen())[0].clone();
        assert_eq!(told["ok"], is_written, "{told}");
    }
}

#[tokio::test]
async fn without_a_decision_the_attempt_ends_and_nothing_is_run() {
    let world = World::new(careful(), write()).await;
    let (ended, _) = world.run_with(&task(json!({})), []).await;
    assert!(ended.result.is_err());
    assert!(!world.file("a.txt").exists());
    assert_eq!(world.server.calls(), 1);
}

#[tokio::test]
async fn invalid_arguments_are_no_matter_of_people() {
    let replies = [calls([("write_file", json!({"path": 1}))]), answers(json!({"result": "done"}))];
    let world = World::new(careful(), replies).await;
    let (ended, asked) = world.run_with(&task(json!({})), []).await;
    assert_eq!((ended.outputs(), asked.len()), (json!({"result": "done"}), 0));
}

#[tokio::test]
async fn a_person_is_asked_and_the_answer_reaches_the_model() {
    let question = json!({"question": "Red or blue?", "options": ["red", "blue"]});
    for (outcome, part) in [
        (json!({"answer": "blue"}), json!({"answer": "blue"})),
        (json!({"error": "nobody answered in time"}), json!("nobody answered in time")),
    ] {
        let replies = [calls([("ask_person", question.clone())]), answers(json!({"result": "done"}))];
        let world = World::new(json!({"tools": [{"name": "ask_person", "limit_seconds": 60}]}), replies).await;
        let (ended, asked) = world.run_with(&task(json!({})), [outcome]).await;
        assert_eq!(ended.outputs(), json!({"result": "done"}));
        assert_eq!(
            (asked[0].kind, asked[0].text.as_str(), asked[0].limit_ms),
            (CallWaitKind::Answer, "Red or blue?", Some(60_000))
        );
        let schema = asked[0].schema.as_ref().expect("there are options").value();
        assert_eq!(schema, json!({"enum": ["red", "blue"]}));
        let seen = world.seen();
        assert!(seen[0].prompt.contains("A person can be asked"), "{}", seen[0].prompt);
        let told = results(&seen)[0].clone();
        assert!(told["data"] == part || told["error"] == part, "{told}");
    }
}
