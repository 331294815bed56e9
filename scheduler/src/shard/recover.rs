//! Rebuilds a shard's state from its logs.

use futures_util::stream::{self, StreamExt, TryStreamExt};
use goalmill_broker::{Broker, BrokerError};
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
    let broker = site.broker.as_ref();
    let mut active = broker.active(shard).await?;
    active.retain(|plan| !site.is_set_aside(plan));
    let states: Vec<Option<PlanState>> =
        stream::iter(active).map(|plan| restore(broker, plan)).buffered(AT_ONCE).try_collect().await?;
    Ok(states.into_iter().flatten().collect())
}

async fn restore(broker: &dyn Broker, plan: PlanId) -> Result<Option<PlanState>, BrokerError> {
    match journal::read(broker, &plan).await {
        Ok(state) => Ok(state),
        Err(ReadError::Broker(error)) => Err(error),
        Err(error) => {
            tracing::error!(plan.id = %plan, "plan {plan} cannot be recovered: {error}");
            metrics::counter!("goalmill_plans_unreadable_total").increment(1);
            Ok(None)
        }
    }
}
