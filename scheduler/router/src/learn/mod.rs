//! Learns from outcomes which agents did similar steps and which steps no agent should do.
//!
//! Memory and time are bounded: a ring of examples per agent type, one weight matrix, and a fixed number of replayed
//! examples per outcome.

use std::collections::BTreeMap;
use std::sync::Arc;

use goalmill_common::agent::Agent;
use goalmill_common::id::AgentType;
use goalmill_common::random::Random;

use super::embedding_table::EmbeddingTable;
use super::static_embedder::mean_vector;
use super::subwords::Subwords;
use super::text_analysis::content_words;

mod classifier;
mod example_store;
mod features;
mod rejection_model;

use classifier::SoftmaxClassifier;
use example_store::StepMemory;
use features::Features;
use rejection_model::{Evidence, RejectionModel};

/// Limit of learned agent types; outcomes of further ones are ignored.
pub const CLASSES_MAX: usize = 1_024;
/// Limit of examples without a match, as a multiple of the limit per agent type.
const NO_MATCH_SHARE: usize = 20;
/// Old examples that are replayed with each new one.
const REPLAYED: usize = 4;
/// Learning rate.
const RATE: f32 = 2.0;
/// Learning rate of the match classifier.
const NO_MATCH_RATE: f32 = 1.0;
/// Learning rate for failures: low, because a failure may have other causes.
const FAILURE_RATE: f32 = -0.1;

/// What the maximum bonus adds to the log odds of a match.
const EXPERIENCE_WEIGHT: f64 = 4.0;

/// The class of steps that no agent should do.
const NO_MATCH: usize = 0;

/// Learns from outcomes and advises the router.
#[derive(Debug)]
pub(super) struct Learner {
    table: Option<Arc<EmbeddingTable>>,
    classes: BTreeMap<AgentType, usize>,
    agent_classifier: SoftmaxClassifier,
    /// Two classes: match, no match.
    match_classifier: SoftmaxClassifier,
    examples: StepMemory,
    rejection_model: RejectionModel,
    random: Random,
}

/// Adjustments for one step.
#[derive(Debug)]
pub(super) struct OutcomeAdvice {
    /// Bonus of each agent, in units of similarity; not negative.
    pub(super) bonus: Vec<f32>,
    /// Maximum bonus.
    pub(super) bonus_max: f32,
    /// Log odds that no agent fits; `None` until there are enough outcomes.
    pub(super) no_match_log_odds: Option<f64>,
}

impl OutcomeAdvice {
    /// Log odds that an agent fits.
    ///
    /// Without enough rejections, the best bonus is added to the log odds of the texts.
    pub(super) fn match_log_odds(&self, before: f64) -> f64 {
        let best = self.bonus.iter().copied().fold(0.0, f32::max) / self.bonus_max.max(f32::MIN_POSITIVE);
        self.no_match_log_odds.map_or(before + EXPERIENCE_WEIGHT * f64::from(best), |log_odds| -log_odds)
    }
}

impl Learner {
    /// - `examples_max`: limit of examples per agent type.
    pub(super) fn new(table: Option<Arc<EmbeddingTable>>, examples_max: usize, random: Random) -> Self {
        let dense = table.as_ref().map_or(0, |table| table.columns());
        let mut match_classifier = SoftmaxClassifier::new(dense);
        match_classifier.add_classes(2);
        Self {
            table,
            classes: BTreeMap::new(),
            agent_classifier: SoftmaxClassifier::new(dense),
            match_classifier,
            examples: StepMemory::new(examples_max, NO_MATCH_SHARE * examples_max),
            rejection_model: RejectionModel::default(),
            random,
        }
    }

    /// Learns from an outcome; without an agent, that no agent should do the step.
    ///
    /// - `before`: log odds of a match without learning.
    pub(super) fn record_outcome(&mut self, text: &str, agent: Option<&AgentType>, success: bool, before: f64) {
        let Some(class) = self.class(agent) else { return };
        let features = self.features(text);
        if success {
            let evidence = self.evidence(&features, &self.examples.votes(&features), before);
            self.rejection_model.train(&evidence, class == NO_MATCH);
        }
        self.train(&features, class, success);
        self.examples.insert(features, class, success);
        for _ in 0..REPLAYED {
            let count = u64::try_from(self.examples.len()).expect("the number of examples is bounded");
            let at = usize::try_from(self.random.below(count)).expect("it is below the number of examples");
            let example = self.examples.example(at);
            let (features, class, success) = (example.features.clone(), example.class, example.success);
            self.train(&features, class, success);
        }
    }

