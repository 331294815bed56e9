//! `goalmill dev`: scheduler, worker and demo agents in one process.

mod banner;
mod model;
mod ports;
mod programs;
mod saga;
mod session;
mod store;
mod story;

use goalmill_client::Client;
use goalmill_common::clock::Clock;
use goalmill_common::config::{ArchiveKind, Settings};
use goalmill_common::random::Random;
use goalmill_demo::agents::{self as demo, DemoServer};
use goalmill_scheduler::{Extras, SchedulerOptions};

use super::signals::Signals;
use super::worker::{self, Executors};
use super::{load, metrics_address, scheduler};
use crate::args::{Demo, DevArgs};
use crate::context::CommandContext;
use crate::exit::{CommandResult, Exit, Failed};
use crate::features;
use crate::output::Screen;

/// File of the archive under `--data-dir`.
const ARCHIVE_FILE: &str = "archive.sqlite";
/// Default drain time in milliseconds.
const DRAIN_MS: u64 = 2_000;
/// Default limit of one attempt where agents ask a model, in milliseconds.
const MODEL_TIMEOUT_MS: u64 = 600_000;

pub async fn run(context: &CommandContext, args: &DevArgs) -> CommandResult {
    let screen = &context.screen;
    if let (Some(demo @ (Demo::Story | Demo::Saga)), Some(_)) = (args.demo, &args.goal) {
        let message = format!("`--goal` and `--demo {}` exclude each other", demo.name());
        return Err(Failed::new(Exit::Usage, message).help("try: goalmill dev --demo --goal '…'"));
    }
    let (mut settings, is_order_default, is_timeout_default) = settings(args)?;
    let mut signals = Signals::listen()?;
    let clock = Clock::system();
    // Ends with this function.
    let model = model::choose(args, &mut settings, is_order_default).await?;
    if model.serves_agents && is_timeout_default {
        settings.limits.timeout_ms = MODEL_TIMEOUT_MS;
    }
    let store = store::open(args, &mut settings, &clock).await?;
    let options = SchedulerOptions {
        settings: settings.clone(),
        broker: store.broker.clone(),
        clock: clock.clone(),
        random: Random::system(),
    };
    let mut cards = if model.serves_agents { goalmill_agents::shipped_cards() } else { demo::agents() };
    // A worker registers the agents of the settings.
    cards.retain(|card| !model.serves_agents || !settings.worker.agents.contains_key(&card.agent_type));
    let extras = Extras { agents: cards.clone(), traces: scheduler::exporter()?, ..Extras::default() };
    let running = goalmill_scheduler::start_with(options, extras);
    let running = tokio::select! {
        running = running => running.map_err(scheduler::failed)?,
        () = signals.next() => return Ok(Exit::Interrupted),
    };
    let api = running.api_url().ok_or_else(|| Failed::other("the API has no address: set `api.listen`"))?;
    let client = context.client.at(&api)?;
    let demo_agents = if model.serves_agents { None } else { Some(demo::serve().await?) };
    let worker = start_worker(&settings, &store, demo_agents.as_ref(), &clock).await?;
    // The worker registers those of the settings.
    worker.ready().await;
    running.refresh_agents().await.map_err(|error| Failed::other(format!("the agents cannot be read: {error}")))?;
    let dev =
        banner::BannerFacts { args, settings: &settings, store: &store, model: &model, metrics: running.metrics() };
    let programs = programs::Programs::new(&args.programs, &settings, store.broker.clone(), &clock, &api).await?;
    banner::print(screen, &dev, &cards, &client).await?;
    let served = async {
        let exit = serve(screen, args, &client, demo_agents.as_ref(), &mut signals).await;
        programs.stop();
        exit
    };
    let running_programs = programs.run(screen);
    let exit = tokio::select! {
        (exit, ()) = futures_util::future::join(served, running_programs) => exit,
        reason = running.failed() => return Err(super::works_no_more(reason)),
        reason = worker.failed() => return Err(super::works_no_more(reason)),
    };
    worker::end(&worker, &mut signals).await?;
    tokio::select! {
        () = running.stop() => {}
        () = signals.next() => {}
    }
    exit
}

