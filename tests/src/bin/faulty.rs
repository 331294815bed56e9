//! A scheduler that certain plans kill: one whose step `abort-here`, `hang-here` or `exhaust-memory-here` becomes ready.
//!
//! It takes the arguments of `goalmill scheduler` that tests use, and settings from the environment.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use goalmill_common::clock::Clock;
use goalmill_common::config::{self, Override};
use goalmill_common::event::{Event, StepEvent};
use goalmill_common::random::Random;
use goalmill_engine::{Decision, Engine};
use goalmill_scheduler::{Extras, SchedulerOptions, Trial, run_trial, start_with};

fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments == ["trial"] {
        return Ok(ExitCode::from(u8::try_from(run_trial(std::io::stdin(), engine()))?));
    }
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(schedule(&arguments))?;
    Ok(ExitCode::SUCCESS)
}

/// An engine that strikes when a step with one of the three names becomes ready.
fn engine() -> Engine {
    Engine {
        submit: |context, envelope| {
            let (state, decision) = goalmill_engine::submit(context, envelope)?;
            strike_at(&decision);
            Ok((state, decision))
        },
        decide: |state, context, envelope| {
            let decision = goalmill_engine::decide(state, context, envelope)?;
            strike_at(&decision);
            Ok(decision)
        },
    }
}

fn strike_at(decision: &Decision) {
    for record in &decision.records {
        if let Event::Step { step, event: StepEvent::Ready, .. } = &record.event {
            strike(step.as_str());
        }
    }
}

fn strike(step: &str) {
    match step {
        "abort-here" => std::process::abort(),
        "hang-here" => loop {
            std::hint::spin_loop();
        },
        "exhaust-memory-here" => {
            let mut all: Vec<Vec<u8>> = Vec::new();
            loop {
                all.push(vec![1; 64 << 20]);
            }
        }
        _ => {}
    }
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
        engine: engine(),
        ..Extras::default()
    };
    let options = SchedulerOptions { settings, broker, clock: Clock::system(), random: Random::system() };
    let running = start_with(options, extras).await?;
    if let Some(api) = running.api() {
        writeln!(std::io::stdout(), "the api listens on http://{api}")?;
    }
    std::future::pending().await
}