    /// Advice for a step; `None` before the first outcome.
    pub(super) fn advise(&self, text: &str, agents: &[Agent], before: f64) -> Option<OutcomeAdvice> {
        if self.examples.len() == 0 {
            return None;
        }
        let features = self.features(text);
        let votes = self.examples.votes(&features);
        let likely = self.agent_classifier.log_probabilities(&features);
        let seen = self.classes.len().max(1) as f32;
        let each = self.examples.len().saturating_sub(self.examples.count(NO_MATCH)) as f32 / seen;
        // With few examples per agent, texts are more reliable.
        let trust = each / (each + 20.0);
        let (linear, neighbours) = (0.04 + 0.08 * trust, 0.15 + 0.45 * trust);
        // Lower bound, so that an agent without outcomes is not worse than an unsuitable one.
        let floor = (-seen.ln() - 0.5).clamp(-6.0, -2.0);
        let bonus = |agent: &Agent| {
            let Some(class) = self.classes.get(&agent.agent_type) else { return 0.0 };
            let likely = likely.get(class - 1).map_or(floor, |likely| likely.max(floor));
            let vote = votes.get(class).copied().unwrap_or_default();
            (linear * (likely - floor) + neighbours * vote).max(0.0)
        };
        let evidence = self.evidence(&features, &votes, before);
        let mut bonuses: Vec<f32> = agents.iter().map(bonus).collect();
        let best = bonuses.iter().copied().fold(0.0, f32::max);
        let matches = votes.iter().filter(|(class, _)| **class != NO_MATCH).map(|(_, vote)| *vote);
        let familiarity = matches.fold(0.0, f32::max);
        for (agent, bonus) in agents.iter().zip(&mut bonuses) {
            let outcomes = self.classes.get(&agent.agent_type).map_or(0, |class| self.examples.count(*class));
            *bonus = upper_bound(*bonus, outcomes, best, familiarity);
        }
        Some(OutcomeAdvice {
            bonus: bonuses,
            bonus_max: linear * -floor + neighbours,
            no_match_log_odds: self.rejection_model.is_ready().then(|| self.rejection_model.log_odds(&evidence)),
        })
    }

    /// The class of an agent; adds one if the limit allows it.
    fn class(&mut self, agent: Option<&AgentType>) -> Option<usize> {
        let Some(agent) = agent else { return Some(NO_MATCH) };
        if let Some(class) = self.classes.get(agent) {
            return Some(*class);
        }
        let class = self.classes.len() + 1;
        (class <= CLASSES_MAX).then(|| {
            self.classes.insert(agent.clone(), class);
            self.agent_classifier.add_classes(class);
            class
        })
    }

    fn features(&self, text: &str) -> Features {
        let dense = self.table.as_ref().and_then(|table| {
            let subwords = Subwords::tokenize(table, &content_words(text));
            subwords.are_mostly_known().then(|| mean_vector(table, subwords.all().iter().map(|(subword, _)| *subword)))
        });
        Features::new(text, dense.unwrap_or_default())
    }

    fn train(&mut self, features: &Features, class: usize, success: bool) {
        if class != NO_MATCH {
            self.agent_classifier.train(features, class - 1, if success { RATE } else { FAILURE_RATE });
        }
        if success {
            self.match_classifier.train(features, usize::from(class == NO_MATCH), NO_MATCH_RATE);
        }
    }

    fn evidence(&self, features: &Features, votes: &BTreeMap<usize, f32>, before: f64) -> Evidence {
        let odds = self.match_classifier.log_probabilities(features);
        let against = votes.get(&NO_MATCH).copied().unwrap_or_default();
        let best = votes.iter().filter(|(class, _)| **class != NO_MATCH).map(|(_, vote)| *vote).fold(0.0, f32::max);
        [before, f64::from(odds[1] - odds[0]).clamp(-10.0, 10.0), f64::from(against), f64::from(best)]
    }
}

