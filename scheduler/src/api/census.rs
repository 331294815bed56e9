//! The summaries of all plans, in memory: for their numbers, and for lists that look for some of them.
//!
//! A summary is read again only where a plan has changed: an index entry and its summary are written together. Each search
//! reads some of the goals that are not known yet, those of the last changed plans first, and they are kept.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use goalmill_broker::BrokerError;
use goalmill_common::id::{PlanId, ShardId};
use goalmill_common::view::PlanSummary;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::Api;
use super::plan_search;

/// Plans that are counted besides those that run, over all shards: the last changed ones.
const COUNTED_MAX: usize = 20_000;
/// The same of one shard, at the least.
const SHARD_COUNTED_MIN: usize = 1_000;
/// A change that is so old has its final entry in the index, in milliseconds.
const SETTLED_MS: u64 = 3_000;
/// Summaries read in one call.
pub(super) const AT_ONCE: usize = 32;
/// A count is used again for so many times what it took, within these bounds: counting is a small part of the work, and
/// what people see is of now.
const KEPT_TIMES: u32 = 20;
const KEPT_MIN: Duration = Duration::from_millis(500);
const KEPT_MAX: Duration = Duration::from_secs(3);
/// All plans are counted again after so long, also where only changes are asked for: plans expire, and an archive comes back.
const RECOUNTED: Duration = Duration::from_mins(1);
/// Plans of a shard that are asked for first when only what has changed is read.
const NEWEST: usize = 64;
/// Goals that one search reads; the next ones read more.
const GOALS_READ_MAX: usize = 2_000;
/// Goals that are kept, in bytes; others are read from their logs.
const GOALS_BYTES_MAX: usize = 32 << 20;

/// The plans that are known, for all callers.
#[derive(Default)]
pub(super) struct Census(Mutex<Option<CensusResult>>);

/// What was counted, and when.
#[derive(Clone)]
pub(super) struct CensusResult {
    pub(super) plans: Arc<HashMap<PlanId, CensusEntry>>,
    pub(super) is_partial: bool,
    /// Plans that changed after this time are all known, Unix milliseconds.
    pub(super) known_after_ms: u64,
    counted_at: Instant,
    /// Until when it is used for counts.
    valid_until: Instant,
    goals_bytes: usize,
}

/// What is known of a plan.
#[derive(Clone)]
pub(super) struct CensusEntry {
    pub(super) changed_ms: u64,
    /// Whether it is right as long as the plan has this change.
    is_settled: bool,
    pub(super) summary: Arc<PlanSummary>,
    /// The goal in lower case; none before a search has read it.
    pub(super) goal: Option<Arc<str>>,
}

impl CensusEntry {
    /// Whether nothing of it can have changed since.
    fn is_current(&self, changed_ms: u64) -> bool {
        self.is_settled && self.changed_ms == changed_ms
    }
}

impl Census {
    /// The current count; callers that come meanwhile wait for it.
    pub(super) async fn counted(&self, api: &Api) -> Result<CensusResult, BrokerError> {
        let mut kept = self.0.lock().await;
        let begun = Instant::now();
        if let Some(counted) = kept.as_ref().filter(|counted| counted.valid_until > begun) {
            return Ok(counted.clone());
        }
        count_all(api, &mut kept).await
    }

    /// What is known now, with every change up to now.
    ///
    /// - `with_goals`: with the goals of the plans.
    pub(super) async fn current(&self, api: &Api, with_goals: bool) -> Result<CensusResult, BrokerError> {
        let mut kept = self.0.lock().await;
        if kept.as_ref().is_none_or(|known| known.counted_at.elapsed() >= RECOUNTED) {
            count_all(api, &mut kept).await?;
        }
        let Some(known) = kept.as_mut() else { return count_all(api, &mut kept).await };
        catch_up(api, known).await?;
        if with_goals {
            read_goals(api, known).await?;
        }
        Ok(known.clone())
    }
}

/// Lists all plans, and reads those that have changed.
async fn count_all(api: &Api, kept: &mut Option<CensusResult>) -> Result<CensusResult, BrokerError> {
    let begun = Instant::now();
    let known = kept.as_ref().map(|counted| counted.plans.clone()).unwrap_or_default();
    let ListedPlans { changes, is_partial, known_after_ms } = list_all(api).await?;
    let plans: HashMap<PlanId, CensusEntry> = read_entries(api, &known, changes).await?.into_iter().collect();
    let goals_bytes = plans.values().filter_map(|entry| entry.goal.as_ref()).map(|goal| goal.len()).sum();
    let now = Instant::now();
    let valid_until = now + (KEPT_TIMES * (now - begun)).clamp(KEPT_MIN, KEPT_MAX);
    let counted =
        CensusResult { plans: Arc::new(plans), is_partial, known_after_ms, counted_at: now, valid_until, goals_bytes };
    Ok(kept.insert(counted).clone())
}

