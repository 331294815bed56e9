//! How well agents do, as measured: old outcomes fade, and few of them do not outweigh what was declared.

use std::collections::BTreeMap;

use goalmill_common::agent::Agent;
use goalmill_common::id::AgentType;
use goalmill_engine::validate::{Durations, Measured};

/// How many outcomes the declared values are worth.
const DECLARED: f64 = 10.0;
/// Agent types that are measured at most.
const AGENTS_MAX: usize = 20_000;
/// Actions that are measured at most, of all agent types together.
const ACTIONS_MAX: usize = 50_000;
/// What must be left of an action's successes for their average to count: three that have just ended, many old ones.
const TIMED_MIN: f64 = 2.0;
/// An action whose durations deviate from their average by more than this share of it is not steady.
const DEVIATION_MAX: f64 = 0.5;

/// Success and duration by agent type, and duration by action.
#[derive(Debug)]
pub(super) struct Rates {
    half_life_ms: f64,
    seen: BTreeMap<AgentType, Seen>,
    actions: BTreeMap<AgentType, BTreeMap<String, Seen>>,
    /// How many actions there are.
    actions_count: usize,
}

/// Sums in which each outcome counts by half for each half-life that passed.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    at_ms: u64,
    outcomes: f64,
    successes: f64,
    timed: f64,
    latency_ms: f64,
    /// Of the squares of the latencies.
    squares: f64,
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
        Self {
            half_life_ms: half_life_ms.max(1) as f64,
            seen: BTreeMap::new(),
            actions: BTreeMap::new(),
            actions_count: 0,
        }
    }

    /// Counts an outcome; only successes tell how long the work takes. One that is older than what was counted before
    /// counts as much less as it would have faded by then.
    pub(super) fn record(&mut self, agent: &AgentType, action: &str, ok: bool, latency_ms: u64, time_ms: u64) {
        let half_life_ms = self.half_life_ms;
        if ok {
            self.time(agent, action, latency_ms, time_ms);
        }
        if let Some(seen) = self.seen.get_mut(agent) {
            return seen.count(ok, latency_ms, time_ms, half_life_ms);
        }
        if self.seen.len() < AGENTS_MAX {
            self.seen.insert(agent.clone(), Seen::first(ok, latency_ms, time_ms, half_life_ms));
        }
    }

    fn time(&mut self, agent: &AgentType, action: &str, latency_ms: u64, time_ms: u64) {
        let half_life_ms = self.half_life_ms;
        if let Some(seen) = self.actions.get_mut(agent).and_then(|actions| actions.get_mut(action)) {
            return seen.count(true, latency_ms, time_ms, half_life_ms);
        }
        if self.actions_count < ACTIONS_MAX {
            let seen = Seen::first(true, latency_ms, time_ms, half_life_ms);
            self.actions.entry(agent.clone()).or_default().insert(action.to_owned(), seen);
            self.actions_count += 1;
        }
    }

    /// How long actions took, those of which enough is left.
    pub(super) fn durations(&self, now_ms: u64) -> Durations {
        let of = |actions: &BTreeMap<String, Seen>| -> BTreeMap<String, Measured> {
            let measured = |(action, seen): (&String, &Seen)| {
                Some((action.clone(), seen.faded(now_ms, self.half_life_ms).measured()?))
            };
            actions.iter().filter_map(measured).collect()
        };
        let all = self.actions.iter().map(|(agent, actions)| (agent.clone(), of(actions)));
        all.filter(|(_, actions)| !actions.is_empty()).collect()
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
        self.actions.retain(|agent, _| known.contains(agent));
        self.actions_count = self.actions.values().map(BTreeMap::len).sum();
    }

    fn faded(&self, agent: &AgentType, now_ms: u64) -> Seen {
        self.seen.get(agent).copied().unwrap_or_default().faded(now_ms, self.half_life_ms)
    }
}

impl Seen {
    /// Of one outcome.
    fn first(ok: bool, latency_ms: u64, time_ms: u64, half_life_ms: f64) -> Self {
        let mut seen = Self { at_ms: time_ms, ..Self::default() };
        seen.count(ok, latency_ms, time_ms, half_life_ms);
        seen
    }

    fn count(&mut self, ok: bool, latency_ms: u64, time_ms: u64, half_life_ms: f64) {
        let worth = left(self.at_ms.saturating_sub(time_ms), half_life_ms);
        *self = self.faded(time_ms, half_life_ms);
        self.outcomes += worth;
        if ok {
            self.successes += worth;
            self.timed += worth;
            self.latency_ms += latency_ms as f64 * worth;
            self.squares += (latency_ms as f64).powi(2) * worth;
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
            squares: self.squares * keep,
        }
    }

    /// The average duration; none when too little is left.
    fn measured(self) -> Option<Measured> {
        if self.timed < TIMED_MIN {
            return None;
        }
        let average = self.latency_ms / self.timed;
        let variance = (self.squares / self.timed - average.powi(2)).max(0.0);
        Some(Measured { ms: average.round() as u64, is_steady: variance.sqrt() <= average * DEVIATION_MAX })
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
            rates.record(&agent.agent_type, "", false, 5, 0);
        }
        assert!((rates.of(&agent, 0).success - 0.45).abs() < 1e-9);
        assert!((rates.of(&agent, 1_000).success - 0.6).abs() < 1e-9, "after one half-life, five outcomes are left");
        assert!((rates.of(&agent, 60_000).success - 0.9).abs() < 1e-6);
        rates.record(&agent.agent_type, "", true, 1_000, 60_000);
        assert!(rates.of(&agent, 60_000).latency_ms > Some(150.0));
    }

    #[test]
    fn the_order_in_which_outcomes_are_told_does_not_matter() {
        let agent = Agent { success_rate: 0.9, ..Agent::named("a".into()) };
        let told = [(false, 0), (true, 1_500), (true, 4_000), (false, 4_500)];
        let rate = |told: &mut dyn Iterator<Item = &(bool, u64)>| {
            let mut rates = Rates::new(1_000);
            told.for_each(|(ok, at_ms)| rates.record(&agent.agent_type, "", *ok, 10 + at_ms, *at_ms));
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
        rates.record(&agent.agent_type, "", true, 40, 0);
        rates.record(&agent.agent_type, "", true, 60, 0);
        assert_eq!(rates.of(&agent, 0).latency_ms, Some(50.0));
        rates.keep(&[]);
        assert_eq!(rates.of(&agent, 0).outcomes, 0.0);
    }

    #[test]
    fn actions_are_measured_apart_and_from_several_successes_on() {
        let mut rates = Rates::new(1_000);
        let agent = AgentType::from("a");
        for (action, times) in [("steady", [100, 110, 120]), ("uneven", [1, 10, 1_000])] {
            times.into_iter().for_each(|ms| rates.record(&agent, action, true, ms, 0));
        }
        rates.record(&agent, "once", true, 7, 0);
        (0..9).for_each(|_| rates.record(&agent, "failing", false, 7, 0));
        let measured = |ms, is_steady| Measured { ms, is_steady };
        let of = BTreeMap::from([("steady".into(), measured(110, true)), ("uneven".into(), measured(337, false))]);
        assert_eq!(rates.durations(0), BTreeMap::from([(agent, of)]));
        assert!(rates.durations(1_000).is_empty(), "three that are half forgotten are too few");
        rates.keep(&[]);
        assert!(rates.durations(0).is_empty());
    }
}
