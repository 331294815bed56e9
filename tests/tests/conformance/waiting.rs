//! Reads that wait: ended by what they wait for, by time, and by a waker.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use goalmill_broker::{Activity, Broadcast, Commit, Committed, InboxCursor, Reader, Waker};
use goalmill_common::id::PlanId;
use goalmill_common::wire::InboxStream;
use goalmill_tests::wait::{SOON, until};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::make::{S0, commit, dispatch, fields, own, plan, submission, task};
use crate::stage::Stage;

on_both_back_ends! {
    a_wait_for_the_inbox_ends_with_a_report,
    a_wait_for_the_inbox_ends_with_a_request,
    a_wait_for_submissions_ends_with_a_submission,
    a_wait_for_tasks_ends_with_a_task_of_any_type,
    a_wait_for_the_log_ends_with_an_entry,
    a_wait_for_messages_ends_with_a_message,
    a_wait_with_nothing_to_come_ends_in_time,
    a_waker_ends_every_kind_of_wait,
    a_woken_reader_goes_on_and_misses_nothing,
}

/// Longer than any test waits for anything: a wait that ends by time has failed.
const LONG_MS: u64 = 600_000;

async fn a_wait_for_the_inbox_ends_with_a_report(stage: Stage) {
    let mut reader = stage.broker.reader().await.unwrap();
    let wait = begun(async move { reader.inbox(S0, &InboxCursor::start(), 10, LONG_MS).await.unwrap() }).await;
    stage.broker.send(S0, &fields(&[("v", "1")])).await.unwrap();
    assert_eq!(soon(wait).await.len(), 1);
}

async fn a_wait_for_the_inbox_ends_with_a_request(stage: Stage) {
    let mut reader = stage.broker.reader().await.unwrap();
    let wait = begun(async move { reader.inbox(S0, &InboxCursor::start(), 10, LONG_MS).await.unwrap() }).await;
    stage.broker.send_request(S0, &fields(&[("v", "1")])).await.unwrap();
    assert_eq!(soon(wait).await[0].stream, InboxStream::Requests);
}

async fn a_wait_for_submissions_ends_with_a_submission(stage: Stage) {
    let mut reader = stage.broker.reader().await.unwrap();
    let wait = begun(async move { reader.submissions("one", 10, LONG_MS).await.unwrap() }).await;
    let id = stage.broker.submit(&submission("r1")).await.unwrap();
    assert_eq!(soon(wait).await[0].id, id);
}

async fn a_wait_for_tasks_ends_with_a_task_of_any_type(stage: Stage) {
    own(&*stage.broker, S0, "t1").await;
    open_queues(&stage).await;
    for (number, agent_type) in [(1, "build"), (2, "test"), (3, "build")] {
        let mut reader = stage.broker.reader().await.unwrap();
        let types = ["build".into(), "test".into()];
        let wait = begun(async move { reader.pull(&"w1".into(), &types, 5, LONG_MS).await.unwrap() }).await;
        dispatch(&*stage.broker, "t1", number, vec![task(agent_type, "x")]).await;
        let pulled = soon(wait).await;
        assert_eq!((pulled.len(), pulled[0].agent_type.as_str()), (1, agent_type));
    }
}

async fn a_wait_for_the_log_ends_with_an_entry(stage: Stage) {
    own(&*stage.broker, S0, "t1").await;
    for number in 1..=3 {
        let mut reader = stage.broker.reader().await.unwrap();
        let wait = begun(async move { reader.log(&"p0-a".into(), number - 1, 10, LONG_MS).await.unwrap() }).await;
        let next =
            Commit { plans: vec![plan("p0-a", number - 1, number, Activity::Continues)], ..commit("t1", number) };
        assert_eq!(stage.broker.commit(&next).await.unwrap(), Committed::Applied);
        let entries = soon(wait).await;
        assert_eq!((entries.len(), entries[0].last_seq), (1, number));
    }
}

async fn a_wait_for_messages_ends_with_a_message(stage: Stage) {
    let mut reader = stage.broker.reader().await.unwrap();
    assert!(reader.messages(LONG_MS).await.unwrap().is_empty());
    let wait = begun(async move { reader.messages(LONG_MS).await.unwrap() }).await;
    stage.broker.cancel(&["a1".into()]).await.unwrap();
    assert_eq!(soon(wait).await, [Broadcast::Cancel(vec!["a1".into()])]);
}

