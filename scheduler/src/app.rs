//! Starts a scheduler, and stops it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use goalmill_archive::ArchiveError;
use goalmill_broker::{Broker, BrokerError, Install, Meta, StoreClock};
use goalmill_common::agent::Agent;
use goalmill_common::clock::Clock;
use goalmill_common::config::{ApiSettings, Authentication, Settings};
use goalmill_common::event::LOG_FORMAT;
use goalmill_common::goal::Usage;
use goalmill_common::plan::Plan;
use goalmill_common::random::Random;
use goalmill_common::supervisor::Supervisor;
use goalmill_engine::Engine;
use goalmill_llm::{ModelRegistry, ModelSetupError};
use goalmill_plan::validate::Policy;
use goalmill_planning::agent_planner::{PlanningAgents, PlanningQuestion, PlanningReply};
use goalmill_planning::calibration::ConfidenceCalibration;
use goalmill_planning::{Pipeline, Planner, RouteSteps, SetupError};
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::task::TaskTracker;

use crate::agent_directory::Directory;
use crate::api::{ApiCredentials, ApiTls, HttpServer, OidcVerifier, StartingApi};
use crate::archiver::{ArchiveRetention, Archiver};
use crate::dead_letter_counter::DeadLetterCounter;
use crate::execution_stats::{self, ExecutionStats, Lessons, Sample, StatsReplay};
use crate::health_monitor::HealthMonitor;
use crate::hooks::{Hook, Hooks};
use crate::loops::Loops;
use crate::namespace_limits::{self, NamespaceLimits};
use crate::payload_cache::PayloadCache;
use crate::plan_reader;
use crate::planning_steps::PlanningSteps;
use crate::scheduler::{self, Scheduler};
use crate::shard::suspect_trial::Trial;
use crate::shard::{Membership, OwnedShards};
use crate::start_status::StartStatus;
use crate::token_secret::TokenSecret;
use crate::traces::{self, Exporter, Traces};
use crate::watchdog::{self, Connect};
use crate::{api, busy_poll, event_stream, gauges, goal_streams, intake, reaper, reconcile};

/// Longest wait for running tasks at the end, because a client that reads nothing must not keep the process alive.
const STOP_MAX: Duration = Duration::from_secs(10);

/// The settings and services of a scheduler.
pub struct SchedulerOptions {
    pub settings: Settings,
    pub broker: Arc<dyn Broker>,
    pub clock: Clock,
    pub random: Random,
}

/// Additions of an embedding program.
#[derive(Default)]
pub struct Extras {
    /// Asked before the planners of the settings.
    pub planners: Vec<Arc<dyn Planner>>,
    pub hooks: Vec<Arc<dyn Hook>>,
    /// Cards that are registered before the scheduler is ready.
    pub agents: Vec<Agent>,
    /// Exports traces; without it there are none.
    pub traces: Option<Exporter>,
    /// How plans are tried that are suspected of killing schedulers.
    pub trial: Option<Trial>,
    /// Tests inject faults here.
    pub engine: Engine,
    /// The format of the logs of another build, in tests; that of this one unless set.
    pub log_format: Option<u32>,
    /// Starts a watchdog, which ends this process when a shard's loop hangs; it connects to the store with this.
    pub watchdog: Option<Connect>,
    /// Watches the background loops, from before the start has ended.
    pub supervisor: Supervisor,
}

