//! Contents of Redis: public keys, and keys of a wrong type.

use std::collections::BTreeMap;

use goalmill_broker::{Activity, BrokerError, Commit, Committed, KeyTypeMismatch};
use goalmill_common::keys::Keys;
use redis::Value;

use crate::make::{S0, commit, own, plan, submission, task};
use crate::stage::Stage;

#[tokio::test]
async fn a_commit_over_a_key_of_another_type_writes_nothing() {
    let keys_of_a_commit = [
        Keys::default().owner(S0),
        Keys::default().active(S0),
        Keys::default().index(S0),
        Keys::default().cursor(S0),
        Keys::default().reports(S0),
        Keys::default().requests_cursor(S0),
        Keys::default().requests(S0),
        Keys::default().plan(&"p0-b".into()),
        Keys::default().events(&"p0-b".into()),
        Keys::default().steps(&"test".into()),
    ];
    let mut stage = Stage::redis().await;
    for key in keys_of_a_commit {
        stage.raw::<Value>(&["FLUSHDB"]).await;
        own(&*stage.broker, S0, "t1").await;
        let is_text = [Keys::default().cursor(S0), Keys::default().requests_cursor(S0)].contains(&key);
        let wrong: &[&str] = if is_text { &["SADD", &key, "wrong"] } else { &["SET", &key, "wrong"] };
        stage.raw::<Value>(wrong).await;
        let before = stage.raw_keys().await;
        let whole = Commit {
            cursor: Some("5-0".into()),
            requests_cursor: Some("5-0".into()),
            plans: vec![plan("p0-a", 0, 1, Activity::Begins), plan("p0-b", 0, 1, Activity::Begins)],
            tasks: vec![task("build", "one"), task("test", "two")],
            acknowledged: vec![("test".into(), "1-0".into())],
            full_check: true,
            ..commit("t1", 1)
        };
        let refused = stage.broker.commit(&whole).await;
        let named = |found: &[KeyTypeMismatch]| matches!(found, [only] if only.key == key);
        assert!(matches!(&refused, Err(BrokerError::WrongType(found)) if named(found)), "`{key}`: {refused:?}");
        assert_eq!(stage.raw_keys().await, before, "`{key}`");
    }
}

#[tokio::test]
async fn a_submission_by_redis_cli_is_read() {
    let mut stage = Stage::redis().await;
    let id: String = stage.raw(&["XADD", &Keys::default().goals(), "*", "id", "r1", "data", "{}"]).await;
    let mut reader = stage.broker.reader().await.unwrap();
    let read = reader.submissions("one", 10, 0).await.unwrap();
    assert_eq!((read[0].id.as_str(), read[0].fields.len()), (id.as_str(), 2));
    stage.broker.answer(&[("r1".into(), "{}".into())]).await.unwrap();
    assert_eq!(stage.raw::<String>(&["GET", "goalmill:answers:r1"]).await, "{}");
    let left: i64 = stage.raw(&["TTL", "goalmill:answers:r1"]).await;
    assert!((86_000..=86_400).contains(&left), "{left}");
}

#[tokio::test]
async fn the_public_log_and_summary_are_as_documented() {
    let mut stage = Stage::redis().await;
    own(&*stage.broker, S0, "t1").await;
    let begin = Commit { plans: vec![plan("p0-a", 0, 17, Activity::Begins)], ..commit("t1", 1) };
    assert_eq!(stage.broker.commit(&begin).await.unwrap(), Committed::Applied);
    let log: Vec<(String, BTreeMap<String, String>)> =
        stage.raw(&["XRANGE", "goalmill:{s0}:plan:p0-a:events", "-", "+"]).await;
    assert_eq!(log[0].0, "17-0");
    assert_eq!(log[0].1["events"], "[\"p0-a to 17\"]");
    assert_eq!(log[0].1["time"], "2026-11-21T22:47:10.123Z");
    assert_eq!(stage.raw::<String>(&["HGET", "goalmill:{s0}:plan:p0-a", "seq"]).await, "17");
    let layout: BTreeMap<String, String> = stage.raw(&["HGETALL", &Keys::default().meta()]).await;
    assert_eq!((layout["instance"].as_str(), layout["shards"].as_str()), ("first", "2"));
}

#[tokio::test]
async fn functions_that_went_away_are_loaded_again() {
    let mut stage = Stage::redis().await;
    own(&*stage.broker, S0, "t1").await;
    stage.raw::<Value>(&["FUNCTION", "FLUSH"]).await;
    assert_eq!(stage.broker.commit(&commit("t1", 1)).await.unwrap(), Committed::Applied);
    stage.raw::<Value>(&["FUNCTION", "FLUSH"]).await;
    assert!(stage.broker.renew(S0, "t1").await.unwrap());
}

#[tokio::test]
async fn a_connection_that_the_server_closed_is_opened_again() {
    let mut stage = Stage::redis().await;
    own(&*stage.broker, S0, "t1").await;
    stage.broker.submit(&submission("r1")).await.unwrap();
    stage.raw::<Value>(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
    goalmill_tests::wait::until(goalmill_tests::wait::SOON, async || stage.broker.renew(S0, "t1").await.is_ok()).await;
    goalmill_tests::wait::until(goalmill_tests::wait::SOON, async || {
        stage.broker.submit(&submission("r2")).await.is_ok()
    })
    .await;
}
