//! Quarantine: isolates plans and queues that would stop a whole shard.
//!
//! A plan is quarantined when schedulers die or panic over it ([`QuarantineRecord`]) or when one of its keys has the
//! wrong type; a queue when its key is no stream.

mod record;

use goalmill_broker::{BrokerError, Commit, KeyTypeMismatch};
use goalmill_common::id::{AgentType, PlanId};
use goalmill_common::keys::Keys;

use crate::scheduler::Scheduler;

pub(crate) use record::{DEATHS_MAX, InHand, QuarantineRecord, record_in_logs};

/// Quarantines the queues and plans whose keys made a commit fail; the shard then recovers without them.
pub(crate) fn isolate_failed_commit(scheduler: &Scheduler, commit: &Commit, error: &BrokerError) {
    let BrokerError::WrongType(type_mismatches) = error else { return };
    let keys = scheduler.broker.keys();
    for mismatch in type_mismatches {
        let sent = commit.tasks.iter().map(|task| &task.agent_type);
        let acknowledged = commit.acknowledged.iter().map(|(agent_type, _)| agent_type);
        if let Some(agent_type) = sent.chain(acknowledged).find(|agent_type| keys.steps(agent_type) == mismatch.key) {
            scheduler.directory.quarantine(agent_type, mismatch);
        } else if let Some(write) = commit.plans.iter().find(|write| is_of(keys, &write.plan, mismatch)) {
            isolate_plan(scheduler, write.plan.clone(), mismatch);
        }
    }
}

/// Quarantines a queue that cannot be opened because of its key; returns whether that was the reason.
pub(crate) fn isolate_queue(scheduler: &Scheduler, agent_type: &AgentType, error: &BrokerError) -> bool {
    let BrokerError::WrongType(type_mismatches) = error else { return false };
    let Some(mismatch) = type_mismatches.first() else { return false };
    scheduler.directory.quarantine(agent_type, mismatch);
    true
}

/// Quarantines those of the plans whose summaries have a wrong type.
pub(crate) async fn isolate_unreadable(scheduler: &Scheduler, plans: &[PlanId], error: &BrokerError) {
    if !matches!(error, BrokerError::Corrupt(_)) {
        return;
    }
    for plan in plans {
        if let Err(BrokerError::Corrupt(why)) = scheduler.broker.statuses(std::slice::from_ref(plan)).await {
            scheduler.quarantine_plan(
                plan.clone(),
                &format!("cannot be read: `{}`: {why}", scheduler.broker.keys().plan(plan)),
            );
        }
    }
}

fn isolate_plan(scheduler: &Scheduler, plan: PlanId, mismatch: &KeyTypeMismatch) {
    scheduler.quarantine_plan(plan, &format!("cannot be written: {}", mismatch.text()));
}

fn is_of(keys: &Keys, plan: &PlanId, mismatch: &KeyTypeMismatch) -> bool {
    mismatch.key == keys.plan(plan) || mismatch.key == keys.events(plan)
}

/// Removes acknowledgements on quarantined queues from a commit; their entries are gone.
pub(crate) fn drop_quarantined_acks(scheduler: &Scheduler, commit: &mut Commit) {
    let quarantined = scheduler.directory.quarantined();
    if !quarantined.is_empty() {
        commit.acknowledged.retain(|(agent_type, _)| !quarantined.contains_key(agent_type));
    }
}

/// Retries quarantined queues and releases those whose key is a stream again.
pub(crate) async fn retry_queues(scheduler: &Scheduler) -> Result<(), BrokerError> {
    for agent_type in scheduler.directory.quarantined().into_keys() {
        match scheduler.broker.open_queue(&agent_type).await {
            Ok(()) => scheduler.directory.end_quarantine(&agent_type),
            Err(BrokerError::WrongType(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
