//! How well agents do, as measured: old outcomes fade, and few of them do not outweigh what was declared.

use std::collections::BTreeMap;

use goalmill_common::agent::Agent;
use goalmill_common::id::AgentType;

/// How many outcomes the declared values are worth.
const DECLARED: f64 = 10.0;
/// Agent types that are measured at most.
const AGENTS_MAX: usize = 20_000;

/// Success and duration by agent type.
#[derive(Debug)]
pub(super) struct Rates {
    half_life_ms: f64,
    seen: BTreeMap<AgentType, Seen>,
}

/// Sums in which each outcome counts by half for each half-life that passed.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    at_ms: u64,
    outcomes: f64,
    successes: f64,
    timed: f64,
    latency_ms: f64,
}

/// What is believed of an agent now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rate {
    /// 0 to 1.
    pub(super) success: f64,
    /// Milliseconds; unknown if it was neither declared nor measured.
    pub(super) latency_ms: Option<f64>,
    /// Outcomes behind it, the faded ones in part.
    pub(super) outcomes: f64,
}

impl Rates {
    pub(super) fn new(half_life_ms: u64) -> Self {
        Self { half_life_ms: half_life_ms.max(1) as f64, seen: BTreeMap::new() }
    }

    /// Counts an outcome; only successes tell how long the work takes. One that is older than what was counted before
    /// counts as much less as it would have faded by then.
    pub(super) fn record(&mut self, agent: &AgentType, ok: bool, latency_ms: u64, time_ms: u64) {
        let half_life_ms = self.half_life_ms;
        if let Some(seen) = self.seen.get_mut(agent) {
            return seen.count(ok, latency_ms, time_ms, half_life_ms);
        }
        if self.seen.len() < AGENTS_MAX {
            let mut seen = Seen { at_ms: time_ms, ..Seen::default() };
            seen.count(ok, latency_ms, time_ms, half_life_ms);
            self.seen.insert(agent.clone(), seen);
        }
    }

    /// The measured values, blended with the declared ones.
    pub(super) fn of(&self, agent: &Agent, now_ms: u64) -> Rate {
        let seen = self.faded(&agent.agent_type, now_ms);
        let declared = agent.success_rate.clamp(0.0, 1.0);
        let latency_ms = match agent.latency_ms {
            Some(declared) => Some((declared as f64 * DECLARED + seen.latency_ms) / (DECLARED + seen.timed)),
            None => (seen.timed > 1e-9).then(|| seen.latency_ms / seen.timed),
        };
        Rate {
            success: (declared * DECLARED + seen.successes) / (DECLARED + seen.outcomes),
            latency_ms,
            outcomes: seen.outcomes,
        }
    }

    /// Forgets agents that are gone.
    pub(super) fn keep(&mut self, agents: &[Agent]) {
        let known: std::collections::BTreeSet<&AgentType> = agents.iter().map(|agent| &agent.agent_type).collect();
        self.seen.retain(|agent, _| known.contains(agent));
    }

    fn faded(&self, agent: &AgentType, now_ms: u64) -> Seen {
        self.seen.get(agent).copied().unwrap_or_default().faded(now_ms, self.half_life_ms)
    }
}

impl Seen {
    fn count(&mut self, ok: bool, latency_ms: u64, time_ms: u64, half_life_ms: f64) {
        let worth = left(self.at_ms.saturating_sub(time_ms), half_life_ms);
        *self = self.faded(time_ms, half_life_ms);
        self.outcomes += worth;
        if ok {
            self.successes += worth;
            self.timed += worth;
            self.latency_ms += latency_ms as f64 * worth;
        }
    }

    /// As it stands at `now_ms`, or as it stood last when that is later.
    fn faded(self, now_ms: u64, half_life_ms: f64) -> Self {
        let keep = left(now_ms.saturating_sub(self.at_ms), half_life_ms);
        Self {
            at_ms: self.at_ms.max(now_ms),
            outcomes: self.outcomes * keep,
            successes: self.successes * keep,
            timed: self.timed * keep,
            latency_ms: self.latency_ms * keep,
        }
    }
}

/// What is left of an outcome after so long.
fn left(ms: u64, half_life_ms: f64) -> f64 {
    if ms == 0 { 1.0 } else { 0.5_f64.powf(ms as f64 / half_life_ms) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_move_the_declared_values_and_fade() {
        let mut rates = Rates::new(1_000);
        let agent = Agent { success_rate: 0.9, latency_ms: Some(100), ..Agent::named("a".into()) };
        let declared = rates.of(&agent, 0);
        assert_eq!((declared.success, declared.latency_ms, declared.outcomes), (0.9, Some(100.0), 0.0));
        for _ in 0..10 {
            rates.record(&agent.agent_type, false, 5, 0);
        }
        assert!((rates.of(&agent, 0).success - 0.45).abs() < 1e-9);
        assert!((rates.of(&agent, 1_000).success - 0.6).abs() < 1e-9, "after one half-life, five outcomes are left");
        assert!((rates.of(&agent, 60_000).success - 0.9).abs() < 1e-6);
        rates.record(&agent.agent_type, true, 1_000, 60_000);
        assert!(rates.of(&agent, 60_000).latency_ms > Some(150.0));
    }

    #[test]
    fn the_order_in_which_outcomes_are_told_does_not_matter() {
        let agent = Agent { success_rate: 0.9, ..Agent::named("a".into()) };
        let told = [(false, 0), (true, 1_500), (true, 4_000), (false, 4_500)];
        let rate = |told: &mut dyn Iterator<Item = &(bool, u64)>| {
            let mut rates = Rates::new(1_000);
            told.for_each(|(ok, at_ms)| rates.record(&agent.agent_type, *ok, 10 + at_ms, *at_ms));
            rates.of(&agent, 5_000)
        };
        let (forth, back) = (rate(&mut told.iter()), rate(&mut told.iter().rev()));
        assert!((forth.success - back.success).abs() < 1e-9, "{forth:?} {back:?}");
        assert!((forth.latency_ms.unwrap_or_default() - back.latency_ms.unwrap_or_default()).abs() < 1e-9);
        assert!((forth.outcomes - back.outcomes).abs() < 1e-9);
    }

    #[test]
    fn what_is_not_declared_is_measured() {
        let mut rates = Rates::new(1_000);
        let agent = Agent::named("a".into());
        assert_eq!(rates.of(&agent, 0).latency_ms, None);
        rates.record(&agent.agent_type, true, 40, 0);
        rates.record(&agent.agent_type, true, 60, 0);
        assert_eq!(rates.of(&agent, 0).latency_ms, Some(50.0));
        rates.keep(&[]);
        assert_eq!(rates.of(&agent, 0).outcomes, 0.0);
    }
}
