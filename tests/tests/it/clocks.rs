//! Machines whose clocks are wrong: the time of a plan is the time of its store.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use anyhow::Result;
use goalmill_broker::{embedded, redis};
use goalmill_common::clock::{Clock, rfc3339};
use goalmill_common::event::{Event, Record};
use goalmill_common::id::PlanId;
use goalmill_tests::installation::{Installation, http_client, settings};
use goalmill_tests::redis_server::RedisServer;
use goalmill_tests::wait::{SOON, until};
use serde_json::{Value, json};

const HOUR_MS: i64 = 3_600_000;
/// Far more than a test takes, and far less than a clock is off.
const FAR_MS: u64 = 600_000;
/// So many that each scheduler owns some.
const PLANS: usize = 24;

/// Three schedulers whose wall clocks are off by these milliseconds, now and later, and workers beside two of them.
struct WrongClocks {
    installation: Installation,
    shifts: [Arc<AtomicI64>; 3],
    /// The clock of this machine, and of Redis.
    truth: Clock,
}

impl WrongClocks {
    async fn start(server: &RedisServer) -> Result<Self> {
        let shifts = [HOUR_MS, -HOUR_MS, 0].map(|shift| Arc::new(AtomicI64::new(shift)));
        let clock = |n: usize| {
            let (shift, machine) = (shifts[n].clone(), Clock::system());
            Clock::from_wall_clock(move || machine.wall_ms().saturating_add_signed(shift.load(Ordering::Relaxed)))
        };
        let mut installation = Installation {
            broker: redis::connect(&server.settings()).await?,
            schedulers: Vec::new(),
            workers: Vec::new(),
            settings: settings(),
            http: http_client(),
        };
        for n in 0..3 {
            installation.add_scheduler_with_clock(clock(n)).await?;
        }
        for n in 0..2 {
            installation.add_worker_with_clock(16, clock(n)).await?;
        }
        let clocks = Self { installation, shifts, truth: Clock::system() };
        for url in clocks.installation.urls() {
            until(SOON, async || {
                let ready = clocks.ready(&url).await;
                ready.is_ok_and(|ready| ready["shards"].as_array().is_some_and(|shards| !shards.is_empty()))
            })
            .await;
        }
        Ok(clocks)
    }

    async fn ready(&self, url: &str) -> Result<Value> {
        Ok(self.installation.http.get(format!("{url}/readyz")).send().await?.json().await?)
    }

    /// Waits until the machine of a scheduler is named to have this clock; `None` for a right one.
    async fn await_warning(&self, n: usize, text: Option<&str>) {
        let url = &self.installation.urls()[n];
        until(SOON, async || {
            let Ok(ready) = self.ready(url).await else { return false };
            let warnings = ready["warnings"].to_string();
            text.map_or(!warnings.contains("the clock of this machine"), |text| warnings.contains(text))
        })
        .await;
    }

    /// Submits so many plans that each scheduler owns some. Returns them, and the time until which they wait.
    async fn submit_many(&self) -> Result<(Vec<PlanId>, u64)> {
        // All are submitted before that, also on a busy machine.
        let until_ms = self.truth.wall_ms() + 10_000;
        let (mut plans, plan) = (Vec::new(), timed_plan(until_ms));
        for _ in 0..PLANS {
            plans.push(self.installation.submit(&plan).await?);
        }
        Ok((plans, until_ms))
    }

    /// Waits until the plans have ended, and checks what their logs say.
    async fn check_plans(&self, (plans, until_ms): (Vec<PlanId>, u64)) -> Result<()> {
        for plan in plans {
            let ended = self.installation.await_end(&plan, SOON).await?;
            assert_eq!(ended["status"], "failed", "{ended:#}");
            let log = self.installation.log(&plan).await?;
            self.check_times(&plan, &log, until_ms);
            let completed = log.iter().filter(|record| record.event.type_name() == "step_completed");
            let order: Vec<&str> = completed.filter_map(step_of).collect();
            let expected = ["one", "pause", "two", "moment", "three", "three:undo", "two:undo", "one:undo"];
            assert_eq!(order, expected, "{plan}");
            assert!(ended.to_string().contains("STEP_TIMEOUT"), "{ended:#}");
        }
        Ok(())
    }

