//! Shows life, and registers what the worker serves at the start and whenever Redis comes back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use goalmill_broker::BrokerError;
use goalmill_common::agent::{Agent, WorkerBeat};
use goalmill_common::id::AgentType;
use goalmill_common::wire::PROTOCOL;

use crate::drain;
use crate::worker::Worker;

/// Beats until the worker stops.
pub(crate) async fn beat(worker: Arc<Worker>) {
    let mut instance = None;
    let mut greeted = false;
    let mut registered = false;
    let mut failures = 0;
    let mut said_so = false;
    loop {
        registered &= worker.link.state().is_ok();
        let pause = match turn(&worker, &mut instance, &mut greeted, registered).await {
            Ok(()) => {
                (registered, failures) = (true, 0);
                worker.link.up();
                Duration::from_millis(worker.settings.heartbeat_ms.max(1))
            }
            Err(e) => {
                (registered, failures) = (false, failures + 1);
                worker.link.lost(&e.to_string());
                worker.backoff(failures)
            }
        };
        worker.set_gauges();
        tokio::select! {
            biased;
            () = worker.stop.cancelled() => return,
            () = worker.draining.cancelled(), if !said_so => said_so = true,
            () = worker.link.wait_lost(), if failures == 0 => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

async fn turn(
    worker: &Arc<Worker>,
    instance: &mut Option<String>,
    greeted: &mut bool,
    registered: bool,
) -> Result<(), BrokerError> {
    recognise(worker, instance).await?;
    if !*greeted {
        // What was asked of a former process of this name was not meant for this one.
        worker.broker.forget_worker(&worker.id).await?;
        *greeted = true;
    }
    if !registered {
        register(worker).await?;
    }
    worker.broker.beat_worker(&worker.life()).await?;
    if !worker.draining.is_cancelled() && worker.broker.drain_requested(&worker.id).await? {
        tracing::info!("worker `{}` was asked to drain", worker.id);
        drain::begin(worker);
    }
    Ok(())
}

/// Refuses another installation than the first one seen, and another protocol.
async fn recognise(worker: &Worker, known: &mut Option<String>) -> Result<(), BrokerError> {
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
            Ok(())
        }
        (None, None) => Ok(()),
    }
}

/// Opens the queues and registers the agent types. A bare name never replaces what somebody registered in full.
async fn register(worker: &Worker) -> Result<(), BrokerError> {
    let registry = worker.broker.agents().await?;
    let known: BTreeMap<_, _> = registry.agents.into_iter().map(|agent| (agent.agent_type.clone(), agent)).collect();
    let is_refused = |agent_type: &AgentType| registry.refused.iter().any(|card| card.name == agent_type.as_str());
    for (agent_type, served) in &worker.served {
        worker.broker.open_queue(agent_type).await?;
        match (&served.card, known.get(agent_type)) {
            (Some(card), Some(there)) if card == there => {}
            (Some(card), _) => worker.broker.register(card).await?,
            (None, Some(_)) => {}
            // Who wrote it can still correct it.
            (None, None) if is_refused(agent_type) => {}
            (None, None) => worker.broker.register(&Agent::named(agent_type.clone())).await?,
        }
    }
    Ok(())
}

impl Worker {
    fn life(&self) -> WorkerBeat {
        WorkerBeat {
            worker: self.id.clone(),
            agents: self.agent_types.clone(),
            slots: self.settings.slots,
            busy: u32::try_from(self.table.len()).unwrap_or(u32::MAX),
            draining: self.draining.is_cancelled(),
            version: env!("CARGO_PKG_VERSION").into(),
            host: self.host.clone(),
            started_ms: self.started_ms,
            seen_ms: 0,
            heartbeat_ms: Some(self.settings.heartbeat_ms),
        }
    }
}
