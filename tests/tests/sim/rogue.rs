//! A foreign worker: it pulls tasks, reports their start, extends its leases, and never reports an outcome.

use std::sync::Arc;
use std::time::Duration;

use goalmill_broker::Broker;
use goalmill_common::id::{AgentType, EntryId, WorkerId};
use goalmill_common::report::{Report, What};
use goalmill_common::wire::{Inbox, read_task};

use crate::environment::Environment;
use crate::executors::AGENTS;

/// Tasks that it holds at most.
const TASKS_MAX: usize = 3;

/// Runs until `end_ms`; its tasks are then lost.
pub async fn run(env: Arc<Environment>, begin_ms: u64, end_ms: u64) {
    tokio::time::sleep(Duration::from_millis(begin_ms)).await;
    let worker = WorkerId::from("rogue");
    let agent_types: Vec<AgentType> = AGENTS.iter().map(|name| AgentType::from(*name)).collect();
    let mut reader = env.broker.reader().await.expect("nothing fails here");
    let mut held: Vec<(AgentType, EntryId)> = Vec::new();
    while env.at_ms() < end_ms {
        if held.len() < TASKS_MAX {
            let pulled = reader.pull(&worker, &agent_types, 1, 0).await.expect("nothing fails here");
            env.delivered(&pulled);
            for delivery in pulled {
                let Ok(task) = read_task(&delivery.data) else { continue };
                let (queue, entry) = (delivery.agent_type.clone(), delivery.entry.clone());
                let head = Report::on(&task, queue, entry, worker.clone(), What::Started);
                let report = Report { started_ms: Some(env.clock.now_ms()), ..head };
                held.push((delivery.agent_type, delivery.entry));
                let Some(shard) = task.plan.shard() else { continue };
                env.send(shard, &Inbox::Reports(vec![report]).fields()).await.expect("nothing fails here");
            }
        }
        env.broker.extend(&worker, &held).await.expect("nothing fails here");
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}