/// Runs the demo if requested, then runs until a signal unless only the demo is wanted.
///
/// - `agents`: the demo agents, if they are served.
async fn serve(
    screen: &Screen,
    args: &DevArgs,
    client: &Client,
    agents: Option<&DemoServer>,
    signals: &mut Signals,
) -> CommandResult {
    let mut exit = Exit::Done;
    if let Some(demo) = args.demo {
        let shown = async {
            match demo {
                Demo::Trip => session::run(screen, args, client).await,
                Demo::Story => story::run(screen, args, client).await,
                Demo::Saga => saga::run(screen, args, client, agents).await,
            }
        };
        exit = tokio::select! {
            exit = shown => exit?,
            () = signals.next() => Exit::Interrupted,
        };
        if exit == Exit::Interrupted {
            screen.note("\nstopping");
        }
        if !args.keep || exit == Exit::Interrupted {
            return Ok(exit);
        }
        screen.note("still up; Ctrl-C stops everything");
    }
    signals.next().await;
    screen.note("stopping");
    Ok(exit)
}

/// The settings, and whether the order of the planners and the time limit of steps are the defaults.
fn settings(args: &DevArgs) -> Result<(Settings, bool, bool), Failed> {
    let redis = args.redis.clone().filter(|url| url != store::AUTO);
    let loaded = load(
        args.config.as_deref(),
        &[
            ("redis.url", redis),
            ("api.listen", args.listen.clone()),
            ("api.insecure", args.insecure.then(|| "true".into())),
            ("metrics.listen", metrics_address(args.metrics.clone())),
            ("worker.slots", args.slots.map(|slots| slots.to_string())),
        ],
    )?;
    features::check_features(&loaded)?;
    let is_default = |path: &str| loaded.origin(path) == goalmill_common::config::Origin::Default;
    let mut settings = loaded.settings.clone();
    if is_default("api.listen") {
        settings.api.listen = ports::free(&settings.api.listen);
    }
    if is_default("metrics.listen") {
        settings.metrics.listen = ports::free(&settings.metrics.listen);
    }
    if let (Some(dir), true) = (&args.data_dir, is_default("archive.store")) {
        settings.archive.store = ArchiveKind::Sqlite;
        settings.archive.path = dir.join(ARCHIVE_FILE).display().to_string();
    }
    if is_default("worker.drain_ms") {
        settings.worker.drain_ms = DRAIN_MS;
    }
    if let Some(dir) = args.data_dir.as_ref().filter(|_| is_default("worker.files_dir")) {
        settings.worker.files_dir = dir.join("files").display().to_string();
    }
    Ok((settings, is_default("planner.order"), is_default("limits.timeout_ms")))
}

/// A worker for the demo agents, called over HTTP like any other service, or for the shipped agents that ask a model, and
/// for those of the settings.
///
/// - `demo_agents`: none for the shipped ones.
async fn start_worker(
    settings: &Settings,
    store: &store::Store,
    demo_agents: Option<&DemoServer>,
    clock: &Clock,
) -> Result<goalmill_worker::RunningWorker, Failed> {
    let random = Random::system();
    let kinds = worker::kinds(settings, clock, &random)?;
    let (limits, mut settings) = (settings.limits.clone(), settings.worker.clone());
    let mut executors = Executors::new();
    if let Some(agents) = demo_agents {
        for (agent_type, executor) in agents.settings() {
            settings.agents.entry(agent_type).or_insert(executor);
        }
        executors = demo::executors();
    } else {
        worker::add_shipped_agents(&mut settings);
    }
    worker::restrict(&mut settings, &mut executors, &[])?;
    let options = goalmill_worker::WorkerOptions {
        settings,
        limits,
        broker: store.broker.clone(),
        clock: clock.clone(),
        random,
        executors,
        kinds,
    };
    goalmill_worker::start(options).await.map_err(super::start_failed)
}
