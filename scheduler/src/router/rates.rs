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

    /// Counts an outcome; only successes tell how long the work takes.
    pub(super) fn record(&mut self, agent: &AgentType, ok: bool, latency_ms: u64, now_ms: u64) {
        if self.seen.len() >= AGENTS_MAX && !self.seen.contains_key(agent) {
            return;
        }
        let mut seen = self.faded(agent, now_ms);
        seen.outcomes += 1.0;
        if ok {
            seen.successes += 1.0;
            seen.timed += 1.0;
            seen.latency_ms += latency_ms as f64;
        }
        self.seen.insert(agent.clone(), seen);
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
        let seen = self.seen.get(agent).copied().unwrap_or_default();
        let keep = 0.5_f64.powf(now_ms.saturating_sub(seen.at_ms) as f64 / self.half_life_ms);
        Seen {
            at_ms: now_ms,
            outcomes: seen.outcomes * keep,
            successes: seen.successes * keep,
            timed: seen.timed * keep,
            latency_ms: seen.latency_ms * keep,
        }
    }
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
