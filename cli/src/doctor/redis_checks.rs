//! Checks of Redis and of what is in it.

use goalmill_broker::redis::groups::GroupTrouble;
use goalmill_broker::{Broker, BrokerError, Health, Meta, redis};
use goalmill_common::agent::{SILENCE_MS_MAX, WorkerBeat};
use goalmill_common::clock::{Clock, SKEW_MS_MAX, skew_text};
use goalmill_common::config::{Loaded, Origin, hide_password};
use goalmill_common::keys::WORKERS_GROUP;
use goalmill_common::wire::PROTOCOL;
use tokio::time::Instant;

use super::{Checks, FoundScheduler, Level, installation};
use crate::exit::Failed;

/// Checks Redis; without `--redis` it may be missing if a scheduler answers.
pub(super) async fn check_redis(loaded: &Loaded, found: &FoundScheduler, checks: &mut Checks) {
    let url = hide_password(&loaded.settings.redis.url);
    let is_asked_for = loaded.origin("redis.url") != Origin::Default;
    let begun = Instant::now();
    let checked = async {
        let broker = redis::connect(&loaded.settings.redis).await?;
        let clock = Clock::system();
        let asked_ms = clock.steady_ms();
        let health = broker.check_health().await.map(|health| (clock.skew_ms(health.time_ms, asked_ms), health));
        let meta = broker.meta().await?;
        Ok::<_, BrokerError>((broker, health, meta))
    };
    match checked.await {
        Ok((broker, health, meta)) => {
            match health {
                Ok((skew_ms, health)) => {
                    let took = begun.elapsed().as_secs_f64() * 1_000.0;
                    let used = if health.memory_used > 0.0 {
                        format!(" · {:.0} % of maxmemory used", health.memory_used * 100.0)
                    } else {
                        String::new()
                    };
                    checks.ok("redis", format!("{url}  {}  {took:.1} ms{used}", health.version));
                    check_clock(skew_ms, checks);
                    check_contents(loaded, broker.as_ref(), &health, meta.as_ref(), checks).await;
                }
                Err(error) => redis_problem(&url, error, checks),
            }
            installation::compare(found, meta.as_ref(), is_asked_for, checks);
            check_meta(meta.as_ref(), loaded, checks);
        }
        Err(error) if !is_asked_for && found.answers => {
            checks.ok("redis", format!("none at the default address {url} ({error}); `goalmill dev` needs none"));
        }
        Err(error) => redis_problem(&url, error, checks),
    }
}

fn redis_problem(url: &str, error: BrokerError, checks: &mut Checks) {
    let failed = Failed::from(error);
    checks.add(Level::Problem, "redis", format!("{url}: {}", failed.message), failed.help);
}

/// Checks the server's settings, clocks and consumer groups.
async fn check_contents(
    loaded: &Loaded,
    broker: &dyn Broker,
    health: &Health,
    meta: Option<&Meta>,
    checks: &mut Checks,
) {
    for warning in &health.warnings {
        checks.warn("redis", warning);
    }
    installation::check_server(&loaded.settings.redis, broker, meta, checks).await;
    let looked = async {
        let workers = broker.workers(SILENCE_MS_MAX).await?;
        Ok::<_, BrokerError>((workers, redis::groups::troubled(&loaded.settings.redis).await?))
    };
    match looked.await {
        Ok((workers, troubled)) => {
            check_worker_clocks(&workers, checks);
            check_groups(troubled, checks);
        }
        Err(error) => {
            let detail = format!("not everything could be looked at: {error}");
            let fix = "let `redis.url` name the user of schedulers: deploy/redis/users.acl";
            checks.add(Level::Warning, "redis", detail, fix);
        }
    }
}

/// Checks the installation that Redis holds.
fn check_meta(meta: Option<&Meta>, loaded: &Loaded, checks: &mut Checks) {
    let shards = loaded.settings.scheduler.shards;
    if let Some(meta) =
        meta.filter(|meta| meta.shards != shards && loaded.origin("scheduler.shards") != Origin::Default)
    {
        let detail = format!("`scheduler.shards` is {shards}, and has no effect: the installation has {}", meta.shards);
        let fix = format!("set it to {}; another number needs an empty Redis or another `redis.prefix`", meta.shards);
        checks.add(Level::Warning, "redis", detail, fix);
    }
    match meta {
        Some(meta) if meta.protocol != PROTOCOL => checks.add(
            Level::Problem,
            "redis",
            format!("the installation speaks protocol {}, this program {PROTOCOL}", meta.protocol),
            "use the release that the schedulers run, or another Redis",
        ),
        Some(meta) => checks.ok(
            "redis",
            format!("installation {} · protocol {} · {} shards", meta.instance, meta.protocol, meta.shards),
        ),
        None => checks.add(
            Level::Warning,
            "redis",
            "holds no installation yet",
            "the first scheduler makes one: goalmill scheduler --redis URL",
        ),
    }
}

/// Compares the clocks of this machine and of Redis.
fn check_clock(skew_ms: i64, checks: &mut Checks) {
    if skew_ms.unsigned_abs() > SKEW_MS_MAX {
        checks.add(Level::Warning, "redis", skew_text(skew_ms), "let both machines follow a time server (NTP)");
    }
}

/// Compares the clocks of the workers and of Redis.
fn check_worker_clocks(workers: &[WorkerBeat], checks: &mut Checks) {
    for WorkerBeat { worker, host, started_ms, seen_ms, .. } in workers {
        // A worker cannot have begun after its last heartbeat.
        let ahead_ms = started_ms.saturating_sub(*seen_ms);
        if ahead_ms > SKEW_MS_MAX {
            let ahead = ahead_ms as f64 / 1_000.0;
            let detail = format!("the clock of worker {worker} on {host} is at least {ahead:.1} s ahead");
            checks.add(Level::Warning, "redis", detail, format!("let {host} follow a time server (NTP)"));
        }
    }
}

fn check_groups(troubled: Vec<(String, GroupTrouble)>, checks: &mut Checks) {
    for (stream, trouble) in troubled {
        match trouble {
            GroupTrouble::Missing => checks.add(
                Level::Problem,
                "redis",
                format!("`{stream}` has no group `{WORKERS_GROUP}`: no worker can read it"),
                format!("redis-cli XGROUP CREATE {stream} {WORKERS_GROUP} 0"),
            ),
            GroupTrouble::UnknownLag => checks.add(
                Level::Warning,
                "redis",
                format!("the lag of `{stream}` is unknown to Redis: the KEDA trigger `redis-streams` cannot count waiting tasks"),
                "it counts again once workers have taken what is there; until then scale on \
                 `/v1/scaling/AGENT_TYPE`. Entries must not be deleted (XDEL)",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_differs_by_more_than_a_second_is_a_warning() {
        for (skew_ms, warnings) in [(0, 0), (1_000, 0), (-1_001, 1), (3_600_000, 1)] {
            let mut checks = Checks::default();
            check_clock(skew_ms, &mut checks);
            assert_eq!(checks.count(Level::Warning), warnings, "{skew_ms} ms");
        }
    }
}
