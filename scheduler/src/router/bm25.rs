//! BM25 over words, in an inverted index.
//!
//! Source: S. Robertson, H. Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", Foundations and
//! Trends in Information Retrieval 3(4), 2009.

use std::collections::{BTreeMap, HashMap};

/// How soon more of the same word stops counting.
const K1: f32 = 1.2;
/// How much long texts are held back, 0 to 1.
const B: f32 = 0.75;

/// The index: for each word, the documents that have it with its weight there.
#[derive(Debug, Default)]
pub(super) struct Bm25 {
    documents: usize,
    words: HashMap<String, Posting>,
}

#[derive(Debug)]
struct Posting {
    idf: f32,
    /// Document and weight, `idf` included.
    weights: Vec<(u32, f32)>,
}

impl Bm25 {
    pub(super) fn new(texts: &[String]) -> Self {
        let mut counts: BTreeMap<String, Vec<(u32, f32)>> = BTreeMap::new();
        let mut lengths = Vec::with_capacity(texts.len());
        for (document, text) in (0..).zip(texts) {
            let mut here: BTreeMap<String, f32> = BTreeMap::new();
            let mut length = 0.0;
            for word in tokens(text) {
                *here.entry(word).or_default() += 1.0;
                length += 1.0;
            }
            lengths.push(length);
            for (word, count) in here {
                counts.entry(word).or_default().push((document, count));
            }
        }
        let documents = as_f32(texts.len());
        let average = (lengths.iter().sum::<f32>() / documents.max(1.0)).max(1.0);
        let posting = |(word, mut weights): (String, Vec<(u32, f32)>)| {
            let having = as_f32(weights.len());
            let idf = (1.0 + (documents - having + 0.5) / (having + 0.5)).ln();
            for (document, weight) in &mut weights {
                let length = lengths[*document as usize];
                let held_back = K1 * (1.0 - B + B * length / average);
                *weight = idf * *weight * (K1 + 1.0) / (*weight + held_back);
            }
            (word, Posting { idf, weights })
        };
        Self { documents: texts.len(), words: counts.into_iter().map(posting).collect() }
    }

    /// For each document, its share of the score that the text could reach at most, 0 to 1.
    ///
    /// Words that no document has do not count: they tell nothing about which one is meant.
    pub(super) fn shares(&self, text: &str) -> Vec<f32> {
        let mut scores = vec![0.0; self.documents];
        let mut reachable = 0.0;
        let mut query: Vec<String> = tokens(text).collect();
        query.sort_unstable();
        query.dedup();
        for posting in query.iter().filter_map(|word| self.words.get(word)) {
            reachable += posting.idf * (K1 + 1.0);
            for (document, weight) in &posting.weights {
                scores[*document as usize] += weight;
            }
        }
        if reachable > 0.0 {
            scores.iter_mut().for_each(|score| *score = (*score / reachable).min(1.0));
        }
        scores
    }
}

/// Words in lower case, plurals as singulars, without the most frequent ones; each letter of a script without
/// spaces counts as a word.
fn tokens(text: &str) -> impl Iterator<Item = String> {
    let lower = text.to_lowercase();
    let mut words = Vec::new();
    let mut word = String::new();
    for c in lower.chars().chain([' ']) {
        let stands_alone = ('\u{3040}'..='\u{9fff}').contains(&c);
        if c.is_alphanumeric() && !stands_alone {
            word.push(c);
            continue;
        }
        if !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if stands_alone {
            words.push(c.to_string());
        }
    }
    words.into_iter().filter(|word| !STOPS.contains(&word.as_str())).map(singular)
}

fn singular(mut word: String) -> String {
    if word.len() > 3 && word.ends_with('s') && !word.ends_with("ss") && !word.ends_with("us") {
        word.pop();
    }
    word
}

/// Words that are in every sentence.
const STOPS: &[&str] = &[
    "a", "an", "and", "are", "as", "at", "be", "by", "can", "do", "for", "from", "i", "in", "is", "it", "its", "me",
    "my", "of", "on", "or", "please", "that", "the", "this", "to", "want", "was", "we", "what", "which", "with", "you",
    "your",
];

/// Counts of documents and words are far below what an `f32` holds exactly.
fn as_f32(count: usize) -> f32 {
    u32::try_from(count).map_or(f32::MAX, |n| n as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_words_weigh_more_and_plurals_meet_singulars() {
        let texts: Vec<String> = ["search flights", "search hotel rooms", "search museums"].map(str::to_owned).into();
        let index = Bm25::new(&texts);
        let shares = index.shares("Search the hotels");
        assert!(shares[1] > shares[0] && shares[0] > 0.0, "{shares:?}");
        assert_eq!(index.shares("unknown words"), [0.0; 3]);
        assert!(Bm25::new(&[]).shares("x").is_empty());
    }

    #[test]
    fn the_weight_is_that_of_the_formula() {
        let texts: Vec<String> = ["b b c", "d e f"].map(str::to_owned).into();
        // idf = ln(1 + (2 - 1 + 0.5) / (1 + 0.5)) = ln 2; tf part = 2 · 2.2 / (2 + 1.2), both texts being average.
        let expected = (2.0 * 2.2 / 3.2) / 2.2;
        assert!((Bm25::new(&texts).shares("b")[0] - expected).abs() < 1e-6);
    }

    #[test]
    fn scripts_without_spaces_are_read_letter_by_letter() {
        assert_eq!(tokens("查找 flight酒店").collect::<Vec<_>>(), ["查", "找", "flight", "酒", "店"]);
    }
}
