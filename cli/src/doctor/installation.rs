//! Checks that Redis is that of the scheduler, permits what a scheduler does, and keeps connections open.

use goalmill_broker::redis::inspection::{Inspection, inspect};
use goalmill_broker::{Broker, Meta};
use goalmill_common::config::RedisSettings;

use super::{Checks, FoundScheduler, Level};
use crate::exit::Failed;

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
    let Inspection { refused, idle_timeout_s } = inspection;
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
        None => checks.ok("redis", "`timeout` was not looked at, because this user may not use CONFIG; it should be 0"),
    }
}
