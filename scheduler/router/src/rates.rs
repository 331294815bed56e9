//! How well agents do, as measured: old outcomes fade, and few of them do not outweigh what was declared.

use std::collections::BTreeMap;

use goalmill_common::agent::Agent;
use goalmill_common::id::AgentType;
use goalmill_plan::validate::Measured;

/// How many outcomes the declared values are worth.
const DECLARED: f64 = 10.0;
/// Agent types that are measured at most.
const AGENTS_MAX: usize = 20_000;
/// Actions that are measured at most, of all agent types together.
const ACTIONS_MAX: usize = 50_000;
/// What must be left of an action's successes for their average to count: three that have just ended, many old ones.
const TIMED_MIN: f64 = 2.0;
/// An action of whose successes less than this is left may make room for another.
const FADED: f64 = 0.5;
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
    /// When there were too many and none could be let go, it is not tried again before, Unix milliseconds.
    full_until_ms: u64,
}

/// Sums in which each outcome counts by half for each half-life that passed.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    at_ms: u64,
    outcomes: f64,
    successes: f64,
    /// Successes of which it is known how long they took.
    timed: f64,
    latency_ms: f64,
    /// Of the squares of the latencies.
    squares: f64,
}

/// How something ended.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    ok: bool,
    /// Of a success, if that is known.
    took_ms: Option<u64>,
    /// Unix milliseconds.
    time_ms: u64,
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
            full_until_ms: 0,
        }
    }

    /// Counts an outcome; only successes tell how long the work takes. One that is older than what was counted before
    /// counts as much less as it would have faded by then.
    ///
    /// - `took_ms`: none when nobody said how long it took; then nothing is learnt of durations.
    pub(super) fn record(&mut self, agent: &AgentType, action: &str, ok: bool, took_ms: Option<u64>, time_ms: u64) {
        let outcome = Outcome { ok, took_ms: took_ms.filter(|_| ok), time_ms };
        let half_life_ms = self.half_life_ms;
        if outcome.took_ms.is_some() {
            self.time(agent, action, &outcome);
        }
        if let Some(seen) = self.seen.get_mut(agent) {
            return seen.count(&outcome, half_life_ms);
        }
        if self.seen.len() < AGENTS_MAX {
            self.seen.insert(agent.clone(), Seen::first(&outcome, half_life_ms));
        }
    }

    fn time(&mut self, agent: &AgentType, action: &str, outcome: &Outcome) {
        let half_life_ms = self.half_life_ms;
        if let Some(seen) = self.actions.get_mut(agent).and_then(|actions| actions.get_mut(action)) {
            return seen.count(outcome, half_life_ms);
        }
        if self.actions_count >= ACTIONS_MAX && outcome.time_ms >= self.full_until_ms {
            self.let_go(outcome.time_ms);
        }
        if self.actions_count < ACTIONS_MAX {
            let seen = Seen::first(outcome, half_life_ms);
            self.actions.entry(agent.clone()).or_default().insert(action.to_owned(), seen);
            self.actions_count += 1;
        }
    }

    /// Forgets the actions of which less than half of a success is left.
    fn let_go(&mut self, now_ms: u64) {
        for actions in self.actions.values_mut() {
            actions.retain(|_, seen| seen.faded(now_ms, self.half_life_ms).timed >= FADED);
        }
        self.actions.retain(|_, actions| !actions.is_empty());
        self.count_actions();
        // Looking through all of them at each new one would be dear: what is left now fades slowly.
        self.full_until_ms = now_ms.saturating_add((self.half_life_ms / 8.0) as u64);
    }

    fn count_actions(&mut self) {
        self.actions_count = self.actions.values().map(BTreeMap::len).sum();
    }

    /// How long an action took, if enough of its successes is left.
    pub(super) fn measured(&self, agent: &AgentType, action: &str, now_ms: u64) -> Option<Measured> {
        self.actions.get(agent)?.get(action)?.faded(now_ms, self.half_life_ms).measured()
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
        self.count_actions();
    }

    fn faded(&self, agent: &AgentType, now_ms: u64) -> Seen {
        self.seen.get(agent).copied().unwrap_or_default().faded(now_ms, self.half_life_ms)
    }
}

impl Seen {
    /// Of one outcome.
    fn first(outcome: &Outcome, half_life_ms: f64) -> Self {
        let mut seen = Self { at_ms: outcome.time_ms, ..Self::default() };
        seen.count(outcome, half_life_ms);
        seen
    }

    fn count(&mut self, outcome: &Outcome, half_life_ms: f64) {
        let worth = left(self.at_ms.saturating_sub(outcome.time_ms), half_life_ms);
        *self = self.faded(outcome.time_ms, half_life_ms);
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
            rates.record(&agent.agent_type, "", false, Some(5), 0);
        }
        assert!((rates.of(&agent, 0).success - 0.45).abs() < 1e-9);
        assert!((rates.of(&agent, 1_000).success - 0.6).abs() < 1e-9, "after one half-life, five outcomes are left");
        assert!((rates.of(&agent, 60_000).success - 0.9).abs() < 1e-6);
        rates.record(&agent.agent_type, "", true, Some(1_000), 60_000);
        assert!(rates.of(&agent, 60_000).latency_ms > Some(150.0));
    }

    #[test]
    fn the_order_in_which_outcomes_are_told_does_not_matter() {
        let agent = Agent { success_rate: 0.9, ..Agent::named("a".into()) };
        let told = [(false, 0), (true, 1_500), (true, 4_000), (false, 4_500)];
        let rate = |told: &mut dyn Iterator<Item = &(bool, u64)>| {
            let mut rates = Rates::new(1_000);
            told.for_each(|(ok, at_ms)| rates.record(&agent.agent_type, "", *ok, Some(10 + at_ms), *at_ms));
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
        rates.record(&agent.agent_type, "", true, Some(40), 0);
        rates.record(&agent.agent_type, "", true, Some(60), 0);
        assert_eq!(rates.of(&agent, 0).latency_ms, Some(50.0));
        rates.keep(&[]);
        assert_eq!(rates.of(&agent, 0).outcomes, 0.0);
    }

    #[test]
    fn actions_are_measured_apart_and_from_several_successes_on() {
        let mut rates = Rates::new(1_000);
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
        assert_eq!(at(1_000), [None; 5], "three that are half forgotten are too few");
        rates.keep(&[]);
        assert_eq!(rates.measured(&agent, "steady", 0), None);
    }

    #[test]
    fn who_does_not_say_how_long_it_took_changes_no_duration() {
        let mut rates = Rates::new(1_000);
        let agent = Agent { latency_ms: Some(100), ..Agent::named("a".into()) };
        (0..9).for_each(|_| rates.record(&agent.agent_type, "", true, None, 0));
        let rate = rates.of(&agent, 0);
        assert_eq!((rate.latency_ms, rate.outcomes), (Some(100.0), 9.0));
    }

    #[test]
    fn faded_actions_make_room_for_new_ones() {
        let mut rates = Rates::new(1_000);
        let (agent, other) = (AgentType::from("a"), AgentType::from("b"));
        (0..ACTIONS_MAX).for_each(|n| rates.record(&agent, &n.to_string(), true, Some(5), 0));
        let new = |rates: &mut Rates, action: &str, now_ms| {
            (0..3).for_each(|_| rates.record(&other, action, true, Some(5), now_ms));
            rates.measured(&other, action, now_ms)
        };
        assert_eq!(new(&mut rates, "too soon", 500), None);
        assert!(new(&mut rates, "new", 5_000).is_some());
        assert_eq!(rates.actions_count, 1);
    }
}
