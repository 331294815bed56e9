//! Rebuilds a shard's state from its logs.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use goalmill_broker::BrokerError;
use goalmill_common::id::{PlanId, ShardId};
use goalmill_engine::PlanState;

use crate::journal::{self, ReadError};
use crate::site::Site;

/// Logs read at once.
const AT_ONCE: usize = 16;

/// Folds the log of every active plan of a shard.
///
/// A log that cannot be folded is reported and left alone, and so is a plan over which the engine panicked: one
/// broken plan must not stop a shard.
pub(crate) async fn plans(site: &Site, shard: ShardId) -> Result<Vec<PlanState>, BrokerError> {
    let mut active = site.broker.active(shard).await?;
    active.retain(|plan| !site.is_set_aside(plan));
    let states: Vec<Option<PlanState>> =
        stream::iter(active).map(|plan| restore(site, plan)).buffered(AT_ONCE).try_collect().await?;
    let mut states: Vec<PlanState> = states.into_iter().flatten().collect();
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
        Err(ReadError::Broker(error)) => Err(error),
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
