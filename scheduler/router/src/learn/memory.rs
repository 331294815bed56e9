//! Steps that were done, and by whom: a new one is likely to be for those who did its like.
//!
//! The nearest neighbours vote with the square of their likeness. Source: T. Cover, P. Hart, "Nearest neighbor pattern
//! classification", IEEE Transactions on Information Theory 13(1), 1967; weighted votes: S. Dudani, 1976.

use std::collections::BTreeMap;

use super::features::{Features, HASHED};

/// Neighbours that vote.
const NEIGHBOURS: usize = 12;

/// Examples in a ring for each class, in an inverted index over their hashed features.
#[derive(Debug)]
pub(super) struct Memory {
    per_class_max: usize,
    /// The same for the first class.
    first_max: usize,
    examples: Vec<Example>,
    /// The examples of each class, oldest first from `next` on.
    rings: Vec<Ring>,
    /// For each place, the examples that have it with its weight.
    postings: Vec<Vec<(u32, f32)>>,
}

#[derive(Debug)]
pub(super) struct Example {
    pub(super) features: Features,
    pub(super) class: usize,
    pub(super) success: bool,
}

#[derive(Debug, Default)]
struct Ring {
    slots: Vec<u32>,
    next: usize,
}

impl Memory {
    pub(super) fn new(per_class_max: usize, first_max: usize) -> Self {
        Self { per_class_max, first_max, examples: Vec::new(), rings: Vec::new(), postings: vec![Vec::new(); HASHED] }
    }

    pub(super) fn len(&self) -> usize {
        self.examples.len()
    }

    pub(super) fn example(&self, at: usize) -> &Example {
        &self.examples[at]
    }

    /// How many examples a class has.
    pub(super) fn count(&self, class: usize) -> usize {
        self.rings.get(class).map_or(0, |ring| ring.slots.len())
    }

    /// Keeps an example, in the place of the oldest one of its class when that is full.
    pub(super) fn keep(&mut self, features: Features, class: usize, success: bool) {
        if self.rings.len() <= class {
            self.rings.resize_with(class + 1, Ring::default);
        }
        let ring = &mut self.rings[class];
        let most = if class == 0 { self.first_max } else { self.per_class_max }.max(1);
        let slot = if ring.slots.len() < most {
            let slot = u32::try_from(self.examples.len()).expect("memory is bounded far below four billion examples");
            ring.slots.push(slot);
            slot
        } else {
            let slot = ring.slots[ring.next];
            ring.next = (ring.next + 1) % ring.slots.len();
            slot
        };
        if let Some(old) = self.examples.get(slot as usize) {
            for (place, _) in &old.features.hashed {
                self.postings[usize::from(*place)].retain(|(example, _)| *example != slot);
            }
        }
        for (place, weight) in &features.hashed {
            self.postings[usize::from(*place)].push((slot, *weight));
        }
        let example = Example { features, class, success };
        match self.examples.get_mut(slot as usize) {
            Some(old) => *old = example,
            None => self.examples.push(example),
        }
    }

    /// What the nearest say: for each class that one of them belongs to, its share of the votes times how near they are.
    pub(super) fn votes(&self, features: &Features) -> BTreeMap<usize, f32> {
        let mut likeness = vec![0.0_f32; self.examples.len()];
        for (place, weight) in &features.hashed {
            for (example, held) in &self.postings[usize::from(*place)] {
                likeness[*example as usize] += weight * held;
            }
        }
        let mut near: Vec<(f32, usize)> =
            likeness.into_iter().enumerate().filter(|(_, l)| *l > 0.05).map(|(at, l)| (l, at)).collect();
        let many = NEIGHBOURS * 4;
        if near.len() > many {
            near.select_nth_unstable_by(many - 1, |a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            near.truncate(many);
        }
        for (likeness, at) in &mut near {
            let dense = &self.examples[*at].features.dense;
            if !dense.is_empty() && !features.dense.is_empty() {
                let cosine: f32 = dense.iter().zip(&features.dense).map(|(a, b)| a * b).sum();
                *likeness = f32::midpoint(*likeness, cosine.max(0.0));
            }
        }
        near.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        near.truncate(NEIGHBOURS);
        let mut votes = BTreeMap::<usize, f32>::new();
        let mut total = 0.0;
        for (likeness, at) in &near {
            let example = &self.examples[*at];
            let vote = likeness.powi(3);
            total += vote;
            *votes.entry(example.class).or_default() += if example.success { vote } else { -vote };
        }
        let nearest = near.first().map_or(0.0, |(likeness, _)| *likeness);
        votes.into_iter().map(|(class, vote)| (class, nearest * vote / total.max(1e-6))).collect()
    }
}
