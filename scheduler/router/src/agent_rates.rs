//! Measured success rate and latency of agents, with exponential decay, blended with the declared values.

use std::collections::BTreeMap;

use goalmill_common::agent::Agent;
use goalmill_common::id::AgentType;
use goalmill_common::number::whole_u64;
use goalmill_plan::validate::Measured;

/// Weight of the declared values, in outcomes.
const DECLARED_WEIGHT: f64 = 10.0;
/// Limit of agent types.
const AGENTS_MAX: usize = 20_000;
/// Limit of actions over all agent types.
const ACTIONS_MAX: usize = 50_000;
/// Minimum decayed number of successes for a mean duration.
const TIMED_MIN: f64 = 2.0;
/// Actions with fewer decayed successes may be evicted.
const EVICTABLE_BELOW: f64 = 0.5;
/// Maximum standard deviation of a steady duration, as a share of the mean.
const DEVIATION_MAX: f64 = 0.5;

/// Success and duration by agent type, and duration by action.
#[derive(Debug)]
pub(super) struct AgentRates {
    half_life_ms: f64,
    agents: BTreeMap<AgentType, DecayingSums>,
    actions: BTreeMap<AgentType, BTreeMap<String, DecayingSums>>,
    /// Number of actions.
    actions_count: usize,
    /// No eviction is tried before this time, Unix milliseconds.
    next_eviction_ms: u64,
}

/// Sums over outcomes, halved with each half-life.
#[derive(Clone, Copy, Debug, Default)]
struct DecayingSums {
    at_ms: u64,
    outcomes: f64,
    successes: f64,
    /// Successes with a known duration.
    timed: f64,
    latency_ms: f64,
    /// Sum of squared latencies.
    squares: f64,
}

/// The result of an attempt.
#[derive(Clone, Copy, Debug)]
struct AttemptResult {
    ok: bool,
    /// Duration of a success, if known.
    took_ms: Option<u64>,
    /// Unix milliseconds.
    time_ms: u64,
}

/// Current estimates for an agent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct AgentRate {
    /// 0 to 1.
    pub(super) success: f64,
    /// Milliseconds; `None` if neither declared nor measured.
    pub(super) latency_ms: Option<f64>,
    /// Number of outcomes, with decay.
    pub(super) outcomes: f64,
}

impl AgentRates {
    pub(super) fn new(half_life_ms: u64) -> Self {
        Self {
            half_life_ms: half_life_ms.max(1) as f64,
            agents: BTreeMap::new(),
            actions: BTreeMap::new(),
            actions_count: 0,
            next_eviction_ms: 0,
        }
    }

    /// Records an outcome. Only successes count for durations. Outcomes may arrive out of order: an older one is decayed.
    ///
    /// - `took_ms`: `None` if unknown; the duration statistics then do not change.
    pub(super) fn record(&mut self, agent: &AgentType, action: &str, ok: bool, took_ms: Option<u64>, time_ms: u64) {
        let outcome = AttemptResult { ok, took_ms: took_ms.filter(|_| ok), time_ms };
        let half_life_ms = self.half_life_ms;
        if outcome.took_ms.is_some() {
            self.record_duration(agent, action, &outcome);
        }
        if let Some(seen) = self.agents.get_mut(agent) {
            return seen.add(&outcome, half_life_ms);
        }
        if self.agents.len() < AGENTS_MAX {
            self.agents.insert(agent.clone(), DecayingSums::from_first(&outcome, half_life_ms));
        }
    }

    fn record_duration(&mut self, agent: &AgentType, action: &str, outcome: &AttemptResult) {
        let half_life_ms = self.half_life_ms;
        if let Some(seen) = self.actions.get_mut(agent).and_then(|actions| actions.get_mut(action)) {
            return seen.add(outcome, half_life_ms);
        }
        if self.actions_count >= ACTIONS_MAX && outcome.time_ms >= self.next_eviction_ms {
            self.evict_decayed(outcome.time_ms);
        }
        if self.actions_count < ACTIONS_MAX {
            let seen = DecayingSums::from_first(outcome, half_life_ms);
            self.actions.entry(agent.clone()).or_default().insert(action.to_owned(), seen);
            self.actions_count += 1;
        }
    }

