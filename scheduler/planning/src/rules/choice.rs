//! Chooses the rule for a goal: by its signals, and by its similarity to the examples of rules.

use goalmill_common::problem::Issue;
use serde_json::{Value, json};

use super::similar::Near;
use super::{Candidate, Rule};

/// Least similarity by which a goal that no rule recognises is given a kind.
const SIMILARITY_MIN: f64 = 0.36;
/// By how much the nearest kind must be nearer than the next.
const MARGIN_MIN: f64 = 0.03;
/// A goal of fewer words must be nearer, by `SHORT_MALUS`: one word in common says little.
const SHORT_WORDS: usize = 4;
const SHORT_MALUS: f64 = 0.1;
/// Signals against a kind of this sum rule it out as a guess.
const AGAINST_MAX: f64 = -0.75;
/// By how much another kind must be nearer than the recognised one to take its place.
const OVERRULE_MARGIN: f64 = 0.25;
/// Score that one unit of similarity is worth among rules that recognise a goal.
const SIMILARITY_SCORE: f64 = 1.0;
/// What signals below the score of a rule add to its similarity at most.
const SIGNALS_SHARE: f64 = 0.1;
/// What is added besides if the first sentence or a later request alone reaches the score.
const SECONDARY_BONUS: f64 = 0.05;
/// Least and highest confidence of a plan whose kind is a guess.
const CONFIDENCE: (f64, f64) = (0.4, 0.5);
/// Highest confidence of a kind that signals name and similarity does not support: where the kind is far from the goal
/// or another one is nearer, and where both are so.
const CONFIDENCE_DOUBTFUL: (f64, f64) = (0.5, 0.45);
/// Similarity of the highest confidence.
const SIMILARITY_SURE: f64 = 0.7;

/// The rule that makes the plan.
pub(super) struct Choice<'a> {
    pub rule: &'a Rule,
    /// What similarity had to do with it; none when signals alone decided.
    pub similarity: Option<Similarity<'a>>,
    /// The highest confidence of the plan and the nearest kind, where similarity does not support the signals.
    doubt: Option<(f64, Near<'a>)>,
    /// Whether words of a situation named the kind, which another request may contradict.
    is_of_situation: bool,
}

/// How similarity decided.
pub(super) struct Similarity<'a> {
    near: Near<'a>,
    /// Whether the goal does not reach the score of the rule.
    pub is_guess: bool,
    /// The rule that signals alone name.
    instead_of: Option<&'a str>,
}

impl<'a> Choice<'a> {
    /// Signals alone decided, or nothing did.
    pub(super) fn of(rule: &'a Rule) -> Self {
        Self { rule, similarity: None, doubt: None, is_of_situation: false }
    }

    /// The kind of a goal that no rule recognises.
    fn guess(near: Near<'a>) -> Self {
        let similarity = Similarity { near, is_guess: true, instead_of: None };
        Self { rule: similarity.near.rule, similarity: Some(similarity), doubt: None, is_of_situation: false }
    }

    /// The same kind, named by a situation: a goal that says its type is sure.
    pub(super) fn of_situation(self, is_of_situation: bool) -> Self {
        Self { is_of_situation: self.is_of_situation || is_of_situation, ..self }
    }

    /// Confidence of the plan when all of the goal was understood.
    pub(super) fn confidence(&self) -> f64 {
        let guess = self.similarity.as_ref().filter(|similarity| similarity.is_guess).map(Similarity::confidence);
        let doubt = self.doubt.as_ref().map(|(most, _)| *most);
        let situation = self.is_of_situation.then_some(CONFIDENCE_DOUBTFUL.0);
        [guess, doubt, situation].into_iter().flatten().fold(self.rule.confidence, f64::min)
    }

    /// The kind that is nearest when the signals are doubtful, for the provenance.
    pub(super) fn doubt_account(&self) -> Option<Value> {
        let (_, near) = self.doubt.as_ref()?;
        Some(json!({"rule": near.rule.id, "value": rounded(near.similarity), "example": near.example}))
    }
}

impl Similarity<'_> {
    /// Confidence of the plan when the kind is a guess.
    fn confidence(&self) -> f64 {
        let (least, most) = CONFIDENCE;
        let share = ((self.near.similarity - SIMILARITY_MIN) / (SIMILARITY_SURE - SIMILARITY_MIN)).clamp(0.0, 1.0);
        rounded(least + (most - least) * share)
    }

    /// For the provenance.
    pub(super) fn account(&self) -> Value {
        let mut account = json!({"value": rounded(self.near.similarity), "example": self.near.example});
        if let Some(rule) = self.instead_of {
            account["instead_of"] = rule.into();
        }
        account
    }

    /// Says that the kind is a guess, and why.
    pub(super) fn warning(&self) -> Issue {
        let Near { rule, example, .. } = &self.near;
        Issue {
            code: "KIND_GUESSED".into(),
            pointer: String::new(),
            detail: format!("the kind `{}` was recognised by similarity to the example `{example}`", rule.goal_type),
            hint: "if it is another kind, name it in `type`".into(),
        }
    }
}