async fn a_wait_with_nothing_to_come_ends_in_time(stage: Stage) {
    const SHORT_MS: u64 = 120;
    open_queues(&stage).await;
    let mut reader = stage.broker.reader().await.unwrap();
    reader.messages(0).await.unwrap();
    let begun = Instant::now();
    assert!(reader.inbox(S0, &InboxCursor::start(), 10, SHORT_MS).await.unwrap().is_empty());
    assert!(reader.submissions("one", 10, SHORT_MS).await.unwrap().is_empty());
    assert!(reader.pull(&"w1".into(), &["build".into()], 10, SHORT_MS).await.unwrap().is_empty());
    assert!(reader.log(&"p0-a".into(), 0, 10, SHORT_MS).await.unwrap().is_empty());
    assert!(reader.messages(SHORT_MS).await.unwrap().is_empty());
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(5 * (SHORT_MS - 20)), "{took:?}");
    assert!(took < SOON, "{took:?}");
}

async fn a_waker_ends_every_kind_of_wait(stage: Stage) {
    open_queues(&stage).await;
    for kind in 0..5 {
        let mut reader = stage.broker.reader().await.unwrap();
        reader.messages(0).await.unwrap();
        let waker = reader.waker();
        let wait = begun(async move { wait_for(kind, &mut *reader).await }).await;
        assert_eq!(woken(wait, &waker).await, 0, "kind {kind}");
    }
}

async fn a_woken_reader_goes_on_and_misses_nothing(stage: Stage) {
    own(&*stage.broker, S0, "t1").await;
    stage.broker.open_queue(&"build".into()).await.unwrap();
    let mut reader = stage.broker.reader().await.unwrap();
    let waker = reader.waker();
    let wait = begun(async move {
        let first = reader.pull(&"w1".into(), &["build".into()], 5, LONG_MS).await.unwrap();
        (first.len(), reader)
    });
    let (first, mut reader) = woken(wait.await, &waker).await;
    assert_eq!(first, 0);
    dispatch(&*stage.broker, "t1", 1, vec![task("build", "x")]).await;
    // A wake that came when no wait was on may end the next wait early, never lose what is there.
    let mut pulled = Vec::new();
    until(SOON, async || {
        pulled.extend(reader.pull(&"w1".into(), &["build".into()], 5, 1_000).await.unwrap());
        !pulled.is_empty()
    })
    .await;
    assert_eq!(pulled[0].data, b"x");
}

async fn open_queues(stage: &Stage) {
    for agent_type in ["build", "test"] {
        stage.broker.open_queue(&agent_type.into()).await.unwrap();
    }
}

async fn wait_for(kind: u8, reader: &mut dyn Reader) -> usize {
    match kind {
        0 => reader.inbox(S0, &InboxCursor::start(), 10, LONG_MS).await.unwrap().len(),
        1 => reader.submissions("one", 10, LONG_MS).await.unwrap().len(),
        2 => reader.pull(&"w1".into(), &["build".into(), "test".into()], 10, LONG_MS).await.unwrap().len(),
        3 => reader.log(&PlanId::from("p0-a"), 0, 10, LONG_MS).await.unwrap().len(),
        _ => reader.messages(LONG_MS).await.unwrap().len(),
    }
}

/// Starts a wait and lets it run until it has nothing more to do at once.
async fn begun<T: Send + 'static>(wait: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    let wait = tokio::spawn(wait);
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(!wait.is_finished());
    wait
}

async fn soon<T>(wait: JoinHandle<T>) -> T {
    tokio::time::timeout(SOON, wait).await.expect("the wait goes on").unwrap()
}

/// Wakes until the wait is over: a wake before the wait began has no effect.
async fn woken<T>(wait: JoinHandle<T>, waker: &Arc<dyn Waker>) -> T {
    until(SOON, async || {
        waker.wake().await;
        wait.is_finished()
    })
    .await;
    wait.await.unwrap()
}