    /// Evicts actions with less than half a success.
    fn evict_decayed(&mut self, now_ms: u64) {
        for actions in self.actions.values_mut() {
            actions.retain(|_, seen| seen.decayed(now_ms, self.half_life_ms).timed >= EVICTABLE_BELOW);
        }
        self.actions.retain(|_, actions| !actions.is_empty());
        self.count_actions();
        // A scan at each new action would be expensive, and the rest decays slowly.
        self.next_eviction_ms = now_ms.saturating_add(whole_u64(self.half_life_ms / 8.0));
    }

    fn count_actions(&mut self) {
        self.actions_count = self.actions.values().map(BTreeMap::len).sum();
    }

    /// Mean duration of an action, if it has enough recent successes.
    pub(super) fn measured(&self, agent: &AgentType, action: &str, now_ms: u64) -> Option<Measured> {
        self.actions.get(agent)?.get(action)?.decayed(now_ms, self.half_life_ms).measured()
    }

    /// The measured values blended with the declared ones.
    pub(super) fn rate(&self, agent: &Agent, now_ms: u64) -> AgentRate {
        let seen = self.decayed(&agent.agent_type, now_ms);
        let declared = agent.success_rate.clamp(0.0, 1.0);
        let latency_ms = match agent.latency_ms {
            Some(declared) => {
                Some((declared as f64 * DECLARED_WEIGHT + seen.latency_ms) / (DECLARED_WEIGHT + seen.timed))
            }
            None => (seen.timed > 1e-9).then(|| seen.latency_ms / seen.timed),
        };
        AgentRate {
            success: (declared * DECLARED_WEIGHT + seen.successes) / (DECLARED_WEIGHT + seen.outcomes),
            latency_ms,
            outcomes: seen.outcomes,
        }
    }

    /// Removes all other agents.
    pub(super) fn retain_agents(&mut self, agents: &[Agent]) {
        let known: std::collections::BTreeSet<&AgentType> = agents.iter().map(|agent| &agent.agent_type).collect();
        self.agents.retain(|agent, _| known.contains(agent));
        self.actions.retain(|agent, _| known.contains(agent));
        self.count_actions();
    }

    fn decayed(&self, agent: &AgentType, now_ms: u64) -> DecayingSums {
        self.agents.get(agent).copied().unwrap_or_default().decayed(now_ms, self.half_life_ms)
    }
}

impl DecayingSums {
    fn from_first(outcome: &AttemptResult, half_life_ms: f64) -> Self {
        let mut seen = Self { at_ms: outcome.time_ms, ..Self::default() };
        seen.add(outcome, half_life_ms);
        seen
    }

    fn add(&mut self, outcome: &AttemptResult, half_life_ms: f64) {
        let worth = decay_factor(self.at_ms.saturating_sub(outcome.time_ms), half_life_ms);
        *self = self.decayed(outcome.time_ms, half_life_ms);
        self.outcomes += worth;
        if outcome.ok {
            self.successes += worth;
        }
        if let Some(took_ms) = outcome.took_ms {
            self.timed += worth;
            self.latency_ms += took_ms as f64 * worth;
            self.squares += (took_ms as f64).powi(2) * worth;
        }
    }

    /// The sums at `now_ms`, or at their last change if that is later.
    fn decayed(self, now_ms: u64, half_life_ms: f64) -> Self {
        let factor = decay_factor(now_ms.saturating_sub(self.at_ms), half_life_ms);
        Self {
            at_ms: self.at_ms.max(now_ms),
            outcomes: self.outcomes * factor,
            successes: self.successes * factor,
            timed: self.timed * factor,
            latency_ms: self.latency_ms * factor,
            squares: self.squares * factor,
        }
    }

    /// The mean duration; `None` with too few successes.
    fn measured(self) -> Option<Measured> {
        if self.timed < TIMED_MIN {
            return None;
        }
        let average = self.latency_ms / self.timed;
        let variance = (self.squares / self.timed - average.powi(2)).max(0.0);
        Some(Measured { ms: whole_u64(average.round()), is_steady: variance.sqrt() <= average * DEVIATION_MAX })
    }
}

