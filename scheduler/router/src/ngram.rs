//! TF-IDF over runs of two to five letters, compared by cosine, in an inverted index.
//!
//! Runs of letters see what words miss: inflections, compounds, names glued together, and typing errors.
//! Weights: 1 + ln(count), times ln((1 + n) / (1 + having)) + 1. Source: G. Salton, C. Buckley, "Term-weighting
//! approaches in automatic text retrieval", Information Processing & Management 24(5), 1988.

use std::collections::BTreeMap;

use goalmill_common::hash::HashMap;

use crate::words::{spelled, stands_alone, telling};

/// Runs are known by a hash of their letters: FNV-1a, 64 bit.
const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x100_0000_01b3;
const SHORTEST: usize = 2;
const LONGEST: usize = 5;
/// Registries of so many agents and more leave out runs that too many of them have.
const PRUNE_FROM: usize = 1_000;
/// Share of the agents above which a run tells nothing.
const COMMON_SHARE: f32 = 0.05;

/// The index: for each run of letters, the documents that have it with its weight there.
#[derive(Debug, Default)]
pub(super) struct Ngrams {
    documents: usize,
    /// Hash of a run → where its documents are in `weights`.
    runs: HashMap<u64, Span>,
    /// Document and weight, the weights of a document being of length 1 together.
    weights: Vec<(u32, f32)>,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    from: u32,
    to: u32,
    idf: f32,
}

impl Ngrams {
    /// Reads each document as its parts, each with the weight of its runs.
    pub(super) fn new<'a>(documents: impl Iterator<Item = Vec<(&'a str, f32)>>) -> Self {
        let mut having: BTreeMap<u64, Vec<(u32, f32)>> = BTreeMap::new();
        let mut total = 0;
        for (document, parts) in (0..).zip(documents) {
            let mut here: BTreeMap<u64, f32> = BTreeMap::new();
            for (text, weight) in parts {
                for (run, count) in weighed(text) {
                    *here.entry(run).or_default() += count * weight;
                }
            }
            for (run, count) in here {
                having.entry(run).or_default().push((document, count.ln_1p()));
            }
            total += 1;
        }
        let documents = as_f32(total);
        let idf = |count: usize| ((1.0 + documents) / (1.0 + as_f32(count))).ln() + 1.0;
        let mut squares = vec![0.0_f32; total];
        for list in having.values() {
            let idf = idf(list.len());
            for (document, weight) in list {
                squares[*document as usize] += (weight * idf).powi(2);
            }
        }
        let mut index = Self { documents: total, ..Self::default() };
        for (run, list) in having {
            let idf = idf(list.len());
            let is_common = total >= PRUNE_FROM && as_f32(list.len()) > COMMON_SHARE * documents;
            let from = place(index.weights.len());
            if !is_common {
                let norm = |document: u32| squares[document as usize].sqrt();
                index
                    .weights
                    .extend(list.into_iter().map(|(document, weight)| (document, weight * idf / norm(document))));
            }
            index.runs.insert(run, Span { from, to: place(index.weights.len()), idf });
        }
        index
    }

    /// For each document, its cosine with the text, 0 to 1.
    pub(super) fn cosines(&self, runs: &[(u64, f32)]) -> Vec<f32> {
        let mut cosines = vec![0.0; self.documents];
        let mut square = 0.0_f32;
        for (run, count) in runs {
            let Some(span) = self.runs.get(run) else { continue };
            let weight = count.ln_1p() * span.idf;
            square += weight * weight;
            for (document, held) in &self.weights[span.from as usize..span.to as usize] {
                cosines[*document as usize] += weight * held;
            }
        }
        if square > 0.0 {
            let norm = square.sqrt();
            cosines.iter_mut().for_each(|cosine| *cosine = (*cosine / norm).min(1.0));
        }
        cosines
    }
}

/// The runs of a text, each word counting by how much it tells.
pub(super) fn weighed(text: &str) -> Vec<(u64, f32)> {
    counts(spelled(text).iter().map(|word| (word.as_str(), telling(word))))
}

/// Runs of letters inside each word, a space marking its ends, by hash, sorted, each once with the sum of its words'
/// weights.
///
/// In scripts without spaces, where nothing marks a word's ends, runs of one to three letters.
pub(super) fn counts<'a>(words: impl IntoIterator<Item = (&'a str, f32)>) -> Vec<(u64, f32)> {
    let mut runs: Vec<(u64, f32)> = Vec::new();
    let mut letters: Vec<char> = Vec::new();
    for (word, weight) in words {
        for part in word.split(|c: char| !c.is_alphanumeric()).filter(|part| !part.is_empty()) {
            let dense = part.chars().any(stands_alone);
            letters.clear();
            letters.extend((!dense).then_some(' '));
            letters.extend(part.chars().flat_map(char::to_lowercase));
            letters.extend((!dense).then_some(' '));
            let (shortest, longest) = if dense { (1, 3) } else { (SHORTEST, LONGEST) };
            for from in 0..letters.len() {
                let mut hash = FNV_BASIS;
                for (length, letter) in (1..=longest).zip(&letters[from..]) {
                    hash = (hash ^ u64::from(*letter)).wrapping_mul(FNV_PRIME);
                    runs.extend((length >= shortest).then_some((hash, weight)));
                }
            }
        }
    }
    runs.sort_unstable_by_key(|(run, _)| *run);
    let mut counts: Vec<(u64, f32)> = Vec::with_capacity(runs.len());
    for (run, weight) in runs {
        match counts.last_mut() {
            Some((last, count)) if *last == run => *count += weight,
            _ => counts.push((run, weight)),
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
        index.cosines(&weighed(text))
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
    fn typing_errors_are_forgiven() {
        let cosines = cosines(&index(&["weather forecast", "currency conversion"]), "wheather forcast");
        assert!(cosines[0] > 0.3 && cosines[0] > 3.0 * cosines[1], "{cosines:?}");
    }

    #[test]
    fn scripts_without_spaces_share_single_letters() {
        let cosines = cosines(&index(&["查询酒店", "预订机票"]), "酒店的查找");
        assert!(cosines[0] > 0.2 && cosines[1] == 0.0, "{cosines:?}");
    }
}
