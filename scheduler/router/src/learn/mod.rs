//! What outcomes teach: which agents did steps like this one, and which steps nobody should do.
//!
//! Bounded in memory and in time: a ring of examples for each agent type, one matrix of weights, and a fixed number of
//! old examples replayed for each new one.

use std::collections::BTreeMap;
use std::sync::Arc;

use goalmill_common::agent::Agent;
use goalmill_common::id::AgentType;
use goalmill_common::random::Random;

use super::pieces::Pieces;
use super::statics::mean;
use super::table::Table;
use super::words::contents;

mod doubt;
mod features;
mod linear;
mod memory;

use doubt::{Doubt, Evidence};
use features::Features;
use linear::Linear;
use memory::Memory;

/// Agent types that are learned at most; outcomes of others are left alone.
pub const CLASSES_MAX: usize = 1_024;
/// Examples of steps that nobody should do, for each example that an agent type may have.
const NOBODY_SHARE: usize = 20;
/// Old examples that are gone through again with each new one.
const REPLAYED: usize = 4;
/// How far one example moves the weights.
const RATE: f32 = 2.0;
/// The same for whether anybody fits.
const NOBODY_RATE: f32 = 1.0;
/// A failure says little about who fits: it may have had any other cause.
const FAILURE_RATE: f32 = -0.1;

/// What the largest bonus adds to the logarithm of the odds that somebody fits.
const DONE_BEFORE: f64 = 4.0;

/// The class of steps that nobody should do.
const NOBODY: usize = 0;

/// Learns from outcomes, and gives advice.
#[derive(Debug)]
pub(super) struct Learner {
    table: Option<Arc<Table>>,
    classes: BTreeMap<AgentType, usize>,
    linear: Linear,
    /// Two classes: somebody, nobody.
    nobody: Linear,
    memory: Memory,
    doubt: Doubt,
    random: Random,
}

/// What the outcomes say about a step.
#[derive(Debug)]
pub(super) struct Advice {
    /// For each agent, how much more it fits, in units of similarity; not negative.
    pub(super) bonus: Vec<f32>,
    /// The most that a bonus can be.
    pub(super) bonus_max: f32,
    /// The logarithm of the odds that nobody fits; nothing until enough outcomes were seen.
    pub(super) nobody: Option<f64>,
}

impl Advice {
    /// The logarithm of the odds that somebody fits.
    ///
    /// As long as too few steps for nobody were seen, what somebody did before adds to what the words say.
    pub(super) fn somebody(&self, before: f64) -> f64 {
        let best = self.bonus.iter().copied().fold(0.0, f32::max) / self.bonus_max.max(f32::MIN_POSITIVE);
        self.nobody.map_or(before + DONE_BEFORE * f64::from(best), |nobody| -nobody)
    }
}

impl Learner {
    /// - `examples_max`: examples that are kept for each agent type.
    pub(super) fn new(table: Option<Arc<Table>>, examples_max: usize, random: Random) -> Self {
        let dense = table.as_ref().map_or(0, |table| table.columns());
        let mut nobody = Linear::new(dense);
        nobody.widen(2);
        Self {
            table,
            classes: BTreeMap::new(),
            linear: Linear::new(dense),
            nobody,
            memory: Memory::new(examples_max, NOBODY_SHARE * examples_max),
            doubt: Doubt::default(),
            random,
        }
    }

    /// Learns that `agent` did a step, or failed at it; that nobody should do it, without an agent.
    ///
    /// - `before`: the logarithm of the odds that somebody fits, as it is without learning.
    pub(super) fn learn(&mut self, text: &str, agent: Option<&AgentType>, success: bool, before: f64) {
        let Some(class) = self.class(agent) else { return };
        let features = self.read(text);
        if success {
            let evidence = self.evidence(&features, &self.memory.votes(&features), before);
            self.doubt.learn(&evidence, class == NOBODY);
        }
        self.train(&features, class, success);
        self.memory.keep(features, class, success);
        for _ in 0..REPLAYED {
            let kept = u64::try_from(self.memory.len()).expect("the number of examples is bounded");
            let at = usize::try_from(self.random.below(kept)).expect("it is below the number of examples");
            let example = self.memory.example(at);
            let (features, class, success) = (example.features.clone(), example.class, example.success);
            self.train(&features, class, success);
        }
    }

    /// What the outcomes say about a step; nothing before the first one.
    pub(super) fn advise(&self, text: &str, agents: &[Agent], before: f64) -> Option<Advice> {
        if self.memory.len() == 0 {
            return None;
        }
        let features = self.read(text);
        let votes = self.memory.votes(&features);
        let likely = self.linear.log_probabilities(&features);
        let seen = self.classes.len().max(1) as f32;
        let each = self.memory.len().saturating_sub(self.memory.count(NOBODY)) as f32 / seen;
        // With a few examples an agent, its own words tell more than they do.
        let trust = each / (each + 20.0);
        let (linear, neighbours) = (0.04 + 0.08 * trust, 0.15 + 0.45 * trust);
        // An agent that was never chosen is not worse than one that is out of the question.
        let floor = (-seen.ln() - 0.5).clamp(-6.0, -2.0);
        let bonus = |agent: &Agent| {
            let Some(class) = self.classes.get(&agent.agent_type) else { return 0.0 };
            let likely = likely.get(class - 1).map_or(floor, |likely| likely.max(floor));
            let vote = votes.get(class).copied().unwrap_or_default();
            (linear * (likely - floor) + neighbours * vote).max(0.0)
        };
        let evidence = self.evidence(&features, &votes, before);
        Some(Advice {
            bonus: agents.iter().map(bonus).collect(),
            bonus_max: linear * -floor + neighbours,
            nobody: self.doubt.is_ready().then(|| self.doubt.log_odds(&evidence)),
        })
    }