/// Reads what has changed: the first entries of the index of each shard, down to one that cannot change any more.
async fn catch_up(api: &Api, known: &mut CensusResult) -> Result<(), BrokerError> {
    let newest = async |shard: ShardId| {
        let mut asked = NEWEST;
        loop {
            let found = api.scheduler.plans.list(shard, u64::MAX, asked).await?;
            let is_known = |(plan, changed_ms): &(PlanId, u64)| {
                known.plans.get(plan).is_some_and(|entry| entry.is_current(*changed_ms))
            };
            if found.len() < asked || asked >= shard_limit(api) || found.iter().any(is_known) {
                return Ok::<_, BrokerError>(found);
            }
            asked *= 4;
        }
    };
    let changes = try_join_all((0..api.scheduler.shards).map(ShardId).map(newest)).await?;
    let changed = changes
        .into_iter()
        .flatten()
        .filter(|(plan, changed_ms)| known.plans.get(plan).is_none_or(|entry| !entry.is_current(*changed_ms)));
    let entries = read_entries(api, &known.plans, changed.collect()).await?;
    if !entries.is_empty() {
        Arc::make_mut(&mut known.plans).extend(entries);
    }
    Ok(())
}

/// The entries of these plans; those that are known and have not changed are not read.
async fn read_entries(
    api: &Api,
    known: &HashMap<PlanId, CensusEntry>,
    changes: HashMap<PlanId, u64>,
) -> Result<Vec<(PlanId, CensusEntry)>, BrokerError> {
    let now_ms = api.scheduler.clock.now_ms();
    let read = async |(plan, changed_ms): (PlanId, u64)| {
        let before = known.get(&plan);
        if let Some(entry) = before.filter(|entry| entry.is_current(changed_ms)) {
            return Ok(Some((plan, entry.clone())));
        }
        let fields = api.scheduler.plans.summary(&plan).await?;
        let Some(summary) = PlanSummary::from_fields(plan.clone(), &fields) else { return Ok(None) };
        let is_settled = changed_ms > 0 && now_ms > changed_ms.saturating_add(SETTLED_MS);
        let goal = before.and_then(|entry| entry.goal.clone());
        Ok::<_, BrokerError>(Some((plan, CensusEntry { changed_ms, is_settled, summary: Arc::new(summary), goal })))
    };
    let found: Vec<Option<(PlanId, CensusEntry)>> =
        stream::iter(changes.into_iter().map(read)).buffer_unordered(AT_ONCE).try_collect().await?;
    Ok(found.into_iter().flatten().collect())
}

/// Reads goals that are not known yet, of the last changed plans first, as many as are kept.
async fn read_goals(api: &Api, known: &mut CensusResult) -> Result<(), BrokerError> {
    let unread = known.plans.iter().filter(|(_, entry)| entry.goal.is_none());
    let mut missing: Vec<(u64, PlanId)> = unread.map(|(plan, entry)| (entry.changed_ms, plan.clone())).collect();
    missing.sort_unstable_by(|a, b| b.cmp(a));
    missing.truncate(GOALS_READ_MAX);
    if missing.is_empty() || known.goals_bytes >= GOALS_BYTES_MAX {
        return Ok(());
    }
    let read = async |(_, plan): (u64, PlanId)| {
        let goal = plan_search::read_goal(api.scheduler.plans.as_ref(), &plan).await?;
        Ok::<_, BrokerError>((plan, goal))
    };
    let mut goals = stream::iter(missing.into_iter().map(read)).buffer_unordered(AT_ONCE);
    let plans = Arc::make_mut(&mut known.plans);
    while let Some((plan, goal)) = goals.try_next().await? {
        if known.goals_bytes >= GOALS_BYTES_MAX {
            break;
        }
        known.goals_bytes += goal.len();
        if let Some(entry) = plans.get_mut(&plan) {
            entry.goal = Some(goal.into());
        }
    }
    Ok(())
}

/// Plans of one shard that are counted.
fn shard_limit(api: &Api) -> usize {
    (COUNTED_MAX / usize::from(api.scheduler.shards.max(1))).max(SHARD_COUNTED_MIN)
}

/// Plans with the time of their last change.
struct ListedPlans {
    /// Those that run, and the last changed ones; 0 if the time is not known.
    changes: HashMap<PlanId, u64>,
    is_partial: bool,
    known_after_ms: u64,
}

async fn list_all(api: &Api) -> Result<ListedPlans, BrokerError> {
    let limit = shard_limit(api);
    let (mut changes, mut is_partial, mut known_after_ms) = (HashMap::new(), false, 0);
    for shard in (0..api.scheduler.shards).map(ShardId) {
        let listed = api.scheduler.plans.list(shard, u64::MAX, limit).await?;
        if let Some((_, oldest_ms)) = listed.last().filter(|_| listed.len() >= limit) {
            is_partial = true;
            known_after_ms = known_after_ms.max(*oldest_ms);
        }
        changes.extend(listed);
        for plan in api.scheduler.broker.active(shard).await? {
            changes.entry(plan).or_insert(0);
        }
    }
    Ok(ListedPlans { changes, is_partial, known_after_ms })
}