/// The bonus that an agent may have at most, by what is known of it and of the step.
///
/// An agent without outcomes may be as good as the best one, the less so the more the step is like steps of other agents:
/// where nothing is known of either, similarity decides, as it does before any outcome. The first outcome ends that.
///
/// - `bonus`: by the outcomes.
/// - `outcomes`: of the agent.
/// - `best`: the highest bonus of all agents.
/// - `familiarity`: the strongest vote of earlier steps for one agent, 0 to 1.
///
/// Source: P. Auer, N. Cesa-Bianchi, P. Fischer, "Finite-time Analysis of the Multiarmed Bandit Problem", Machine Learning
/// 47, 2002 (UCB1: the mean plus the root of `2 ln N / n`, infinite for what was never tried); L. Li, W. Chu, J. Langford,
/// R. Schapire, "A Contextual-Bandit Approach to Personalized News Article Recommendation", WWW 2010 (`LinUCB`: the bound is
/// the wider, the less the context is like those that were seen).
fn upper_bound(bonus: f32, outcomes: usize, best: f32, familiarity: f32) -> f32 {
    if outcomes == 0 { best * (1.0 - familiarity).clamp(0.0, 1.0) } else { bonus }
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

    fn trained() -> (Learner, Vec<Agent>) {
        let mut learner = Learner::new(None, 10, Random::seeded(3));
        for _ in 0..10 {
            for (text, agent) in DONE {
                learner.record_outcome(text, Some(&agent.into()), true, 0.0);
            }
            learner.record_outcome("say hello to the user", None, true, 0.0);
            learner.record_outcome("confirm that all went well", None, true, 0.0);
        }
        (learner, vec![Agent::named("billing".into()), Agent::named("plumber".into()), Agent::named("new".into())])
    }

    #[test]
    fn the_agent_of_similar_steps_gets_the_largest_bonus() {
        let (learner, agents) = trained();
        let advice = learner.advise("the tap is leaking", &agents, 0.0).expect("there are outcomes");
        assert!(advice.bonus[1] > 2.0 * advice.bonus[0], "{advice:?}");
        assert!(advice.bonus.iter().all(|bonus| (0.0..=advice.bonus_max).contains(bonus)), "{advice:?}");
        let share = |text: &str| {
            let bonus = learner.advise(text, &agents, 0.0).expect("there are outcomes").bonus;
            bonus[2] / bonus.iter().copied().fold(0.0, f32::max)
        };
        let (familiar, unfamiliar) = (share("the tap is leaking"), share("translate a poem"));
        assert!(familiar < 0.9 && unfamiliar > 0.9, "{familiar} {unfamiliar}");
    }

    #[test]
    fn steps_without_a_match_are_recognized() {
        let (learner, agents) = trained();
        let odds = |text: &str| {
            learner
                .advise(text, &agents, 0.0)
                .and_then(|advice| advice.no_match_log_odds)
                .expect("there are outcomes of both kinds")
        };
        assert!(odds("confirm that it went well") > 1.0, "{}", odds("confirm that it went well"));
        assert!(odds("fix the blocked sink") < -1.0, "{}", odds("fix the blocked sink"));
    }

    #[test]
    fn the_examples_of_an_agent_are_bounded() {
        let mut learner = Learner::new(None, 10, Random::seeded(3));
        for n in 0..100 {
            learner.record_outcome(&format!("task number {n}"), Some(&"busy".into()), true, 0.0);
        }
        assert_eq!(learner.examples.len(), 10);
        assert!(learner.advise("task", &[], 0.0).is_some_and(|advice| advice.bonus.is_empty()));
    }

    #[test]
    fn failures_reduce_the_bonus() {
        let mut learner = Learner::new(None, 10, Random::seeded(3));
        let agents = [Agent::named("good".into()), Agent::named("bad".into())];
        for _ in 0..10 {
            learner.record_outcome("paint the fence", Some(&"good".into()), true, 0.0);
            learner.record_outcome("paint the fence", Some(&"bad".into()), false, 0.0);
        }
        let advice = learner.advise("paint the fence", &agents, 0.0).expect("there are outcomes");
        assert!(advice.bonus[0] > advice.bonus[1], "{advice:?}");
    }
}
