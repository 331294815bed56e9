//! The bridge with a program that is played by the test.

use std::sync::Arc;
use std::time::Duration;

use goalmill_bridge::{Bridge, BridgeError};
use goalmill_common::call::CallBudget;
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::id::AgentType;
use goalmill_common::json::Json;
use goalmill_common::task::Task;
use goalmill_worker::executor::{ExecutionResult, Executor, Progress};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf, duplex, split};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The program's side of the bridge.
struct Program {
    frames: Lines<BufReader<ReadHalf<DuplexStream>>>,
    output: WriteHalf<DuplexStream>,
}

impl Program {
    async fn send(&mut self, frame: Value) {
        self.output.write_all(format!("{frame}\n").as_bytes()).await.expect("the bridge reads");
    }

    async fn next(&mut self) -> Value {
        let line = self.frames.next_line().await.expect("the bridge writes").expect("the bridge has not ended");
        serde_json::from_str(&line).expect("a frame is JSON")
    }
}

fn hello() -> Value {
    json!({"hello": {"version": 1, "agents": [{"agent_type": "a", "description": "works"}], "slots": 2, "new": true}})
}

async fn connect(hello: Value) -> (Program, Result<Bridge, BridgeError>) {
    let (ours, theirs) = duplex(1 << 16);
    let (input, output) = split(theirs);
    let (frames, written) = split(ours);
    let mut program = Program { frames: BufReader::new(frames).lines(), output: written };
    program.send(hello).await;
    (program, Bridge::connect(input, output).await)
}

async fn connected() -> (Program, Bridge) {
    let (program, bridge) = connect(hello()).await;
    (program, bridge.expect("it is served"))
}

fn task() -> Task {
    serde_json::from_value(json!({
        "plan": "p0-0000000000000001", "step": "s", "attempt": 1, "token": "t", "agent_type": "a", "inputs": {"x": 1},
        "timeout_ms": 1000, "lease_ms": 1000, "reply": "r", "idempotency_key": "k"
    }))
    .expect("it is a task")
}

struct Execution {
    result: JoinHandle<Result<ExecutionResult, Failure>>,
    cancelled: CancellationToken,
}

fn execute(bridge: &Bridge) -> Execution {
    let executor: Arc<dyn Executor> = bridge.executors()[&AgentType::from("a")].clone();
    let cancelled = CancellationToken::new();
    let token = cancelled.clone();
    let result = TaskTracker::new().spawn(async move { executor.execute(&task(), &Progress::default(), &token).await });
    Execution { result, cancelled }
}

async fn failure(execution: Execution) -> Failure {
    execution.result.await.expect("it does not panic").expect_err("it failed")
}

