//! Sends heartbeats, and registers the agent types: at the start, after a lost connection, and when a card changes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use goalmill_broker::BrokerError;
use goalmill_common::agent::{Agent, WorkerBeat};
use goalmill_common::id::AgentType;
use goalmill_common::number::to_u32;
use goalmill_common::wire::PROTOCOL;

use crate::drain;
use crate::worker::Worker;

/// Sends heartbeats until the worker stops.
pub(crate) async fn send_heartbeats(worker: Arc<Worker>) {
    let mut session = Session::default();
    let mut failures = 0;
    let mut drain_sent = false;
    loop {
        if worker.connection.state().is_err() {
            session.registered.clear();
        }
        let pause = match send_heartbeat(&worker, &mut session).await {
            Ok(()) => {
                failures = 0;
                worker.connection.set_up();
                Duration::from_millis(worker.settings.heartbeat_ms.max(1))
            }
            Err(e) => {
                session.registered.clear();
                failures += 1;
                worker.connection.set_lost(&e);
                worker.backoff(failures)
            }
        };
        worker.set_gauges();
        tokio::select! {
            biased;
            () = worker.stop.cancelled() => return,
            () = worker.draining.cancelled(), if !drain_sent => drain_sent = true,
            () = worker.connection.wait_lost(), if failures == 0 => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// What the worker knows and has written about itself in Redis.
#[derive(Default)]
struct Session {
    instance: Option<String>,
    /// Whether the traces of a former process of the same id are removed.
    is_cleared: bool,
    /// The registered cards; empty after a lost connection.
    registered: BTreeMap<AgentType, Option<Agent>>,
}

async fn send_heartbeat(worker: &Arc<Worker>, session: &mut Session) -> Result<(), BrokerError> {
    check_installation(worker, &mut session.instance).await?;
    if !session.is_cleared {
        // A drain request for a former process of this id is not meant for this one.
        worker.broker.deregister_worker(&worker.id).await?;
        session.is_cleared = true;
    }
    register_changed(worker, &mut session.registered).await?;
    worker.store_clock.record_worker_heartbeat(worker.broker.as_ref(), &worker.heartbeat()).await?;
    if !worker.draining.is_cancelled() && worker.broker.drain_requested(&worker.id).await? {
        tracing::info!("worker `{}` was asked to drain", worker.id);
        drain::begin(worker);
    }
    Ok(())
}

/// Refuses an installation other than the first one seen, and another protocol.
async fn check_installation(worker: &Worker, known: &mut Option<String>) -> Result<(), BrokerError> {
    let found = worker.broker.meta().await?;
    match (&known, found) {
        (_, Some(meta)) if meta.protocol != PROTOCOL => {
            Err(BrokerError::Corrupt(format!("protocol `{}`, this worker speaks `{PROTOCOL}`", meta.protocol)))
        }
        (Some(known), Some(meta)) if *known != meta.instance => {
            Err(BrokerError::DataLost(format!("instance `{}` instead of `{known}`", meta.instance)))
        }
        (Some(known), None) => Err(BrokerError::DataLost(format!("instance `{known}` is gone"))),
        (_, Some(meta)) => {
            *known = Some(meta.instance);
            worker.apply_limits(meta.limits);
            Ok(())
        }
        (None, None) => Ok(()),
    }
}

/// Registers the agent types whose cards have changed, all at the start. A bare name never replaces a card.
async fn register_changed(
    worker: &Worker,
    registered: &mut BTreeMap<AgentType, Option<Agent>>,
) -> Result<(), BrokerError> {
    let mut changed: BTreeMap<_, _> = worker.served.iter().map(|(name, served)| (name, served.card(name))).collect();
    changed.retain(|name, card| registered.get(*name) != Some(card));
    if changed.is_empty() {
        return Ok(());
    }
    let registry = worker.broker.agents().await?;
    let known: BTreeMap<_, _> = registry.agents.into_iter().map(|agent| (agent.agent_type.clone(), agent)).collect();
    let is_refused = |agent_type: &AgentType| registry.refused.iter().any(|card| card.name == agent_type.as_str());
    for (agent_type, card) in changed {
        worker.broker.open_queue(agent_type).await?;
        match (&card, known.get(agent_type)) {
            (Some(card), Some(existing)) if card == existing => {}
            (Some(card), Some(existing))
                if !existing.is_bare()
                    && registered.get(agent_type).and_then(Option::as_ref) != Some(existing)
                    && is_conflict(worker, card, existing) =>
            {
                let (gives_way, known) = (gives_way(worker, agent_type), names(existing));
                let outcome = if gives_way { "it stays" } else { "it is replaced" };
                tracing::warn!(
                    agent_type = %agent_type,
                    "two cards of one name: agent type `{agent_type}` is registered with {known}, and worker `{}` serves \
                     one with {}; {outcome}. Give one of them another name.",
                    worker.id, names(card)
                );
                if !gives_way {
                    worker.broker.register(card).await?;
                }
            }
            (Some(card), _) => worker.broker.register(card).await?,
            (None, Some(_)) => {}
            // The author of a refused card can still correct it.
            (None, None) if is_refused(agent_type) => {}
            (None, None) => worker.broker.register(&Agent::named(agent_type.clone())).await?,
        }
        registered.insert(agent_type.clone(), card);
    }
    Ok(())
}

/// Whether a registered card is that of another agent. A card that says the same of what it is for, or has all the actions
/// of the registered one, is a newer one of the same agent.
fn is_conflict(worker: &Worker, card: &Agent, existing: &Agent) -> bool {
    let has_all = existing.actions.iter().all(|action| card.action(&action.name).is_some());
    let is_newer = card.description == existing.description || (has_all && !gives_way(worker, &card.agent_type));
    !is_newer
}

fn gives_way(worker: &Worker, agent_type: &AgentType) -> bool {
    worker.served.get(agent_type).is_some_and(|served| served.settings_card.is_none() && served.executor.gives_way())
}

/// The actions of a card, for people.
fn names(card: &Agent) -> String {
    let names: Vec<String> = card.actions.iter().take(NAMES_MAX).map(|action| format!("`{}`", action.name)).collect();
    if names.is_empty() { "any action".to_owned() } else { format!("the actions {}", names.join(", ")) }
}

/// Most actions of a card that a message lists.
const NAMES_MAX: usize = 8;

impl Worker {
    fn heartbeat(&self) -> WorkerBeat {
        WorkerBeat {
            worker: self.id.clone(),
            agents: self.agent_types.clone(),
            slots: self.settings.slots,
            busy: to_u32(self.held_tasks.len()),
            draining: self.draining.is_cancelled(),
            version: goalmill_common::telemetry::version(),
            host: self.host.clone(),
            started_ms: self.started_ms,
            seen_ms: 0,
            heartbeat_ms: Some(self.settings.heartbeat_ms),
        }
    }
}
