//! The cost of plans, split by day, namespace, agent type and model.

use std::collections::BTreeMap;

use goalmill_common::clock::rfc3339;
use goalmill_common::quality::{COST_SHARES_MAX, CostShare, CostSplit};

/// Names that are summed up separately; the cost of further ones is that of `other`.
const NAMES_MAX: usize = 1_000;
/// Bytes of a date: `2026-05-01`.
const DATE_BYTES: usize = 10;

/// Costs by name, with how many things they are of.
#[derive(Debug, Default)]
pub(super) struct CostSums(BTreeMap<String, (u64, f64)>);

impl CostSums {
    pub(super) fn add(&mut self, name: &str, count: u64, cost: f64) {
        let is_full = self.0.len() >= NAMES_MAX && !self.0.contains_key(name);
        let sums = self.0.entry(if is_full { "other" } else { name }.to_owned()).or_default();
        *sums = (sums.0.saturating_add(count), sums.1 + cost);
    }

    pub(super) fn merge(&mut self, other: Self) {
        for (name, (count, cost)) in other.0 {
            self.add(&name, count, cost);
        }
    }

    /// The most costly parts, in the order of their names.
    fn by_name(self) -> Vec<CostShare> {
        let mut shares = self.by_cost();
        shares.sort_by(|a, b| a.name.cmp(&b.name));
        shares
    }

    /// The most costly parts, the most costly first.
    fn by_cost(self) -> Vec<CostShare> {
        let parts = self.0.into_iter().map(|(name, (count, cost))| CostShare { name, count, cost });
        let mut shares: Vec<CostShare> = parts.collect();
        shares.sort_by(|a, b| b.cost.total_cmp(&a.cost).then_with(|| a.name.cmp(&b.name)));
        shares.truncate(COST_SHARES_MAX);
        shares
    }
}

/// The costs of many plans.
#[derive(Debug, Default)]
pub(super) struct SplitCosts {
    days: CostSums,
    namespaces: CostSums,
    pub(super) agent_types: CostSums,
    pub(super) models: CostSums,
}

impl SplitCosts {
    /// Adds the whole cost of a plan.
    pub(super) fn add_plan(&mut self, ended_ms: u64, namespace: &str, cost: f64) {
        let time = rfc3339(ended_ms);
        self.days.add(time.get(..DATE_BYTES).unwrap_or_default(), 1, cost);
        self.namespaces.add(namespace, 1, cost);
    }

    pub(super) fn split(self) -> CostSplit {
        CostSplit {
            days: self.days.by_name(),
            namespaces: self.namespaces.by_cost(),
            agent_types: self.agent_types.by_cost(),
            models: self.models.by_cost(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_of_names_beyond_the_limit_is_that_of_other() {
        let mut costs = CostSums::default();
        for n in 0..NAMES_MAX + 2 {
            costs.add(&format!("agent-{n}"), 1, 1.0);
        }
        let mut more = CostSums::default();
        more.merge(costs);
        more.add("agent-0", 1, 1.0);
        more.add("new", 1, 1.0);
        assert_eq!(more.0.len(), NAMES_MAX + 1);
        assert_eq!(more.0.get("agent-0"), Some(&(2, 2.0)));
        assert_eq!(more.by_cost().first().map(|one| (one.name.clone(), one.count)), Some(("other".to_owned(), 3)));
    }

    #[test]
    fn costs_are_summed_by_name_and_the_most_costly_ones_are_given() {
        let mut costs = SplitCosts::default();
        costs.add_plan(1_777_593_600_000, "default", 0.5);
        costs.add_plan(1_777_593_700_000, "sales", 0.25);
        costs.add_plan(1_777_507_200_000, "sales", 1.0);
        for n in 0..150 {
            costs.agent_types.add(&format!("agent-{n}"), 1, f64::from(n));
        }
        let split = costs.split();
        let named = |shares: &[CostShare]| {
            shares.iter().map(|one| format!("{} {} {}", one.name, one.count, one.cost)).collect::<Vec<_>>()
        };
        assert_eq!(named(&split.days), ["2026-04-30 1 1", "2026-05-01 2 0.75"]);
        assert_eq!(named(&split.namespaces), ["sales 2 1.25", "default 1 0.5"]);
        assert_eq!((split.agent_types.len(), split.agent_types[0].cost), (COST_SHARES_MAX, 149.0));
    }
}
