//! Removes agent types that nothing uses any more: each costs every scheduler time and memory.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use goalmill_broker::{BrokerError, QueueState};
use goalmill_common::id::AgentType;
use tokio::time::Instant;

use crate::scheduler::Scheduler;

/// An agent type is removed that was unused for so long.
const UNUSED: Duration = Duration::from_hours(1);
/// An owner that uses a queue makes sure that it exists at least this often: well within [`UNUSED`].
pub(crate) const REOPEN: Duration = Duration::from_mins(15);
/// How often it is looked.
const LOOK: Duration = Duration::from_mins(1);
/// Agent types removed at once.
const REMOVED_MAX: usize = 1_000;

/// Agent types without use, and since when.
#[derive(Default)]
pub(crate) struct Unused {
    since: BTreeMap<AgentType, Instant>,
    looked: Option<Instant>,
}

impl Unused {
    /// Removes those that have been unused for long enough; looks once a minute.
    pub(crate) async fn remove(&mut self, scheduler: &Scheduler, queues: &[QueueState]) -> Result<(), BrokerError> {
        if self.looked.is_some_and(|at| at.elapsed() < LOOK) {
            return Ok(());
        }
        self.looked = Some(Instant::now());
        let unused_ms = u64::try_from(UNUSED.as_millis()).unwrap_or(u64::MAX);
        let mut removed = 0;
        for agent_type in self.note(unused(scheduler, queues).await?) {
            removed += usize::from(scheduler.broker.forget_agent_type(&agent_type, unused_ms).await?);
        }
        if removed > 0 {
            tracing::info!(
                "{removed} agent types were removed: nothing used them for {} minutes",
                UNUSED.as_secs() / 60
            );
            scheduler.directory.refresh().await?;
        }
        Ok(())
    }

    /// Notes what is unused now; gives those that have been for long enough, some at a time.
    fn note(&mut self, unused: BTreeSet<AgentType>) -> Vec<AgentType> {
        self.since.retain(|agent_type, _| unused.contains(agent_type));
        for agent_type in unused {
            self.since.entry(agent_type).or_insert_with(Instant::now);
        }
        let old = self.since.iter().filter(|(_, since)| since.elapsed() >= UNUSED);
        old.map(|(agent_type, _)| agent_type.clone()).take(REMOVED_MAX).collect()
    }
}

/// Agent types without tasks, dead letters and workers, of which only the name is known and that no person has paused.
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
        assert!(unused.note(both.clone()).is_empty());
        tokio::time::advance(UNUSED / 2).await;
        assert!(unused.note(["a".into()].into()).is_empty(), "`b` is used");
        tokio::time::advance(UNUSED / 2).await;
        assert_eq!(unused.note(both), [AgentType::from("a")]);
    }
}
