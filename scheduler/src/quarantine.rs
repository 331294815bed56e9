//! Keeps what belongs to a key of a wrong type apart from all else.

use goalmill_broker::{BrokerError, Commit, Misfit};
use goalmill_common::id::{AgentType, PlanId};
use goalmill_common::keys;

use crate::site::Site;

/// Puts the queues and plans in quarantine whose keys made a commit fail; the shard is read again without them.
pub(crate) fn isolate(site: &Site, commit: &Commit, error: &BrokerError) {
    let BrokerError::WrongType(misfits) = error else { return };
    for misfit in misfits {
        let sent = commit.tasks.iter().map(|task| &task.agent_type);
        let acknowledged = commit.acknowledged.iter().map(|(agent_type, _)| agent_type);
        if let Some(agent_type) = sent.chain(acknowledged).find(|agent_type| keys::steps(agent_type) == misfit.key) {
            site.directory.quarantine(agent_type, misfit);
        } else if let Some(write) = commit.plans.iter().find(|write| is_of(&write.plan, misfit)) {
            isolate_plan(site, write.plan.clone(), misfit);
        }
    }
}

/// Puts a queue in quarantine that cannot be opened; whether it was that.
pub(crate) fn isolate_queue(site: &Site, agent_type: &AgentType, error: &BrokerError) -> bool {
    let BrokerError::WrongType(misfits) = error else { return false };
    let Some(misfit) = misfits.first() else { return false };
    site.directory.quarantine(agent_type, misfit);
    true
}

/// Puts those of the plans in quarantine whose summaries are of a wrong type.
pub(crate) async fn isolate_unreadable(site: &Site, plans: &[PlanId], error: &BrokerError) {
    if !matches!(error, BrokerError::Corrupt(_)) {
        return;
    }
    for plan in plans {
        if let Err(BrokerError::Corrupt(why)) = site.broker.statuses(std::slice::from_ref(plan)).await {
            site.set_aside(plan.clone(), &format!("cannot be read: `{}`: {why}", keys::plan(plan)));
        }
    }
}

fn isolate_plan(site: &Site, plan: PlanId, misfit: &Misfit) {
    site.set_aside(plan, &format!("cannot be written: {}", misfit.text()));
}

fn is_of(plan: &PlanId, misfit: &Misfit) -> bool {
    misfit.key == keys::plan(plan) || misfit.key == keys::events(plan)
}

/// Drops what a commit would acknowledge on queues in quarantine, whose entries are gone.
pub(crate) fn spare(site: &Site, commit: &mut Commit) {
    let quarantined = site.directory.quarantined();
    if !quarantined.is_empty() {
        commit.acknowledged.retain(|(agent_type, _)| !quarantined.contains_key(agent_type));
    }
}

/// Tries the queues in quarantine again, and lets those go whose key is in order.
pub(crate) async fn retry(site: &Site) -> Result<(), BrokerError> {
    for agent_type in site.directory.quarantined().into_keys() {
        match site.broker.open_queue(&agent_type).await {
            Ok(()) => site.directory.end_quarantine(&agent_type),
            Err(BrokerError::WrongType(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
