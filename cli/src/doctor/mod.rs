//! `doctor`: checks the installation from the outside and suggests fixes.

mod installation;

use std::collections::BTreeMap;
use std::time::Duration;

use goalmill_broker::redis::groups::GroupTrouble;
use goalmill_broker::{Broker, BrokerError, Health, Meta, redis};
use goalmill_common::agent::{SILENCE_MS_MAX, WorkerBeat};
use goalmill_common::clock::Clock;
use goalmill_common::config::{Loaded, Origin, hide_password, model_from_environment};
use goalmill_common::keys::WORKERS_GROUP;
use goalmill_common::random::Random;
use goalmill_common::wire::PROTOCOL;
use goalmill_llm::{CompletionRequest, Message, ModelRegistry, Purpose, ResponseFormat};
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

use crate::args::DoctorArgs;
use crate::commands::config::settings;
use crate::context::CommandContext;
use crate::exit::{CommandResult, Exit, Failed};
use crate::output::{Palette, Tone};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Level {
    Ok,
    Warning,
    Problem,
}

/// One check.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct DoctorCheck {
    level: Level,
    topic: &'static str,
    detail: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    hint: String,
}

#[derive(Debug, Default, Serialize)]
struct Checks {
    checks: Vec<DoctorCheck>,
}

impl Checks {
    fn add(&mut self, level: Level, topic: &'static str, detail: impl Into<String>, hint: impl Into<String>) {
        self.checks.push(DoctorCheck { level, topic, detail: detail.into(), hint: hint.into() });
    }

    fn ok(&mut self, topic: &'static str, detail: impl Into<String>) {
        self.add(Level::Ok, topic, detail, "");
    }

    /// A warning whose last part, after a semicolon, is the fix.
    fn warn(&mut self, topic: &'static str, warning: &str) {
        let (detail, fix) = warning.rsplit_once("; ").unwrap_or((warning, ""));
        self.add(Level::Warning, topic, detail, fix);
    }

    fn count(&self, level: Level) -> usize {
        self.checks.iter().filter(|check| check.level == level).count()
    }
}

/// A larger difference between two clocks is reported, in milliseconds.
const SKEW_MS_MAX: u64 = 2_000;
/// The longest answer of a model, in tokens.
const ANSWER_TOKENS_MAX: u64 = 256;
/// The longest wait for a model, in milliseconds.
const ANSWER_MS_MAX: u64 = 30_000;
/// Pause between two runs of the checks.
const LOOK: Duration = Duration::from_millis(500);

pub async fn run(context: &CommandContext, args: &DoctorArgs) -> CommandResult {
    let deadline = args.wait.map(|wait| Instant::now() + wait);
    loop {
        let checks = Box::pin(run_checks(context, args)).await?;
        let is_over = deadline.is_none_or(|deadline| Instant::now() >= deadline);
        if is_over || checks.count(Level::Problem) == 0 {
            context.screen.show(&checks, "", |palette| people(&checks, palette))?;
            return Ok(if checks.count(Level::Problem) > 0 { Exit::Other } else { Exit::Done });
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            interrupted = tokio::signal::ctrl_c() => {
                interrupted?;
                return Ok(Exit::Interrupted);
            }
        }
    }
}

async fn run_checks(context: &CommandContext, args: &DoctorArgs) -> Result<Checks, Failed> {
    let mut checks = Checks::default();
    let flags: Vec<_> = args.redis.iter().map(|url| ("redis.url", url.clone())).collect();
    let found = check_scheduler(context, &mut checks).await;
    let has_scheduler = found.answers;
    match settings(args.config.as_deref(), &flags) {
        Ok(loaded) => {
            check_settings(&loaded, &mut checks);
            Box::pin(check_redis(&loaded, &found, &mut checks)).await;
            check_models(&loaded, &mut checks).await;
        }
        Err(failed) => checks.add(Level::Problem, "settings", failed.message, failed.help),
    }
    if has_scheduler {
        check_queues(context, &mut checks).await?;
        check_workers(context, &mut checks).await?;
    }
    Ok(checks)
}

