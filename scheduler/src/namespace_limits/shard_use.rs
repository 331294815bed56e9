//! The use of one shard that counts against the limits of namespaces.

use std::sync::Arc;

use goalmill_common::goal::Usage;
use goalmill_common::hash::HashMap;
use goalmill_common::id::{Namespace, PlanId};
use goalmill_common::number::microdollars;
use goalmill_shard::NamespaceCounter;

use super::NamespaceLimits;

/// What one shard counts; it no longer counts once the shard is dropped.
pub(crate) struct ShardUse {
    limits: Arc<NamespaceLimits>,
    counts: HashMap<Namespace, (u32, u32)>,
}

impl ShardUse {
    pub(crate) fn new(limits: Arc<NamespaceLimits>) -> Self {
        Self { limits, counts: HashMap::default() }
    }

    /// Drops the counts of a namespace that has nothing left.
    fn forget(&mut self, namespace: &Namespace) {
        if self.counts.get(namespace) == Some(&(0, 0)) {
            self.counts.remove(namespace);
        }
    }
}

impl NamespaceCounter for ShardUse {
    fn has_room(&self, namespace: &str) -> bool {
        self.limits.has_room(&namespace.into())
    }

    fn reserve(&self, namespace: &Namespace) -> bool {
        let Some(most) = self.limits.steps_max(namespace) else { return true };
        let mut in_use = self.limits.lock();
        let has_room = in_use.steps(namespace) < most;
        if has_room {
            *in_use.reserved_steps.entry(namespace.clone()).or_default() += 1;
        }
        has_room
    }

    fn unreserve(&self, namespace: &Namespace) {
        if let Some(reserved) = self.limits.lock().reserved_steps.get_mut(namespace) {
            *reserved = reserved.saturating_sub(1);
        }
    }

    fn add_plan(&mut self, namespace: &Namespace, plan: &PlanId) {
        if !self.limits.is_counted(namespace) {
            return;
        }
        self.counts.entry(namespace.clone()).or_default().0 += 1;
        let mut in_use = self.limits.lock();
        in_use.own.entry(namespace.clone()).or_default().plans += 1;
        if let Some(accepted) = in_use.accepted.get_mut(namespace) {
            accepted.remove(plan);
        }
    }

    fn remove_plan(&mut self, namespace: &Namespace) {
        if let Some((plans, _)) = self.counts.get_mut(namespace).filter(|(plans, _)| *plans > 0) {
            *plans -= 1;
            self.limits.lock().free(namespace, 1, 0);
            self.forget(namespace);
        }
    }

    fn add_step(&mut self, namespace: &Namespace) {
        if !self.limits.is_counted(namespace) {
            return;
        }
        self.counts.entry(namespace.clone()).or_default().1 += 1;
        self.limits.lock().own.entry(namespace.clone()).or_default().steps += 1;
    }

    fn remove_step(&mut self, namespace: &Namespace) {
        let Some((_, steps)) = self.counts.get_mut(namespace).filter(|(_, steps)| *steps > 0) else { return };
        *steps -= 1;
        self.forget(namespace);
        let most = self.limits.steps_max(namespace);
        let was_full = {
            let mut in_use = self.limits.lock();
            let was_full = most.is_some_and(|most| in_use.steps(namespace) >= most);
            in_use.free(namespace, 0, 1);
            was_full
        };
        if was_full {
            self.limits.notify();
        }
    }

    fn spend(&self, namespace: &Namespace, spent: Usage) {
        if !self.limits.is_counted(namespace) {
            return;
        }
        let now_ms = self.limits.clock.now_ms();
        let mut in_use = self.limits.lock();
        let own = in_use.own.entry(namespace.clone()).or_default();
        *own = own.at(now_ms);
        own.cost += spent.cost.max(0.0);
        if let Some(label) = self.limits.label(namespace) {
            let micros = microdollars(spent.cost);
            metrics::counter!("goalmill_namespace_cost_microdollars_total", "plans_namespace" => label.clone())
                .increment(micros);
            metrics::counter!("goalmill_namespace_tokens_total", "plans_namespace" => label).increment(spent.tokens);
        }
        own.tokens = own.tokens.saturating_add(spent.tokens);
    }
}

impl Drop for ShardUse {
    #[expect(clippy::iter_over_hash_type, reason = "sums are the same in any order")]
    fn drop(&mut self) {
        for (namespace, (plans, steps)) in &self.counts {
            self.limits.lock().free(namespace, *plans, *steps);
        }
        self.limits.notify();
    }
}
