//! Counts the usage of namespaces, and enforces their limits.
//!
//! This process counts its own use exactly. Each scheduler publishes its counts once a second and reads those of the
//! others, so that what others used in the last seconds is not counted yet.

mod shard_use;
mod share;
mod use_counts;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use goalmill_common::clock::Clock;
use goalmill_common::config::{NamespaceSettings, Settings, namespace_settings};
use goalmill_common::id::{Namespace, PlanId};
use goalmill_common::problem::{ErrorCode, Problem};
use tokio::sync::Notify;

pub(crate) use shard_use::ShardUse;
pub(crate) use share::share;
use use_counts::{DAY_MS, MINUTE_MS, NamespaceUse, PublishedUse, UseCounts};

/// How long an accepted plan counts before its owner does, in milliseconds: both publish in between.
const ACCEPTED_MS: u64 = 3_000;
/// Counts of plans and steps that were published longer ago are those of a process that has ended, in milliseconds.
const SILENT_MS: u64 = 15_000;
/// Wait for the end of a plan, in seconds.
const PLAN_WAIT_S: u64 = 5;
/// Namespaces whose counts one scheduler publishes.
const SHARED_MAX: usize = 10_000;
/// The limits of namespaces and what counts against them.
pub(crate) struct NamespaceLimits {
    settings: BTreeMap<String, NamespaceSettings>,
    /// Namespaces with metrics.
    measured: BTreeSet<String>,
    clock: Clock,
    counts: Mutex<NamespaceUse>,
    /// Shards whose steps may wait for a namespace.
    listeners: Mutex<Vec<Weak<Notify>>>,
}

/// A limit that a submission would exceed.
struct ReachedLimit {
    setting: &'static str,
    used: String,
    most: String,
    wait_s: u64,
}

impl NamespaceLimits {
    /// `None` without any limit and without metrics of namespaces: then nothing is counted.
    pub(crate) fn new(settings: &Settings, clock: &Clock) -> Option<Arc<Self>> {
        let (limits, measured) = (settings.namespaces.clone(), settings.metrics.namespaces.clone());
        if limits.is_empty() && measured.is_empty() {
            return None;
        }
        let (counts, listeners) = (Mutex::default(), Mutex::default());
        Some(Arc::new(Self { settings: limits, measured, clock: clock.clone(), counts, listeners }))
    }

    fn lock(&self) -> MutexGuard<'_, NamespaceUse> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a submission, or refuses it.
    ///
    /// - `bytes`: of its document.
    pub(crate) fn admit(&self, namespace: &Namespace, plan: &PlanId, bytes: usize) -> Result<(), Problem> {
        if !self.is_counted(namespace) {
            return Ok(());
        }
        let (limits, label) = (namespace_settings(&self.settings, namespace), self.label(namespace));
        let (now_ms, bytes) = (self.clock.now_ms(), bytes as u64);
        let mut in_use = self.lock();
        if in_use.accepted.get(namespace).is_some_and(|accepted| accepted.contains_key(plan)) {
            // The same submission, sent again.
            return Ok(());
        }
        let sum = in_use.sum(namespace, now_ms);
        if let Some(reached) = limits.and_then(|limits| reached(limits, sum, bytes, now_ms)) {
            metrics::counter!("goalmill_namespace_refusals_total", "limit" => reached.setting).increment(1);
            let refusal = Problem::new(ErrorCode::NamespaceLimitReached, self.reached_text(namespace, &reached));
            return Err(Problem { retry_after_s: Some(reached.wait_s), ..refusal });
        }
        let own = in_use.own.entry(namespace.clone()).or_default();
        *own = own.at(now_ms);
        own.submissions += 1;
        if let Some(label) = label {
            metrics::counter!("goalmill_namespace_submissions_total", "plans_namespace" => label).increment(1);
        }
        own.bytes = own.bytes.saturating_add(bytes);
        in_use.accepted.entry(namespace.clone()).or_default().insert(plan.clone(), now_ms + ACCEPTED_MS);
        Ok(())
    }

