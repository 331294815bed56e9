//! The set of true facts with undo, indexed by predicate and by each argument.
//!
//! Undo restores lists exactly, so positions in lists stay valid.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::compile::Truth;
use crate::index::{Object, to_u32};

pub(crate) type FactId = u32;
pub(crate) type ListId = usize;

/// A quick hash for small keys of numbers; no defence against chosen keys is needed, each search has its own table.
#[derive(Default)]
pub(crate) struct FastHasher(u64);

impl Hasher for FastHasher {
    fn finish(&self) -> u64 {
        mix(self.0)
    }
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }
    fn write_u32(&mut self, n: u32) {
        self.write_u64(u64::from(n));
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(5) ^ n).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }
}

pub(crate) type FastMap<K, V> = HashMap<K, V, BuildHasherDefault<FastHasher>>;
pub(crate) type FastSet<K> = std::collections::HashSet<K, BuildHasherDefault<FastHasher>>;

/// Spreads the bits of a number: the finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
pub(crate) fn mix(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

pub(crate) fn hash_words(words: impl IntoIterator<Item = u32>) -> u64 {
    words.into_iter().fold(0x9e37_79b9_7f4a_7c15, |h, w| mix(h ^ u64::from(w).wrapping_mul(0xff51_afd7_ed55_8ccd)))
}

struct Fact {
    holds: bool,
    watched: bool,
    hash: u64,
    /// Where predicate and arguments begin in `words`, and where its places in lists begin in `places`.
    words: u32,
    places: u32,
    arity: u32,
}

/// What holds.
pub(crate) struct FactTable {
    objects: usize,
    /// Where the lists of each predicate begin: one for all its facts, then one by position and object.
    bases: Vec<ListId>,
    lists: Vec<Vec<FactId>>,
    ids: FastMap<Box<[u32]>, FactId>,
    facts: Vec<Fact>,
    words: Vec<u32>,
    places: Vec<u32>,
    hash: u64,
    /// Watched facts that hold.
    watched: usize,
    /// Facts that changed, latest last.
    trail: Vec<FactId>,
    /// Places that deleted facts had, latest last.
    left: Vec<u32>,
}

impl Truth for FactTable {
    fn holds(&self, key: &[u32]) -> bool {
        self.ids.get(key).is_some_and(|id| self.facts[*id as usize].holds)
    }
}

impl FactTable {
    /// - `arities`: by predicate.
    pub fn new(arities: &[usize], objects: usize) -> Self {
        let mut bases = Vec::with_capacity(arities.len());
        let mut lists = 0;
        for arity in arities {
            bases.push(lists);
            lists += 1 + arity * objects;
        }
        Self {
            objects,
            bases,
            lists: vec![Vec::new(); lists],
            ids: FastMap::default(),
            facts: Vec::new(),
            words: Vec::new(),
            places: Vec::new(),
            hash: 0,
            watched: 0,
            trail: Vec::new(),
            left: Vec::new(),
        }
    }

    /// Of all that holds; equal states have equal hashes.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    pub fn set(&mut self, key: &[u32], holds: bool) {
        let id = match self.ids.get(key) {
            Some(id) => *id,
            None if !holds => return,
            None => self.intern(key),
        };
        if self.facts[id as usize].holds != holds {
            self.flip(id);
            self.trail.push(id);
        }
    }

    /// Counts this fact from now on whenever it holds.
    pub fn watch(&mut self, key: &[u32]) {
        let id = self.ids.get(key).copied().unwrap_or_else(|| self.intern(key));
        let fact = &mut self.facts[id as usize];
        if !std::mem::replace(&mut fact.watched, true) && fact.holds {
            self.watched += 1;
        }
    }

    /// How many of the watched facts hold.
    pub fn watched(&self) -> usize {
        self.watched
    }

    /// To be given to `undo`.
    pub fn mark(&self) -> usize {
        self.trail.len()
    }

    pub fn undo(&mut self, mark: usize) {
        while self.trail.len() > mark {
            if let Some(id) = self.trail.pop() {
                self.unflip(id);
            }
        }
    }

    /// Predicate and arguments.
    pub fn key(&self, id: FactId) -> &[u32] {
        let fact = &self.facts[id as usize];
        &self.words[fact.words as usize..=(fact.words + fact.arity) as usize]
    }

    pub fn list(&self, list: ListId) -> &[FactId] {
        &self.lists[list]
    }

    pub fn list_of(&self, predicate: u32) -> ListId {
        self.bases[predicate as usize]
    }

    pub fn list_at(&self, predicate: u32, position: usize, object: Object) -> ListId {
        self.bases[predicate as usize] + 1 + position * self.objects + object as usize
    }

    fn intern(&mut self, key: &[u32]) -> FactId {
        let id = to_u32(self.facts.len());
        let arity = key.len() - 1;
        self.facts.push(Fact {
            holds: false,
            watched: false,
            hash: hash_words(key.iter().copied()),
            words: to_u32(self.words.len()),
            places: to_u32(self.places.len()),
            arity: to_u32(arity),
        });
        self.words.extend_from_slice(key);
        self.places.extend(std::iter::repeat_n(0, arity + 1));
        self.ids.insert(key.into(), id);
        id
    }

    /// The `n`-th list that the fact is in when it holds.
    fn list_with(&self, id: FactId, n: usize) -> ListId {
        let key = self.key(id);
        match n {
            0 => self.list_of(key[0]),
            n => self.list_at(key[0], n - 1, key[n]),
        }
    }

    fn flip(&mut self, id: FactId) {
        let (places, arity) = (self.facts[id as usize].places as usize, self.facts[id as usize].arity as usize);
        let holds = self.facts[id as usize].holds;
        for n in 0..=arity {
            let list = self.list_with(id, n);
            if holds {
                let place = self.places[places + n];
                self.left.push(place);
                self.lists[list].swap_remove(place as usize);
                if let Some(moved) = self.lists[list].get(place as usize).copied() {
                    let slot = self.slot(moved, list);
                    self.places[slot] = place;
                }
            } else {
                self.places[places + n] = to_u32(self.lists[list].len());
                self.lists[list].push(id);
            }
        }
        self.turn(id);
    }

    /// The exact inverse of `flip`.
    fn unflip(&mut self, id: FactId) {
        let (places, arity) = (self.facts[id as usize].places as usize, self.facts[id as usize].arity as usize);
        let holds = self.facts[id as usize].holds;
        for n in (0..=arity).rev() {
            let list = self.list_with(id, n);
            if holds {
                self.lists[list].pop();
            } else {
                let place = self.left.pop().unwrap_or_default();
                self.places[places + n] = place;
                let len = to_u32(self.lists[list].len());
                if place < len {
                    let moved = std::mem::replace(&mut self.lists[list][place as usize], id);
                    let slot = self.slot(moved, list);
                    self.places[slot] = len;
                    self.lists[list].push(moved);
                } else {
                    self.lists[list].push(id);
                }
            }
        }
        self.turn(id);
    }

    fn turn(&mut self, id: FactId) {
        let fact = &mut self.facts[id as usize];
        fact.holds = !fact.holds;
        self.hash ^= fact.hash;
        if fact.watched {
            self.watched = if fact.holds { self.watched + 1 } else { self.watched - 1 };
        }
    }

    /// Where the fact's place in the list is kept.
    fn slot(&self, id: FactId, list: ListId) -> usize {
        let fact = &self.facts[id as usize];
        let arity = fact.arity as usize;
        let n = (0..=arity).find(|n| self.list_with(id, *n) == list).unwrap_or(0);
        fact.places as usize + n
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn undo_restores_every_list_exactly(
            before in proptest::collection::vec((0u32..3, 0u32..4, 0u32..4, any::<bool>()), 0..40),
            after in proptest::collection::vec((0u32..3, 0u32..4, 0u32..4, any::<bool>()), 0..40),
        ) {
            let mut facts = FactTable::new(&[0, 1, 2], 4);
            let key = |p: u32, a: u32, b: u32| [p, a, b][..=p as usize].to_vec();
            for (p, a, b, holds) in before {
                facts.set(&key(p, a, b), holds);
            }
            let (mark, lists, hash) = (facts.mark(), facts.lists.clone(), facts.hash());
            for (p, a, b, holds) in after {
                facts.set(&key(p, a, b), holds);
                prop_assert_eq!(facts.holds(&key(p, a, b)), holds);
            }
            facts.undo(mark);
            prop_assert_eq!(&facts.lists, &lists);
            prop_assert_eq!(facts.hash(), hash);
        }
    }
}
