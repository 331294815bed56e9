//! Checks that Redis is that of the scheduler, permits what a scheduler does, and keeps connections open.

use goalmill_broker::redis::inspection::{Inspection, ReplicationSettings, inspect};
use goalmill_broker::{Broker, Meta};
use goalmill_common::config::RedisSettings;

use super::{Checks, FoundScheduler, Level};
use crate::exit::Failed;

/// A replica that is further behind counts for no write.
const LAG_S_MAX: u64 = 10;
/// What replicas that were cut off for a moment can catch up with.
const BACKLOG_BYTES_MIN: u64 = 64 << 20;

/// Compares the installation in Redis with that of the scheduler.
///
/// - `is_asked_for`: whether the address of Redis was given.
pub(super) fn compare(found: &FoundScheduler, meta: Option<&Meta>, is_asked_for: bool, checks: &mut Checks) {
    let Some(instance) = &found.instance else { return };
    let here = match meta {
        Some(meta) if meta.instance == *instance => return,
        Some(meta) => format!("holds installation {}", meta.instance),
        None => "holds no installation".to_owned(),
    };
    let detail = format!("this is not the Redis of the scheduler: it {here}, the scheduler has {instance}");
    if is_asked_for {
        let fix =
            "name the Redis of the scheduler by `--redis` (and its `redis.prefix`), or another scheduler by `--server`";
        checks.add(Level::Problem, "redis", detail, fix);
    } else {
        checks.ok("redis", detail);
    }
}

/// Checks the rights of the user, and the idle timeout of the server.
pub(super) async fn check_server(
    settings: &RedisSettings,
    broker: &dyn Broker,
    meta: Option<&Meta>,
    checks: &mut Checks,
) {
    if let Some(meta) = meta
        && let Err(error) = broker.probe(meta.shards).await
    {
        let failed = Failed::from(error);
        checks.add(Level::Problem, "redis", failed.message, failed.help);
    }
    match inspect(settings).await {
        Ok(inspection) => report(&inspection, checks),
        Err(error) => {
            let failed = Failed::from(error);
            checks.add(Level::Problem, "redis", failed.message, failed.help);
        }
    }
}

fn report(inspection: &Inspection, checks: &mut Checks) {
    let Inspection { refused, idle_timeout_s, fsync, memory_bytes_max, replication } = inspection;
    for (detail, fix) in replication.iter().flat_map(replication_advice) {
        checks.add(Level::Warning, "redis", detail, fix);
    }
    if fsync.as_deref() == Some("no") {
        let detail = "`appendfsync` is `no`: a machine that fails loses what its system has not written, often 30 s";
        let fix = "redis-cli CONFIG SET appendfsync everysec, and the same in its configuration";
        checks.add(Level::Warning, "redis", detail, fix);
    }
    if *memory_bytes_max == 0 {
        let detail = "`maxmemory` is 0: Redis grows until the system ends it, and no submission is refused before";
        let fix = "redis-cli CONFIG SET maxmemory 3gb, or another three quarters of its memory, and the same in its \
                   configuration";
        checks.add(Level::Warning, "redis", detail, fix);
    }
    if !refused.is_empty() {
        let detail = format!("NOPERM this user may not use {}", refused.join(", "));
        let fix = "let `redis.url` name the user of schedulers, and give it its rights: deploy/redis/users.acl";
        checks.add(Level::Problem, "redis", detail, fix);
    }
    match idle_timeout_s {
        Some(0) => {}
        Some(seconds) => {
            let detail = format!("`timeout` is {seconds}: Redis ends connections that are idle for so many seconds");
            checks.add(
                Level::Warning,
                "redis",
                detail,
                "redis-cli CONFIG SET timeout 0, and the same in its configuration",
            );
        }
        None => checks.ok(
            "redis",
            "`timeout` and some settings of failovers were not looked at, because this user may not use CONFIG; \
             `timeout` should be 0",
        ),
    }
}

/// What is wrong with the settings of a server that has replicas or Sentinels, and how it is corrected.
fn replication_advice(settings: &ReplicationSettings) -> Vec<(String, String)> {
    let ReplicationSettings { replicas, replicas_min, lag_s_max, sync_delay_s, backlog_bytes } = *settings;
    let mut advice = Vec::new();
    let mut advise = |name: &str, value: &str, advised: &str, why: &str| {
        let fix = format!("redis-cli CONFIG SET {name} {advised} on every server, and the same in its configuration");
        advice.push((format!("`{name}` is {value}: {why}"), fix));
    };
    if replicas_min == 0 {
        advise("min-replicas-to-write", "0", "1", "a failover may lose plans that were accepted");
    } else if let Some(lag_s_max) = lag_s_max.filter(|lag_s| !(1..=LAG_S_MAX).contains(lag_s)) {
        let why = "`min-replicas-to-write` counts replicas that are behind";
        advise("min-replicas-max-lag", &lag_s_max.to_string(), &LAG_S_MAX.to_string(), why);
    }
    if let Some(sync_delay_s) = sync_delay_s.filter(|delay_s| *delay_s > 0) {
        let why = "after a failover Redis may take no write for so many seconds longer";
        advise("repl-diskless-sync-delay", &sync_delay_s.to_string(), "0", why);
    }
    if backlog_bytes < BACKLOG_BYTES_MIN {
        let why = "after a failover a replica that is behind by more bytes is copied as a whole";
        advise("repl-backlog-size", &backlog_bytes.to_string(), "64mb", why);
    }
    if replicas < 2 {
        let detail = format!(
            "replicas that follow: {replicas}. After a failover no replica follows the new primary for about ten \
             seconds, and writes that need one wait"
        );
        advice.push((detail, "run two replicas or more".into()));
    }
    advice
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_make_failovers_long_or_lossy_are_named_with_the_value_to_write() {
        let good = ReplicationSettings {
            replicas: 2,
            replicas_min: 1,
            lag_s_max: Some(10),
            sync_delay_s: Some(0),
            backlog_bytes: 64 << 20,
        };
        assert_eq!(replication_advice(&good), []);
        for (settings, fix) in [
            (ReplicationSettings { replicas: 1, ..good.clone() }, "run two replicas"),
            (ReplicationSettings { replicas_min: 0, ..good.clone() }, "CONFIG SET min-replicas-to-write 1 "),
            (ReplicationSettings { lag_s_max: Some(0), ..good.clone() }, "CONFIG SET min-replicas-max-lag 10 "),
            (ReplicationSettings { lag_s_max: Some(11), ..good.clone() }, "CONFIG SET min-replicas-max-lag 10 "),
            (ReplicationSettings { sync_delay_s: Some(5), ..good.clone() }, "CONFIG SET repl-diskless-sync-delay 0 "),
            (ReplicationSettings { backlog_bytes: 1 << 20, ..good }, "CONFIG SET repl-backlog-size 64mb "),
        ] {
            let advice = replication_advice(&settings);
            assert!(advice.len() == 1 && advice[0].1.contains(fix), "{settings:?}: {advice:?}");
        }
    }
}
