//! Restores execution statistics from the logs of plans.

use std::collections::BTreeMap;
use std::sync::Arc;

use goalmill_broker::BrokerError;
use goalmill_common::id::{PlanId, ShardId};
use goalmill_engine::{PlanState, replay};
use tokio_util::sync::CancellationToken;

use super::{EventSource, ExecutionStats, add_notes};
use crate::event_log::{self, Pages};
use crate::plan_reader::PlanReader;

/// Events replayed at the start, of all plans together.
const REPLAYED_EVENTS_MAX: u64 = 500_000;

/// Restores statistics from the logs of plans.
#[derive(Clone)]
pub(crate) struct StatsReplay {
    pub(crate) stats: Arc<ExecutionStats>,
    pub(crate) plans: Arc<dyn PlanReader>,
    pub(crate) stop: CancellationToken,
}

impl StatsReplay {
    /// Replays the plans that changed last, oldest first.
    ///
    /// - `shards`: shards of the installation.
    /// - `plans_max`: how many plans; 0 for none.
    pub(crate) async fn recent(self, shards: u16, plans_max: usize) {
        match self.stop.run_until_cancelled(self.replay_recent(shards, plans_max)).await {
            Some(Ok(plans)) => tracing::debug!("execution statistics restored from {plans} plans"),
            Some(Err(error)) => tracing::warn!("execution statistics of earlier plans are not known: {error}"),
            None => {}
        }
    }

    async fn replay_recent(&self, shards: u16, plans_max: usize) -> Result<usize, BrokerError> {
        let mut last: Vec<(u64, PlanId)> = Vec::new();
        for shard in (0..shards).map(ShardId) {
            if plans_max > 0 {
                let plans = self.plans.list(shard, u64::MAX, plans_max).await?;
                last.extend(plans.into_iter().map(|(plan, changed_ms)| (changed_ms, plan)));
            }
        }
        last.sort_unstable();
        let last = last.split_off(last.len().saturating_sub(plans_max));
        let mut events = 0;
        for (_, plan) in &last {
            if events >= REPLAYED_EVENTS_MAX {
                break;
            }
            events += self.replay_plan(plan, EventSource::Log).await?;
        }
        Ok(last.len())
    }

    /// Restores the notes of running plans that another scheduler ran before.
    pub(crate) async fn running(self, plans: Vec<PlanId>) {
        for plan in &plans {
            if let Some(Err(error)) =
                self.stop.run_until_cancelled(self.replay_plan(plan, EventSource::NotesOnly)).await
            {
                tracing::debug!(plan_id = %plan, "execution statistics of plan {plan} are incomplete: {error}");
                return;
            }
        }
    }

    /// Replays one plan, entry by entry as it was written; returns the number of its events.
    async fn replay_plan(&self, plan: &PlanId, source: EventSource) -> Result<u64, BrokerError> {
        let stats = &self.stats;
        let mut state = None;
        let seq = |state: &Option<PlanState>| state.as_ref().map_or(0, PlanState::seq);
        let mut notes = BTreeMap::new();
        let mut pages = Pages::new(self.plans.as_ref(), plan);
        while let Some(entries) = pages.next().await? {
            for entry in &entries {
                let Ok(records) = event_log::parse_records(entry) else { return Ok(seq(&state)) };
                if records.iter().any(|record| replay(&mut state, record).is_err()) {
                    return Ok(seq(&state));
                }
                let mut samples = Vec::new();
                let Some(state) = &state else { continue };
                stats.record_from(&mut notes, state, &records, source, |sample| samples.push(sample));
                for sample in samples {
                    if stats.samples.send(sample).await.is_err() {
                        return Ok(state.seq());
                    }
                }
            }
            tokio::task::yield_now().await;
        }
        // Events committed since then are missing in the notes; that loses one sample at most.
        if let Some(note) = notes.remove(plan) {
            add_notes(&mut stats.notes(), plan, note);
        }
        Ok(seq(&state))
    }
}
