//! Recovers the plans of a shard from their logs.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use goalmill_broker::BrokerError;
use goalmill_common::id::{PlanId, ShardId};
use goalmill_engine::PlanState;
use goalmill_shard::UnreadPlan;

use super::takeover::CarefulTakeover;
use crate::event_log::{self, ReadError};
use crate::scheduler::Scheduler;

/// Logs read concurrently.
const AT_ONCE: usize = 16;

/// The plans of a shard that are not final.
pub(super) struct RecoveredPlans {
    /// Folded from their logs.
    pub(super) states: Vec<PlanState>,
    /// Those that only wait, by the marks in their summaries.
    pub(super) parked: Vec<UnreadPlan>,
}

/// Folds the log of every active plan of a shard, but of those that only wait.
///
/// A plan is quarantined if its log cannot be folded or if the engine panics over it; the shard continues.
///
/// During a careful takeover, plans are recorded before they are read, and suspects are read one by one.
pub(super) async fn plans(
    scheduler: &Scheduler,
    shard: ShardId,
    mut takeover: Option<&mut CarefulTakeover>,
) -> Result<RecoveredPlans, BrokerError> {
    let mut active = scheduler.broker.active(shard).await?;
    active.retain(|plan| !scheduler.is_plan_quarantined(plan));
    let mut states: Vec<PlanState> = Vec::with_capacity(active.len());
    if let Some(takeover) = &mut takeover {
        let (suspects, others) = active.into_iter().partition(|plan| takeover.is_suspect(plan));
        active = others;
        let suspects: Vec<PlanId> = suspects;
        for plan in suspects {
            takeover.record(scheduler, shard, vec![plan.clone()]).await?;
            states.extend(restore(scheduler, plan).await?);
        }
    }
    let parked = take_parked(scheduler, &mut active).await?;
    let portion = if takeover.is_some() { AT_ONCE } else { active.len().max(1) };
    for plans in active.chunks(portion) {
        if let Some(takeover) = &mut takeover {
            takeover.record(scheduler, shard, plans.to_vec()).await?;
        }
        let read = stream::iter(plans.to_vec()).map(|plan| restore(scheduler, plan)).buffered(AT_ONCE);
        let read: Vec<Option<PlanState>> = read.try_collect().await?;
        states.extend(read.into_iter().flatten());
    }
    quarantine_orphans(scheduler, &mut states);
    Ok(RecoveredPlans { states, parked })
}

/// Takes the plans out whose marks hold and that are not due.
async fn take_parked(scheduler: &Scheduler, active: &mut Vec<PlanId>) -> Result<Vec<UnreadPlan>, BrokerError> {
    if scheduler.settings.scheduler.park_ms == 0 {
        return Ok(Vec::new());
    }
    let marks = match scheduler.broker.park_marks(active).await {
        Ok(marks) => marks,
        Err(error @ BrokerError::Unavailable(_)) => return Err(error),
        // A summary of a wrong type, which only its own plan may suffer from.
        Err(error) => {
            tracing::warn!("the marks of parked plans cannot be read, so all logs are: {error}");
            return Ok(Vec::new());
        }
    };
    let now_ms = scheduler.clock.now_ms();
    let (mut parked, mut others) = (Vec::new(), Vec::new());
    for (plan, mark) in std::mem::take(active).into_iter().zip(marks) {
        match mark {
            Some((mark, namespace)) if mark.due_ms > now_ms => parked.push(UnreadPlan { plan, mark, namespace }),
            Some(_) | None => others.push(plan),
        }
    }
    *active = others;
    Ok(parked)
}

/// The plan as its log says; `None` for one that goes into quarantine.
pub(super) async fn restore(scheduler: &Scheduler, plan: PlanId) -> Result<Option<PlanState>, BrokerError> {
    let Ok(read) = AssertUnwindSafe(event_log::read_plan_state(scheduler.plans.as_ref(), &plan)).catch_unwind().await
    else {
        scheduler.quarantine_plan(plan, "the engine panicked over it; please report this bug");
        return Ok(None);
    };
    match read {
        Ok(state) => Ok(state),
        Err(ReadError::Broker(error)) if !matches!(error, BrokerError::Corrupt(_)) => Err(error),
        Err(error) => {
            scheduler.quarantine_plan(plan, &format!("cannot be recovered: {error}"));
            Ok(None)
        }
    }
}

/// Quarantines sub-plans of quarantined plans, which would start them again after they ended.
fn quarantine_orphans(scheduler: &Scheduler, states: &mut Vec<PlanState>) {
    let is_orphan = |state: &PlanState| {
        let parent = state.parent();
        parent.is_some_and(|parent| scheduler.is_plan_quarantined(&parent.plan))
    };
    while let Some(orphan) = states.iter().position(is_orphan) {
        let plan = states.swap_remove(orphan).id().clone();
        scheduler.quarantine_plan(plan, "its parent plan is quarantined");
    }
}
