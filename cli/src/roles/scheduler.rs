//! `goalmill scheduler`: API, planners, router, shards.

use std::time::Duration;

use goalmill_common::clock::Clock;
use goalmill_common::config::Settings;
use goalmill_common::random::Random;

use goalmill_scheduler::{Exporter, Extras, SchedulerOptions, SchedulerStartError, Trial};
use tracing::info;

use super::signals::Signals;
use crate::args::SchedulerArgs;
use crate::exit::{CommandResult, Exit, Failed};
use crate::features;
use crate::output::Screen;

pub async fn run(screen: &Screen, args: &SchedulerArgs) -> CommandResult {
    let metrics = super::metrics_address(args.metrics.clone());
    let loaded = super::prepare(
        &args.role,
        &[
            ("api.listen", args.listen.clone()),
            ("api.insecure", args.insecure.then(|| "true".into())),
            ("metrics.listen", metrics),
        ],
    )?;
    features::check_features(&loaded)?;
    if args.check_config {
        goalmill_scheduler::check_settings(&loaded.settings).map_err(failed)?;
        exporter()?;
        screen.line(super::GOOD_SETTINGS)?;
        return Ok(Exit::Done);
    }
    let settings = loaded.settings;
    let mut signals = Signals::listen()?;
    let broker = goalmill_broker::redis::connect(&settings.redis).await?;
    let extras = extras(&settings)?;
    let options = SchedulerOptions { settings, broker, clock: Clock::system(), random: Random::system() };
    let running = tokio::select! {
        running = goalmill_scheduler::start_with(options, extras) => running.map_err(failed)?,
        () = signals.next() => return Ok(Exit::Done),
    };
    if let Some(api) = running.api_url() {
        info!("the api listens on {api}");
    }
    if let Some(metrics) = running.metrics() {
        info!("the metrics are at http://{metrics}/metrics");
    }
    let reload = running.certificate_reload();
    let asked = async {
        match &reload {
            Some(reload) => signals.next_reloading(reload).await,
            None => {
                signals.next().await;
                Ok(())
            }
        }
    };
    tokio::select! {
        asked = asked => asked?,
        reason = running.failed() => return Err(super::works_no_more(reason)),
    }
    info!("stopping; a second signal stops at once");
    tokio::select! {
        () = running.stop() => Ok(Exit::Done),
        () = signals.next() => Ok(Exit::Interrupted),
    }
}

/// Trial process and watchdog: they protect other plans from one that kills or hangs its scheduler.
fn extras(settings: &Settings) -> Result<Extras, Failed> {
    let redis = settings.redis.clone();
    let limit = Duration::from_millis(settings.scheduler.watchdog_ms);
    Ok(Extras {
        trial: Some(Trial { program: std::env::current_exe()?, args: vec!["trial".into()], limit }),
        watchdog: Some(Box::new(move || Box::pin(async move { goalmill_broker::redis::connect(&redis).await }))),
        traces: exporter()?,
        ..Extras::default()
    })
}

/// Trace exporter, by OpenTelemetry's environment variables.
pub fn exporter() -> Result<Option<Exporter>, Failed> {
    let help = "traces are off without it: unset OTEL_EXPORTER_OTLP_ENDPOINT";
    Exporter::from_environment().map_err(|error| Failed::invalid(error.to_string()).help(help))
}

/// The start error of a scheduler, with a hint.
pub fn failed(error: SchedulerStartError) -> Failed {
    match error {
        SchedulerStartError::Broker(error) => error.into(),
        SchedulerStartError::Listen { .. } => {
            Failed::new(Exit::Other, error.to_string()).help("name free addresses: --listen 127.0.0.1:0 --metrics 127.0.0.1:0")
        }
        SchedulerStartError::Insecure { .. } => Failed::new(Exit::InvalidInput, error.to_string()).help(
            "require tokens (`api.authentication = \"required\"`, see docs/access.md), listen on 127.0.0.1, or accept it: --insecure (`api.insecure`)",
        ),
        SchedulerStartError::Archive(_) => {
            Failed::new(Exit::Other, error.to_string()).help("check `archive` in the settings: docs/archive.md")
        }
        SchedulerStartError::Watchdog(_) => Failed::new(Exit::Other, error.to_string()),
        SchedulerStartError::Loop(reason) => super::works_no_more(reason),
        SchedulerStartError::Token(_) | SchedulerStartError::Tls(_) | SchedulerStartError::Oidc(_) | SchedulerStartError::Planner(_) | SchedulerStartError::Hook(_) | SchedulerStartError::Models(_) => {
            Failed::invalid(error.to_string())
        }
    }
}
