//! One installation, known again, never made anew in silence.

use goalmill_broker::{Activity, BrokerError, Commit, Committed, Install, Meta};
use goalmill_common::config::RedisSettings;
use goalmill_common::keys::Keys;
use goalmill_common::limits::TaskLimits;
use goalmill_tests::redis_server::{Fsync, Options, RedisServer};
use redis::Value;

use crate::make::{S0, commit, own, plan, submission, task};
use crate::stage::Stage;

on_both_back_ends! {
    an_installation_is_made_once,
    the_newest_scheduler_sets_the_limits_of_workers,
    the_back_end_says_how_it_feels,
}

async fn an_installation_is_made_once(mut stage: Stage) {
    let before = stage.look().await;
    let second = Install { instance: "second".into(), shards: 9, limits: TaskLimits::default() };
    let expected = Meta { instance: "first".into(), protocol: "1".into(), shards: 2, limits: TaskLimits::default() };
    assert_eq!(stage.broker.open(&second).await.unwrap(), expected);
    assert_eq!(stage.broker.meta().await.unwrap(), Some(expected));
    stage.assert_unchanged(&before).await;
}

async fn the_newest_scheduler_sets_the_limits_of_workers(stage: Stage) {
    for calls_max in [5, 1_000] {
        let limits = TaskLimits { calls_max, ..TaskLimits::default() };
        let opened = stage.broker.open(&Install { instance: "second".into(), shards: 9, limits }).await.unwrap();
        assert_eq!((opened.instance.as_str(), opened.limits), ("first", limits));
        assert_eq!(stage.broker.meta().await.unwrap(), Some(opened));
    }
}

async fn the_back_end_says_how_it_feels(mut stage: Stage) {
    let health = stage.broker.check_health().await.unwrap();
    let known = ["embedded", "redis 7.", "redis 8.", "valkey 9."];
    assert!(known.iter().any(|known| health.version.starts_with(known)), "{health:?}");
    assert!(health.warnings.is_empty() && health.memory_used < 0.5, "{health:?}");
    stage.later(5).await;
    let later = stage.broker.check_health().await.unwrap();
    assert!(later.time_ms >= health.time_ms);
}

#[tokio::test]
async fn a_fresh_server_has_no_installation_until_one_is_opened() {
    let server = RedisServer::start().await.unwrap();
    let redis = goalmill_broker::redis::connect(&server.settings()).await.unwrap();
    let embedded = goalmill_broker::embedded::open(None, goalmill_common::clock::Clock::system()).unwrap();
    for broker in [redis, embedded] {
        assert_eq!(broker.meta().await.unwrap(), None);
        broker.check_health().await.unwrap();
        assert_eq!(broker.meta().await.unwrap(), None, "asking makes nothing");
    }
}

#[tokio::test]
async fn a_server_that_lost_its_data_is_refused_and_left_as_it_is() {
    let mut stage = Stage::redis().await;
    own(&*stage.broker, S0, "t1").await;
    stage.raw::<Value>(&["FLUSHALL"]).await;
    for _ in 0..2 {
        let refused = stage.broker.check_health().await;
        assert!(matches!(refused, Err(BrokerError::DataLost(_))), "{refused:?}");
        let refused =
            stage.broker.open(&Install { instance: "first".into(), shards: 2, limits: TaskLimits::default() }).await;
        assert!(matches!(refused, Err(BrokerError::DataLost(_))), "{refused:?}");
    }
    assert_eq!(stage.raw::<Vec<String>>(&["KEYS", "*"]).await, [""; 0], "nothing is made anew");
}

#[tokio::test]
async fn a_server_that_holds_another_installation_is_refused() {
    let mut stage = Stage::redis().await;
    stage.raw::<Value>(&["HSET", &Keys::default().meta(), "instance", "other"]).await;
    let refused = stage.broker.check_health().await;
    assert!(matches!(refused, Err(BrokerError::DataLost(_))), "{refused:?}");
    let refused =
        stage.broker.open(&Install { instance: "first".into(), shards: 2, limits: TaskLimits::default() }).await;
    assert!(matches!(refused, Err(BrokerError::DataLost(_))), "{refused:?}");
    stage.raw::<Value>(&["HSET", &Keys::default().meta(), "instance", "first"]).await;
    stage.broker.check_health().await.unwrap();
}

#[tokio::test]
async fn a_killed_server_that_comes_back_is_known_again_with_all_that_was_answered() {
    for fsync in [Fsync::EverySecond, Fsync::Always] {
        let mut server = RedisServer::start_with(Options { fsync, ..Options::default() }).await.unwrap();
        let broker = goalmill_broker::redis::connect(&server.settings()).await.unwrap();
        broker.open(&Install { instance: "first".into(), shards: 2, limits: TaskLimits::default() }).await.unwrap();
        own(&*broker, S0, "t1").await;
        for number in 1..=50 {
            let next =
                Commit { plans: vec![plan("p0-a", number - 1, number, Activity::Continues)], ..commit("t1", number) };
            assert_eq!(broker.commit(&next).await.unwrap(), Committed::Applied);
        }
        server.await_written().await.unwrap();
        server.kill9();
        assert!(matches!(broker.check_health().await, Err(BrokerError::Unavailable(_))));
        server.restart().await.unwrap();
        goalmill_tests::wait::until(goalmill_tests::wait::SOON, async || broker.check_health().await.is_ok()).await;
        assert_eq!(broker.log(&"p0-a".into(), 0, 100).await.unwrap().len(), 50, "{fsync:?}");
    }
}

#[tokio::test]
async fn a_server_that_evicts_is_refused_unless_that_is_allowed() {
    let options = Options { eviction: "allkeys-lru", ..Options::default() };
    let server = RedisServer::start_with(options).await.unwrap();
    let install = Install { instance: "first".into(), shards: 2, limits: TaskLimits::default() };
    let broker = goalmill_broker::redis::connect(&server.settings()).await.unwrap();
    let refused = broker.open(&install).await;
    assert!(matches!(refused, Err(BrokerError::Unsafe(_))), "{refused:?}");
    let settings = RedisSettings { allow_unsafe: true, ..server.settings() };
    let broker = goalmill_broker::redis::connect(&settings).await.unwrap();
    broker.open(&install).await.unwrap();
    assert!(!broker.check_health().await.unwrap().warnings.is_empty());
}

#[tokio::test]
async fn without_memory_submissions_are_refused_and_commits_go_on() {
    let mut stage = Stage::redis().await;
    own(&*stage.broker, S0, "t1").await;
    stage.broker.open_queue(&"build".into()).await.unwrap();
    stage.raw::<Value>(&["CONFIG", "SET", "maxmemory", "1mb"]).await;
    let before = stage.look().await;
    let refused = stage.broker.submit(&submission("r1")).await;
    assert!(matches!(refused, Err(BrokerError::OutOfMemory)), "{refused:?}");
    stage.assert_unchanged(&before).await;
    let next = Commit {
        plans: vec![plan("p0-a", 0, 1, Activity::Begins)],
        tasks: vec![task("build", "one")],
        ..commit("t1", 1)
    };
    assert_eq!(stage.broker.commit(&next).await.unwrap(), Committed::Applied);
    assert!(stage.broker.renew(S0, "t1").await.unwrap());
    stage.broker.send(S0, &crate::make::fields(&[("v", "1")])).await.unwrap();
    let mut reader = stage.broker.reader().await.unwrap();
    assert_eq!(reader.pull(&"w1".into(), &["build".into()], 9, 0).await.unwrap().len(), 1);
}
