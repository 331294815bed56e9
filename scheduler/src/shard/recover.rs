//! Rebuilds a shard's state from its logs.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use goalmill_broker::BrokerError;
use goalmill_common::id::{PlanId, ShardId};
use goalmill_engine::PlanState;

use super::caution::Caution;
use crate::journal::{self, ReadError};
use crate::site::Site;

/// Logs read at once.
const AT_ONCE: usize = 16;

/// Folds the log of every active plan of a shard.
///
/// A log that cannot be folded is reported and left alone, and so is a plan over which the engine panicked: one
/// broken plan must not stop a shard.
///
/// With caution, what is read next is noted beforehand, and the suspects of the note before are read one by one.
pub(super) async fn plans(
    site: &Site,
    shard: ShardId,
    mut caution: Option<&mut Caution>,
) -> Result<Vec<PlanState>, BrokerError> {
    let mut active = site.broker.active(shard).await?;
    active.retain(|plan| !site.is_set_aside(plan));
    let mut states: Vec<PlanState> = Vec::with_capacity(active.len());
    if let Some(caution) = &mut caution {
        let (suspects, others) = active.into_iter().partition(|plan| caution.is_suspect(plan));
        active = others;
        let suspects: Vec<PlanId> = suspects;
        for plan in suspects {
            caution.note(site, shard, vec![plan.clone()]).await?;
            states.extend(restore(site, plan).await?);
        }
    }
    let portion = if caution.is_some() { AT_ONCE } else { active.len().max(1) };
    for plans in active.chunks(portion) {
        if let Some(caution) = &mut caution {
            caution.note(site, shard, plans.to_vec()).await?;
        }
        let read = stream::iter(plans.to_vec()).map(|plan| restore(site, plan)).buffered(AT_ONCE);
        let read: Vec<Option<PlanState>> = read.try_collect().await?;
        states.extend(read.into_iter().flatten());
    }
    leave_orphans_alone(site, &mut states);
    Ok(states)
}

async fn restore(site: &Site, plan: PlanId) -> Result<Option<PlanState>, BrokerError> {
    let Ok(read) = AssertUnwindSafe(journal::read(site.broker.as_ref(), &plan)).catch_unwind().await else {
        site.set_aside(plan, "made the engine panic: please report this bug");
        return Ok(None);
    };
    match read {
        Ok(state) => Ok(state),
        Err(ReadError::Broker(error)) if !matches!(error, BrokerError::Corrupt(_)) => Err(error),
        Err(error) => {
            site.set_aside(plan, &format!("cannot be recovered: {error}"));
            Ok(None)
        }
    }
}

/// A sub-plan that ended without its parent would be begun again when that is back.
fn leave_orphans_alone(site: &Site, states: &mut Vec<PlanState>) {
    let is_orphan = |state: &PlanState| {
        let parent = state.accepted().and_then(|accepted| accepted.parent.as_ref());
        parent.is_some_and(|parent| site.is_set_aside(&parent.plan))
    };
    while let Some(orphan) = states.iter().position(is_orphan) {
        if let Some(plan) = states.swap_remove(orphan).id().cloned() {
            site.set_aside(plan, "belongs to a plan that is left alone");
        }
    }
}