    /// The times of a log are those of the store, and never go back.
    fn check_times(&self, plan: &PlanId, log: &[Record], until_ms: u64) {
        let times = until_ms - FAR_MS..self.truth.wall_ms() + FAR_MS;
        for record in log {
            assert!(times.contains(&record.time_ms), "{plan}: {record:?} is not of {times:?}");
        }
        assert!(log.is_sorted_by_key(|record| record.time_ms), "{plan}: {log:#?}");
        let waited = log.iter().find(|record| is_completed(record, "moment")).map(|record| record.time_ms);
        assert!(waited >= Some(until_ms), "{plan}: the wait until {until_ms} ended at {waited:?}");
    }
}

/// Waits, a time-out, and undo steps.
fn timed_plan(until_ms: u64) -> Value {
    let echo = |id: &str, dependencies: &[&str]| {
        let undo = json!({"agent_type": "echo", "action": "echo"});
        json!({"id": id, "agent_type": "echo", "dependencies": dependencies, "undo": undo})
    };
    let slow = json!({"seconds": 3_600});
    json!({"start_at": rfc3339(until_ms - 2_000), "steps": [
        echo("one", &[]),
        {"id": "pause", "kind": "wait", "for": "300ms", "depends_on": ["one"]},
        echo("two", &["pause"]),
        {"id": "moment", "kind": "wait", "until": rfc3339(until_ms), "depends_on": ["two"]},
        echo("three", &["moment"]),
        {"id": "slow", "agent_type": "sleep", "depends_on": ["three"], "inputs": slow, "timeout": "300ms", "retry": 0},
    ]})
}

fn step_of(record: &Record) -> Option<&str> {
    match &record.event {
        Event::Step { step, .. } => Some(step.as_str()),
        Event::Plan(_) => None,
    }
}

fn is_completed(record: &Record, id: &str) -> bool {
    record.event.type_name() == "step_completed" && step_of(record) == Some(id)
}

#[tokio::test(flavor = "multi_thread")]
async fn clocks_that_are_wrong_or_jump_are_named_and_change_nothing_for_plans() -> Result<()> {
    let server = RedisServer::start().await?;
    let clocks = WrongClocks::start(&server).await?;
    for (n, text) in [(0, Some("s ahead of")), (1, Some("s behind")), (2, None)] {
        clocks.await_warning(n, text).await;
    }
    let plans = clocks.submit_many().await?;
    for (shift, ms) in clocks.shifts.iter().zip([-HOUR_MS, 0, HOUR_MS]) {
        shift.store(ms, Ordering::Relaxed);
    }
    clocks.check_plans(plans).await?;
    for (n, text) in [(0, Some("s behind")), (1, None), (2, Some("s ahead of"))] {
        clocks.await_warning(n, text).await;
    }
    clocks.installation.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_takeover_by_a_machine_whose_clock_is_wrong_changes_nothing_for_plans() -> Result<()> {
    let server = RedisServer::start().await?;
    let mut clocks = WrongClocks::start(&server).await?;
    for _ in 0..2 {
        let plans = clocks.submit_many().await?;
        clocks.installation.schedulers.remove(0).stop().await;
        clocks.check_plans(plans).await?;
    }
    clocks.installation.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_whose_clock_is_put_back_holds_no_timer_and_one_that_is_put_forward_is_followed() -> Result<()> {
    let (shift, machine) = (Arc::new(AtomicI64::new(0)), Clock::system());
    let (read, truth) = (shift.clone(), machine.clone());
    let wall = move || machine.wall_ms().saturating_add_signed(read.load(Ordering::Relaxed));
    let broker = embedded::open(None, Clock::from_wall_clock(wall))?;
    let it = Installation::start(broker, settings()).await?;
    let wait = |wait: Value| json!({"steps": [{"id": "pause", "kind": "wait", "wait": wait}]});
    let before = it.submit(&wait(json!({"for": "2s"}))).await?;
    shift.store(-HOUR_MS, Ordering::Relaxed);
    let meanwhile = it.submit(&wait(json!({"for": "1s"}))).await?;
    for plan in [before, meanwhile] {
        it.await_end(&plan, SOON).await?;
        let log = it.log(&plan).await?;
        assert!(log.is_sorted_by_key(|record| record.time_ms), "{log:#?}");
        let last = log.last().map(|record| record.time_ms);
        assert!(last > Some(truth.wall_ms() - FAR_MS), "the time has gone back an hour: {log:#?}");
    }
    let in_an_hour = rfc3339(truth.wall_ms().saturating_add_signed(HOUR_MS));
    let later = it.submit(&wait(json!({ "until": in_an_hour }))).await?;
    shift.store(2 * HOUR_MS, Ordering::Relaxed);
    let ended = it.await_end(&later, SOON).await?;
    assert_eq!(ended["status"], "completed", "{ended:#}");
    it.stop().await;
    Ok(())
}
