//! Calls of an attempt: recorded one by one, and given back to the next attempt.

use std::sync::Arc;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use goalmill_common::call::{CallWait, CallWaitKind, RecordedCall, call_key, inputs_digest};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::limits::Limits;
use goalmill_common::report::{Report, TokenSplit, What};
use goalmill_common::task::Task;
use goalmill_worker::RunningWorker;
use goalmill_worker::executor::{
    CallId, CallResult, CallUsage, Calls, ExecutionResult, Executor, IndependentCall, Progress,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::world::{World, task};

/// Stands for an outcome that looks like a reference.
const DISGUISED: &str = "disguised";

/// Makes the calls that the inputs name: `[name, inputs, outcome]` each. Returns their outcomes.
#[derive(Default)]
struct Caller {
    /// Idempotency keys of the calls that were made.
    made: Mutex<Vec<String>>,
}

impl Caller {
    fn made(&self) -> Vec<String> {
        std::mem::take(&mut *self.made.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes calls at the same time: `[outcome, milliseconds]` each; `null` fails. Notes each key at the end of its call.
    async fn call_at_once(&self, wanted: &[Value], calls: &dyn Calls) -> Result<ExecutionResult, Failure> {
        let call = |wanted: &Value| {
            let (outcome, ms) = (wanted[0].clone(), wanted[1].as_u64().unwrap_or_default());
            let make = move |id: CallId| {
                let call = async move {
                    tokio::time::sleep(Duration::from_millis(ms)).await;
                    self.made.lock().unwrap_or_else(PoisonError::into_inner).push(id.idempotency_key);
                    if outcome.is_null() {
                        return Err(Failure::new(FailureClass::Permanent, "NOTHING", "there is nothing"));
                    }
                    Ok(CallResult::new(outcome, CallUsage::default()))
                };
                Box::pin(call) as futures_util::future::BoxFuture<'_, _>
            };
            IndependentCall { name: "read", inputs: "x", make: Box::new(make) }
        };
        let mut outcomes = Vec::new();
        for result in calls.call_all(wanted.iter().map(call).collect()).await {
            let result = result?;
            outcomes.push(json!([result.outcome.value(), result.is_replayed]));
        }
        Ok(ExecutionResult::new(Value::from(outcomes)))
    }
}

#[async_trait]
impl Executor for Caller {
    async fn execute(&self, _: &Task, _: &Progress, _: &CancellationToken) -> Result<ExecutionResult, Failure> {
        unreachable!("a worker offers calls")
    }

    async fn execute_with_calls(
        &self,
        task: &Task,
        _: &Progress,
        calls: &dyn Calls,
        _: &CancellationToken,
    ) -> Result<ExecutionResult, Failure> {
        let inputs = task.inputs.value();
        if let Some(wanted) = inputs["calls"]["at_once"].as_array() {
            return self.call_at_once(wanted, calls).await;
        }
        let mut outcomes = Vec::new();
        for wanted in inputs["calls"].as_array().into_iter().flatten() {
            let text = |at: usize| wanted[at].as_str().unwrap_or_default();
            if text(0) == "approve" {
                let (kind, text_of) = (CallWaitKind::Approval, "may I".to_owned());
                let wait = CallWait::new(kind, text_of);
                let decided = calls.wait(text(0), text(1), wait).await?;
                outcomes.push(json!([decided.outcome.value(), decided.is_replayed]));
                continue;
            }
            let make = |id: CallId| {
                let call = async move {
                    self.made.lock().unwrap_or_else(PoisonError::into_inner).push(id.idempotency_key);
                    let tokens = TokenSplit { prompt_tokens: 7, completion_tokens: 1 };
                    let outcome = if wanted[2] == DISGUISED {
                        json!({"$blob": "goalmill:meta", "bytes": 1})
                    } else {
                        wanted[2].clone()
                    };
                    Ok(CallResult::new(outcome, CallUsage { cost: 0.5, tokens }))
                };
                Box::pin(call) as futures_util::future::BoxFuture<'_, _>
            };
            let result = calls.call(text(0), text(1), Box::new(make)).await?;
            let is_deep = result.outcome.text().starts_with("[[[[");
            // Outputs have a limit of their own.
            let shown = if is_deep { json!(result.outcome.text()) } else { result.outcome.value() };
            outcomes.push(json!([shown, result.is_replayed]));
        }
        Ok(ExecutionResult::new(Value::from(outcomes)))
    }
}

fn wanted(calls: &Value) -> Task {
    task("a", "caller", json!({"calls": calls}))
}

/// A world with a worker that serves `caller`.
struct Called {
    world: World,
    caller: Arc<Caller>,
    _worker: RunningWorker,
}

impl Called {
    async fn new() -> Self {
        let (world, caller) = (World::new().await, Arc::new(Caller::default()));
        let worker = world.start(world.settings(), vec![("caller", caller.clone())]).await;
        Self { world, caller, _worker: worker }
    }

    /// Runs a task: the calls that it reported, and its last report.
    async fn run(&self, task: Task) -> (Vec<RecordedCall>, Report) {
        let step = task.step.clone();
        self.world.queue(&[task]).await;
        let last = self.world.wait_final(step.as_str()).await;
        let entries = self.world.entries().await;
        let of_step = |report: &Report| report.step == step && report.what == What::Call;
        let calls: Vec<&Vec<Report>> = entries.iter().filter(|entry| entry.iter().any(of_step)).collect();
        assert!(calls.iter().all(|entry| entry.len() == 1), "each call is reported at once");
        (calls.iter().filter_map(|entry| Some(*entry[0].call.clone()?)).collect(), last)
    }
}

#[tokio::test(start_paused = true)]
async fn every_finished_call_is_reported_before_the_next_one_and_replayed_to_the_next_attempt() {
    let called = Called::new().await;
    let first = wanted(&json!([["model", "q", "one"], ["search", "x", {"hits": 2}]]));
    let key = |name: &str, inputs: &str| call_key(&first.idempotency_key, name, &inputs_digest(inputs));
    let (recorded, last) = called.run(first.clone()).await;
    assert_eq!(called.caller.made(), [key("model", "q"), key("search", "x")]);
    let told: Vec<(u32, &str, Value)> =
        recorded.iter().map(|c| (c.n, c.name.as_str(), c.outcome.as_ref().expect("it has one").value())).collect();
    assert_eq!(told, [(1, "model", json!("one")), (2, "search", json!({"hits": 2}))]);
    assert!(recorded.iter().all(|call| call.cost == 0.5 && call.tokens() == 8 && call.started_ms.is_some()));
    assert_eq!((last.what, last.cost, last.usage), (What::Completed, None, None), "usage is that of the calls");
    let again = Task {
        step: "b".into(),
        calls: recorded,
        ..wanted(&json!([["model", "q", "other"], ["search", "x", 0], ["model", "q", "three"]]))
    };
    let (recorded, last) = called.run(again).await;
    assert_eq!(called.caller.made().len(), 1);
    assert_eq!(recorded.iter().map(|call| call.n).collect::<Vec<_>>(), [3]);
    let outputs = last.outputs.expect("it completed").value();
    assert_eq!(outputs, json!([["one", true], [{"hits": 2}, true], ["three", false]]));
}

#[tokio::test(start_paused = true)]
async fn a_call_with_another_name_or_other_inputs_is_made_and_all_others_are_found() {
    for changed in [json!(["read", "x", 0]), json!(["search", "y", 0])] {
        let called = Called::new().await;
        let all = json!([["model", "q", 1], ["search", "x", 2], ["model", "q", 3]]);
        let (recorded, _) = called.run(wanted(&all)).await;
        let mut other = all.clone();
        other[1] = changed;
        let again = Task { step: "b".into(), calls: recorded, ..wanted(&other) };
        let (recorded, last) = called.run(again).await;
        assert_eq!(recorded.iter().map(|call| call.n).collect::<Vec<_>>(), [4]);
        let outputs = last.outputs.expect("it completed").value();
        assert_eq!(outputs, json!([[1, true], [0, false], [3, true]]));
    }
}

#[tokio::test(start_paused = true)]
async fn calls_at_the_same_time_are_recorded_as_they_end_and_found_by_their_occurrence() {
    let called = Called::new().await;
    let first = wanted(&json!({"at_once": [["a", 300], ["b", 200], ["c", 100]]}));
    let digest = inputs_digest("x");
    let inputs = [digest.clone(), format!("{digest}#2"), format!("{digest}#3")];
    let key = |n: usize| call_key(&first.idempotency_key, "read", &inputs[n]);
    let (recorded, last) = called.run(first.clone()).await;
    assert_eq!(called.caller.made(), [key(2), key(1), key(0)], "they were made at the same time");
    let found = recorded.iter().map(|call| {
        let outcome = call.outcome.as_ref().expect("it has one").value();
        (call.n, call.inputs.clone().expect("it has some"), outcome)
    });
    let [one, two, three] = inputs.clone();
    assert_eq!(found.collect::<Vec<_>>(), [(1, three, json!("c")), (2, two, json!("b")), (3, one, json!("a"))]);
    assert_eq!(last.outputs.expect("it completed").value(), json!([["a", false], ["b", false], ["c", false]]));
    // Two are known: only the first one is made, with the key that it had.
    let known = recorded[..2].to_vec();
    let again = Task { step: "b".into(), calls: known, ..wanted(&json!({"at_once": [["x", 0], ["y", 0], ["z", 0]]})) };
    let made_key = call_key(&again.idempotency_key, "read", &inputs[0]);
    let (recorded, last) = called.run(again).await;
    assert_eq!((recorded.len(), recorded[0].n, called.caller.made()), (1, 3, vec![made_key]));
    assert_eq!(last.outputs.expect("it completed").value(), json!([["x", false], ["b", true], ["c", true]]));
}

#[tokio::test(start_paused = true)]
async fn calls_beside_one_that_fails_are_recorded() {
    let called = Called::new().await;
    let (recorded, last) = called.run(wanted(&json!({"at_once": [["a", 10], [null, 20], ["c", 0]]}))).await;
    let outcomes = recorded.iter().map(|call| call.outcome.as_ref().expect("it has one").value());
    assert_eq!(outcomes.collect::<Vec<_>>(), [json!("c"), json!("a")]);
    assert_eq!((last.what, last.failure.expect("it failed").code.as_str()), (What::Failed, "NOTHING"));
}

#[tokio::test(start_paused = true)]
async fn the_same_call_recorded_by_another_program_is_found_by_its_place_among_them() {
    let called = Called::new().await;
    let known = |n: u32, outcome: &str| RecordedCall {
        n,
        name: "model".into(),
        inputs: Some(inputs_digest("q")),
        outcome: Some(json!(outcome).into()),
        ..RecordedCall::default()
    };
    let all = json!([["model", "q", 0], ["model", "q", 0], ["model", "q", "new"]]);
    let (recorded, last) = called.run(Task { calls: vec![known(1, "one"), known(2, "two")], ..wanted(&all) }).await;
    assert_eq!(recorded.iter().map(|call| call.n).collect::<Vec<_>>(), [3]);
    let outputs = last.outputs.expect("it completed").value();
    assert_eq!(outputs, json!([["one", true], ["two", true], ["new", false]]));
}

#[tokio::test(start_paused = true)]
async fn outcomes_that_do_not_fit_the_log_go_by_reference() {
    let called = Called::new().await;
    let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
    let disguised = json!({"$blob": "goalmill:meta", "bytes": 1});
    for outcome in [json!("x".repeat(20_000)), deep, disguised] {
        // In the inputs it would be a reference.
        let wanted_outcome = if outcome.is_object() { json!(DISGUISED) } else { outcome.clone() };
        let all = json!([["model", "q", wanted_outcome]]);
        let first = Task { step: format!("a{}", outcome.to_string().len()).as_str().into(), ..wanted(&all) };
        let (recorded, _) = called.run(first.clone()).await;
        assert_eq!(called.caller.made().len(), 1);
        let reference = recorded[0].outcome.as_ref().expect("it has one").value();
        let key = reference["$blob"].as_str().expect("it is a reference");
        assert!(key.starts_with("goalmill:blob:") && !key.contains(first.token.as_str()), "{key}");
        let again = Task { step: format!("b{}", outcome.to_string().len()).as_str().into(), calls: recorded, ..first };
        let (_, last) = called.run(again).await;
        assert_eq!(called.caller.made(), Vec::<String>::new());
        let outputs = last.outputs.expect("it completed").value();
        let is_same = outputs == json!([[outcome, true]]) || outputs == json!([[outcome.to_string(), true]]);
        assert!(is_same, "{outputs}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_calls_of_a_step_are_limited_in_number_and_bytes() {
    let many: Vec<Value> = (0..201).map(|n| json!(["model", "q", n])).collect();
    let large: Vec<Value> = (0..9).map(|_| json!(["model", "q", "x".repeat(1 << 20)])).collect();
    for (calls, made, part) in [(many, 200, "limits.calls_max"), (large, 8, "limits.calls_bytes_max")] {
        let called = Called::new().await;
        let (recorded, last) = called.run(wanted(&Value::from(calls))).await;
        let failure = last.failure.expect("it failed");
        assert_eq!((failure.class, failure.code.as_str()), (FailureClass::Permanent, "CALLS_EXCEEDED"));
        assert!(failure.message.contains(part), "{}", failure.message);
        assert_eq!(called.caller.made().len(), made);
        assert!(recorded.len() <= usize::try_from(Limits::default().calls_max).expect("it is small"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_a_person_ends_the_attempt_and_goes_on_with_the_decision() {
    let called = Called::new().await;
    let first = wanted(&json!([["model", "q", "one"], ["approve", "5"], ["pay", "5", "paid"]]));
    let (mut recorded, last) = called.run(first.clone()).await;
    assert_eq!((last.what, called.caller.made().len(), recorded.len()), (What::Suspended, 1, 1));
    let waiting = last.suspended.expect("it says what waits");
    assert_eq!((waiting.n, waiting.name.as_str(), waiting.wait.text.as_str()), (2, "approve", "may I"));
    let decision = json!({"approved": true});
    recorded.push(RecordedCall {
        n: 2,
        name: waiting.name,
        inputs: waiting.inputs,
        outcome: Some(decision.clone().into()),
        ..RecordedCall::default()
    });
    let again = Task { step: "b".into(), calls: recorded, ..first };
    let (_, last) = called.run(again).await;
    let outputs = last.outputs.expect("it completed").value();
    assert_eq!(outputs, json!([["one", true], [decision, true], ["paid", false]]));
}
