//! A text as numbers to learn from: hashed stems, pairs of stems and runs of letters, and the static vector.

use super::super::ngram;
use super::super::words::{spelled, stems};

/// Places for hashed features; the static vector comes after them.
pub(super) const HASHED: usize = 1 << 13;
/// How long the hashed part is, the static vector being of length 1.
const HASHED_LENGTH: f32 = 1.0;

/// A text's features, sorted by place, each place once.
#[derive(Clone, Debug, Default)]
pub(super) struct Features {
    /// Place and weight, the hashed part being of length 1.
    pub(super) hashed: Vec<(u16, f32)>,
    /// The static vector, of length 1; empty without a static model.
    pub(super) dense: Vec<f32>,
}

impl Features {
    /// Reads a text; `dense` is its static vector, or empty.
    pub(super) fn new(text: &str, dense: Vec<f32>) -> Self {
        let mut raw: Vec<(u16, f32)> = Vec::new();
        let stems = stems(text);
        for stem in &stems {
            raw.push(placed(hash(stem.as_bytes(), 1), 1.0));
        }
        for pair in stems.windows(2) {
            raw.push(placed(hash(pair[1].as_bytes(), hash(pair[0].as_bytes(), 2)), 0.7));
        }
        for (run, count) in ngram::counts(spelled(text).iter().map(|word| (word.as_str(), 1.0))) {
            raw.push(placed(run, 0.3 * count.sqrt()));
        }
        raw.sort_unstable_by_key(|(place, _)| *place);
        let mut hashed: Vec<(u16, f32)> = Vec::with_capacity(raw.len());
        for (place, weight) in raw {
            match hashed.last_mut() {
                Some((last, sum)) if *last == place => *sum += weight,
                _ => hashed.push((place, weight)),
            }
        }
        let length = hashed.iter().map(|(_, weight)| weight * weight).sum::<f32>().sqrt();
        if length > 0.0 {
            hashed.iter_mut().for_each(|(_, weight)| *weight *= HASHED_LENGTH / length);
        }
        Self { hashed, dense }
    }

    /// Every place with its weight.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, f32)> + '_ {
        let hashed = self.hashed.iter().map(|(place, weight)| (usize::from(*place), *weight));
        hashed.chain(self.dense.iter().enumerate().map(|(at, weight)| (HASHED + at, *weight)))
    }
}

/// The sign spreads texts that share a place by accident.
fn placed(hash: u64, weight: f32) -> (u16, f32) {
    let mixed = (hash ^ (hash >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let place = u16::try_from((mixed >> 32) as usize % HASHED).expect("there are fewer places than a u16 can name");
    (place, if mixed & 1 == 0 { weight } else { -weight })
}

/// FNV-1a, 64 bit.
fn hash(bytes: &[u8], seed: u64) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325 ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bytes.iter().fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}