/// Why a scheduler cannot start.
#[derive(Debug, thiserror::Error)]
pub enum SchedulerStartError {
    #[error("cannot listen on {address}: {reason}")]
    Listen { address: String, reason: String },
    #[error("the API has no authentication, and `{address}` is not a loopback address")]
    Insecure { address: String },
    #[error("{0}")]
    Token(String),
    #[error("{0}")]
    Tls(String),
    #[error("{0}")]
    Oidc(String),
    #[error(transparent)]
    Planner(#[from] SetupError),
    #[error("{0}")]
    Hook(String),
    #[error("the watchdog cannot start: {0}")]
    Watchdog(std::io::Error),
    #[error(transparent)]
    Models(#[from] ModelSetupError),
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    #[error(transparent)]
    Broker(#[from] BrokerError),
    #[error("{0}")]
    Loop(String),
}

/// A running scheduler.
pub struct RunningScheduler {
    scheduler: Arc<Scheduler>,
    api: Option<SocketAddr>,
    metrics: Option<SocketAddr>,
    /// Has the certificate of the API read again; `None` without TLS.
    certificate_reload: Option<Arc<Notify>>,
}

/// Starts a scheduler: waits for the store, then serves the API and runs its share of the shards. While it waits, the
/// addresses of the API and of `/metrics` answer already: `/livez` with 200, `/readyz` with 503 and the reason.
///
/// Without an address in `api.listen` or `metrics.listen` there is no such listener.
pub async fn start(options: SchedulerOptions) -> Result<RunningScheduler, SchedulerStartError> {
    start_with(options, Extras::default()).await
}

/// As [`start`], with planners and hooks of the embedding program.
pub async fn start_with(options: SchedulerOptions, extras: Extras) -> Result<RunningScheduler, SchedulerStartError> {
    let supervisor = extras.supervisor.clone();
    let loops = Loops { supervisor: supervisor.clone(), ..Loops::default() };
    let start = SchedulerStart { loops, ..SchedulerStart::default() };
    tokio::select! {
        running = Box::pin(start_loops(options, extras, start)) => running,
        reason = supervisor.failed() => Err(SchedulerStartError::Loop(reason)),
    }
}

/// Stands for planning agents where none is asked.
struct NoPlanningAgents;

#[async_trait]
impl PlanningAgents for NoPlanningAgents {
    async fn ask(&self, _: PlanningQuestion) -> PlanningReply {
        PlanningReply { outputs: Err("no agent is asked".into()), usage: Usage::default(), plan: None }
    }
}

/// Checks what a start refuses of tokens, certificates, identity provider, models, planners and hooks. It listens nowhere,
/// asks no server, and reads only files of the settings.
pub fn check_settings(settings: &Settings) -> Result<(), SchedulerStartError> {
    let (clock, random, loops) = (Clock::system(), Random::system(), Loops::default());
    api::environment_tokens(&settings.api).map_err(SchedulerStartError::Token)?;
    load_tls(&settings.api, &clock)?;
    if let Ok(place) = settings.api.listen.parse() {
        check_exposure(&settings.api, place)?;
    }
    oidc(&settings.api, &clock, &loops.tasks)?;
    let models = Arc::new(ModelRegistry::from_settings(&settings.models, clock, random)?);
    let agents: Arc<dyn PlanningAgents> = Arc::new(NoPlanningAgents);
    Pipeline::from_settings(&settings.planner, &models, Arc::new(|_, _| Err(Vec::new())), Some(&agents))?;
    Hooks::check(&settings.hooks).map_err(SchedulerStartError::Hook)
}

async fn start_loops(
    mut options: SchedulerOptions,
    extras: Extras,
    start: SchedulerStart,
) -> Result<RunningScheduler, SchedulerStartError> {
    let Extras { planners, hooks, agents, traces, trial, engine, log_format, watchdog, supervisor: _ } = extras;
    let environment = api::environment_tokens(&options.settings.api).map_err(SchedulerStartError::Token)?;
    let tls = load_tls(&options.settings.api, &options.clock)?;
    let api_listener = listen_for_api(&options.settings.api).await?;
    let metrics_listener = listen(&options.settings.metrics.listen).await?;
    let address = |listener: &Option<TcpListener>| listener.as_ref().and_then(|listener| listener.local_addr().ok());
    let (api, metrics) = (address(&api_listener), address(&metrics_listener));
    set_callback_url(&mut options.settings.api, api);
    let end_when_refused = start.loops.stop.clone().drop_guard();
    let oidc = oidc(&options.settings.api, &options.clock, &start.loops.tasks)?;
    let server = HttpServer::new(&options.settings.api, &start.loops);
    if let Some(listener) = metrics_listener {
        // Counts before the recorder exists are lost.
        let handle = goalmill_common::telemetry::metrics();
        goalmill_common::metric::begin_scheduler();
        gauges::set_starting();
        if let Some(handle) = handle {
            start.loops.spawn("metrics", api::serve_metrics(server.clone(), listener, handle));
        }
    }
    let starting = api_listener.map(|listener| StartingApi::serve(&server, &start.status, listener, tls.clone()));
    let (scheduler, queues) = Box::pin(assemble(options, planners, hooks, traces, &start)).await?;
    let scheduler = Arc::new(Scheduler { engine, ..scheduler });
    let shards = Arc::new(OwnedShards::new(trial, log_format.unwrap_or(LOG_FORMAT)));
    if let Some(connect) = watchdog {
        let limit = Duration::from_millis(scheduler.settings.scheduler.watchdog_ms);
        let supervisor = scheduler.loops.supervisor.clone();
        watchdog::start(shards.decisions.clone(), limit, scheduler.clock.clone(), connect, supervisor)
            .map_err(SchedulerStartError::Watchdog)?;
    }
    while let Err(error) = register(&scheduler, &agents).await {
        start.status.wait_after(error).await?;
    }
    spawn_tasks(&scheduler, &shards, queues);
    if let Some(starting) = starting
        && let Some(listener) = starting.end().await
    {
        let credentials = ApiCredentials { environment, oidc };
        if let Some(tls) = tls.clone() {
            scheduler.loops.spawn("certificate", tls.keep_fresh(scheduler.stop.clone()));
        }
        scheduler.loops.spawn("api", api::serve(scheduler.clone(), shards, credentials, listener, tls.clone()));
    }
    let certificate_reload = tls.map(|tls| tls.reload_requests());
    end_when_refused.disarm();
    Ok(RunningScheduler { scheduler, api, metrics, certificate_reload })
}

/// Registers agents, and reads those that are registered.
async fn register(scheduler: &Scheduler, agents: &[Agent]) -> Result<(), BrokerError> {
    for agent in agents {
        scheduler.broker.open_queue(&agent.agent_type).await?;
        scheduler.broker.register(agent).await?;
    }
    scheduler.directory.refresh().await
}

/// Agents report by callback to the address of the API, unless the settings name another one.
fn set_callback_url(settings: &mut ApiSettings, api: Option<SocketAddr>) {
    if !settings.callback_url.is_empty() {
        return;
    }
    match api.filter(|api| !api.ip().to_canonical().is_unspecified()) {
        Some(api) => settings.callback_url = url_of(settings, api),
        None => tracing::warn!("{}", api::NO_CALLBACK_URL),
    }
}

fn url_of(settings: &ApiSettings, api: SocketAddr) -> String {
    let scheme = if settings.tls.is_on() { "https" } else { "http" };
    format!("{scheme}://{api}")
}

/// What is there before the store has answered.
#[derive(Default)]
pub(crate) struct SchedulerStart {
    status: StartStatus,
    loops: Loops,
}

/// The receiving ends of the queues that the parts of a scheduler write to.
pub(crate) struct Queues {
    samples: mpsc::Receiver<Sample>,
    traced: Option<mpsc::Receiver<traces::Item>>,
}

/// Opens the installation and creates the parts of a scheduler. Only the delivery of hooks runs yet.
pub(crate) async fn assemble(
    options: SchedulerOptions,
    planners: Vec<Arc<dyn Planner>>,
    hooks: Vec<Arc<dyn Hook>>,
    exporter: Option<Exporter>,
    start: &SchedulerStart,
) -> Result<(Scheduler, Queues), SchedulerStartError> {
    let SchedulerOptions { settings, broker, clock, random } = options;
    let limits = (&settings.limits).into();
    let install = Install { instance: random.token(), shards: settings.scheduler.shards, limits };
    let id = name(&settings, &random);
    let directory = Arc::new(Directory::new(broker.clone(), &settings));
    let archive = Box::pin(goalmill_archive::open(&settings.archive)).await?;
    let models = Arc::new(ModelRegistry::from_settings(&settings.models, clock.clone(), random.clone())?);
    let agents: Arc<dyn PlanningAgents> = Arc::new(PlanningSteps::new(&settings, &broker, &directory, &clock, &random));
    let mut pipeline = Pipeline::from_settings(&settings.planner, &models, route_by(&directory), Some(&agents))?;
    pipeline.prefer(planners);
    let confidences = Arc::new(ConfidenceCalibration::new(settings.planner.calibrate_plans_min));
    pipeline.calibrate(confidences.clone());
    let lessons = Lessons { confidences, examples: pipeline.examples(), learns: settings.router.learn };
    let SchedulerStart { status, loops } = start;
    let hooks = Hooks::start(&settings.hooks, hooks, random.clone(), loops).map_err(SchedulerStartError::Hook)?;
    // What is wrong with the settings is said immediately; only then the store is waited for.
    let meta = open(broker.as_ref(), &install, status).await?;
    let store_clock = StoreClock::new(clock.clone());
    while let Err(error) = store_clock.check_store(broker.as_ref()).await {
        status.wait_after(error).await?;
    }
    let (stats, samples) = ExecutionStats::new(directory.clone(), lessons, clock.now_ms());
    let token_secret = loop {
        match TokenSecret::open(broker.as_ref(), &random).await {
            Ok(secret) => break secret,
            Err(error) => status.wait_after(error).await?,
        }
    };
    let (traces, traced) =
        exporter.map(|exporter| Traces::new(exporter, meta.instance.clone(), &settings.models)).unzip();
    let scheduler = Scheduler {
        id,
        instance: meta.instance,
        token_secret,
        policy: Arc::new(scheduler::policy(&settings)),
        shards: meta.shards,
        directory,
        planners: pipeline,
        models,
        stats: Arc::new(stats),
        hooks,
        traces: traces.map(Arc::new),
        namespaces: NamespaceLimits::new(&settings, &clock),
        payloads: PayloadCache::default(),
        health: HealthMonitor::default(),
        dead_letters: DeadLetterCounter::default(),
        busy_poll: busy_poll::duration(settings.scheduler.spin_us),
        settings,
        plans: plan_reader::open(broker.clone(), archive.clone()),
        archive,
        broker,
        clock,
        store_clock,
        random,
        engine: Engine::default(),
        quarantined_plans: std::sync::Mutex::default(),
        commits: watch::Sender::new(0),
        tasks: loops.tasks.clone(),
        stop: loops.stop.clone(),
        loops: loops.clone(),
    };
    Ok((scheduler, Queues { samples, traced }))
}

/// Routes the steps of plans by the agent types of a directory.
fn route_by(directory: &Arc<Directory>) -> RouteSteps {
    let directory = directory.clone();
    Arc::new(move |plan: &mut Plan, policy: &Policy| directory.route(plan, policy))
}

fn spawn_tasks(scheduler: &Arc<Scheduler>, shards: &Arc<OwnedShards>, queues: Queues) {
    let Queues { samples, traced } = queues;
    let Scheduler { loops, stop, plans, .. } = scheduler.as_ref();
    loops.spawn("membership", Membership::new(scheduler.clone(), shards.clone()).run());
    loops.spawn("intake", intake::run(scheduler.clone(), shards.clone()));
    loops.spawn("reaper", reaper::run(scheduler.clone()));
    if !scheduler.settings.scheduler.goal_streams.is_empty() {
        loops.spawn("goal_streams", goal_streams::run(scheduler.clone(), shards.clone()));
    }
    loops.spawn("event_stream", event_stream::run(scheduler.clone(), shards.clone()));
    loops.spawn("reconcile", reconcile::run(scheduler.clone(), shards.clone()));
    loops.spawn("gauges", gauges::run(scheduler.clone(), shards.clone()));
    loops.spawn("router_training", execution_stats::train_router(scheduler.directory.clone(), stop.clone(), samples));
    let replay = StatsReplay { stats: scheduler.stats.clone(), plans: plans.clone(), stop: stop.clone() };
    scheduler.tasks.spawn(replay.recent(scheduler.shards, scheduler.settings.scheduler.recalled_plans));
    loops.spawn("directory", keep_fresh(scheduler.clone()));
    if let Some(limits) = scheduler.namespaces.clone() {
        let (broker, id) = (scheduler.broker.clone(), scheduler.id.clone());
        loops.spawn("namespace_limits", namespace_limits::share(broker, id, limits, stop.clone()));
    }
    if let Some(archive) = scheduler.archive.clone() {
        if let Some(retention) = ArchiveRetention::new(scheduler.clone(), shards.clone(), archive.clone()) {
            loops.spawn("archive_retention", retention.run());
        }
        loops.spawn("archiver", Archiver::new(scheduler.clone(), shards.clone(), archive).run());
    }
    if let (Some(traces), Some(traced)) = (scheduler.traces.clone(), traced) {
        loops.spawn("traces", traces::run(traces, plans.clone(), stop.clone(), traced));
    }
}

impl RunningScheduler {
    /// Where the API is served, if it is.
    pub fn api(&self) -> Option<SocketAddr> {
        self.api
    }

    /// Reads which agents are registered, before the next time at which it does so by itself.
    pub async fn refresh_agents(&self) -> Result<(), BrokerError> {
        self.scheduler.directory.refresh().await
    }

    /// The base address of the API, if it is served.
    pub fn api_url(&self) -> Option<String> {
        self.api.map(|api| url_of(&self.scheduler.settings.api, api))
    }

    /// Has the certificate of the API read again immediately when it is notified; `None` without TLS.
    pub fn certificate_reload(&self) -> Option<Arc<Notify>> {
        self.certificate_reload.clone()
    }

    /// Where `/metrics` is served, if it is.
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.metrics
    }

    /// Waits until a background loop has ended, which it must not; returns the reason. The scheduler works no more then,
    /// `/livez` fails, and the process should end.
    pub async fn failed(&self) -> String {
        self.supervisor().failed().await
    }

    /// What watches the background loops.
    pub fn supervisor(&self) -> &Supervisor {
        &self.scheduler.loops.supervisor
    }

    /// Finishes pending commits, releases the shards and stops.
    pub async fn stop(self) {
        self.scheduler.stop.cancel();
        self.scheduler.tasks.close();
        if tokio::time::timeout(STOP_MAX, self.scheduler.tasks.wait()).await.is_err() {
            tracing::warn!("stopped without {} tasks that did not end in time", self.scheduler.tasks.len());
        }
    }
}

/// The name of a scheduler: that of the settings, or one by chance.
fn name(settings: &Settings, random: &Random) -> String {
    match settings.scheduler.id.as_str() {
        "" => format!("scheduler-{}", goalmill_common::id::base32(u128::from(random.draw()), 8)),
        id => id.to_owned(),
    }
}

/// Opens the installation; waits while the store is unavailable.
async fn open(broker: &dyn Broker, install: &Install, status: &StartStatus) -> Result<Meta, BrokerError> {
    loop {
        match broker.open(install).await {
            Ok(meta) => return Ok(meta),
            Err(error) => status.wait_after(error).await?,
        }
    }
}

/// What checks the tokens of the identity provider, if the settings name one. It asks the provider later.
fn oidc(api: &ApiSettings, clock: &Clock, tasks: &TaskTracker) -> Result<Option<OidcVerifier>, SchedulerStartError> {
    if api.oidc.is_on() && api.authentication != Authentication::Required {
        let why = "`api.oidc` needs `api.authentication = \"required\"`: without it everyone may do everything";
        return Err(SchedulerStartError::Oidc(why.into()));
    }
    let verifier = || OidcVerifier::new(&api.oidc, clock.clone(), tasks.clone());
    api.oidc.is_on().then(verifier).transpose().map_err(SchedulerStartError::Oidc)
}

/// Certificate and key of the API, if the settings name them.
fn load_tls(settings: &ApiSettings, clock: &Clock) -> Result<Option<Arc<ApiTls>>, SchedulerStartError> {
    let tls = settings.tls.is_on().then(|| ApiTls::load(&settings.tls, clock.clone())).transpose();
    Ok(tls.map_err(SchedulerStartError::Tls)?.map(Arc::new))
}

/// Opens the listener of the API; outside of loopback only with authentication or `api.insecure`.
async fn listen_for_api(settings: &ApiSettings) -> Result<Option<TcpListener>, SchedulerStartError> {
    let listener = listen(&settings.listen).await?;
    if let Some(place) = listener.as_ref().and_then(|listener| listener.local_addr().ok()) {
        check_exposure(settings, place)?;
    }
    Ok(listener)
}

/// Refuses an API without authentication that listens outside of loopback.
fn check_exposure(settings: &ApiSettings, place: SocketAddr) -> Result<(), SchedulerStartError> {
    // IPv4-mapped IPv6 addresses count as IPv4.
    if place.ip().to_canonical().is_loopback() {
        return Ok(());
    }
    if settings.authentication == Authentication::Required {
        if !settings.tls.is_on() {
            tracing::info!(
                "the API listens on {place} without TLS: set `api.tls`, or put a proxy with TLS in front of it"
            );
        }
        return Ok(());
    }
    if !settings.insecure {
        return Err(SchedulerStartError::Insecure { address: settings.listen.clone() });
    }
    tracing::warn!("the API has no authentication and listens on {place}: everyone who reaches it may do everything");
    Ok(())
}

async fn listen(address: &str) -> Result<Option<TcpListener>, SchedulerStartError> {
    if address.is_empty() {
        return Ok(None);
    }
    let refused =
        |error: std::io::Error| SchedulerStartError::Listen { address: address.into(), reason: error.to_string() };
    TcpListener::bind(address).await.map(Some).map_err(refused)
}

async fn keep_fresh(scheduler: Arc<Scheduler>) {
    scheduler.directory.keep_fresh(&scheduler.stop).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_no_agent_reaches_is_no_address_of_callbacks() {
        for (listen, want) in [
            ("127.0.0.1:80", "http://127.0.0.1:80"),
            ("192.0.2.7:80", "http://192.0.2.7:80"),
            ("[::1]:80", "http://[::1]:80"),
            ("0.0.0.0:80", ""),
            ("[::]:80", ""),
            ("[::ffff:0.0.0.0]:80", ""),
        ] {
            let mut settings = ApiSettings::default();
            set_callback_url(&mut settings, listen.parse().ok());
            assert_eq!(settings.callback_url, want, "{listen}");
            settings.callback_url = "https://goalmill.example".into();
            set_callback_url(&mut settings, listen.parse().ok());
            assert_eq!(settings.callback_url, "https://goalmill.example");
        }
    }

    #[tokio::test]
    async fn beyond_loopback_the_api_listens_only_when_told_that_it_is_insecure() {
        let at = |listen: &str, insecure| ApiSettings { listen: listen.into(), insecure, ..ApiSettings::default() };
        for listen in ["0.0.0.0:0", "[::ffff:0.0.0.0]:0"] {
            let refused = listen_for_api(&at(listen, false)).await;
            assert!(matches!(refused, Err(SchedulerStartError::Insecure { .. })), "{listen}: {refused:?}");
        }
        for (listen, insecure) in [("127.0.0.1:0", false), ("localhost:0", false), ("0.0.0.0:0", true)] {
            let taken = listen_for_api(&at(listen, insecure)).await;
            assert!(matches!(taken, Ok(Some(_))), "{listen}: {taken:?}");
        }
        let authentication = Authentication::Required;
        let guarded = listen_for_api(&ApiSettings { authentication, ..at("0.0.0.0:0", false) }).await;
        assert!(matches!(guarded, Ok(Some(_))), "{guarded:?}");
        assert!(matches!(listen_for_api(&at("", false)).await, Ok(None)));
    }
}
