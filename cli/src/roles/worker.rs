//! `goalmill worker`: serves agent types until a signal drains it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use goalmill_agents::AgentBuilder;
use goalmill_common::clock::Clock;
use goalmill_common::config::{Settings, WorkerSettings};
use goalmill_common::id::AgentType;
use goalmill_common::random::Random;
use goalmill_demo::agents as demo;
use goalmill_worker::executor::{Build, Executor, Kinds};
use goalmill_worker::{RunningWorker, WorkerOptions};
use tracing::info;

use super::signals::Signals;
use crate::args::WorkerRunArgs;
use crate::exit::{CommandResult, Exit, Failed};
use crate::output::Screen;

/// Executors that are built in, by agent type.
pub type Executors = BTreeMap<AgentType, Arc<dyn Executor>>;

pub async fn run(screen: &Screen, args: &WorkerRunArgs) -> CommandResult {
    let loaded = super::prepare(
        &args.role,
        &[
            ("worker.slots", args.slots.map(|slots| slots.to_string())),
            ("worker.listen", args.listen.clone()),
            ("worker.id", args.id.clone()),
        ],
    )?;
    if args.bridge {
        return super::bridge::run(loaded.settings).await;
    }
    let (clock, random) = (Clock::system(), Random::system());
    let kinds = kinds(&loaded.settings, &clock, &random)?;
    let mut settings = loaded.settings.worker;
    let mut executors = if args.demo { demo::executors() } else { Executors::new() };
    if args.model_agents {
        add_shipped_agents(&mut settings);
    }
    restrict(&mut settings, &mut executors, &args.agents)?;
    let limits = loaded.settings.limits;
    if args.check_config {
        let broker = goalmill_broker::embedded::open(None, clock.clone())?;
        let options = WorkerOptions { settings, limits, broker, clock, random, executors, kinds };
        goalmill_worker::check(options).map_err(super::start_failed)?;
        screen.line(super::GOOD_SETTINGS)?;
        return Ok(Exit::Done);
    }
    let mut signals = Signals::listen()?;
    let broker = goalmill_broker::redis::connect(&loaded.settings.redis).await?;
    let options = WorkerOptions { settings, limits, broker, clock, random, executors, kinds };
    let running = goalmill_worker::start(options).await.map_err(super::start_failed)?;
    info!("worker {} runs", running.id());
    if let Some(address) = running.address() {
        info!("health and metrics are at http://{address}");
    }
    tokio::select! {
        () = signals.next() => info!("draining; a second signal hands everything back at once"),
        () = running.draining() => info!("draining, as was asked; a signal hands everything back at once"),
        reason = running.failed() => return Err(super::works_no_more(reason)),
    }
    end(&running, &mut signals).await?;
    info!("worker {} has ended", running.id());
    Ok(Exit::Done)
}

/// Kinds of executors in addition to those of every worker.
pub fn kinds(settings: &Settings, clock: &Clock, random: &Random) -> Result<Kinds, Failed> {
    let agents = AgentBuilder::from_settings(&settings.models, &settings.worker.files_dir, clock, random);
    let agents = agents.map_err(|error| Failed::invalid(error).help("see the settings: goalmill config models"))?;
    let agents = agents.with_files_kept(settings.limits.plan_ms_max.saturating_add(settings.scheduler.retention_ms));
    let build: Build = Box::new(move |agent_type, card, value| agents.build(agent_type, card, value));
    let mcp: Build = Box::new(|agent_type, _, value| goalmill_agents::mcp_executor(agent_type, value));
    Ok(Kinds::from([("demo", Box::new(demo::executor) as Build), ("llm", build), ("mcp", mcp)]))
}

/// Adds the shipped agents that ask a model; settings replace them.
pub fn add_shipped_agents(settings: &mut WorkerSettings) {
    for (agent_type, entry) in goalmill_agents::shipped_agents() {
        settings.agents.entry(agent_type).or_insert(entry);
    }
}

