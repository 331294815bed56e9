//! The roles of a process: it runs until a signal ends it.

pub mod bridge;
pub mod dev;
pub mod scheduler;
mod signals;
pub mod worker;

use std::path::Path;

use goalmill_common::config::{Loaded, Override};
use goalmill_worker::WorkerStartError;

use crate::args::RoleArgs;
use crate::commands::config::settings;
use crate::exit::{Exit, Failed};

/// The goal of the demo.
pub const DEMO_GOAL: &str = "Plan a 3-day trip to Paris in May with a $2000 budget";

/// The answer of `--check-config`.
const GOOD_SETTINGS: &str = "the settings are good; see them: goalmill config";

/// Loads the settings of a role.
fn prepare(role: &RoleArgs, flags: &[(&'static str, Option<String>)]) -> Result<Loaded, Failed> {
    load(role.config.as_deref(), &[&[("redis.url", role.redis.clone())], flags].concat())
}

/// The end of a role one of whose loops ended.
fn works_no_more(reason: String) -> Failed {
    tracing::error!("this process ends, to be started again: {reason}");
    Failed::new(Exit::Internal, reason).help("please report this bug with the log")
}

/// `off` is an empty address: no metrics.
fn metrics_address(flag: Option<String>) -> Option<String> {
    flag.map(|address| if address == "off" { String::new() } else { address })
}

/// Loads settings with the flags of the command line.
fn load(config: Option<&Path>, flags: &[(&'static str, Option<String>)]) -> Result<Loaded, Failed> {
    let given: Vec<Override> = flags.iter().filter_map(|(path, value)| Some((*path, value.clone()?))).collect();
    settings(config, &given)
}

/// The start error of a worker, with a hint.
fn start_failed(error: WorkerStartError) -> Failed {
    match error {
        WorkerStartError::Broker(error) => error.into(),
        WorkerStartError::NoAgents => Failed::new(Exit::Usage, error.to_string()).help("try: goalmill worker --demo"),
        WorkerStartError::Executor { .. } => {
            Failed::invalid(error.to_string()).help("see the settings: goalmill config worker")
        }
        WorkerStartError::Listen { .. } => {
            Failed::new(Exit::Other, error.to_string()).help("name a free address: --listen 127.0.0.1:0")
        }
    }
}