/// The rule for a goal; none if it stays generic.
///
/// - `candidates`: all rules that recognise goals, the highest score first.
/// - `nearest`: the rules with examples, the nearest first; it is asked only when the goal names no type.
/// - `words`: how many the goal has.
pub(super) fn choose<'a>(
    candidates: &[Candidate<'a>],
    nearest: impl FnOnce() -> Vec<Near<'a>>,
    words: usize,
) -> Option<Choice<'a>> {
    let sure = |nearest: &[Near<'a>]| sure(candidates, nearest, words);
    let recognised: Vec<&Candidate<'a>> =
        candidates.iter().filter(|c| c.is_recognised() && c.missing.is_empty()).collect();
    match recognised.first() {
        Some(first) if first.score.is_infinite() => Some(Choice::of(first.rule)),
        Some(first) => {
            let nearest = nearest();
            Some(weigh(first, &recognised, &nearest, sure(&nearest)))
        }
        // The rule that recognises the goal asks for the facts that are missing.
        None if candidates.iter().any(Candidate::is_recognised) => None,
        None => {
            let nearest = nearest();
            sure(&nearest).map(Choice::guess).or_else(|| named_later(candidates, &nearest))
        }
    }
}

/// Chooses among the rules that recognise a goal, unless another kind is much nearer.
fn weigh<'a>(
    first: &Candidate<'a>,
    recognised: &[&Candidate<'a>],
    nearest: &[Near<'a>],
    sure: Option<Near<'a>>,
) -> Choice<'a> {
    let near = |candidate: &Candidate<'_>| nearest.iter().find(|near| near.rule.id == candidate.rule.id);
    // Without examples of all of them there is nothing to compare.
    let Some(similarities) = recognised.iter().map(|c| near(c)).collect::<Option<Vec<&Near<'a>>>>() else {
        return Choice::of(first.rule);
    };
    let value = |(candidate, near): &(&&Candidate<'a>, &Near<'a>)| candidate.score + SIMILARITY_SCORE * near.similarity;
    let pairs = recognised.iter().zip(similarities);
    let Some((best, best_near)) = pairs.rev().max_by(|a, b| value(a).total_cmp(&value(b))) else {
        return Choice::of(first.rule);
    };
    let instead_of = |rule: &Rule| (rule.id != first.rule.id).then_some(first.rule.id.as_str());
    // A kind that is recognised, too, was weighed already.
    if let Some(other) = sure
        && recognised.iter().all(|c| c.rule.id != other.rule.id)
        && other.similarity >= best_near.similarity + OVERRULE_MARGIN
    {
        let instead_of = instead_of(other.rule);
        return Choice {
            rule: other.rule,
            similarity: Some(Similarity { near: other, is_guess: true, instead_of }),
            doubt: None,
            is_of_situation: false,
        };
    }
    let instead_of = instead_of(best.rule);
    let similarity = instead_of.is_some().then(|| Similarity { near: best_near.clone(), is_guess: false, instead_of });
    Choice { rule: best.rule, similarity, doubt: doubt(best.rule, nearest), is_of_situation: false }
}

/// The kind that a request behind a situation names: the highest sum of score and similarity.
fn named_later<'a>(candidates: &[Candidate<'a>], nearest: &[Near<'a>]) -> Option<Choice<'a>> {
    let similarity = |candidate: &Candidate<'_>| {
        nearest.iter().find(|near| near.rule.id == candidate.rule.id).map_or(0.0, |near| near.similarity)
    };
    let value = |candidate: &&Candidate<'a>| candidate.secondary + SIMILARITY_SCORE * similarity(candidate);
    let named =
        candidates.iter().rev().filter(|c| c.secondary >= c.needed && c.missing.is_empty() && c.against > AGAINST_MAX);
    let best = named.max_by(|a, b| value(a).total_cmp(&value(b)))?;
    Some(Choice { doubt: doubt(best.rule, nearest), is_of_situation: true, ..Choice::of(best.rule) })
}

/// Whether similarity supports a kind less than signals do: the highest confidence, and the nearest kind.
///
/// A kind is supported if it is the nearest one, and as near as a guess has to be. With one kind only there is nothing to
/// compare.
fn doubt<'a>(rule: &Rule, nearest: &[Near<'a>]) -> Option<(f64, Near<'a>)> {
    let [first, _, ..] = nearest else { return None };
    let is_nearest = first.rule.id == rule.id;
    let own = nearest.iter().find(|near| near.rule.id == rule.id).map_or(0.0, |near| near.similarity);
    let (one, both) = CONFIDENCE_DOUBTFUL;
    match (is_nearest, own >= SIMILARITY_MIN) {
        (true, true) => None,
        (true, false) | (false, true) => Some((one, first.clone())),
        (false, false) => Some((both, first.clone())),
    }
}

fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// The nearest kind, if it is near enough and clearly nearer than the next; signals count a little, too.
fn sure<'a>(candidates: &[Candidate<'a>], nearest: &[Near<'a>], words: usize) -> Option<Near<'a>> {
    let with_signals = |near: &Near<'a>| {
        let candidate = candidates.iter().find(|c| c.rule.id == near.rule.id)?;
        let reached = candidate.score.max(candidate.secondary) / candidate.needed;
        let bonus = if reached >= 1.0 { SECONDARY_BONUS } else { 0.0 };
        let share = SIGNALS_SHARE * reached.clamp(-1.0, 1.0) + bonus;
        let is_possible = candidate.missing.is_empty() && candidate.against > AGAINST_MAX;
        is_possible.then(|| Near { similarity: near.similarity + share, ..near.clone() })
    };
    let mut near: Vec<Near<'a>> = nearest.iter().filter_map(with_signals).collect();
    near.sort_by(|a, b| b.similarity.total_cmp(&a.similarity));
    let next = near.get(1).map_or(0.0, |next| next.similarity);
    let best = near.into_iter().next()?;
    let least = SIMILARITY_MIN + if words < SHORT_WORDS { SHORT_MALUS } else { 0.0 };
    (best.similarity >= least && best.similarity >= next + MARGIN_MIN).then_some(best)
}