fn check_settings(loaded: &Loaded, checks: &mut Checks) {
    let changed = loaded.origins.len();
    let files: BTreeMap<String, usize> = loaded.origins.values().fold(BTreeMap::new(), |mut files, origin| {
        *files.entry(origin.to_string()).or_default() += 1;
        files
    });
    let from = files.into_keys().collect::<Vec<_>>().join(", ");
    checks.ok(
        "settings",
        if changed == 0 { "all defaults".into() } else { format!("{changed} not default, from {from}") },
    );
}

/// Checks Redis; without `--redis` it may be missing if a scheduler answers.
async fn check_redis(loaded: &Loaded, found: &FoundScheduler, checks: &mut Checks) {
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

/// Asks each model of the settings, or that of the environment, one question.
async fn check_models(loaded: &Loaded, checks: &mut Checks) {
    let mut settings = loaded.settings.models.clone();
    if settings.is_empty() {
        settings.extend(model_from_environment());
    }
    if settings.is_empty() {
        return;
    }
    let models = match ModelRegistry::from_settings(&settings, Clock::system(), Random::system()) {
        Ok(models) => models,
        Err(error) => return checks.add(Level::Problem, "models", error.to_string(), "goalmill config models"),
    };
    for model in settings {
        let name = model.name;
        let question = vec![Message::user("Answer with the word: ready")];
        let request = CompletionRequest {
            model: Some(name.clone()),
            purpose: Purpose::Review,
            output_tokens_max: Some(ANSWER_TOKENS_MAX.min(model.output_tokens_max)),
            timeout_ms: Some(ANSWER_MS_MAX),
            ..CompletionRequest::new(question, ResponseFormat::Text)
        };
        match models.complete(&request).await {
            Ok(answer) => {
                let took = answer.latency_ms;
                checks.ok("models", format!("`{name}` at {} answers in {took} ms", hide_password(&model.base_url)));
            }
            Err(error) => {
                let hint = "check `base_url`, `model` and the key: goalmill explain CODE tells more";
                checks.add(Level::Problem, "models", format!("`{name}`: {error}"), hint.replace("CODE", error.code()));
            }
        }
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

/// What is known of the scheduler.
#[derive(Debug, Default)]
struct FoundScheduler {
    answers: bool,
    /// The id of its installation, if it is ready.
    instance: Option<String>,
}

async fn check_scheduler(context: &CommandContext, checks: &mut Checks) -> FoundScheduler {
    let base = context.client.base();
    match context.client.health().await {
        Ok((true, true, text)) => {
            let answer: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
            let field = |name: &str| answer.get(name).and_then(Value::as_str).unwrap_or_default();
            let owned = answer.get("shards").and_then(Value::as_array).map_or(0, Vec::len);
            let total = answer.get("shards_total").and_then(Value::as_u64).unwrap_or_default();
            checks.ok(
                "scheduler",
                format!("{base}  {}  on {}  runs {owned} of {total} shards", field("scheduler"), field("store")),
            );
            for warning in answer.get("warnings").and_then(Value::as_array).into_iter().flatten() {
                checks.warn("scheduler", warning.as_str().unwrap_or_default());
            }
            let instance = Some(field("instance").to_owned()).filter(|instance| !instance.is_empty());
            FoundScheduler { answers: true, instance }
        }
        Ok((true, false, text)) => {
            let why = serde_json::from_str::<Value>(&text).ok();
            let why = why.as_ref().and_then(|why| why.get("detail")?.as_str()).unwrap_or(text.trim());
            // The text of a refusal says what to do.
            let fix = if why.starts_with("redis refuses") { "" } else { "check its log and its Redis" };
            checks.add(Level::Problem, "scheduler", format!("{base} is not ready: {why}"), fix);
            FoundScheduler { answers: true, instance: None }
        }
        Ok((false, ..)) => {
            let hint = "name the scheduler with `--server URL`";
            checks.add(Level::Problem, "scheduler", format!("the server at {base} is not a scheduler"), hint);
            FoundScheduler::default()
        }
        Err(error) => {
            let failed = Failed::from(error);
            checks.add(Level::Problem, "scheduler", failed.message, failed.help);
            FoundScheduler::default()
        }
    }
}

async fn check_queues(context: &CommandContext, checks: &mut Checks) -> Result<(), Failed> {
    let queues = context.client.queues().await?.items;
    let waiting: u64 = queues.iter().map(|queue| queue.waiting).sum();
    let running: u64 = queues.iter().map(|queue| queue.running).sum();
    checks
        .ok("queues", format!("{} · {waiting} waiting · {running} running", counted(queues.len(), "queue", "queues")));
    for queue in queues {
        let name = &queue.agent_type;
        if queue.waiting > 0 && queue.workers == 0 {
            let hint = format!("goalmill worker --agents {name}    or check what scales the workers");
            let tasks = if queue.waiting == 1 { "1 task".into() } else { format!("{} tasks", queue.waiting) };
            checks.add(Level::Problem, "queues", format!("{name} has {tasks} waiting and no worker"), hint);
        }
        if let Some(problem) = &queue.quarantined {
            let (problem, fix) = problem.split_once(": ").unwrap_or((problem, ""));
            checks.add(Level::Problem, "queues", format!("{name} is in quarantine: {problem}"), fix);
        }
        if queue.paused {
            let hint = format!("goalmill queue resume {name}");
            checks.add(Level::Warning, "queues", format!("{name} is paused"), hint);
        }
        if queue.dead_letters > 0 {
            let hint = format!("goalmill dead list {name}");
            checks.add(Level::Warning, "queues", format!("{name} has {} dead letters", queue.dead_letters), hint);
        }
    }
    Ok(())
}

async fn check_workers(context: &CommandContext, checks: &mut Checks) -> Result<(), Failed> {
    let workers = context.client.workers().await?.items;
    let slots: u32 = workers.iter().map(|worker| worker.slots).sum();
    let busy: u32 = workers.iter().map(|worker| worker.busy).sum();
    if workers.is_empty() {
        checks.add(Level::Warning, "workers", "no worker runs", "goalmill worker --demo");
    } else {
        checks.ok("workers", format!("{} · {busy} of {slots} slots busy", counted(workers.len(), "worker", "workers")));
    }
    let own = env!("CARGO_PKG_VERSION");
    for worker in workers.iter().filter(|worker| worker.version != own) {
        let detail = format!("{} is of version {}, this program of {own}", worker.worker, worker.version);
        checks.add(Level::Warning, "workers", detail, "update the older one");
    }
    Ok(())
}

fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

fn people(checks: &Checks, palette: Palette) -> String {
    let mut text = String::new();
    for check in &checks.checks {
        let mark = match check.level {
            Level::Ok => palette.tone(Tone::Good, "✓"),
            Level::Warning => palette.tone(Tone::Wait, "!"),
            Level::Problem => palette.tone(Tone::Bad, "✗"),
        };
        text.push_str(&format!("{mark} {:<10} {}\n", check.topic, check.detail));
        if !check.hint.is_empty() {
            text.push_str(&format!("             → {}\n", check.hint));
        }
    }
    text.push_str(&format!(
        "{} ok, {}, {}\n",
        checks.count(Level::Ok),
        counted(checks.count(Level::Warning), "warning", "warnings"),
        counted(checks.count(Level::Problem), "problem", "problems")
    ));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_stands_under_its_problem() {
        let mut checks = Checks::default();
        checks.ok("settings", "all defaults");
        checks.add(Level::Problem, "queues", "a has 7 tasks waiting and no worker", "goalmill worker --agents a");
        let want = "✓ settings   all defaults\n✗ queues     a has 7 tasks waiting and no worker\n             → goalmill \
                    worker --agents a\n1 ok, 0 warnings, 1 problem\n";
        assert_eq!(people(&checks, Palette::plain()), want);
    }
}
