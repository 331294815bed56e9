//! TF-IDF over runs of two to five letters, compared by cosine, in an inverted index.
//!
//! Runs of letters see what words miss: inflections, compounds, names glued together, and typing errors.
//! Weights: 1 + ln(count), times ln((1 + n) / (1 + having)) + 1. Source: G. Salton, C. Buckley, "Term-weighting
//! approaches in automatic text retrieval", Information Processing & Management 24(5), 1988.

use std::collections::{BTreeMap, HashMap};

const SHORTEST: usize = 2;
const LONGEST: usize = 5;
/// Characters of a query that are looked at.
const QUERY_CHARS_MAX: usize = 600;
/// Registries of so many agents and more leave out runs that too many of them have.
const PRUNE_FROM: usize = 1_000;
/// Share of the agents above which a run tells nothing.
const COMMON_SHARE: f32 = 0.5;

/// The index: for each run of letters, the documents that have it with its weight there.
#[derive(Debug, Default)]
pub(super) struct Ngrams {
    documents: usize,
    /// Hash of a run → place in `spans`.
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
    pub(super) fn new(texts: &[String]) -> Self {
        let documents = as_f32(texts.len());
        let mut having: BTreeMap<u64, Vec<(u32, f32)>> = BTreeMap::new();
        for (document, text) in (0..).zip(texts) {
            for (run, count) in counts(text, usize::MAX) {
                having.entry(run).or_default().push((document, 1.0 + count.ln()));
            }
        }
        let idf = |count: usize| ((1.0 + documents) / (1.0 + as_f32(count))).ln() + 1.0;
        let mut squares = vec![0.0_f32; texts.len()];
        for list in having.values() {
            let idf = idf(list.len());
            for (document, weight) in list {
                squares[*document as usize] += (weight * idf).powi(2);
            }
        }
        let mut index = Self { documents: texts.len(), ..Self::default() };
        for (run, list) in having {
            let idf = idf(list.len());
            let is_common = texts.len() >= PRUNE_FROM && as_f32(list.len()) > COMMON_SHARE * documents;
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
    pub(super) fn cosines(&self, text: &str) -> Vec<f32> {
        let mut cosines = vec![0.0; self.documents];
        let mut square = 0.0_f32;
        for (run, count) in counts(text, QUERY_CHARS_MAX) {
            let Some(span) = self.runs.get(&run) else { continue };
            let weight = (1.0 + count.ln()) * span.idf;
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

/// Runs of letters inside each word, a space marking its ends, by hash.
fn counts(text: &str, chars_max: usize) -> BTreeMap<u64, f32> {
    let mut counts = BTreeMap::new();
    let lower: String = text.chars().take(chars_max).collect::<String>().to_lowercase();
    let mut word: Vec<char> = Vec::new();
    for part in lower.split(|c: char| !c.is_alphanumeric()).filter(|part| !part.is_empty()) {
        word.clear();
        word.push(' ');
        word.extend(part.chars());
        word.push(' ');
        for length in SHORTEST..=LONGEST.min(word.len()) {
            for run in word.windows(length) {
                *counts.entry(hash(run)).or_default() += 1.0;
            }
        }
    }
    counts
}

/// FNV-1a, 64 bit, over the characters.
fn hash(run: &[char]) -> u64 {
    run.iter().fold(0xcbf2_9ce4_8422_2325, |hash, c| (hash ^ u64::from(*c)).wrapping_mul(0x100_0000_01b3))
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

    #[test]
    fn the_same_text_has_the_cosine_one() {
        let texts: Vec<String> = ["book flights", "rent a car"].map(str::to_owned).into();
        let index = Ngrams::new(&texts);
        assert!((index.cosines("book flights")[0] - 1.0).abs() < 1e-5);
        assert!(index.cosines("booking a flight")[0] > index.cosines("booking a flight")[1]);
        assert_eq!(index.cosines(""), [0.0, 0.0]);
        assert!(Ngrams::new(&[]).cosines("x").is_empty());
    }

    #[test]
    fn typing_errors_are_forgiven() {
        let texts: Vec<String> = ["weather forecast", "currency conversion"].map(str::to_owned).into();
        let cosines = Ngrams::new(&texts).cosines("wheather forcast");
        assert!(cosines[0] > 0.3 && cosines[0] > 3.0 * cosines[1], "{cosines:?}");
    }
}
