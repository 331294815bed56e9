//! Examples of earlier steps with their agents, for nearest-neighbour voting.
//!
//! Neighbours vote with the cube of their similarity. Source: T. Cover, P. Hart, "Nearest neighbor pattern
//! classification", IEEE Transactions on Information Theory 13(1), 1967; weighted votes: S. Dudani, 1976.

use std::collections::BTreeMap;

use super::features::{Features, HASHED};

/// Neighbours that vote.
const NEIGHBOURS: usize = 12;

/// A ring of examples per class, with an inverted index over their hashed features.
#[derive(Debug)]
pub(super) struct StepMemory {
    per_class_max: usize,
    /// The same for the class `NO_MATCH`.
    no_match_max: usize,
    examples: Vec<LearnedStep>,
    /// Examples of each class.
    rings: Vec<ExampleRing>,
    /// Examples and weights of each hashed feature.
    postings: Vec<Vec<(u32, f32)>>,
}

#[derive(Debug)]
pub(super) struct LearnedStep {
    pub(super) features: Features,
    pub(super) class: usize,
    pub(super) success: bool,
}

#[derive(Debug, Default)]
struct ExampleRing {
    slots: Vec<u32>,
    /// The oldest slot.
    next: usize,
}

impl StepMemory {
    pub(super) fn new(per_class_max: usize, no_match_max: usize) -> Self {
        Self {
            per_class_max,
            no_match_max,
            examples: Vec::new(),
            rings: Vec::new(),
            postings: vec![Vec::new(); HASHED],
        }
    }

    pub(super) fn len(&self) -> usize {
        self.examples.len()
    }

    pub(super) fn example(&self, at: usize) -> &LearnedStep {
        &self.examples[at]
    }

    /// Number of examples of a class.
    pub(super) fn count(&self, class: usize) -> usize {
        self.rings.get(class).map_or(0, |ring| ring.slots.len())
    }

    /// Inserts an example and replaces the oldest one of its class if that is full.
    pub(super) fn insert(&mut self, features: Features, class: usize, success: bool) {
        if self.rings.len() <= class {
            self.rings.resize_with(class + 1, ExampleRing::default);
        }
        let ring = &mut self.rings[class];
        let most = if class == 0 { self.no_match_max } else { self.per_class_max }.max(1);
        let slot = if ring.slots.len() < most {
            let slot =
                u32::try_from(self.examples.len()).expect("the store is bounded far below four billion examples");
            ring.slots.push(slot);
            slot
        } else {
            let slot = ring.slots[ring.next];
            ring.next = (ring.next + 1) % ring.slots.len();
            slot
        };
        if let Some(old) = self.examples.get(slot as usize) {
            for (index, _) in &old.features.hashed {
                self.postings[usize::from(*index)].retain(|(example, _)| *example != slot);
            }
        }
        for (index, weight) in &features.hashed {
            self.postings[usize::from(*index)].push((slot, *weight));
        }
        let example = LearnedStep { features, class, success };
        match self.examples.get_mut(slot as usize) {
            Some(old) => *old = example,
            None => self.examples.push(example),
        }
    }

    /// Votes of the nearest neighbours: for each class, its share of the votes times the highest similarity.
    pub(super) fn votes(&self, features: &Features) -> BTreeMap<usize, f32> {
        let mut similarity = vec![0.0_f32; self.examples.len()];
        for (index, weight) in &features.hashed {
            for (example, stored) in &self.postings[usize::from(*index)] {
                similarity[*example as usize] += weight * stored;
            }
        }
        let mut near: Vec<(f32, usize)> =
            similarity.into_iter().enumerate().filter(|(_, l)| *l > 0.05).map(|(at, l)| (l, at)).collect();
        let shortlist = NEIGHBOURS * 4;
        if near.len() > shortlist {
            near.select_nth_unstable_by(shortlist - 1, |a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            near.truncate(shortlist);
        }
        for (similarity, at) in &mut near {
            let dense = &self.examples[*at].features.dense;
            if !dense.is_empty() && !features.dense.is_empty() {
                let cosine: f32 = dense.iter().zip(&features.dense).map(|(a, b)| a * b).sum();
                *similarity = f32::midpoint(*similarity, cosine.max(0.0));
            }
        }
        near.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        near.truncate(NEIGHBOURS);
        let mut votes = BTreeMap::<usize, f32>::new();
        let mut total = 0.0;
        for (similarity, at) in &near {
            let example = &self.examples[*at];
            let vote = similarity.powi(3);
            total += vote;
            *votes.entry(example.class).or_default() += if example.success { vote } else { -vote };
        }
        let nearest = near.first().map_or(0.0, |(similarity, _)| *similarity);
        votes.into_iter().map(|(class, vote)| (class, nearest * vote / total.max(1e-6))).collect()
    }
}
