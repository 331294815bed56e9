//! A second look at the best candidates: for each word of the step the nearest word of the agent, and the other way round.
//!
//! Averages of both directions, rare words counting for more. Source: O. Khattab, M. Zaharia, "ColBERT: Efficient and
//! Effective Passage Search via Contextualized Late Interaction over BERT", SIGIR 2020, here over static vectors.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::statics::mean;
use crate::table::Table;
use crate::wide::{dot, scale, whole, wide};
use crate::words::telling;

/// Words of a step, and of an agent, that are compared.
const WORDS_MAX: usize = 32;
/// Columns of a word that are compared: a model's first ones say most of it.
const COLUMNS_MAX: usize = 128;

/// The words of each agent, and a vector for each of them.
#[derive(Debug)]
pub(super) struct Late {
    table: Arc<Table>,
    numbers: HashMap<String, u32>,
    /// By number: the vector, and how much the word counts.
    vectors: Vec<Vec<i16>>,
    weights: Vec<f32>,
    /// For each agent, the numbers of its words.
    documents: Vec<Vec<u32>>,
    /// How much a word that no agent uses counts.
    unseen: f32,
}

impl Late {
    pub(super) fn new(table: Arc<Table>, documents: &[Vec<String>]) -> Self {
        let mut numbers: BTreeMap<&str, u32> = BTreeMap::new();
        let mut having: Vec<u32> = Vec::new();
        let mut lists = Vec::with_capacity(documents.len());
        for words in documents {
            let mut list: Vec<u32> = Vec::new();
            for word in words {
                let next = u32::try_from(numbers.len()).expect("a registry has fewer than four billion words");
                let number = *numbers.entry(word).or_insert(next);
                if having.len() <= number as usize {
                    having.push(0);
                }
                if !list.contains(&number) {
                    having[number as usize] += 1;
                    list.push(number);
                }
            }
            list.truncate(WORDS_MAX);
            lists.push(list);
        }
        let total = documents.len() as f32;
        let weight = |count: u32| ((1.0 + total) / (1.0 + count as f32)).ln() + 1.0;
        let mut weights: Vec<f32> = having.into_iter().map(weight).collect();
        let mut vectors = vec![Vec::new(); numbers.len()];
        for (word, number) in &numbers {
            vectors[*number as usize] = vector(&table, word);
            weights[*number as usize] *= telling(word);
        }
        Self {
            table,
            numbers: numbers.into_iter().map(|(word, number)| (word.to_owned(), number)).collect(),
            vectors,
            weights,
            documents: lists,
            unseen: weight(0),
        }
    }

    /// For each candidate: how well the step's words are met by the agent's, and the agent's by the step's; 0 to 1.
    pub(super) fn meet(&self, words: &[String], candidates: &[usize]) -> Vec<(f32, f32)> {
        let step = self.read(words);
        // Candidates have many words in common: each is compared once.
        let mut used: Vec<u32> = candidates.iter().flat_map(|at| &self.documents[*at]).copied().collect();
        used.sort_unstable();
        used.dedup();
        let mut near: Vec<f32> = Vec::with_capacity(used.len() * step.len());
        wide(|| {
            for word in &used {
                let own = &self.vectors[*word as usize];
                near.extend(step.iter().map(|(vector, _)| dot(vector, own)));
            }
        });
        let one = |at: &usize| {
            let own = &self.documents[*at];
            let (mut best, mut met, mut weights) = (vec![0.0_f32; step.len()], 0.0, 0.0);
            for word in own {
                let place = used.binary_search(word).expect("every candidate's words are among them");
                let row = &near[place * step.len()..(place + 1) * step.len()];
                let weight = self.weights[*word as usize];
                met += weight * row.iter().copied().fold(0.0, f32::max);
                weights += weight;
                for (best, near) in best.iter_mut().zip(row) {
                    *best = best.max(*near);
                }
            }
            let wanted: f32 = step.iter().map(|(_, weight)| weight).sum();
            let found: f32 = step.iter().zip(&best).map(|((_, weight), best)| weight * best).sum();
            (share(found, wanted), share(met, weights))
        };
        candidates.iter().map(one).collect()
    }

    /// The vectors of a step's words, and how much each counts.
    fn read(&self, words: &[String]) -> Vec<(Cow<'_, [i16]>, f32)> {
        let mut distinct: Vec<&String> = Vec::new();
        for word in words {
            if distinct.len() < WORDS_MAX && !distinct.contains(&word) {
                distinct.push(word);
            }
        }
        let read = |word: &String| match self.numbers.get(word) {
            Some(number) => (Cow::Borrowed(&*self.vectors[*number as usize]), self.weights[*number as usize]),
            None => (Cow::Owned(vector(&self.table, word)), self.unseen * telling(word)),
        };
        distinct.into_iter().map(read).collect()
    }
}

fn vector(table: &Table, word: &str) -> Vec<i16> {
    let mut vector = mean(table, table.cut(word));
    vector.truncate(COLUMNS_MAX);
    scale(&mut vector);
    whole(&vector)
}

fn share(part: f32, whole: f32) -> f32 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::tiny;
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn words_meet_their_nearest() {
        let late = Late::new(Arc::new(tiny()), &[words("hotel"), words("flight car")]);
        let met = late.meet(&words("inn"), &[0, 1]);
        assert!(met[0].0 > met[1].0 && met[0].1 > met[1].1, "{met:?}");
        let same = late.meet(&words("flight car"), &[1]);
        assert!(same[0].0 > 0.99 && same[0].1 > 0.99, "{same:?}");
        assert_eq!(late.meet(&[], &[0]), [(0.0, 0.0)]);
    }
}
