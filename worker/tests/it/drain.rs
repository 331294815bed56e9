//! Graceful shutdown of a worker.

use std::time::Duration;

use goalmill_common::config::WorkerSettings;
use goalmill_common::report::What;
use serde_json::json;
use tokio::time::{Instant, timeout};

use crate::world::{Scripted, World, task};

#[tokio::test(start_paused = true)]
async fn draining_finishes_what_runs_and_takes_nothing_new() {
    let world = World::new().await;
    let slow = Scripted::taking(5_000);
    world.queue(&[task("a", "slow", json!({}))]).await;
    let worker = world.start(world.settings(), vec![("slow", slow.clone())]).await;
    world.until("it to run", async || slow.running() == 1).await;
    let draining = async {
        world
            .until("the beat to say so", async || {
                world.inner().workers(5_000).await.is_ok_and(|w| w.first().is_some_and(|w| w.draining))
            })
            .await;
        world.queue(&[task("b", "slow", json!({}))]).await;
    };
    tokio::join!(worker.drain(), draining);
    assert_eq!(world.wait_final("a").await.what, What::Completed);
    assert_eq!(slow.begun(), 1);
    assert!(world.reports().await.iter().all(|r| r.step.as_str() == "a" || r.what == What::Released));
    assert!(world.inner().workers(60_000).await.expect("they are counted").is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_does_not_end_in_time_is_handed_back() {
    let world = World::new().await;
    let stalling = Scripted::stalling();
    world.queue(&[task("a", "stall", json!({}))]).await;
    let worker =
        world.start(WorkerSettings { drain_ms: 7_000, ..world.settings() }, vec![("stall", stalling.clone())]).await;
    world.until("it to run", async || stalling.running() == 1).await;
    let begun = Instant::now();
    worker.drain().await;
    assert!((7_000..9_000).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
    assert_eq!(world.wait_final("a").await.what, What::Released);
}

#[tokio::test(start_paused = true)]
async fn handing_back_ends_a_drain_at_once() {
    let world = World::new().await;
    let stalling = Scripted::stalling();
    world.queue(&[task("a", "stall", json!({}))]).await;
    let worker = world.start(world.settings(), vec![("stall", stalling.clone())]).await;
    world.until("it to run", async || stalling.running() == 1).await;
    assert!(timeout(Duration::from_secs(3), worker.drain()).await.is_err());
    let begun = Instant::now();
    worker.release_all().await;
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    assert_eq!(world.wait_final("a").await.what, What::Released);
}

#[tokio::test(start_paused = true)]
async fn a_worker_ends_also_while_redis_is_away() {
    let world = World::new().await;
    let stalling = Scripted::stalling();
    world.queue(&[task("a", "stall", json!({}))]).await;
    let worker = world.start(world.settings(), vec![("stall", stalling.clone())]).await;
    world.until("it to run", async || stalling.running() == 1).await;
    world.faults.away(true);
    let begun = Instant::now();
    worker.release_all().await;
    assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
    assert_eq!(stalling.running(), 0);
}
