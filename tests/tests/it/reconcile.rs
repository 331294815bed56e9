//! Tasks that are on a stream and should not be, and tasks that should be and are not.

use std::time::Duration;

use anyhow::Result;
use goalmill_broker::redis;
use goalmill_common::event::{Event, StepEvent};
use goalmill_common::failure::TASK_MISSING;
use goalmill_common::id::PlanId;
use goalmill_common::keys::Keys;
use goalmill_tests::installation::{Installation, one_step_plan, settings};
use goalmill_tests::redis_server::RedisServer;
use goalmill_tests::wait::{SOON, until};
use serde_json::{Value, json};

/// An agent type that no worker serves.
const UNSERVED: &str = "unserved";

fn plan() -> Value {
    one_step_plan(UNSERVED)
}

/// What an autoscaler reads of the agent type.
async fn scaling(it: &Installation) -> Value {
    it.get(&format!("/v1/scaling/{UNSERVED}")).await.expect("the scheduler answers")
}

async fn is_waiting(it: &Installation, count: u64) -> bool {
    let scaling = scaling(it).await;
    scaling["waiting"] == count && scaling["desired_slots"] == count
}

async fn failures(it: &Installation, plan: &PlanId) -> Result<Vec<String>> {
    let codes = it.log(plan).await?.into_iter().filter_map(|record| match record.event {
        Event::Step { event: StepEvent::Retrying(retrying), .. } => Some(retrying.failure.code),
        Event::Step { .. } | Event::Plan(_) => None,
    });
    Ok(codes.collect())
}

async fn cancelled_task_is_removed(it: Installation) -> Result<()> {
    let (cancelled, kept) = (it.submit(&plan()).await?, it.submit(&plan()).await?);
    until(SOON, async || is_waiting(&it, 2).await).await;
    let (status, answer) = it.post(&format!("/v1/plans/{cancelled}:cancel"), &json!({})).await?;
    assert_eq!(status, 200, "{answer}");
    until(SOON, async || is_waiting(&it, 1).await).await;
    assert_eq!(it.get(&format!("/v1/plans/{kept}")).await?["status"], "running");
    assert_eq!(failures(&it, &kept).await?, Vec::<String>::new(), "the other plan's task stays where it is");
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_queued_task_of_a_cancelled_plan_is_removed_from_its_stream() -> Result<()> {
    let server = RedisServer::start().await?;
    cancelled_task_is_removed(Installation::over(&server).await?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_queued_task_of_a_cancelled_plan_is_removed_in_the_embedded_mode_too() -> Result<()> {
    cancelled_task_is_removed(Installation::embedded().await?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_whose_stream_was_deleted_is_sent_again() -> Result<()> {
    let server = RedisServer::start().await?;
    let mut settings = settings();
    settings.scheduler.task_lease_ms = 2_000;
    settings.worker.lease_margin_ms = 500;
    let it = Installation::start(redis::connect(&server.settings()).await?, settings).await?;
    let mut raw = server.connection().await?;
    let submitted = it.submit(&plan()).await?;
    until(SOON, async || is_waiting(&it, 1).await).await;
    let _: u64 = ::redis::cmd("DEL").arg(Keys::default().steps(&UNSERVED.into())).query_async(&mut raw).await?;
    // The cause is named until the task is there again.
    until(SOON, async || {
        let explained = it.get(&format!("/v1/plans/{submitted}/explain")).await.expect("the scheduler answers");
        explained.to_string().contains(TASK_MISSING) || scaling(&it).await["waiting"] == 1
    })
    .await;
    until(SOON, async || is_waiting(&it, 1).await).await;
    assert_eq!(failures(&it, &submitted).await?, [TASK_MISSING]);
    let step = it.get(&format!("/v1/plans/{submitted}/steps/a")).await?;
    assert_eq!(step["attempt"], 2, "{step}");
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_waits_for_longer_than_a_lease_is_not_sent_again() -> Result<()> {
    let server = RedisServer::start().await?;
    let mut settings = settings();
    settings.scheduler.task_lease_ms = 500;
    settings.worker.lease_margin_ms = 100;
    let it = Installation::start(redis::connect(&server.settings()).await?, settings).await?;
    let mut raw = server.connection().await?;
    let (present, deleted) = (it.submit(&plan()).await?, it.submit(&plan()).await?);
    until(SOON, async || is_waiting(&it, 2).await).await;
    let key = Keys::default().steps(&UNSERVED.into());
    let entries: ::redis::streams::StreamRangeReply =
        ::redis::cmd("XRANGE").arg(&key).arg("-").arg("+").query_async(&mut raw).await?;
    let of = |plan: &PlanId| {
        let is_its = |entry: &&::redis::streams::StreamId| {
            entry.get::<String>("data").is_some_and(|data| data.contains(plan.as_str()))
        };
        entries.ids.iter().find(is_its).expect("its task is there").id.clone()
    };
    let _: u64 = ::redis::cmd("XDEL").arg(&key).arg(of(&deleted)).query_async(&mut raw).await?;
    until(Duration::from_mins(1), async || {
        failures(&it, &deleted).await.expect("the log can be read") == [TASK_MISSING]
    })
    .await;
    until(SOON, async || is_waiting(&it, 2).await).await;
    assert_eq!(failures(&it, &present).await?, Vec::<String>::new(), "its task was there all the time");
    it.stop().await;
    Ok(())
}
