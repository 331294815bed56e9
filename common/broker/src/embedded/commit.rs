//! The one write that happens whole or not at all.

use std::collections::BTreeSet;

use super::deadlines::Expiring;
use super::memory_store::MemoryStore;
use super::signals::Topic;
use super::stream::Id;
use crate::{Activity, Commit, Committed, LogEntry, PlanWrite};

impl MemoryStore {
    /// Checks everything before the first write.
    pub(super) fn commit(&mut self, commit: &Commit, now: u64) -> Committed {
        if let Err(refused) = self.check_commit(commit) {
            return refused;
        }
        for write in &commit.plans {
            self.write_plan(commit, write, now);
        }
        for task in &commit.tasks {
            self.queues.entry(task.agent_type.clone()).or_default().tasks.append(now, task.data.clone());
            self.signals.ring(&Topic::Tasks(task.agent_type.clone()));
        }
        for (agent_type, entry) in &commit.acknowledged {
            if let Some(queue) = self.queues.get_mut(agent_type) {
                queue.group.acknowledge(Id::parse(entry));
            }
        }
        let shard = self.shards.entry(commit.shard).or_default();
        shard.move_cursors(commit);
        shard.number = commit.number;
        if let Some(owner) = &mut shard.owner {
            owner.beat += 1;
        }
        Committed::Applied
    }

    fn check_commit(&self, commit: &Commit) -> Result<(), Committed> {
        let Some(shard) = self.shards.get(&commit.shard) else { return Err(Committed::Fenced) };
        if shard.owner.as_ref().is_none_or(|owner| owner.token != commit.token) {
            return Err(Committed::Fenced);
        }
        if commit.number == shard.number && commit.number > 0 {
            return Err(Committed::Duplicate);
        }
        if commit.number != shard.number + 1 {
            return Err(Committed::Gap(format!("commit {} follows {}", commit.number, shard.number)));
        }
        let mut seen = BTreeSet::new();
        for write in &commit.plans {
            let last_seq = self.plans.get(&write.plan).map_or(0, super::memory_store::StoredPlan::last_seq);
            if write.base_seq != last_seq {
                return Err(Committed::Gap(format!("`{}` is at {last_seq}, not at {}", write.plan, write.base_seq)));
            }
            if !write.goes_on() || !seen.insert(&write.plan) {
                return Err(Committed::Gap(format!("`{}` cannot go to {}", write.plan, write.last_seq)));
            }
        }
        Ok(())
    }

    fn write_plan(&mut self, commit: &Commit, write: &PlanWrite, now: u64) {
        let plan = self.plans.entry(write.plan.clone()).or_default();
        if !write.events.is_empty() {
            plan.log.push(LogEntry {
                last_seq: write.last_seq,
                time: write.time.clone(),
                events: String::from_utf8_lossy(&write.events).into_owned(),
            });
        }
        for (field, value) in &write.summary {
            plan.summary.insert((*field).into(), value.clone());
        }
        plan.summary.insert("seq".into(), write.last_seq.to_string());
        let shard = self.shards.entry(commit.shard).or_default();
        if write.index_ms > 0 {
            shard.index.set(&write.plan, write.index_ms);
        }
        match write.activity {
            Activity::Begins => {
                shard.active.insert(write.plan.clone());
                self.deadlines.clear(&Expiring::Plan(write.plan.clone()));
            }
            Activity::Continues => {}
            Activity::Ends { retention_ms } => {
                shard.active.remove(&write.plan);
                self.deadlines.set(Expiring::Plan(write.plan.clone()), now.saturating_add(retention_ms));
            }
        }
        self.signals.ring(&Topic::Log(write.plan.clone()));
    }
}
