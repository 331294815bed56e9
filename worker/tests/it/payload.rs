//! Payloads over the limits.

use goalmill_common::failure::FailureClass;
use goalmill_common::id::PlanId;
use goalmill_common::keys::Keys;
use goalmill_common::task::Task;
use goalmill_worker::executor::ExecutionResult;
use serde_json::json;

use crate::world::{SHARD, Scripted, World, task};

#[tokio::test(start_paused = true)]
async fn large_outputs_go_by_reference_and_come_back_as_inputs() {
    let world = World::new().await;
    let big =
        Scripted::new(|_, _, _| async { Ok(ExecutionResult::new(json!({"text": "x".repeat(300_000), "pages": 3}))) });
    let measure = Scripted::new(|task, _, _| async move {
        let inputs = task.inputs.value();
        Ok(ExecutionResult::new(
            json!({"length": inputs["doc"]["text"].as_str().map(str::len), "kept": inputs["kept"]}),
        ))
    });
    world.queue(&[task("a", "big", json!({}))]).await;
    let _worker = world.start(world.settings(), vec![("big", big), ("measure", measure)]).await;
    let outputs = world.wait_final("a").await.outputs.expect("it has outputs").value();
    let sent = task("a", "big", json!({}));
    let key = outputs["text"]["$blob"].as_str().expect("it is a reference");
    assert!(Keys::default().is_blob_of(&sent.plan, key) && !key.contains(sent.token.as_str()), "{key}");
    assert_eq!(outputs, json!({"text": {"$blob": key, "bytes": 300_002}, "pages": 3}));
    world.queue(&[task("b", "measure", json!({"doc": outputs, "kept": 1}))]).await;
    let measured = world.wait_final("b").await.outputs.expect("it has outputs").value();
    assert_eq!(measured, json!({"length": 300_000, "kept": 1}));
}

#[tokio::test(start_paused = true)]
async fn large_outputs_that_are_no_object_or_have_small_fields_only_go_as_a_whole() {
    let world = World::new().await;
    let list = Scripted::new(|_, _, _| async { Ok(ExecutionResult::new(json!(["x".repeat(300_000)]))) });
    let many = Scripted::new(|_, _, _| async {
        let fields: serde_json::Map<_, _> = (0..30_000).map(|n| (format!("f{n}"), json!(n))).collect();
        Ok(ExecutionResult::new(serde_json::Value::Object(fields)))
    });
    world.queue(&[task("a", "list", json!({})), task("b", "many", json!({}))]).await;
    let _worker = world.start(world.settings(), vec![("list", list), ("many", many)]).await;
    for step in ["a", "b"] {
        let outputs = world.wait_final(step).await.outputs.expect("it has outputs").value();
        let key = outputs["$blob"].as_str().expect("it is a reference");
        assert!(Keys::default().is_blob_of(&task(step, "list", json!({})).plan, key), "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn outputs_over_the_limit_are_refused() {
    let world = World::new().await;
    let huge = Scripted::new(|_, _, _| async { Ok(ExecutionResult::new(json!("x".repeat(3 << 20)))) });
    world.queue(&[task("a", "huge", json!({}))]).await;
    let _worker = world.start(world.settings(), vec![("huge", huge)]).await;
    let failure = world.wait_final("a").await.failure.expect("it failed");
    assert_eq!((failure.class, failure.code.as_str()), (FailureClass::Permanent, "OUTPUT_TOO_LARGE"));
}

#[tokio::test(start_paused = true)]
async fn references_lead_to_blobs_only() {
    let world = World::new().await;
    let fast = Scripted::taking(0);
    world.inner().put_blob("goalmill:meta", b"1", 1_000).await.expect("it is kept");
    world.queue(&[task("a", "fast", json!({"x": {"$blob": "goalmill:meta"}}))]).await;
    let own = task("b", "fast", json!({})).plan;
    let gone = Keys::default().plan_blob(&own, "gone").expect("it has a shard");
    world.queue(&[task("b", "fast", json!({"x": {"$blob": gone}}))]).await;
    let _worker = world.start(world.settings(), vec![("fast", fast.clone())]).await;
    assert_eq!(world.wait_final("a").await.failure.expect("it failed").code, "BLOB_INVALID");
    assert_eq!(world.wait_final("b").await.failure.expect("it failed").code, "BLOB_MISSING");
    assert_eq!(fast.begun(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_blob_of_another_plan_is_not_read_and_one_of_the_same_family_is() {
    let world = World::new().await;
    let echo = Scripted::new(|task, _, _| async move { Ok(ExecutionResult::new(task.inputs.value())) });
    let family = PlanId::derive_in(SHARD, "family");
    let key = Keys::default().plan_blob(&family, "secret").expect("it has a shard");
    world.inner().put_blob(&key, b"\"of red\"", 60_000).await.expect("it is kept");
    let inputs = json!({"y": {"$blob": key, "bytes": 8}});
    world.queue(&[task("a", "echo", inputs.clone())]).await;
    world.queue(&[Task { family: Some(family), ..task("b", "echo", inputs) }]).await;
    let _worker = world.start(world.settings(), vec![("echo", echo)]).await;
    assert_eq!(world.wait_final("a").await.failure.expect("it failed").code, "BLOB_INVALID");
    assert_eq!(world.wait_final("b").await.outputs.expect("it has outputs").value(), json!({"y": "of red"}));
}
