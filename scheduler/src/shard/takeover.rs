//! Careful takeover: after the previous owner died, one plan or input at a time is handled, recorded beforehand.

use std::collections::VecDeque;

use goalmill_broker::{BrokerError, InboxCursor, InboxEntry};
use goalmill_common::id::{PlanId, ShardId};
use goalmill_shard::{InboxPlace, Slot};

use super::inbox_reader::place_of;
use super::suspect_trial::{self, Case, Trial, TrialVerdict};
use crate::quarantine::{DEATHS_MAX, InHand, QuarantineRecord};
use crate::scheduler::Scheduler;

/// Inbox entries after the cursor that the dead owner may have handled, in read batches.
const BATCHES: usize = 4;

/// The rest of a careful takeover.
pub(crate) struct CarefulTakeover {
    quarantine: QuarantineRecord,
    /// The record of the dead owner.
    before: Option<InHand>,
    /// Recovered plans that have not started.
    pub(super) waiting: VecDeque<(Slot, PlanId)>,
    /// The last entry of each stream of the inbox that the dead owner may have handled.
    until: Vec<InboxPlace>,
}

impl CarefulTakeover {
    /// Prepares the takeover of a shard whose owner died; tries the plan that it had recorded.
    pub(super) async fn prepare(
        scheduler: &Scheduler,
        trial: Option<&Trial>,
        shard: ShardId,
        mut quarantine: QuarantineRecord,
        cursor: &InboxCursor,
    ) -> Result<Self, BrokerError> {
        let before = quarantine.in_hand.clone();
        if let Some((plan, deaths)) = quarantine.suspect().map(|(plan, deaths)| (plan.clone(), deaths)) {
            tracing::warn!(%shard, plan_id = %plan, "the owner of shard {shard} died while handling plan {plan}");
            if let Some(reason) = try_suspect(scheduler, trial, shard, &plan, deaths, cursor).await? {
                quarantine.quarantine(plan, reason, scheduler.clock.now_ms());
                quarantine.store(scheduler.broker.as_ref(), shard).await?;
            }
        }
        let count = BATCHES * scheduler.settings.scheduler.inbox_batch;
        let suspects = scheduler.broker.reader().await?.inbox(shard, cursor, count, 0).await?;
        let until = last_of_each_stream(suspects);
        Ok(Self { quarantine, before, waiting: VecDeque::new(), until })
    }

    /// The quarantine record of the shard.
    pub(super) fn quarantine_record(&mut self) -> &mut QuarantineRecord {
        &mut self.quarantine
    }

    /// Whether the dead owner had recorded the plan, so that it must be read alone.
    pub(super) fn is_suspect(&self, plan: &PlanId) -> bool {
        self.before.as_ref().is_some_and(|before| before.plans.contains(plan))
    }

    /// Records the plans that are handled next.
    pub(super) async fn record(
        &mut self,
        scheduler: &Scheduler,
        shard: ShardId,
        plans: Vec<PlanId>,
    ) -> Result<(), BrokerError> {
        if plans.is_empty() {
            return Ok(());
        }
        let deaths = 1 + self.before.as_ref().filter(|before| before.plans == plans).map_or(0, |before| before.deaths);
        self.quarantine.in_hand = Some(InHand { plans, deaths });
        self.quarantine.store(scheduler.broker.as_ref(), shard).await
    }

    /// Marks an inbox entry as handled.
    pub(super) fn mark_handled(&mut self, place: &InboxPlace) {
        self.until.retain(|until| until != place);
    }

    /// Whether everything that the dead owner may have handled is done.
    pub(super) fn is_over(&self) -> bool {
        self.waiting.is_empty() && self.until.is_empty()
    }

    /// Clears the record.
    pub(super) async fn end(mut self, scheduler: &Scheduler, shard: ShardId) -> Result<(), BrokerError> {
        match self.quarantine.in_hand.take() {
            Some(_) => self.quarantine.store(scheduler.broker.as_ref(), shard).await,
            None => Ok(()),
        }
    }
}

fn last_of_each_stream(entries: Vec<InboxEntry>) -> Vec<InboxPlace> {
    let mut last: Vec<InboxPlace> = Vec::new();
    for place in entries.into_iter().map(place_of) {
        last.retain(|earlier| earlier.stream != place.stream);
        last.push(place);
    }
    last
}

/// Why the plan must be quarantined; `None` if it must not.
async fn try_suspect(
    scheduler: &Scheduler,
    trial: Option<&Trial>,
    shard: ShardId,
    plan: &PlanId,
    deaths: u32,
    cursor: &InboxCursor,
) -> Result<Option<String>, BrokerError> {
    if deaths >= DEATHS_MAX {
        return Ok(Some(format!("{deaths} schedulers in a row died while handling it")));
    }
    let Some(trial) = trial else { return Ok(None) };
    let (log, entries) = suspect_trial::collect_evidence(scheduler, shard, plan, cursor).await?;
    let settings = &scheduler.settings;
    let case = Case {
        shard,
        limits: settings.limits.clone(),
        policy: settings.planner.policy.clone(),
        task_lease_ms: settings.scheduler.task_lease_ms,
        reply: scheduler.broker.keys().reports(shard),
        token_key: scheduler.token_secret.key(),
        record: settings.record.clone(),
        log,
        entries,
    };
    Ok(match trial.run(&case).await {
        TrialVerdict::Innocent => {
            tracing::info!(plan_id = %plan, "plan {plan} passed its trial");
            None
        }
        TrialVerdict::Guilty(how) => Some(format!("a scheduler died over it, and {how}")),
        TrialVerdict::Unknown(why) => {
            tracing::warn!(plan_id = %plan, "plan {plan} could not be tried: {why}");
            None
        }
    })
}
