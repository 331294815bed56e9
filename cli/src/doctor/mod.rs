//! `doctor`: checks the installation from the outside and suggests fixes.

mod installation;
mod redis_checks;
mod settings_checks;

use std::collections::BTreeMap;
use std::time::Duration;

use goalmill_client::ClientError;
use goalmill_common::clock::Clock;
use goalmill_common::config::{Loaded, hide_password, model_from_environment};
use goalmill_common::random::Random;
use goalmill_common::telemetry;
use goalmill_llm::{CompletionRequest, Message, ModelRegistry, Purpose, ResponseFormat};
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

use crate::args::DoctorArgs;
use crate::commands::config::settings;
use crate::context::CommandContext;
use crate::exit::{CommandResult, Exit, Failed};
use crate::output::{Palette, Tone};
use redis_checks::check_redis;
use settings_checks::{check_services, check_settings};

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

    /// A check that could not be made.
    fn fail(&mut self, topic: &'static str, error: ClientError) {
        let failed = Failed::from(error);
        self.add(Level::Problem, topic, failed.message, failed.help);
    }

    fn count(&self, level: Level) -> usize {
        self.checks.iter().filter(|check| check.level == level).count()
    }
}

/// The longest answer of a model, in tokens.
const ANSWER_TOKENS_MAX: u64 = 256;
/// The longest wait for a model, in milliseconds.
const ANSWER_MS_MAX: u64 = 30_000;
/// Workers of one build that a warning names.
const NAMES_SHOWN: usize = 5;
/// Pause between two runs of the checks.
const LOOK: Duration = Duration::from_millis(500);

pub async fn run(context: &CommandContext, args: &DoctorArgs) -> CommandResult {
    let deadline = args.wait.map(|wait| Instant::now() + wait);
    loop {
        let checks = Box::pin(run_checks(context, args)).await;
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

async fn run_checks(context: &CommandContext, args: &DoctorArgs) -> Checks {
    let mut checks = Checks::default();
    let flags: Vec<_> = args.redis.iter().map(|url| ("redis.url", url.clone())).collect();
    let found = check_scheduler(context, &mut checks).await;
    match settings(args.config.as_deref(), &flags) {
        Ok(loaded) => {
            check_settings(&loaded, &mut checks);
            Box::pin(check_redis(&loaded, &found, &mut checks)).await;
            check_models(&loaded, &mut checks).await;
            check_services(&loaded, &mut checks).await;
        }
        Err(failed) => checks.add(Level::Problem, "settings", failed.message, failed.help),
    }
    if found.is_ready {
        check_queues(context, &mut checks).await;
        check_workers(context, &mut checks).await;
    }
    checks
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

/// What is known of the scheduler.
#[derive(Debug, Default)]
struct FoundScheduler {
    answers: bool,
    is_ready: bool,
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
            FoundScheduler { answers: true, is_ready: true, instance }
        }
        Ok((true, false, text)) => {
            let why = serde_json::from_str::<Value>(&text).ok();
            let why = why.as_ref().and_then(|why| why.get("detail")?.as_str()).unwrap_or(text.trim());
            // The text of a refusal says what to do.
            let fix = if why.starts_with("redis refuses") { "" } else { "check its log and its Redis" };
            checks.add(Level::Problem, "scheduler", format!("{base} is not ready: {why}"), fix);
            FoundScheduler { answers: true, ..FoundScheduler::default() }
        }
        Ok((false, ..)) => {
            let hint = "name the scheduler with `--server URL`";
            checks.add(Level::Problem, "scheduler", format!("the server at {base} is not a scheduler"), hint);
            FoundScheduler::default()
        }
        Err(error) => {
            checks.fail("scheduler", error);
            FoundScheduler::default()
        }
    }
}

async fn check_queues(context: &CommandContext, checks: &mut Checks) {
    let queues = match context.client.queues().await {
        Ok(queues) => queues.items,
        Err(error) => return checks.fail("queues", error),
    };
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
}

async fn check_workers(context: &CommandContext, checks: &mut Checks) {
    let workers = match context.client.workers().await {
        Ok(workers) => workers.items,
        Err(error) => return checks.fail("workers", error),
    };
    let slots: u32 = workers.iter().map(|worker| worker.slots).sum();
    let busy: u32 = workers.iter().map(|worker| worker.busy).sum();
    if workers.is_empty() {
        checks.add(Level::Warning, "workers", "no worker runs", "goalmill worker --demo");
    } else {
        checks.ok("workers", format!("{} · {busy} of {slots} slots busy", counted(workers.len(), "worker", "workers")));
    }
    let own = env!("CARGO_PKG_VERSION");
    let (same, other): (Vec<_>, Vec<_>) =
        workers.iter().partition(|worker| worker.version.split(' ').next() == Some(own));
    let mut builds = BTreeMap::<&str, Vec<&str>>::new();
    for worker in same {
        builds.entry(&worker.version).or_default().push(worker.worker.as_str());
    }
    if builds.len() > 1 {
        let workers: Vec<_> = builds.iter().map(|(build, names)| format!("of {build}: {}", some_of(names))).collect();
        let builds = builds.keys().copied().collect::<Vec<_>>().join(", ");
        let detail = format!("the workers are of several builds: {builds}; {}", workers.join("; "));
        // Commits have no order.
        let hint = format!(
            "this program is of {}; replace those of the older build: goalmill worker list",
            telemetry::version()
        );
        checks.add(Level::Warning, "workers", detail, hint);
    }
    for worker in other {
        let detail = format!("{} is of version {}, this program of {own}", worker.worker, worker.version);
        checks.add(Level::Warning, "workers", detail, "update the older one");
    }
}

/// The first names, and how many more there are.
fn some_of(names: &[&str]) -> String {
    let shown = names.iter().take(NAMES_SHOWN).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMES_SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
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
    fn the_first_workers_are_named() {
        assert_eq!(some_of(&["a", "b"]), "a, b");
        assert_eq!(some_of(&["a", "b", "c", "d", "e", "f", "g"]), "a, b, c, d, e and 2 more");
    }

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
