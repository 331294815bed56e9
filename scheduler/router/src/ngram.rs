//! TF-IDF over character n-grams of two to five letters, compared by cosine, in an inverted index.
//!
//! Character n-grams match inflections, compounds, joined names and typing errors, which words do not.
//! Weights: 1 + ln(count), times ln((1 + n) / (1 + postings)) + 1. Source: G. Salton, C. Buckley, "Term-weighting
//! approaches in automatic text retrieval", Information Processing & Management 24(5), 1988.

use std::collections::BTreeMap;

use goalmill_common::hash::HashMap;

use crate::text_analysis::{is_unspaced_script, word_weight, words};

/// N-grams are identified by their FNV-1a hash (64 bit).
const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x100_0000_01b3;
const SHORTEST: usize = 2;
const LONGEST: usize = 5;
/// Registries of this size and larger ignore common n-grams.
const PRUNE_FROM: usize = 1_000;
/// An n-gram in more than this share of the agents is common.
const COMMON_SHARE: f32 = 0.05;

/// Inverted index: documents and weights of each n-gram.
#[derive(Debug, Default)]
pub(super) struct Ngrams {
    documents: usize,
    /// Hash of an n-gram → its range in `weights`.
    ngrams: HashMap<u64, PostingRange>,
    /// Document and weight; the weights of a document have length 1.
    weights: Vec<(u32, f32)>,
}

#[derive(Clone, Copy, Debug)]
struct PostingRange {
    from: u32,
    to: u32,
    idf: f32,
}

impl Ngrams {
    /// - `documents`: the parts of each document with their weights.
    pub(super) fn new<'a>(documents: impl Iterator<Item = Vec<(&'a str, f32)>>) -> Self {
        let mut postings: BTreeMap<u64, Vec<(u32, f32)>> = BTreeMap::new();
        let mut total = 0;
        for (document, parts) in (0..).zip(documents) {
            let mut here: BTreeMap<u64, f32> = BTreeMap::new();
            for (text, weight) in parts {
                for (ngram, count) in weighted_ngrams(text) {
                    *here.entry(ngram).or_default() += count * weight;
                }
            }
            for (ngram, count) in here {
                postings.entry(ngram).or_default().push((document, count.ln_1p()));
            }
            total += 1;
        }
        let documents = as_f32(total);
        let idf = |count: usize| ((1.0 + documents) / (1.0 + as_f32(count))).ln() + 1.0;
        let mut squares = vec![0.0_f32; total];
        for list in postings.values() {
            let idf = idf(list.len());
            for (document, weight) in list {
                squares[*document as usize] += (weight * idf).powi(2);
            }
        }
        let mut index = Self { documents: total, ..Self::default() };
        for (ngram, list) in postings {
            let idf = idf(list.len());
            let is_common = total >= PRUNE_FROM && as_f32(list.len()) > COMMON_SHARE * documents;
            let from = place(index.weights.len());
            if !is_common {
                let norm = |document: u32| squares[document as usize].sqrt();
                index
                    .weights
                    .extend(list.into_iter().map(|(document, weight)| (document, weight * idf / norm(document))));
            }
            index.ngrams.insert(ngram, PostingRange { from, to: place(index.weights.len()), idf });
        }
        index
    }

    /// Cosine of each document and the text, 0 to 1.
    pub(super) fn cosines(&self, ngrams: &[(u64, f32)]) -> Vec<f32> {
        let mut cosines = vec![0.0; self.documents];
        let mut square = 0.0_f32;
        for (ngram, count) in ngrams {
            let Some(span) = self.ngrams.get(ngram) else { continue };
            let weight = count.ln_1p() * span.idf;
            square += weight * weight;
            for (document, document_weight) in &self.weights[span.from as usize..span.to as usize] {
                cosines[*document as usize] += weight * document_weight;
            }
        }
        if square > 0.0 {
            let norm = square.sqrt();
            cosines.iter_mut().for_each(|cosine| *cosine = (*cosine / norm).min(1.0));
        }
        cosines
    }
}

/// The n-grams of a text, weighted by the weight of their word.
pub(super) fn weighted_ngrams(text: &str) -> Vec<(u64, f32)> {
    counts(words(text).iter().map(|word| (word.as_str(), word_weight(word))))
}

/// N-grams inside each word, with a space at both ends: hash and total weight, sorted by hash.
///
/// In scripts without spaces, n-grams of one to three letters without marks.
pub(super) fn counts<'a>(words: impl IntoIterator<Item = (&'a str, f32)>) -> Vec<(u64, f32)> {
    let mut ngrams: Vec<(u64, f32)> = Vec::new();
    let mut letters: Vec<char> = Vec::new();
    for (word, weight) in words {
        for part in word.split(|c: char| !c.is_alphanumeric()).filter(|part| !part.is_empty()) {
            let dense = part.chars().any(is_unspaced_script);
            letters.clear();
            letters.extend((!dense).then_some(' '));
            letters.extend(part.chars().flat_map(char::to_lowercase));
            letters.extend((!dense).then_some(' '));
            let (shortest, longest) = if dense { (1, 3) } else { (SHORTEST, LONGEST) };
            for from in 0..letters.len() {
                let mut hash = FNV_BASIS;
                for (length, letter) in (1..=longest).zip(&letters[from..]) {
                    hash = (hash ^ u64::from(*letter)).wrapping_mul(FNV_PRIME);
                    ngrams.extend((length >= shortest).then_some((hash, weight)));
                }
            }
        }
    }
    ngrams.sort_unstable_by_key(|(ngram, _)| *ngram);
    let mut counts: Vec<(u64, f32)> = Vec::with_capacity(ngrams.len());
    for (ngram, weight) in ngrams {
        match counts.last_mut() {
            Some((last, count)) if *last == ngram => *count += weight,
            _ => counts.push((ngram, weight)),
        }
    }
    counts
}

fn place(at: usize) -> u32 {
    u32::try_from(at).expect("an index over the registry has fewer than four billion entries")
}

/// Counts of documents are far below what an `f32` holds exactly.
fn as_f32(count: usize) -> f32 {
    u32::try_from(count).map_or(f32::MAX, |n| n as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(texts: &[&str]) -> Ngrams {
        Ngrams::new(texts.iter().map(|text| vec![(*text, 1.0)]))
    }

    fn cosines(index: &Ngrams, text: &str) -> Vec<f32> {
        index.cosines(&weighted_ngrams(text))
    }

    #[test]
    fn the_same_text_has_the_cosine_one() {
        let index_ = index(&["book flights", "rent car"]);
        assert!((cosines(&index_, "book flights")[0] - 1.0).abs() < 1e-5);
        assert!(cosines(&index_, "booking a flight")[0] > cosines(&index_, "booking a flight")[1]);
        assert_eq!(cosines(&index_, ""), [0.0, 0.0]);
        assert!(cosines(&index(&[]), "x").is_empty());
    }

    #[test]
    fn typing_errors_still_match() {
        let cosines = cosines(&index(&["weather forecast", "currency conversion"]), "wheather forcast");
        assert!(cosines[0] > 0.3 && cosines[0] > 3.0 * cosines[1], "{cosines:?}");
    }

    #[test]
    fn scripts_without_spaces_share_single_letters() {
        let cosines = cosines(&index(&["查询酒店", "预订机票"]), "酒店的查找");
        assert!(cosines[0] > 0.2 && cosines[1] == 0.0, "{cosines:?}");
    }
}