    /// A warning if namespaces may submit nothing now. It has no names: it is shown without credentials.
    pub(crate) fn warning(&self) -> Option<String> {
        let now_ms = self.clock.now_ms();
        let mut in_use = self.lock();
        let seen: BTreeSet<Namespace> = in_use.own.keys().chain(in_use.others.keys()).cloned().collect();
        let full = seen.iter().filter(|namespace| {
            let sum = in_use.sum(namespace, now_ms);
            namespace_settings(&self.settings, namespace)
                .is_some_and(|settings| reached(settings, sum, 1, now_ms).is_some())
        });
        let full = full.count();
        (full > 0).then(|| {
            format!(
                "{full} of the namespaces with limits may submit nothing now: the refusals of their submissions name the \
                 limit; raise it under `namespaces` in the settings of the schedulers"
            )
        })
    }

    fn reached_text(&self, namespace: &Namespace, reached: &ReachedLimit) -> String {
        let ReachedLimit { setting, used, most, wait_s } = reached;
        let place = if self.settings.contains_key(namespace.as_str()) { namespace.as_str() } else { "*" };
        format!(
            "namespace `{namespace}` has {used}; the limit is {most}. Wait {wait_s} s, or raise \
             `namespaces.\"{place}\".{setting}` in the settings of the schedulers and restart them"
        )
    }

    /// Whether a namespace has limits or metrics.
    fn is_counted(&self, namespace: &Namespace) -> bool {
        self.measured.contains(namespace.as_str()) || namespace_settings(&self.settings, namespace).is_some()
    }

    /// The label of a namespace that has metrics.
    pub(crate) fn label(&self, namespace: &Namespace) -> Option<String> {
        self.measured.get(namespace.as_str()).cloned()
    }

    /// Sets the gauges of this process.
    fn set_gauges(&self) {
        let in_use = self.lock();
        for name in &self.measured {
            let own = in_use.own.get(&Namespace::from(name.as_str())).copied().unwrap_or_default();
            metrics::gauge!("goalmill_namespace_plans", "plans_namespace" => name.clone()).set(own.plans);
            metrics::gauge!("goalmill_namespace_steps_in_flight", "plans_namespace" => name.clone()).set(own.steps);
        }
    }

    /// Takes the plan of a submission back that was refused after all.
    pub(crate) fn withdraw(&self, namespace: &Namespace, plan: &PlanId) {
        if let Some(accepted) = self.lock().accepted.get_mut(namespace) {
            accepted.remove(plan);
        }
    }

    /// Wakes a shard when steps of a namespace may continue.
    pub(crate) fn listen(&self, shard: &Arc<Notify>) {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(shard));
    }

    fn notify(&self) {
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.retain(|shard| {
            shard.upgrade().is_some_and(|shard| {
                shard.notify_one();
                true
            })
        });
    }

    fn steps_max(&self, namespace: &Namespace) -> Option<u32> {
        namespace_settings(&self.settings, namespace)?.steps_max
    }

    fn has_room(&self, namespace: &Namespace) -> bool {
        self.steps_max(namespace).is_none_or(|most| self.lock().steps(namespace) < most)
    }

    /// The own counts, to be published.
    fn publish(&self, now_ms: u64) -> PublishedUse {
        let mut in_use = self.lock();
        in_use.accepted.retain(|_, plans| {
            plans.retain(|_, until_ms| *until_ms > now_ms);
            !plans.is_empty()
        });
        let mut namespaces = BTreeMap::new();
        in_use.own.retain(|namespace, counts| {
            *counts = counts.at(now_ms);
            let is_used = *counts != UseCounts { minute: counts.minute, day: counts.day, ..UseCounts::default() };
            if is_used && namespaces.len() < SHARED_MAX {
                namespaces.insert(namespace.clone(), *counts);
            }
            is_used
        });
        PublishedUse { at_ms: now_ms, namespaces }
    }

    /// Goes on with what a process of the same id used today.
    fn resume(&self, earlier: PublishedUse, now_ms: u64) {
        let mut in_use = self.lock();
        for (namespace, counts) in earlier.namespaces {
            let counts = UseCounts { plans: 0, steps: 0, ..counts.at(now_ms) };
            let own = in_use.own.entry(namespace).or_default();
            *own = own.at(now_ms).plus(counts);
        }
    }

    fn set_others(&self, all: impl Iterator<Item = PublishedUse>, now_ms: u64) {
        let mut others = BTreeMap::<Namespace, UseCounts>::new();
        for published in all {
            let is_silent = published.at_ms.saturating_add(SILENT_MS) < now_ms;
            for (namespace, counts) in published.namespaces {
                let counts = counts.at(now_ms);
                let counts = if is_silent { UseCounts { plans: 0, steps: 0, ..counts } } else { counts };
                let sum = others.entry(namespace).or_default();
                *sum = counts.plus(*sum);
            }
        }
        let is_changed = {
            let mut in_use = self.lock();
            let is_changed = in_use.others != others;
            in_use.others = others;
            is_changed
        };
        if is_changed {
            self.notify();
        }
    }
}

