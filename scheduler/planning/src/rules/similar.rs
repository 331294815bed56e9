//! How near a goal is to the examples of rules.

use std::sync::{Arc, OnceLock};

use goalmill_router::{EmbeddingTable, ExampleIndex};

use super::rule::Rule;
use crate::extraction::GoalRequest;

/// A main request of fewer words says too little; the first sentence is taken for it.
const REQUEST_WORDS_MIN: usize = 3;

/// The examples of rules. They are embedded once, for the first goal that is compared; clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Examples(Arc<OnceLock<EmbeddedExamples>>);

#[derive(Debug)]
struct EmbeddedExamples {
    index: ExampleIndex,
    /// For each rule, how many examples it has.
    counts: Vec<usize>,
}

/// How near a goal is to a rule.
#[derive(Clone, Debug)]
pub(super) struct Near<'a> {
    pub rule: &'a Rule,
    /// At most 1.
    pub similarity: f64,
    /// The nearest example of the rule.
    pub example: &'a str,
}

impl Examples {
    /// The rules that have examples, the nearest first; nothing for a goal in another language than the model's.
    ///
    /// - `rules`: always the same for one `self`.
    /// - `request`, `plain`: the main request of the goal, and its first sentence.
    pub(super) fn nearest<'a>(
        &self,
        rules: &'a [Rule],
        goal: &str,
        request: &GoalRequest,
        plain: &GoalRequest,
    ) -> Vec<Near<'a>> {
        if rules.iter().all(|rule| rule.examples().is_empty()) {
            return Vec::new();
        }
        let embedded = self.0.get_or_init(|| EmbeddedExamples::new(rules));
        let Some(similarities) = embedded.similarities(goal, &request.words, &plain.words) else { return Vec::new() };
        let mut near: Vec<Near<'a>> = Vec::new();
        let mut rest = similarities.as_slice();
        for (rule, count) in rules.iter().zip(&embedded.counts) {
            let (own, others) = rest.split_at(*count);
            rest = others;
            let best = own.iter().zip(rule.examples()).max_by(|(a, _), (b, _)| a.total_cmp(b));
            if let Some((_, example)) = best {
                near.push(Near { rule, similarity: pooled(own), example });
            }
        }
        near.sort_by(|a, b| b.similarity.total_cmp(&a.similarity));
        near
    }
}

impl EmbeddedExamples {
    fn new(rules: &[Rule]) -> Self {
        let groups: Vec<Vec<&str>> =
            rules.iter().map(|rule| rule.examples().iter().map(String::as_str).collect()).collect();
        let counts = groups.iter().map(Vec::len).collect();
        Self { index: ExampleIndex::new(EmbeddingTable::general(), &groups), counts }
    }

    /// The similarity of each example to the goal: the mean of those to its main request without constraints, its first
    /// sentence, and the beginning of the whole text.
    fn similarities(&self, goal: &str, request: &[String], sentence: &[String]) -> Option<Vec<f64>> {
        let whole = self.index.similarities(goal)?;
        let request = if request.len() >= REQUEST_WORDS_MIN { request } else { sentence };
        let of = |words: &[String]| self.index.similarities(&words.join(" ")).unwrap_or_else(|| whole.clone());
        let (request, sentence) = (of(request), of(sentence));
        let all = request.iter().zip(&sentence).zip(&whole);
        Some(all.map(|((a, b), c)| f64::from(a + b + c) / 3.0).collect())
    }
}

/// The similarity of a rule: its nearest example, and to a lesser degree the next ones, so that one odd example decides
/// less.
fn pooled(similarities: &[f64]) -> f64 {
    const NEXT: usize = 5;
    let mut sorted = similarities.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    sorted.truncate(NEXT);
    let mean = sorted.iter().sum::<f64>() / sorted.len().max(1) as f64;
    let best = sorted.first().copied().unwrap_or_default();
    0.5 * best + 0.5 * mean
}
