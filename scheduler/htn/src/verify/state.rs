//! A state that is cheap to copy and to change: a bit per fact, or a set if there are too many facts.

use crate::compile::{ConditionalEffect, GroundAction, Scratch, Sort, Truth, fill};
use crate::facts::{FastSet, Object};

/// Limit of facts that are stored as bits.
const BITS_MAX: usize = 1 << 16;

#[derive(Clone)]
pub(super) struct VerifierState {
    objects: usize,
    /// Where the bits of each predicate begin.
    bases: Vec<usize>,
    held: FactSet,
}

#[derive(Clone)]
enum FactSet {
    Bits(Vec<u64>),
    Set(FastSet<Box<[u32]>>),
}

impl Truth for VerifierState {
    fn holds(&self, key: &[u32]) -> bool {
        match &self.held {
            FactSet::Bits(bits) => {
                let bit = self.bit(key);
                bits[bit / 64] & (1 << (bit % 64)) != 0
            }
            FactSet::Set(set) => set.contains(key),
        }
    }
}

impl VerifierState {
    pub fn new(arities: &[usize], objects: usize) -> Self {
        let mut bases = Vec::with_capacity(arities.len());
        let mut count = 0usize;
        for arity in arities {
            bases.push(count);
            let facts = (0..*arity).try_fold(1usize, |n, _| n.checked_mul(objects.max(1)));
            count = count.saturating_add(facts.unwrap_or(usize::MAX));
        }
        let held = match count {
            0..=BITS_MAX => FactSet::Bits(vec![0; count.div_ceil(64)]),
            _ => FactSet::Set(FastSet::default()),
        };
        Self { objects, bases, held }
    }

    pub fn set(&mut self, key: &[u32], holds: bool) {
        let bit = match self.held {
            FactSet::Bits(_) => self.bit(key),
            FactSet::Set(_) => 0,
        };
        match &mut self.held {
            FactSet::Bits(bits) if holds => bits[bit / 64] |= 1 << (bit % 64),
            FactSet::Bits(bits) => bits[bit / 64] &= !(1 << (bit % 64)),
            FactSet::Set(set) if holds => {
                set.insert(key.into());
            }
            FactSet::Set(set) => {
                set.remove(key);
            }
        }
    }

    /// Conditions of effects are tested before anything changes, deletions come before additions.
    pub fn apply(&mut self, sorts: &[Sort], action: &GroundAction, binding: &mut [Object], scratch: &mut Scratch) {
        if let [change] = action.changes.as_slice()
            && change.forall.is_empty()
            && change.when.is_none()
        {
            for (literals, holds) in [(&change.deletes, false), (&change.adds, true)] {
                for literal in literals {
                    fill(scratch, literal, binding);
                    self.set(scratch, holds);
                }
            }
            return;
        }
        let before = self.clone();
        for holds in [false, true] {
            for change in &action.changes {
                before.each(change, 0, sorts, binding, scratch, &mut |literal_binding, scratch| {
                    for literal in if holds { &change.adds } else { &change.deletes } {
                        fill(scratch, literal, literal_binding);
                        self.set(scratch, holds);
                    }
                });
            }
        }
    }

    /// Calls `act` for every way to bind the change's own variables under which its condition holds.
    fn each(
        &self,
        change: &ConditionalEffect,
        depth: usize,
        sorts: &[Sort],
        binding: &mut [Object],
        scratch: &mut Scratch,
        act: &mut impl FnMut(&[Object], &mut Scratch),
    ) {
        match change.forall.get(depth) {
            Some((variable, sort)) => {
                for object in &sorts[*sort as usize].members {
                    binding[*variable as usize] = *object;
                    self.each(change, depth + 1, sorts, binding, scratch, act);
                }
            }
            None => {
                if change.when.as_ref().is_none_or(|c| c.holds(self, sorts, binding, scratch)) {
                    act(binding, scratch);
                }
            }
        }
    }

    fn bit(&self, key: &[u32]) -> usize {
        key[1..].iter().fold(0, |n, object| n * self.objects + *object as usize) + self.bases[key[0] as usize]
    }
}
