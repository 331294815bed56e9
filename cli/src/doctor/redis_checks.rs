//! Checks of Redis and of what is in it.

use goalmill_broker::redis::groups::GroupTrouble;
use goalmill_broker::{Broker, BrokerError, Health, Meta, redis};
use goalmill_common::agent::{SILENCE_MS_MAX, WorkerBeat};
use goalmill_common::clock::Clock;
use goalmill_common::config::{Loaded, Origin, hide_password};
use goalmill_common::keys::WORKERS_GROUP;
use goalmill_common::wire::PROTOCOL;
use tokio::time::Instant;

use super::{Checks, FoundScheduler, Level, installation};
use crate::exit::Failed;

/// A larger difference between two clocks is reported, in milliseconds.
const SKEW_MS_MAX: u64 = 2_000;

/// Checks Redis; without `--redis` it may be missing if a scheduler answers.
pub(super) async fn check_redis(loaded: &Loaded, found: &FoundScheduler, checks: &mut Checks) {
    let url = hide_password(&loaded.settings.redis.url);
    let is_asked_for = loaded.origin("redis.url") != Origin::Default;
    let begun = Instant::now();
    let checked = async {
        let broker = redis::connect(&loaded.settings.redis).await?;
        let (health, meta) = (broker.check().await, broker.meta().await?);
        Ok::<_, BrokerError>((broker, health, meta))
    };
    match checked.await {
        Ok((broker, health, meta)) => {
            match health {
                Ok(health) => {
                    let took = begun.elapsed().as_secs_f64() * 1_000.0;
                    let used = if health.memory_used > 0.0 {
                        format!(" · {:.0} % of maxmemory used", health.memory_used * 100.0)
                    } else {
                        String::new()
                    };
                    checks.ok("redis", format!("{url}  {}  {took:.1} ms{used}", health.version));
                    check_contents(loaded, broker.as_ref(), &health, meta.as_ref(), checks).await;
                }
                Err(error) => redis_problem(&url, error, checks),
            }
            installation::compare(found, meta.as_ref(), is_asked_for, checks);
            check_meta(meta.as_ref(), checks);
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
            check_clocks(health.time_ms, &workers, checks);
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
fn check_meta(meta: Option<&Meta>, checks: &mut Checks) {
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

/// Compares the clocks of this machine, of Redis and of the workers.
fn check_clocks(redis_ms: u64, workers: &[WorkerBeat], checks: &mut Checks) {
    let skew_ms = redis_ms.abs_diff(Clock::system().now_ms());
    if skew_ms > SKEW_MS_MAX {
        let detail = format!("the clocks of this machine and of Redis differ by {:.1} s", skew_ms as f64 / 1_000.0);
        checks.add(Level::Warning, "redis", detail, "let both machines follow a time server (NTP)");
    }
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