/// The first limit that one more submission would exceed.
fn reached(limits: &NamespaceSettings, sum: UseCounts, bytes: u64, now_ms: u64) -> Option<ReachedLimit> {
    let left_s = |period_ms: u64| (period_ms - now_ms % period_ms).div_ceil(1_000);
    let (in_minute, in_day) = (left_s(MINUTE_MS), left_s(DAY_MS));
    let limit = |setting, used: String, most: String, wait_s| Some(ReachedLimit { setting, used, most, wait_s });
    if let Some(most) = limits.submissions_per_minute.filter(|most| sum.submissions >= *most) {
        return limit("submissions_per_minute", sum.submissions.to_string(), most.to_string(), in_minute);
    }
    if let Some(most) = limits.payload_bytes_per_day.filter(|most| sum.bytes.saturating_add(bytes) > *most) {
        let used = format!("{} bytes, and this one has {bytes}", sum.bytes);
        return limit("payload_bytes_per_day", used, most.to_string(), in_day);
    }
    if let Some(most) = limits.cost_per_day.filter(|most| sum.cost >= *most) {
        return limit("cost_per_day", format!("{:.4} dollars", sum.cost), format!("{most}"), in_day);
    }
    if let Some(most) = limits.tokens_per_day.filter(|most| sum.tokens >= *most) {
        return limit("tokens_per_day", format!("{} tokens", sum.tokens), most.to_string(), in_day);
    }
    let most = limits.plans_max.filter(|most| sum.plans >= *most)?;
    limit("plans_max", format!("{} plans", sum.plans), most.to_string(), PLAN_WAIT_S)
}

#[cfg(test)]
mod tests {
    use goalmill_shard::NamespaceCounter;

    use super::*;

    fn limits(red: NamespaceSettings) -> Arc<NamespaceLimits> {
        let namespaces = BTreeMap::from([("red".to_owned(), red)]);
        let settings = Settings { namespaces, ..Settings::default() };
        NamespaceLimits::new(&settings, &Clock::system()).expect("there is a limit")
    }

    fn sums(limits: &NamespaceSettings, sum: UseCounts, bytes: u64) -> Option<(&'static str, u64)> {
        // 10 s into a day.
        reached(limits, sum, bytes, 20_000 * DAY_MS + 10_000).map(|reached| (reached.setting, reached.wait_s))
    }

