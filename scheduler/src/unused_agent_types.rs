//! Removes unused agent types, which cost every scheduler time and memory.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use goalmill_broker::{BrokerError, QueueState};
use goalmill_common::id::AgentType;
use goalmill_common::number::milliseconds;
use tokio::time::Instant;

use crate::scheduler::Scheduler;

/// Age at which an unused agent type is removed.
const UNUSED: Duration = Duration::from_hours(1);
/// Interval at which an owner reopens the queues that it uses: well below [`UNUSED`].
pub(crate) const REOPEN: Duration = Duration::from_mins(15);
/// Interval between checks.
const CHECK_INTERVAL: Duration = Duration::from_mins(1);
/// Agent types removed per check.
const REMOVED_MAX: usize = 1_000;

/// Unused agent types, and since when.
#[derive(Default)]
pub(crate) struct Unused {
    since: BTreeMap<AgentType, Instant>,
    checked: Option<Instant>,
}

impl Unused {
    /// Removes agent types that have been unused for [`UNUSED`]; checks once a minute.
    pub(crate) async fn remove(&mut self, scheduler: &Scheduler, queues: &[QueueState]) -> Result<(), BrokerError> {
        if self.checked.is_some_and(|at| at.elapsed() < CHECK_INTERVAL) {
            return Ok(());
        }
        self.checked = Some(Instant::now());
        let unused_ms = milliseconds(UNUSED);
        let mut removed = 0;
        for agent_type in self.update(unused(scheduler, queues).await?) {
            removed += usize::from(scheduler.broker.remove_agent_type(&agent_type, unused_ms).await?);
        }
        if removed > 0 {
            tracing::info!("{removed} agent types removed after {} minutes without use", UNUSED.as_secs() / 60);
            scheduler.directory.refresh().await?;
        }
        Ok(())
    }

    /// Updates the unused agent types; returns those to remove.
    fn update(&mut self, unused: BTreeSet<AgentType>) -> Vec<AgentType> {
        self.since.retain(|agent_type, _| unused.contains(agent_type));
        for agent_type in unused {
            self.since.entry(agent_type).or_insert_with(Instant::now);
        }
        let old = self.since.iter().filter(|(_, since)| since.elapsed() >= UNUSED);
        old.map(|(agent_type, _)| agent_type.clone()).take(REMOVED_MAX).collect()
    }
}

/// Agent types without tasks, dead letters, workers and card that are not paused.
async fn unused(scheduler: &Scheduler, queues: &[QueueState]) -> Result<BTreeSet<AgentType>, BrokerError> {
    let (agents, workers) = (scheduler.directory.agents(), scheduler.directory.workers());
    let described = agents.iter().filter(|agent| !agent.is_bare());
    let mut used: BTreeSet<&AgentType> = described.map(|agent| &agent.agent_type).collect();
    used.extend(workers.iter().flat_map(|worker| &worker.agents));
    let paused = scheduler.broker.paused_queues().await?;
    let is_empty = |queue: &&QueueState| {
        queue.waiting == 0 && queue.pending == 0 && queue.dead_letters == 0 && queue.wrong_type.is_none()
    };
    let empty = queues.iter().filter(is_empty).map(|queue| &queue.agent_type);
    Ok(empty.filter(|agent_type| !used.contains(agent_type) && !paused.contains(*agent_type)).cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_what_is_unused_all_the_time_is_removed() {
        let mut unused = Unused::default();
        let both: BTreeSet<AgentType> = ["a".into(), "b".into()].into();
        assert!(unused.update(both.clone()).is_empty());
        tokio::time::advance(UNUSED / 2).await;
        assert!(unused.update(["a".into()].into()).is_empty(), "`b` is used");
        tokio::time::advance(UNUSED / 2).await;
        assert_eq!(unused.update(both), [AgentType::from("a")]);
    }
}
