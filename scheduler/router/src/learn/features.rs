//! Features of a text: hashed stems, stem pairs and n-grams, and the static vector.

use super::super::ngram;
use super::super::text_analysis::{stems, words};

/// Number of hashed features; the static vector follows them.
pub(super) const HASHED: usize = 1 << 13;
/// Length of the hashed part; the static vector has length 1.
const HASHED_LENGTH: f32 = 1.0;

/// Sparse features, sorted by index.
#[derive(Clone, Debug, Default)]
pub(super) struct Features {
    /// Index and weight.
    pub(super) hashed: Vec<(u16, f32)>,
    /// The static vector, of length 1; empty without a static model.
    pub(super) dense: Vec<f32>,
}

impl Features {
    /// - `dense`: the static vector, or empty.
    pub(super) fn new(text: &str, dense: Vec<f32>) -> Self {
        let mut raw: Vec<(u16, f32)> = Vec::new();
        let stems = stems(text);
        for stem in &stems {
            raw.push(hashed_feature(hash(stem.as_bytes(), 1), 1.0));
        }
        for pair in stems.windows(2) {
            raw.push(hashed_feature(hash(pair[1].as_bytes(), hash(pair[0].as_bytes(), 2)), 0.7));
        }
        for (ngram, count) in ngram::counts(words(text).iter().map(|word| (word.as_str(), 1.0))) {
            raw.push(hashed_feature(ngram, 0.3 * count.sqrt()));
        }
        raw.sort_unstable_by_key(|(index, _)| *index);
        let mut hashed: Vec<(u16, f32)> = Vec::with_capacity(raw.len());
        for (index, weight) in raw {
            match hashed.last_mut() {
                Some((last, sum)) if *last == index => *sum += weight,
                _ => hashed.push((index, weight)),
            }
        }
        let length = hashed.iter().map(|(_, weight)| weight * weight).sum::<f32>().sqrt();
        if length > 0.0 {
            hashed.iter_mut().for_each(|(_, weight)| *weight *= HASHED_LENGTH / length);
        }
        Self { hashed, dense }
    }

    /// Index and weight of all features.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, f32)> + '_ {
        let hashed = self.hashed.iter().map(|(index, weight)| (usize::from(*index), *weight));
        hashed.chain(self.dense.iter().enumerate().map(|(at, weight)| (HASHED + at, *weight)))
    }
}

/// The sign makes collisions cancel out on average.
fn hashed_feature(hash: u64, weight: f32) -> (u16, f32) {
    let mixed = (hash ^ (hash >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let index = u16::try_from((mixed >> 32) as usize % HASHED).expect("the feature space is smaller than a u16");
    (index, if mixed & 1 == 0 { weight } else { -weight })
}

/// FNV-1a, 64 bit.
fn hash(bytes: &[u8], seed: u64) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325 ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bytes.iter().fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}