    #[test]
    fn the_first_limit_that_is_reached_is_named() {
        let all = NamespaceSettings {
            plans_max: Some(2),
            steps_max: None,
            submissions_per_minute: Some(3),
            payload_bytes_per_day: Some(100),
            cost_per_day: Some(1.5),
            tokens_per_day: Some(1_000),
        };
        let used = UseCounts::default();
        assert_eq!(sums(&all, used, 100), None);
        assert_eq!(sums(&all, used, 101), Some(("payload_bytes_per_day", 86_390)));
        assert_eq!(sums(&all, UseCounts { submissions: 3, ..used }, 1), Some(("submissions_per_minute", 50)));
        assert_eq!(sums(&all, UseCounts { cost: 1.5, ..used }, 1), Some(("cost_per_day", 86_390)));
        assert_eq!(sums(&all, UseCounts { tokens: 1_000, ..used }, 1), Some(("tokens_per_day", 86_390)));
        assert_eq!(sums(&all, UseCounts { plans: 2, ..used }, 1), Some(("plans_max", PLAN_WAIT_S)));
        assert_eq!(sums(&NamespaceSettings::default(), UseCounts { plans: 2, ..used }, 1), None);
    }

    #[test]
    fn steps_of_all_shards_count_until_their_shard_is_gone() {
        let limits = limits(NamespaceSettings { steps_max: Some(2), ..NamespaceSettings::default() });
        let (red, blue) = (Namespace::from("red"), Namespace::from("blue"));
        let (mut one, mut two) = (ShardUse::new(limits.clone()), ShardUse::new(limits.clone()));
        assert!(one.reserve(&red) && two.reserve(&red));
        assert!(!one.reserve(&red) && !one.has_room("red") && one.reserve(&blue) && one.has_room("blue"));
        one.add_step(&red);
        one.unreserve(&red);
        two.unreserve(&red);
        two.add_step(&red);
        assert!(!two.has_room("red"));
        drop(one);
        assert!(two.has_room("red"));
        two.remove_step(&red);
        two.remove_step(&red);
        assert_eq!(limits.lock().steps(&red), 0);
    }

    #[test]
    fn an_accepted_plan_counts_once_whether_its_owner_knows_it_or_not() {
        let limits = limits(NamespaceSettings { plans_max: Some(1), ..NamespaceSettings::default() });
        let (red, plan, other) = (Namespace::from("red"), PlanId::from("p0-a"), PlanId::from("p0-b"));
        let mut shard = ShardUse::new(limits.clone());
        assert!(limits.admit(&red, &plan, 1).is_ok());
        assert!(limits.admit(&red, &plan, 1).is_ok(), "it was sent again");
        let refused = limits.admit(&red, &other, 1).expect_err("there is one already");
        assert_eq!((refused.code, refused.retry_after_s), (ErrorCode::NamespaceLimitReached, Some(PLAN_WAIT_S)));
        assert!(refused.detail.contains("namespaces.\"red\".plans_max"), "{refused}");
        shard.add_plan(&red, &plan);
        assert!(limits.admit(&red, &other, 1).is_err());
        shard.remove_plan(&red);
        assert!(limits.admit(&red, &other, 1).is_ok());
        limits.withdraw(&red, &other);
        assert!(limits.admit(&red, &plan, 1).is_ok());
    }

    #[test]
    fn what_others_use_counts_unless_they_have_ended() {
        let limits = limits(NamespaceSettings::default());
        let (red, now_ms) = (Namespace::from("red"), 20_000 * DAY_MS);
        let day = now_ms / DAY_MS;
        let counts = UseCounts { plans: 1, steps: 2, tokens: 3, day, ..UseCounts::default() };
        let published = |at_ms| PublishedUse { at_ms, namespaces: BTreeMap::from([(red.clone(), counts)]) };
        limits.set_others([published(now_ms), published(now_ms - SILENT_MS - 1)].into_iter(), now_ms);
        let sum = limits.lock().sum(&red, now_ms);
        assert_eq!((sum.plans, sum.steps, sum.tokens), (1, 2, 6));
        limits.resume(published(now_ms), now_ms);
        let sum = limits.lock().sum(&red, now_ms);
        assert_eq!((sum.plans, sum.tokens), (1, 9), "what was used today stays used");
    }
}
