//! Tells readiness probes whether this scheduler owns its share of the shards.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use goalmill_common::id::ShardId;
use tokio::time::Instant;

use super::OwnedShards;

/// The share of shards after the last membership round.
#[derive(Debug, Default)]
pub(crate) struct OwnershipStatus(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The shards of this share; `None` before the first round.
    ours: Option<BTreeSet<ShardId>>,
    /// Those that still have a live owner elsewhere.
    elsewhere: BTreeSet<ShardId>,
    lost: BTreeMap<ShardId, Loss>,
    /// What schedulers of another build mean for this one; empty without such.
    builds: String,
    /// What the store has lost; empty if nothing.
    lost_writes: String,
}

/// Why and when a loop was last lost, and when it was lost before.
#[derive(Debug)]
struct Loss {
    why: String,
    at: Instant,
    before: Option<Instant>,
}

impl OwnershipStatus {
    /// Stores the share, and which of its shards have a live owner elsewhere.
    pub(super) fn set(&self, ours: BTreeSet<ShardId>, elsewhere: BTreeSet<ShardId>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (state.ours, state.elsewhere) = (Some(ours), elsewhere);
    }

    /// Records a lost shard.
    pub(super) fn lose(&self, shard: ShardId, why: String) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = state.lost.get(&shard).map(|loss| loss.at);
        state.lost.insert(shard, Loss { why, at: Instant::now(), before });
    }

    /// Stores what schedulers of another build mean for this one; the log says it when that has changed.
    pub(super) fn set_builds(&self, text: String) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.builds == text {
            return;
        }
        if text.is_empty() {
            tracing::info!("schedulers of another build have ended: this one takes its share of the shards");
        } else {
            tracing::warn!("{text}");
        }
        state.builds = text;
    }

    /// Says that the store has lost writes that it had confirmed.
    ///
    /// - `ms`: those of the last milliseconds before this was found; `None` if unknown.
    pub(super) fn report_lost_writes(&self, ms: Option<u64>) {
        let lost = ms.map_or("for how long is unknown".into(), |ms| format!("about {:.1} s", ms as f64 / 1_000.0));
        let text = format!(
            "STORE_WENT_BACK: Redis has lost writes that it had confirmed ({lost}): it was replaced by an older copy, or \
             failed over to a replica that was behind. Steps that ended in that time run again under the same \
             idempotency keys; send submissions of that time again with the same ids. `goalmill doctor` names settings \
             that prevent it"
        );
        tracing::error!("{text}");
        metrics::counter!("goalmill_store_rollbacks_total").increment(1);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).lost_writes = text;
    }

    /// What the store has lost since this scheduler started.
    pub(crate) fn lost_writes_warning(&self) -> Option<String> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Some(state.lost_writes.clone()).filter(|text| !text.is_empty())
    }

    /// What schedulers of another build mean for this one.
    pub(crate) fn builds_warning(&self) -> Option<String> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Some(state.builds.clone()).filter(|text| !text.is_empty())
    }

    /// Why this scheduler does not own its share; `None` if it does.
    ///
    /// - `recent`: a shard that was lost twice within this time counts as not owned.
    pub(crate) fn trouble(&self, shards: &OwnedShards, recent: Duration) -> Option<String> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(ours) = &state.ours else { return Some("the shards are not assigned yet".into()) };
        let is_recent = |at: Instant| at.elapsed() < recent;
        let is_missing = |shard: &&ShardId| {
            let flaps = state.lost.get(shard).and_then(|loss| loss.before).is_some_and(is_recent);
            flaps || (shards.get(**shard).is_none() && !state.elsewhere.contains(shard))
        };
        let missing: Vec<&ShardId> = ours.iter().filter(is_missing).collect();
        let first = missing.first()?;
        let why = state.lost.get(first).map_or(String::new(), |loss| format!(": {}", loss.why));
        let names = missing.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        Some(format!("not owned: shard {names}{why}"))
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    const RECENT: Duration = Duration::from_secs(3);

    fn trouble(share: &OwnershipStatus, shards: &OwnedShards) -> String {
        share.trouble(shards, RECENT).unwrap_or_default()
    }

    #[tokio::test(start_paused = true)]
    async fn a_share_is_held_when_each_shard_runs_here_or_elsewhere() {
        let (share, shards) = (OwnershipStatus::default(), OwnedShards::default());
        assert_ne!(trouble(&share, &shards), "");
        share.set([ShardId(0), ShardId(1)].into(), [ShardId(1)].into());
        assert!(trouble(&share, &shards).contains("shard 0"));
        shards.insert(ShardId(0), mpsc::channel(1).0);
        assert_eq!(trouble(&share, &shards), "");
    }

    #[tokio::test(start_paused = true)]
    async fn a_shard_that_is_lost_again_and_again_is_not_held() {
        let (share, shards) = (OwnershipStatus::default(), OwnedShards::default());
        share.set([ShardId(0)].into(), BTreeSet::new());
        shards.insert(ShardId(0), mpsc::channel(1).0);
        share.lose(ShardId(0), "once".into());
        assert_eq!(trouble(&share, &shards), "");
        share.lose(ShardId(0), "a key is wrong".into());
        assert!(trouble(&share, &shards).ends_with("shard 0: a key is wrong"));
        tokio::time::advance(RECENT).await;
        assert_eq!(trouble(&share, &shards), "", "that was long ago");
    }
}
