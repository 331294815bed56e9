//! Leases of tasks.

use std::time::Duration;

use goalmill_common::report::What;
use serde_json::json;
use tokio::time::Instant;

use crate::world::{LEASE_MS, Scripted, World, task};

#[tokio::test(start_paused = true)]
async fn a_long_execution_keeps_its_lease_with_few_calls() {
    let world = World::new().await;
    let slow = Scripted::taking(10 * LEASE_MS);
    world.queue(&[task("a", "slow", json!({})), task("b", "slow", json!({}))]).await;
    let _worker = world.start(world.settings(), vec![("slow", slow.clone())]).await;
    world.until("both to run", async || slow.running() == 2).await;
    let agent_type = "slow".into();
    for _ in 0..(9 * LEASE_MS / 100) {
        tokio::time::advance(Duration::from_millis(100)).await;
        let taken = world.inner().reclaim(&agent_type, LEASE_MS, 9).await.expect("it answers");
        assert!(taken.is_empty(), "a lease ran out");
    }
    assert_eq!(world.wait_final("a").await.what, What::Completed);
    assert_eq!(world.wait_final("b").await.what, What::Completed);
    let calls = world.faults.calls("extend");
    assert!((15..=40).contains(&calls), "{calls} calls for 10 leases of two tasks");
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_ends_the_execution_without_a_report() {
    let world = World::new().await;
    let stalling = Scripted::stalling();
    world.queue(&[task("a", "stall", json!({}))]).await;
    let _worker = world.start(world.settings(), vec![("stall", stalling.clone())]).await;
    world.until("it to run", async || stalling.running() == 1).await;
    let taken = world.inner().reclaim(&"stall".into(), 0, 9).await.expect("it answers");
    assert_eq!(taken.len(), 1);
    world.until("it to end", async || stalling.running() == 0).await;
    let others: Vec<_> = world.reports().await.into_iter().filter(|r| r.what != What::Started).collect();
    assert!(others.is_empty(), "{others:?}");
}

#[tokio::test(start_paused = true)]
async fn without_redis_the_work_stops_before_the_lease_ends() {
    let world = World::new().await;
    let stalling = Scripted::stalling();
    world.queue(&[task("a", "stall", json!({}))]).await;
    let _worker = world.start(world.settings(), vec![("stall", stalling.clone())]).await;
    world.until("it to run", async || stalling.running() == 1).await;
    let last_chance = Instant::now() + Duration::from_millis(LEASE_MS);
    world.faults.away(true);
    world.until("it to stop", async || stalling.running() == 0).await;
    assert!(Instant::now() <= last_chance);
    assert!(Instant::now() + Duration::from_millis(1_500) > last_chance, "it gave up long before it had to");
    world.faults.away(false);
    world
        .until("the link to be back", async || {
            world.inner().workers(5_000).await.is_ok_and(|w| w.first().is_some_and(|w| w.busy == 0))
        })
        .await;
    assert!(world.reports().await.iter().all(|r| r.what == What::Started));
}

#[tokio::test(start_paused = true)]
async fn an_extension_that_hangs_stops_the_work_too() {
    let world = World::new().await;
    let stalling = Scripted::stalling();
    world.queue(&[task("a", "stall", json!({}))]).await;
    world.faults.stuck(Some("extend"));
    let _worker = world.start(world.settings(), vec![("stall", stalling.clone())]).await;
    world.until("it to run", async || stalling.running() == 1).await;
    let last_chance = Instant::now() + Duration::from_millis(LEASE_MS);
    world.until("it to stop", async || stalling.running() == 0).await;
    assert!(Instant::now() <= last_chance);
}

#[tokio::test(start_paused = true)]
async fn what_arrives_after_its_lease_is_not_begun() {
    let world = World::new().await;
    let fast = Scripted::taking(0);
    world.faults.stuck(Some("pull_reply"));
    world.queue(&[task("late", "fast", json!({})), task("ours", "fast", json!({}))]).await;
    let _worker = world.start(world.settings(), vec![("fast", fast.clone())]).await;
    let agent_type = "fast".into();
    world
        .until("both to be taken", async || {
            world.inner().queues().await.is_ok_and(|q| q.first().is_some_and(|q| q.pending == 2))
        })
        .await;
    tokio::time::advance(Duration::from_millis(2 * LEASE_MS)).await;
    assert_eq!(world.inner().reclaim(&agent_type, LEASE_MS, 1).await.expect("it answers").len(), 1);
    world.faults.stuck(None);
    assert_eq!(world.wait_final("ours").await.what, What::Completed);
    assert_eq!(fast.begun(), 1);
}