#[tokio::test]
async fn a_task_goes_to_the_program_and_its_answer_comes_back() {
    let (mut program, bridge) = connected().await;
    let execution = execute(&bridge);
    let frame = program.next().await;
    assert_eq!((&frame["task"]["step"], &frame["task"]["inputs"]), (&json!("s"), &json!({"x": 1})), "{frame}");
    assert!(frame["task"]["token"].is_null(), "the token is the worker's");
    program.send(json!({"of_a_later_version": {"task": 1}})).await;
    program.send(json!({"ended": {"task": 1, "answer": {"outputs": {"y": 2}, "cost": 0.5}}})).await;
    let result = execution.result.await.expect("it does not panic").expect("it completed");
    assert_eq!((result.outputs.text(), result.cost), (r#"{"y":2}"#, 0.5));
}

#[tokio::test]
async fn inputs_over_several_lines_are_one_frame() {
    let (mut program, bridge) = connected().await;
    let executor = bridge.executors()[&AgentType::from("a")].clone();
    let inputs = Json::from_text("{\n  \"x\": \"a\\nb\"\r\n}".into()).expect("it is JSON");
    let task = Task { inputs, ..task() };
    let (progress, cancelled) = (Progress::default(), CancellationToken::new());
    let (_, frame) = tokio::join!(executor.execute(&task, &progress, &cancelled), async {
        let frame = program.next().await;
        program.send(json!({"ended": {"task": 1, "answer": {"outputs": {}}}})).await;
        frame
    });
    assert_eq!(frame["task"]["inputs"], json!({"x": "a\nb"}), "{frame}");
}

#[tokio::test]
async fn calls_at_the_same_time_get_their_keys_and_are_recorded_in_any_order() {
    let (mut program, bridge) = connected().await;
    let execution = execute(&bridge);
    program.next().await;
    for call in [1, 2, 3] {
        program.send(json!({"call": {"task": 1, "call": call, "name": "c", "inputs": "x"}})).await;
        let frame = program.next().await;
        assert_eq!(frame["call"]["call"], call, "{frame}");
        assert!(frame["call"]["key"].is_string(), "{frame}");
    }
    program.send(json!({"abandoned": {"task": 1, "call": 1}})).await;
    for call in [3, 2] {
        program.send(json!({"made": {"task": 1, "call": call, "outcome": call, "cost": 0.25}})).await;
        assert_eq!(program.next().await, json!({"recorded": {"task": 1, "call": call}}));
    }
    program
        .send(json!({"ended": {"task": 1, "answer": {"error": {"class": "permanent", "code": "NO", "message": "no"}}}}))
        .await;
    let result = execution.result.await.expect("it does not panic").expect("it is an envelope");
    assert_eq!(result.failure.expect("it has an error").code, "NO");
}

#[tokio::test]
async fn a_call_holds_its_share_of_the_budget_until_it_is_made() {
    let (mut program, bridge) = connected().await;
    let executor = bridge.executors()[&AgentType::from("a")].clone();
    let budget = CallBudget { tokens: Some(100), cost: None, last: true };
    let task = Task { budget: Some(budget), ..task() };
    let (progress, cancelled) = (Progress::default(), CancellationToken::new());
    let (result, ()) = tokio::join!(executor.execute(&task, &progress, &cancelled), async {
        program.next().await;
        for (call, tokens, kind) in [(1, 60, "reserved"), (2, 60, "call"), (3, 40, "reserved")] {
            program.send(json!({"reserve": {"task": 1, "call": call, "tokens": tokens}})).await;
            let frame = program.next().await;
            assert!(frame.get(kind).is_some(), "{frame}");
        }
        program.send(json!({"call": {"task": 1, "call": 1, "name": "c", "inputs": "x"}})).await;
        program.next().await;
        let usage = json!({"prompt_tokens": 20, "completion_tokens": 0});
        program.send(json!({"made": {"task": 1, "call": 1, "outcome": 1, "usage": usage}})).await;
        program.next().await;
        program.send(json!({"abandoned": {"task": 1, "call": 3}})).await;
        program.send(json!({"reserve": {"task": 1, "call": 4, "tokens": 80}})).await;
        assert_eq!(program.next().await, json!({"reserved": {"task": 1, "call": 4}}));
        program.send(json!({"ended": {"task": 1, "answer": {"outputs": {}}}})).await;
    });
    result.expect("it completed");
}

#[tokio::test]
async fn a_call_that_waits_is_not_allowed_where_nothing_is_recorded_and_ends_the_attempt() {
    let (mut program, bridge) = connected().await;
    let execution = execute(&bridge);
    program.next().await;
    let wait = json!({"for": "approval", "text": "may I"});
    program.send(json!({"wait": {"task": 1, "call": 1, "name": "approve", "inputs": "x", "wait": wait}})).await;
    let frame = program.next().await;
    assert_eq!(frame["stop"]["failure"]["code"], "CALL_INVALID", "{frame}");
    assert_eq!(failure(execution).await.code, "CALL_INVALID");
}

#[tokio::test]
async fn the_end_of_the_program_is_the_loss_of_what_had_begun() {
    let (mut program, bridge) = connected().await;
    let begun = execute(&bridge);
    program.next().await;
    drop(program);
    assert_eq!(failure(begun).await.class, FailureClass::Lost);
    bridge.link().ended().await;
    let late = execute(&bridge);
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!late.result.is_finished(), "it has not begun, and is handed back");
    late.cancelled.cancel();
    failure(late).await;
}

#[tokio::test]
async fn a_cancelled_task_is_stopped_in_the_program() {
    let (mut program, bridge) = connected().await;
    let execution = execute(&bridge);
    program.next().await;
    execution.cancelled.cancel();
    assert_eq!(program.next().await, json!({"stop": {"task": 1}}));
    program.send(json!({"ended": {"task": 1}})).await;
    assert_eq!(failure(execution).await.code, "ANSWER_EMPTY");
}

#[tokio::test]
async fn a_frame_that_cannot_be_read_ends_the_bridge() {
    for wrong in [json!({"ended": {"task": "one"}}), json!([1]), json!({"call": {"call": 1}})] {
        let (mut program, bridge) = connected().await;
        program.send(wrong).await;
        bridge.link().ended().await;
        assert!(bridge.link().failure().is_some_and(|reason| reason.contains("cannot be read")));
    }
}

#[tokio::test]
async fn a_frame_about_a_task_that_cannot_be_read_fails_its_attempt() {
    let (mut program, bridge) = connected().await;
    let execution = execute(&bridge);
    program.next().await;
    program.send(json!({"made": {"task": 1, "call": 1, "outcome": 1, "cost": "much"}})).await;
    assert_eq!(program.next().await["stop"]["failure"]["code"], "ANSWER_INVALID");
    let failure = failure(execution).await;
    assert_eq!(failure.code, "ANSWER_INVALID");
    assert!(failure.message.contains("much"), "{}", failure.message);
}

#[tokio::test]
async fn a_program_that_cannot_be_served_is_refused_with_the_reason() {
    let other = json!({"hello": {"version": 2, "agents": [{"agent_type": "a"}], "slots": 1}});
    for (hello, part) in [(other, "version 2"), (json!({"drain": {}}), "no `hello`")] {
        let (_program, bridge) = connect(hello).await;
        let error = bridge.err().expect("it is refused").to_string();
        assert!(error.contains(part), "{error}");
    }
}