/// Weight of an outcome after `ms`.
fn decay_factor(ms: u64, half_life_ms: f64) -> f64 {
    if ms == 0 { 1.0 } else { 0.5_f64.powf(ms as f64 / half_life_ms) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_change_the_declared_values_and_decay() {
        let mut rates = AgentRates::new(1_000);
        let agent = Agent { success_rate: 0.9, latency_ms: Some(100), ..Agent::named("a".into()) };
        let declared = rates.rate(&agent, 0);
        assert_eq!((declared.success, declared.latency_ms, declared.outcomes), (0.9, Some(100.0), 0.0));
        for _ in 0..10 {
            rates.record(&agent.agent_type, "", false, Some(5), 0);
        }
        assert!((rates.rate(&agent, 0).success - 0.45).abs() < 1e-9);
        assert!((rates.rate(&agent, 1_000).success - 0.6).abs() < 1e-9, "after one half-life, five outcomes are left");
        assert!((rates.rate(&agent, 60_000).success - 0.9).abs() < 1e-6);
        rates.record(&agent.agent_type, "", true, Some(1_000), 60_000);
        assert!(rates.rate(&agent, 60_000).latency_ms > Some(150.0));
    }

    #[test]
    fn the_order_of_outcomes_does_not_matter() {
        let agent = Agent { success_rate: 0.9, ..Agent::named("a".into()) };
        let outcomes = [(false, 0), (true, 1_500), (true, 4_000), (false, 4_500)];
        let rate = |outcomes: &mut dyn Iterator<Item = &(bool, u64)>| {
            let mut rates = AgentRates::new(1_000);
            outcomes.for_each(|(ok, at_ms)| rates.record(&agent.agent_type, "", *ok, Some(10 + at_ms), *at_ms));
            rates.rate(&agent, 5_000)
        };
        let (forth, back) = (rate(&mut outcomes.iter()), rate(&mut outcomes.iter().rev()));
        assert!((forth.success - back.success).abs() < 1e-9, "{forth:?} {back:?}");
        assert!((forth.latency_ms.unwrap_or_default() - back.latency_ms.unwrap_or_default()).abs() < 1e-9);
        assert!((forth.outcomes - back.outcomes).abs() < 1e-9);
    }

    #[test]
    fn undeclared_values_are_measured() {
        let mut rates = AgentRates::new(1_000);
        let agent = Agent::named("a".into());
        assert_eq!(rates.rate(&agent, 0).latency_ms, None);
        rates.record(&agent.agent_type, "", true, Some(40), 0);
        rates.record(&agent.agent_type, "", true, Some(60), 0);
        assert_eq!(rates.rate(&agent, 0).latency_ms, Some(50.0));
        rates.retain_agents(&[]);
        assert_eq!(rates.rate(&agent, 0).outcomes, 0.0);
    }

    #[test]
    fn each_action_is_measured_after_several_successes() {
        let mut rates = AgentRates::new(1_000);
        let agent = AgentType::from("a");
        for (action, times) in [("steady", [100, 110, 120]), ("uneven", [1, 10, 1_000])] {
            times.into_iter().for_each(|ms| rates.record(&agent, action, true, Some(ms), 0));
        }
        rates.record(&agent, "once", true, Some(7), 0);
        (0..9).for_each(|_| rates.record(&agent, "silent", true, None, 0));
        (0..9).for_each(|_| rates.record(&agent, "failing", false, Some(7), 0));
        let at = |now_ms| {
            let took = |action| rates.measured(&agent, action, now_ms).map(|took| (took.ms, took.is_steady));
            ["steady", "uneven", "once", "silent", "failing"].map(took)
        };
        assert_eq!(at(0), [Some((110, true)), Some((337, false)), None, None, None]);
        assert_eq!(at(1_000), [None; 5], "three outcomes after one half-life are too few");
        rates.retain_agents(&[]);
        assert_eq!(rates.measured(&agent, "steady", 0), None);
    }

    #[test]
    fn an_outcome_without_a_duration_changes_no_latency() {
        let mut rates = AgentRates::new(1_000);
        let agent = Agent { latency_ms: Some(100), ..Agent::named("a".into()) };
        (0..9).for_each(|_| rates.record(&agent.agent_type, "", true, None, 0));
        let rate = rates.rate(&agent, 0);
        assert_eq!((rate.latency_ms, rate.outcomes), (Some(100.0), 9.0));
    }

    #[test]
    fn faded_actions_make_room_for_new_ones() {
        let mut rates = AgentRates::new(1_000);
        let (agent, other) = (AgentType::from("a"), AgentType::from("b"));
        (0..ACTIONS_MAX).for_each(|n| rates.record(&agent, &n.to_string(), true, Some(5), 0));
        let new = |rates: &mut AgentRates, action: &str, now_ms| {
            (0..3).for_each(|_| rates.record(&other, action, true, Some(5), now_ms));
            rates.measured(&other, action, now_ms)
        };
        assert_eq!(new(&mut rates, "too soon", 500), None);
        assert!(new(&mut rates, "new", 5_000).is_some());
        assert_eq!(rates.actions_count, 1);
    }
}
