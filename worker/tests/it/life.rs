//! A task's life, from its queue to its report.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use goalmill_broker::TaskWrite;
use goalmill_common::call::CallWaitKind;
use goalmill_common::callback::TaskCallback;
use goalmill_common::config::WorkerSettings;
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::report::What;
use goalmill_common::task::Task;
use goalmill_worker::executor::ExecutionResult;
use serde_json::json;
use tokio::time::Instant;

use crate::world::{LEASE_MS, SHARD, Scripted, World, task};

#[tokio::test(start_paused = true)]
async fn a_short_task_sends_a_single_report() {
    let world = World::new().await;
    let echo = Scripted::new(|task, _, _| async move {
        Ok(ExecutionResult { cost: 0.25, tokens: 9, ..ExecutionResult::new(task.inputs) })
    });
    world.queue(&[task("a", "echo", json!({"x": 1}))]).await;
    let _worker = world.start(world.settings(), vec![("echo", echo)]).await;
    let reports = world.wait_reports(1).await;
    let report = &reports[0];
    assert_eq!((report.what, reports.len()), (What::Completed, 1));
    assert_eq!((report.step.as_str(), report.attempt, report.token.as_str()), ("a", 1, "token-a"));
    assert_eq!((report.worker.as_str(), report.agent_type.as_str()), ("w1", "echo"));
    assert!(report.entry.parts() > (0, 0));
    assert_eq!(report.outputs.as_ref().map(|o| o.text()), Some(r#"{"x":1}"#));
    assert_eq!((report.cost, report.tokens), (Some(0.25), Some(9)));
    assert!(report.started_ms.is_some() && report.started_ms <= report.finished_ms);
}

#[tokio::test(start_paused = true)]
async fn a_long_task_tells_that_it_started_and_how_far_it_is() {
    let world = World::new().await;
    let slow = Scripted::new(|_, progress, _| async move {
        for share in 1..=4 {
            tokio::time::sleep(Duration::from_millis(300)).await;
            progress.update(f64::from(share) / 4.0, format!("{share} of 4"));
            progress.update(f64::from(share) / 4.0, format!("really {share} of 4"));
        }
        Ok(ExecutionResult::default())
    });
    world.queue(&[task("a", "slow", json!({}))]).await;
    let _worker = world.start(world.settings(), vec![("slow", slow)]).await;
    world.wait_final("a").await;
    let reports = world.reports().await;
    let whats: Vec<What> = reports.iter().map(|r| r.what).collect();
    assert_eq!(whats[0], What::Started);
    assert_eq!(whats.last(), Some(&What::Completed));
    let told: Vec<_> = reports.iter().filter_map(|r| r.message.as_deref()).collect();
    assert_eq!(told, ["really 1 of 4", "really 2 of 4", "really 3 of 4"]);
}

#[tokio::test(start_paused = true)]
async fn an_accepted_task_frees_its_slot_and_waits_for_its_callback() {
    let world = World::new().await;
    let accepts = Scripted::new(|_, _, _| async { Ok(ExecutionResult::new(json!({"accepted": true}))) });
    let callback = Some(TaskCallback { url: "http://api".into(), token: "t".into() });
    world.queue(&[Task { callback, ..task("a", "later", json!({})) }, task("b", "later", json!({}))]).await;
    let settings = WorkerSettings { slots: 1, ..world.settings() };
    let _worker = world.start(settings, vec![("later", accepts)]).await;
    let report = world.wait_final("a").await;
    let waits_for = report.suspended.map(|call| call.wait.kind);
    assert_eq!((report.what, waits_for), (What::Suspended, Some(CallWaitKind::Callback)));
    let report = world.wait_final("b").await;
    assert_eq!(
        (report.what, report.outputs.as_ref().map(|o| o.text())),
        (What::Completed, Some(r#"{"accepted":true}"#))
    );
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_reported_as_it_is() {
    let world = World::new().await;
    let failure =
        Failure { retry_after_ms: Some(70), ..Failure::new(FailureClass::RateLimited, "SLOW_DOWN", "too fast") };
    let told = failure.clone();
    let limited = Scripted::new(move |_, _, _| std::future::ready(Err(told.clone())));
    world.queue(&[task("a", "limited", json!({}))]).await;
    let _worker = world.start(world.settings(), vec![("limited", limited)]).await;
    let report = world.wait_final("a").await;
    assert_eq!((report.what, report.failure), (What::Failed, Some(failure)));
}

#[tokio::test(start_paused = true)]
async fn one_refusal_holds_all_tasks_of_its_agent_type_and_no_others() {
    let world = World::new().await;
    let (begun, starts) = (Instant::now(), Arc::new(Mutex::new(Vec::new())));
    let seen = starts.clone();
    let limited = Scripted::new(move |task, _, _| {
        let mut starts = seen.lock().expect("nobody panics here");
        starts.push((task.step.to_string(), begun.elapsed()));
        let refusal = Failure::new(FailureClass::RateLimited, "HTTP_429", "slow down");
        let refusal = Failure { retry_after_ms: Some(5_000), ..refusal };
        std::future::ready(if starts.len() == 1 { Err(refusal) } else { Ok(ExecutionResult::new(json!({}))) })
    });
    let free = Scripted::new(|_, _, _| std::future::ready(Ok(ExecutionResult::new(json!({})))));
    let settings = WorkerSettings { slots: 1, ..world.settings() };
    world.queue(&[task("a", "limited", json!({})), task("b", "limited", json!({}))]).await;
    let _worker = world.start(settings, vec![("limited", limited), ("free", free)]).await;
    assert_eq!(world.wait_final("a").await.what, What::Failed);
    world.queue(&[task("c", "free", json!({}))]).await;
    assert_eq!(world.wait_final("c").await.what, What::Completed);
    assert!(begun.elapsed() < Duration::from_secs(5), "another agent type goes on");
    assert_eq!(world.wait_final("b").await.what, What::Completed);
    let starts = starts.lock().expect("nobody panics here").clone();
    assert_eq!((starts.len(), starts[1].0.as_str()), (2, "b"));
    assert!(starts[1].1 >= starts[0].1 + Duration::from_secs(5), "{starts:?}");
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_a_failure_of_its_task_alone() {
    let world = World::new().await;
    let mad = Scripted::new(|task, _, _| async move {
        assert!(task.step.as_str() != "bad", "the executor is mad");
        Ok(ExecutionResult::default())
    });
    world.queue(&[task("bad", "mad", json!({})), task("good", "mad", json!({}))]).await;
    let _worker = world.start(world.settings(), vec![("mad", mad)]).await;
    let failure = world.wait_final("bad").await.failure.expect("it failed");
    assert_eq!((failure.class, failure.code.as_str()), (FailureClass::Transient, "EXECUTOR_PANIC"));
    assert!(failure.message.contains("the executor is mad"), "{}", failure.message);
    assert_eq!(world.wait_final("good").await.what, What::Completed);
}

#[tokio::test(start_paused = true)]
async fn an_execution_ends_at_its_time_limit_and_may_clean_up() {
    let world = World::new().await;
    let cleaned = Arc::new(AtomicBool::new(false));
    let seen = cleaned.clone();
    let slow = Scripted::new(move |_, _, cancelled| {
        let seen = seen.clone();
        async move {
            cancelled.cancelled().await;
            seen.store(true, Ordering::SeqCst);
            std::future::pending().await
        }
    });
    let mut limited = task("a", "slow", json!({}));
    limited.timeout_ms = 1_500;
    world.queue(&[limited]).await;
    let _worker = world.start(world.settings(), vec![("slow", slow.clone())]).await;
    let report = world.wait_final("a").await;
    let failure = report.failure.expect("it failed");
    assert_eq!((failure.class, failure.code.as_str()), (FailureClass::Timeout, "STEP_TIMEOUT"));
    let took = report.finished_ms.expect("it ended") - report.started_ms.expect("it began");
    assert!((1_500..1_700).contains(&took), "{took}");
    assert!(cleaned.load(Ordering::SeqCst));
    assert_eq!(slow.running(), 0);
}

#[tokio::test(start_paused = true)]
async fn no_more_tasks_run_than_there_are_slots() {
    let world = World::new().await;
    let slow = Scripted::taking(100);
    let tasks: Vec<_> = (0..20).map(|n| task(&format!("s{n}"), "slow", json!({}))).collect();
    world.queue(&tasks).await;
    let _worker = world.start(world.settings(), vec![("slow", slow.clone())]).await;
    world.wait_reports(20).await;
    assert_eq!((slow.widest.load(Ordering::SeqCst), slow.begun()), (4, 20));
}

#[tokio::test(start_paused = true)]
async fn what_gathers_during_a_send_goes_as_one_entry() {
    let world = World::new().await;
    world.faults.stuck(Some("send"));
    let fast = Scripted::taking(0);
    let settings = goalmill_common::config::WorkerSettings { slots: 64, ..world.settings() };
    let _worker = world.start(settings, vec![("fast", fast.clone())]).await;
    world.queue(&[task("first", "fast", json!({}))]).await;
    world.until("the first send", async || world.faults.calls("send") == 1).await;
    let tasks: Vec<_> = (0..50).map(|n| task(&format!("s{n}"), "fast", json!({}))).collect();
    world.queue(&tasks).await;
    world.until("the others to end", async || fast.begun() == 51 && fast.running() == 0).await;
    world.faults.stuck(None);
    world.wait_reports(51).await;
    let sizes: Vec<usize> = world.entries().await.iter().map(Vec::len).collect();
    assert_eq!(sizes, [1, 50]);
}

#[tokio::test(start_paused = true)]
async fn reports_outlast_an_outage_in_order() {
    let world = World::new().await;
    let fast = Scripted::taking(0);
    let settings = goalmill_common::config::WorkerSettings { slots: 1, ..world.settings() };
    let worker = world.start(settings, vec![("fast", fast.clone())]).await;
    world.queue(&[task("a", "fast", json!({})), task("b", "fast", json!({})), task("c", "fast", json!({}))]).await;
    world.faults.stuck(Some("send"));
    world.until("all to end", async || fast.begun() == 3 && fast.running() == 0).await;
    world.faults.away(true);
    world.faults.stuck(None);
    world.until("some tries", async || world.faults.calls("send") > 5).await;
    assert!(world.reports().await.is_empty());
    world.faults.away(false);
    let steps: Vec<String> = world.wait_reports(3).await.iter().map(|r| r.step.to_string()).collect();
    assert_eq!(steps, ["a", "b", "c"]);
    worker.drain().await;
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_execution_stops_and_is_handed_back() {
    let world = World::new().await;
    let stalling = Scripted::stalling();
    world.queue(&[task("a", "stall", json!({})), task("b", "stall", json!({}))]).await;
    let _worker = world.start(world.settings(), vec![("stall", stalling.clone())]).await;
    world.until("both to run", async || stalling.running() == 2).await;
    world.inner().cancel(&["token-a".into()]).await.expect("it is told");
    let report = world.wait_final("a").await;
    assert_eq!((report.what, report.outputs), (What::Released, None));
    assert_eq!(stalling.running(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_superseded_attempt_is_handed_back_unexecuted() {
    let world = World::new().await;
    let fast = Scripted::taking(0);
    world.inner().cancel(&["token-a".into()]).await.expect("it is told");
    let _worker = world.start(world.settings(), vec![("fast", fast.clone())]).await;
    world.until("the listener to know", async || world.faults.calls("cancelled") > 0).await;
    world.queue(&[task("a", "fast", json!({})), task("b", "fast", json!({}))]).await;
    assert_eq!(world.wait_final("a").await.what, What::Released);
    assert_eq!(world.wait_final("b").await.what, What::Completed);
    assert_eq!(fast.begun(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_during_an_outage_is_heard_afterwards() {
    let world = World::new().await;
    let stalling = Scripted::stalling();
    world.queue(&[task("a", "stall", json!({}))]).await;
    let _worker = world.start(world.settings(), vec![("stall", stalling.clone())]).await;
    world.until("it to run", async || stalling.running() == 1).await;
    let listened = world.faults.calls("cancelled");
    world.faults.away(true);
    world.until("the listener to notice", async || world.faults.calls("reader") > 2).await;
    world.inner().cancel(&["token-a".into()]).await.expect("it is told");
    world.faults.away(false);
    world.until("the list to be read again", async || world.faults.calls("cancelled") > listened).await;
    assert_eq!(world.wait_final("a").await.what, What::Released);
}

#[tokio::test(start_paused = true)]
async fn what_is_no_task_is_buried_and_left_pending() {
    let world = World::new().await;
    let fast = Scripted::taking(0);
    let data = br#"{"plan":"p0-x","step":"a","attempt":2}"#.to_vec();
    world.queue_raw(vec![TaskWrite { agent_type: "fast".into(), data }]).await;
    world.queue(&[task("b", "fast", json!({}))]).await;
    let _worker = world.start(world.settings(), vec![("fast", fast)]).await;
    world.wait_final("b").await;
    let agent_type = "fast".into();
    world
        .until("a dead letter", async || world.inner().dead_letters(&agent_type, 9).await.is_ok_and(|l| l.len() == 1))
        .await;
    let letters = world.inner().dead_letters(&agent_type, 9).await.expect("they are read");
    let letter = &letters[0].1;
    assert_eq!((letter.step.as_str(), letter.attempt, letter.code.as_str()), ("a", 2, "TASK_UNREADABLE"));
    assert!(letter.reason.contains("token"), "{}", letter.reason);
    let queues = world.inner().queues().await.expect("they are counted");
    assert_eq!(queues[0].pending, 2);
    tokio::time::advance(Duration::from_millis(LEASE_MS)).await;
    let reclaimed = world.inner().reclaim(&agent_type, LEASE_MS, 9).await.expect("it is taken over");
    assert!(reclaimed.iter().any(|d| d.data.starts_with(br#"{"plan":"p0-x""#)), "shard {SHARD}: {reclaimed:?}");
}
