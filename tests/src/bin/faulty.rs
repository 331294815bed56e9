//! A scheduler that certain plans kill: one whose step `abort-here`, `hang-here` or `exhaust-memory-here` becomes ready.
//!
//! It takes the arguments of `goalmill scheduler` that tests use, and settings from the environment.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use goalmill_common::clock::Clock;
use goalmill_common::config::{self, Override};
use goalmill_common::random::Random;
use goalmill_scheduler::trial::{Trial, stand};
use goalmill_scheduler::{Extras, Options, start_with};

fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments == ["trial"] {
        return Ok(ExitCode::from(u8::try_from(stand(std::io::stdin()))?));
    }
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(schedule(&arguments))?;
    Ok(ExitCode::SUCCESS)
}

async fn schedule(arguments: &[String]) -> Result<()> {
    let mut flags: Vec<Override> = Vec::new();
    for pair in arguments[1..].chunks(2) {
        match (pair[0].as_str(), &pair[1]) {
            ("--redis", url) => flags.push(("redis.url", url.clone())),
            ("--listen", address) => flags.push(("api.listen", address.clone())),
            ("--metrics", _) => flags.push(("metrics.listen", String::new())),
            (other, _) => bail!("`{other}` is not known here"),
        }
    }
    let settings = config::load(None, &flags)?.settings;
    let (redis, limit) = (settings.redis.clone(), Duration::from_millis(settings.scheduler.watchdog_ms));
    let broker = goalmill_broker::redis::connect(&redis).await?;
    let extras = Extras {
        trial: Some(Trial { program: std::env::current_exe()?, args: vec!["trial".into()], limit }),
        watchdog: Some(Box::new(move || Box::pin(async move { goalmill_broker::redis::connect(&redis).await }))),
        ..Extras::default()
    };
    let options = Options { settings, broker, clock: Clock::system(), random: Random::system() };
    let running = start_with(options, extras).await?;
    if let Some(api) = running.api() {
        writeln!(std::io::stdout(), "the api listens on http://{api}")?;
    }
    std::future::pending().await
}