/// Drains; releases all tasks at the next signal.
pub async fn end(running: &RunningWorker, signals: &mut Signals) -> Result<(), Failed> {
    let drain = async {
        tokio::select! {
            () = running.drain() => {}
            () = signals.next() => running.release_all().await,
        }
    };
    tokio::select! {
        () = drain => Ok(()),
        reason = running.failed() => Err(super::works_no_more(reason)),
    }
}

/// Keeps only the agent types in `wanted`, if any; settings replace built-in agents.
pub fn restrict(settings: &mut WorkerSettings, executors: &mut Executors, wanted: &[String]) -> Result<(), Failed> {
    executors.retain(|agent_type, _| !settings.agents.contains_key(agent_type));
    if wanted.is_empty() {
        return Ok(());
    }
    let wanted: BTreeSet<&str> = wanted.iter().map(|name| name.trim()).filter(|name| !name.is_empty()).collect();
    let known: BTreeSet<&str> = settings.agents.keys().chain(executors.keys()).map(AgentType::as_str).collect();
    let missing: Vec<&str> = wanted.difference(&known).copied().collect();
    if !missing.is_empty() {
        let known = known.into_iter().collect::<Vec<_>>().join(", ");
        let known = if known.is_empty() { "none".to_owned() } else { known };
        return Err(Failed::new(
            Exit::Usage,
            format!("nothing here can serve {}; there are: {known}", missing.join(", ")),
        )
        .help("name executors under `worker.agents` in the settings, or serve the demo agents: --demo"));
    }
    settings.agents.retain(|agent_type, _| wanted.contains(agent_type.as_str()));
    executors.retain(|agent_type, _| wanted.contains(agent_type.as_str()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use goalmill_common::config::Feature;

    use super::*;
    use crate::features;

    fn settings() -> WorkerSettings {
        let agents = [("mine".into(), serde_json::json!({"kind": "http"}))];
        WorkerSettings { agents: agents.into(), ..WorkerSettings::default() }
    }

    #[test]
    fn only_the_wanted_agent_types_are_served() {
        let (mut settings, mut executors) = (settings(), demo::executors());
        restrict(&mut settings, &mut executors, &["sleep".into(), " mine".into()]).expect("both are known");
        assert_eq!(settings.agents.len(), 1);
        assert_eq!(executors.keys().map(AgentType::as_str).collect::<Vec<_>>(), ["sleep"]);
    }

    /// Holds with and without the features: `cargo test -p goalmill --no-default-features --bins part`.
    #[test]
    fn agents_are_refused_if_they_need_a_part_that_is_not_built_in() {
        let model = serde_json::json!({"name": "m", "base_url": "http://127.0.0.1:1/v1"});
        let models = vec![serde_json::from_value(model).expect("it is a model")];
        let settings = Settings { models, ..Settings::default() };
        let kinds = kinds(&settings, &Clock::system(), &Random::seeded(1)).expect("the model is valid");
        for (feature, kind, entry) in [
            (Feature::Mcp, "mcp", serde_json::json!({"argv": ["server"]})),
            (Feature::Mcp, "llm", serde_json::json!({"system": "work", "mcp": {"files": {"argv": ["server"]}}})),
            (
                Feature::Postgres,
                "llm",
                serde_json::json!({"system": "work", "tools": [{"name": "sql", "postgres_url_env": "UNSET"}]}),
            ),
        ] {
            let refused = kinds[kind](&"a".into(), None, &entry).err().unwrap_or_default();
            let names_feature = refused.contains(&format!("--features {feature}"));
            assert_eq!(names_feature, !features::built_in().contains(&feature), "{entry}: {refused}");
        }
    }

    #[test]
    fn an_unknown_agent_type_is_refused_with_those_that_are_known() {
        let (mut settings, mut executors) = (settings(), Executors::new());
        let failed = restrict(&mut settings, &mut executors, &["sleep".into()]).expect_err("`sleep` needs --demo");
        assert_eq!(failed.exit, Exit::Usage);
        assert!(["sleep", "mine"].iter().all(|name| failed.to_string().contains(name)), "{failed}");
    }
}
