//! Connections: broken, woken, abandoned.

use std::time::Duration;

use goalmill_broker::{Broadcast, BrokerError, Committed, InboxCursor};
use goalmill_common::agent::Agent;
use goalmill_common::id::{AgentType, AttemptToken};
use goalmill_common::wire;

use crate::seed::{SHARD, blocked, commit, own};
use crate::server::{DEADLINE, Server};

#[tokio::test]
async fn after_a_crash_verbs_fail_and_then_work_again() {
    let mut server = Server::start(&["--appendfsync", "always"]).await;
    let broker = server.open().await;
    own(&*broker, "t1").await;
    assert_eq!(broker.commit(&commit("t1", 1, &[])).await.unwrap(), Committed::Applied);
    let mut reader = broker.reader().await.unwrap();
    let waiting = tokio::spawn(async move {
        let result = reader.inbox(SHARD, &InboxCursor::start(), 10, 60_000).await;
        (reader, result)
    });
    blocked(&server, 1).await;
    server.kill();
    let (mut reader, result) = waiting.await.unwrap();
    assert!(matches!(result, Err(BrokerError::Unavailable(_))), "{result:?}");
    assert!(matches!(broker.commit(&commit("t1", 2, &[])).await, Err(BrokerError::Unavailable(_))));
    assert!(matches!(broker.check_health().await, Err(BrokerError::Unavailable(_))));

    server.resume().await;
    broker.check_health().await.unwrap();
    assert_eq!(broker.commit(&commit("t1", 1, &[])).await.unwrap(), Committed::Duplicate);
    assert_eq!(broker.commit(&commit("t1", 2, &[])).await.unwrap(), Committed::Applied);
    broker.send(SHARD, &wire::Inbox::Reports(Vec::new()).fields()).await.unwrap();
    assert_eq!(reader.inbox(SHARD, &InboxCursor::start(), 10, 1_000).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_wait_ends_when_it_is_woken_and_strands_nothing() {
    let server = Server::start(&[]).await;
    let broker = server.open().await;
    let (fetch, think) = (AgentType::from("fetch"), AgentType::from("think"));
    broker.open_queue(&fetch).await.unwrap();
    broker.open_queue(&think).await.unwrap();
    for types in [vec![fetch.clone()], vec![fetch.clone(), think.clone()]] {
        for count in [1, 8] {
            let mut reader = broker.reader().await.unwrap();
            let waker = reader.waker();
            let types = types.clone();
            let waiting = tokio::spawn(async move { reader.pull(&"w".into(), &types, count, 60_000).await });
            blocked(&server, 1).await;
            waker.wake().await;
            assert_eq!(waiting.await.unwrap().unwrap(), []);
        }
    }
    let mut reader = broker.reader().await.unwrap();
    assert_eq!(reader.messages(0).await.unwrap(), []);
    let waker = reader.waker();
    let (result, ()) = tokio::join!(reader.messages(60_000), async {
        tokio::task::yield_now().await;
        waker.wake().await;
    });
    assert_eq!(result.unwrap(), []);
    assert!(broker.queues().await.unwrap().iter().all(|queue| queue.pending == 0));
}

#[tokio::test]
async fn a_password_is_never_shown() {
    let server = Server::start(&[]).await;
    for url in ["redis://user:hunter2@", "rediss://:hunter2@127.0.0.1:1", "hunter2://x", "redis://:hunter2@127.0.0.1:x"]
    {
        let mut settings = server.settings();
        settings.url = url.replace('@', &format!("@{}", server.settings().url.trim_start_matches("redis://")));
        if url.contains(":1") {
            settings.url = url.into();
        }
        let said = match goalmill_broker::redis::connect(&settings).await {
            Ok(broker) => format!("{:?}", broker.check_health().await.unwrap_err()),
            Err(e) => format!("{e} {e:?}"),
        };
        assert!(!said.contains("hunter2"), "{said}");
    }
}

#[tokio::test]
async fn a_read_that_was_dropped_does_not_hold_up_the_next() {
    let server = Server::start(&[]).await;
    let broker = server.open().await;
    let mut reader = broker.reader().await.unwrap();
    let start = InboxCursor::start();
    let dropped = reader.inbox(SHARD, &start, 1, 60_000);
    assert!(tokio::time::timeout(Duration::from_millis(50), dropped).await.is_err());
    let quick = reader.inbox(SHARD, &start, 1, 0);
    assert_eq!(tokio::time::timeout(DEADLINE, quick).await.unwrap().unwrap(), []);
}

#[tokio::test]
async fn messages_come_again_after_the_connection_broke() {
    let mut server = Server::start(&["--appendfsync", "always"]).await;
    let broker = server.open().await;
    let mut reader = broker.reader().await.unwrap();
    assert_eq!(reader.messages(60_000).await.unwrap(), [], "the first call subscribes only");
    broker.cancel(&["t1".into(), "t2".into()]).await.unwrap();
    broker.register(&Agent::named("a".into())).await.unwrap();
    let mut said = reader.messages(10_000).await.unwrap();
    while said.len() < 2 {
        said.extend(reader.messages(10_000).await.unwrap());
    }
    assert_eq!(said, [Broadcast::Cancel(vec!["t1".into(), "t2".into()]), Broadcast::AgentsChanged("a".into())]);
    server.kill();
    assert!(matches!(reader.messages(60_000).await, Err(BrokerError::Unavailable(_))));
    assert!(matches!(reader.messages(60_000).await, Err(BrokerError::Unavailable(_))));
    server.resume().await;
    assert_eq!(reader.messages(60_000).await.unwrap(), []);
    broker.cancel(&["t3".into()]).await.unwrap();
    assert_eq!(reader.messages(60_000).await.unwrap(), [Broadcast::Cancel(vec!["t3".into()])]);
    let mut cancelled = broker.cancelled().await.unwrap();
    cancelled.sort();
    assert_eq!(cancelled, ["t1", "t2", "t3"].map(AttemptToken::from));
}

#[tokio::test]
async fn submissions_that_were_taken_before_a_failure_come_again() {
    let mut server = Server::start(&["--appendfsync", "always"]).await;
    let broker = server.open().await;
    for n in 0..3 {
        broker.submit(&vec![("data".to_owned(), vec![n])]).await.unwrap();
    }
    let mut reader = broker.reader().await.unwrap();
    let first = reader.submissions("s", 2, 0).await.unwrap();
    assert_eq!(first.len(), 2);
    broker.acknowledge_submissions(&[first[0].id.clone()]).await.unwrap();
    server.kill();
    assert!(reader.submissions("s", 2, 0).await.is_err());
    server.resume().await;
    let again = reader.submissions("s", 2, 0).await.unwrap();
    assert_eq!(again, first[1..]);
    assert_eq!(reader.submissions("s", 2, 0).await.unwrap().len(), 1);
    assert_eq!(broker.reclaim_submissions("other", 0, 1).await.unwrap(), first[1..]);
    assert!(broker.reclaim_submissions("other", 3_600_000, 1).await.unwrap().is_empty());
}