    /// How many examples are kept.
    pub(super) fn examples(&self) -> usize {
        self.memory.len()
    }

    /// The class of an agent, a new one if there is room.
    fn class(&mut self, agent: Option<&AgentType>) -> Option<usize> {
        let Some(agent) = agent else { return Some(NOBODY) };
        if let Some(class) = self.classes.get(agent) {
            return Some(*class);
        }
        let class = self.classes.len() + 1;
        (class <= CLASSES_MAX).then(|| {
            self.classes.insert(agent.clone(), class);
            self.linear.widen(class);
            class
        })
    }

    fn read(&self, text: &str) -> Features {
        let dense = self.table.as_ref().and_then(|table| {
            let pieces = Pieces::of(table, &contents(text));
            pieces.are_known().then(|| mean(table, pieces.all().iter().map(|(piece, _)| *piece)))
        });
        Features::new(text, dense.unwrap_or_default())
    }

    fn train(&mut self, features: &Features, class: usize, success: bool) {
        if class != NOBODY {
            self.linear.step(features, class - 1, if success { RATE } else { FAILURE_RATE });
        }
        if success {
            self.nobody.step(features, usize::from(class == NOBODY), NOBODY_RATE);
        }
    }

    fn evidence(&self, features: &Features, votes: &BTreeMap<usize, f32>, before: f64) -> Evidence {
        let odds = self.nobody.log_probabilities(features);
        let against = votes.get(&NOBODY).copied().unwrap_or_default();
        let best = votes.iter().filter(|(class, _)| **class != NOBODY).map(|(_, vote)| *vote).fold(0.0, f32::max);
        [before, f64::from(odds[1] - odds[0]).clamp(-10.0, 10.0), f64::from(against), f64::from(best)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DONE: [(&str, &str); 4] = [
        ("settle the invoice of last month", "billing"),
        ("pay what we owe to the supplier", "billing"),
        ("fix the leaking tap", "plumber"),
        ("the sink is blocked again", "plumber"),
    ];

    fn taught() -> (Learner, Vec<Agent>) {
        let mut learner = Learner::new(None, 10, Random::seeded(3));
        for _ in 0..10 {
            for (text, agent) in DONE {
                learner.learn(text, Some(&agent.into()), true, 0.0);
            }
            learner.learn("say hello to the user", None, true, 0.0);
            learner.learn("confirm that all went well", None, true, 0.0);
        }
        (learner, vec![Agent::named("billing".into()), Agent::named("plumber".into()), Agent::named("new".into())])
    }

    #[test]
    fn who_did_the_like_gets_the_larger_bonus() {
        let (learner, agents) = taught();
        let advice = learner.advise("the tap is leaking", &agents, 0.0).expect("outcomes were seen");
        assert!(advice.bonus[1] > 2.0 * advice.bonus[0], "{advice:?}");
        assert!(advice.bonus.iter().all(|bonus| (0.0..=advice.bonus_max).contains(bonus)), "{advice:?}");
        assert_eq!(advice.bonus[2], 0.0, "an agent without outcomes keeps what its words are worth");
    }

    #[test]
    fn steps_for_nobody_are_told_apart() {
        let (learner, agents) = taught();
        let odds =
            |text: &str| learner.advise(text, &agents, 0.0).and_then(|advice| advice.nobody).expect("both were seen");
        assert!(odds("confirm that it went well") > 1.0, "{}", odds("confirm that it went well"));
        assert!(odds("fix the blocked sink") < -1.0, "{}", odds("fix the blocked sink"));
    }

    #[test]
    fn the_memory_of_an_agent_is_bounded() {
        let mut learner = Learner::new(None, 10, Random::seeded(3));
        for n in 0..100 {
            learner.learn(&format!("task number {n}"), Some(&"busy".into()), true, 0.0);
        }
        assert_eq!(learner.examples(), 10);
        assert!(learner.advise("task", &[], 0.0).is_some_and(|advice| advice.bonus.is_empty()));
    }

    #[test]
    fn failures_speak_against_an_agent() {
        let mut learner = Learner::new(None, 10, Random::seeded(3));
        let agents = [Agent::named("good".into()), Agent::named("bad".into())];
        for _ in 0..10 {
            learner.learn("paint the fence", Some(&"good".into()), true, 0.0);
            learner.learn("paint the fence", Some(&"bad".into()), false, 0.0);
        }
        let advice = learner.advise("paint the fence", &agents, 0.0).expect("outcomes were seen");
        assert!(advice.bonus[0] > advice.bonus[1], "{advice:?}");
    }
}
