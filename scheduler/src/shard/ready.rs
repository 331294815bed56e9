//! The queue of ready steps in the owner's memory, which wait for room on their streams.
//!
//! Order: priority, then least served namespace, then longest remaining path, then age.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use goalmill_common::id::AgentType;
use goalmill_engine::StepIndex;

use super::Slot;

/// The position of a ready step among those of its namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// Longest remaining path first: the bits of a non-negative float sort like the float.
    rank: Reverse<u64>,
    age: u64,
    pub(crate) slot: Slot,
    pub(crate) step: StepIndex,
}

/// What determines the order of dispatch.
#[derive(Clone, Debug)]
pub(crate) struct DispatchOrder<'a> {
    pub(crate) agent_type: &'a AgentType,
    /// 1 (last) to 10 (first).
    pub(crate) priority: u8,
    pub(crate) namespace: &'a str,
    /// Estimated seconds of the longest path to the end.
    pub(crate) rank: f64,
}

/// All ready steps of a shard.
#[derive(Debug, Default)]
pub(crate) struct ReadySet {
    queues: BTreeMap<AgentType, Queue>,
    /// Counts insertions: the age of a place.
    inserted: u64,
    /// Steps whose plan has no room, by plan.
    parked: BTreeMap<Slot, Parked>,
}

#[derive(Debug, Default)]
struct Queue {
    classes: BTreeMap<Reverse<u8>, BTreeMap<String, NamespaceQueue>>,
}

#[derive(Debug, Default)]
struct NamespaceQueue {
    /// Steps handed out, on a scale shared by the namespaces of a class.
    served: u64,
    places: BTreeSet<Place>,
}

#[derive(Debug, Default)]
struct Parked {
    /// Skipped because the plan had no room; best first.
    waiting: BTreeSet<(Reverse<u8>, Place, AgentType)>,
    /// Skipped because of a resource in use.
    excluded: Vec<(Reverse<u8>, Place, AgentType)>,
    namespace: String,
}

/// Ready steps of one queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waiting {
    /// Those that wait for nothing but room in the queue.
    pub(crate) open: u64,
    /// Those whose plan or namespace has no room for them.
    pub(crate) parked: u64,
}

/// A step taken out of the set.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) place: Place,
    priority: Reverse<u8>,
    pub(crate) namespace: String,
}

impl ReadySet {
    /// Adds a step.
    pub(crate) fn insert(&mut self, slot: Slot, step: StepIndex, order: &DispatchOrder<'_>) {
        self.inserted += 1;
        let rank = Reverse(order.rank.max(0.0).to_bits());
        let place = Place { rank, age: self.inserted, slot, step };
        self.put(order.agent_type, Reverse(order.priority), order.namespace, place);
    }

    /// How many steps wait for each queue.
    ///
    /// - `has_room`: whether steps of a namespace may be sent.
    pub(crate) fn counts(&self, has_room: impl Fn(&str) -> bool) -> BTreeMap<AgentType, Waiting> {
        let mut counts = BTreeMap::<AgentType, Waiting>::new();
        for (agent_type, queue) in &self.queues {
            let mut waiting = Waiting::default();
            for (name, namespace) in queue.classes.values().flatten() {
                let sum = if has_room(name) { &mut waiting.open } else { &mut waiting.parked };
                *sum += namespace.places.len() as u64;
            }
            counts.insert(agent_type.clone(), waiting);
        }
        for parked in self.parked.values() {
            for (_, _, agent_type) in parked.waiting.iter().chain(&parked.excluded) {
                counts.entry(agent_type.clone()).or_default().parked += 1;
            }
        }
        counts
    }

    /// Agent types with steps waiting.
    pub(crate) fn agent_types(&self) -> Vec<AgentType> {
        self.queues.keys().cloned().collect()
    }

    /// Takes the next step for an agent type.
    ///
    /// - `has_room`: whether steps of a namespace may be sent; those of others stay.
    pub(crate) fn pop(&mut self, agent_type: &AgentType, has_room: impl Fn(&str) -> bool) -> Option<Taken> {
        let queue = self.queues.get_mut(agent_type)?;
        let next = |namespaces: &BTreeMap<String, NamespaceQueue>| {
            let open = namespaces.iter().filter(|(name, _)| has_room(name));
            open.min_by_key(|(_, t)| t.served).map(|(name, _)| name.clone())
        };
        let (priority, name) =
            queue.classes.iter().find_map(|(priority, namespaces)| Some((*priority, next(namespaces)?)))?;
        let namespaces = queue.classes.get_mut(&priority)?;
        let namespace = namespaces.get_mut(&name)?;
        let place = namespace.places.pop_first()?;
        namespace.served += 1;
        if namespace.places.is_empty() {
            namespaces.remove(&name);
        }
        if namespaces.is_empty() {
            queue.classes.remove(&priority);
        }
        if queue.classes.is_empty() {
            self.queues.remove(agent_type);
        }
        Some(Taken { place, priority, namespace: name })
    }

    /// Puts a taken step back to its place.
    pub(crate) fn put_back(&mut self, agent_type: &AgentType, taken: Taken) {
        self.put(agent_type, taken.priority, &taken.namespace, taken.place);
    }

    /// Parks a taken step until its plan has room; see [`ReadySet::unpark`].
    ///
    /// - `excluded`: the plan has room, but the step's resource is in use.
    pub(crate) fn park(&mut self, agent_type: &AgentType, taken: Taken, excluded: bool) {
        let parked = self.parked.entry(taken.place.slot).or_default();
        parked.namespace = taken.namespace;
        let item = (taken.priority, taken.place, agent_type.clone());
        if excluded {
            parked.excluded.push(item);
        } else {
            parked.waiting.insert(item);
        }
    }

    /// Offers the plan's best parked step again and, when a resource may have become free, all that waited for one.
    ///
    /// One at a time, because a sequential plan of many steps would move all of them in each turn. Call it again after a
    /// dispatch if the plan still has room.
    pub(crate) fn unpark(&mut self, slot: Slot, with_excluded: bool) {
        let Some(mut parked) = self.parked.remove(&slot) else { return };
        let best = parked.waiting.pop_first();
        let excluded = if with_excluded { std::mem::take(&mut parked.excluded) } else { Vec::new() };
        for (priority, place, agent_type) in best.into_iter().chain(excluded) {
            self.put(&agent_type, priority, &parked.namespace, place);
        }
        if !(parked.waiting.is_empty() && parked.excluded.is_empty()) {
            self.parked.insert(slot, parked);
        }
    }

    /// Plans with parked steps that wait for room.
    pub(crate) fn parked(&self) -> Vec<Slot> {
        self.parked.iter().filter(|(_, parked)| !parked.waiting.is_empty()).map(|(slot, _)| *slot).collect()
    }

    /// Offers the plan's best parked step whose queue is open; returns whether there is one.
    ///
    /// The step that was offered before may wait for a closed queue, which must not delay the others.
    pub(crate) fn unpark_open(&mut self, slot: Slot, is_open: impl Fn(&AgentType) -> bool) -> bool {
        let Some(parked) = self.parked.get_mut(&slot) else { return false };
        let Some(item) = parked.waiting.iter().find(|(_, _, agent_type)| is_open(agent_type)).cloned() else {
            return false;
        };
        parked.waiting.remove(&item);
        let namespace = parked.namespace.clone();
        if parked.waiting.is_empty() && parked.excluded.is_empty() {
            self.parked.remove(&slot);
        }
        let (priority, place, agent_type) = item;
        self.put(&agent_type, priority, &namespace, place);
        true
    }

    /// Drops the parked steps of a plan; its queued steps are skipped later.
    pub(crate) fn forget(&mut self, slot: Slot) {
        self.parked.remove(&slot);
    }

    fn put(&mut self, agent_type: &AgentType, priority: Reverse<u8>, namespace: &str, place: Place) {
        if !self.queues.contains_key(agent_type) {
            self.queues.insert(agent_type.clone(), Queue::default());
        }
        let queue = self.queues.get_mut(agent_type).expect("it was just put there");
        let namespaces = queue.classes.entry(priority).or_default();
        if let Some(namespace) = namespaces.get_mut(namespace) {
            namespace.places.insert(place);
            return;
        }
        let served = namespaces.values().map(|t| t.served).min().unwrap_or(0);
        namespaces.insert(namespace.to_owned(), NamespaceQueue { served, places: BTreeSet::from([place]) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(set: &mut ReadySet, slot: Slot, step: u32, priority: u8, namespace: &str, rank: f64) {
        let agent_type = AgentType::from("a");
        set.insert(slot, StepIndex(step), &DispatchOrder { agent_type: &agent_type, priority, namespace, rank });
    }

    fn drain(set: &mut ReadySet) -> Vec<u32> {
        std::iter::from_fn(|| set.pop(&"a".into(), |_| true)).map(|t| t.place.step.0).collect()
    }

    #[test]
    fn priority_then_longest_path_then_age() {
        let mut set = ReadySet::default();
        add(&mut set, 1, 1, 5, "", 1.0);
        add(&mut set, 1, 2, 5, "", 3.0);
        add(&mut set, 1, 3, 5, "", 3.0);
        add(&mut set, 1, 4, 9, "", 0.0);
        assert_eq!(drain(&mut set), [4, 2, 3, 1]);
        assert!(set.agent_types().is_empty());
    }

    #[test]
    fn a_large_namespace_does_not_delay_a_small_one() {
        let mut set = ReadySet::default();
        for step in 0..1_000 {
            add(&mut set, 1, step, 5, "large", 100.0);
        }
        for _ in 0..10 {
            set.pop(&"a".into(), |_| true);
        }
        add(&mut set, 2, 5_000, 5, "small", 0.0);
        let turn = drain(&mut set).iter().position(|s| *s == 5_000).expect("it is handed out");
        assert!(turn <= 1, "the small namespace waited {turn} turns");
    }

    #[test]
    fn steps_of_a_namespace_without_room_wait_and_delay_no_others() {
        let mut set = ReadySet::default();
        add(&mut set, 1, 1, 9, "full", 1.0);
        add(&mut set, 2, 2, 1, "open", 1.0);
        let open = |namespace: &str| namespace == "open";
        let counted = set.counts(open);
        let counted = &counted[&AgentType::from("a")];
        assert_eq!((counted.open, counted.parked), (1, 1));
        assert_eq!(set.pop(&"a".into(), open).map(|taken| taken.place.step), Some(StepIndex(2)));
        assert!(set.pop(&"a".into(), open).is_none());
        let taken = set.pop(&"a".into(), |_| true).expect("it has waited");
        set.put_back(&"a".into(), taken);
        assert_eq!(drain(&mut set), [1]);
    }

    #[test]
    fn a_parked_step_need_not_wait_for_a_better_one_whose_queue_is_closed() {
        let mut set = ReadySet::default();
        for (step, agent_type, rank) in [(1, "a", 3.0), (2, "a", 2.0), (3, "b", 1.0)] {
            let agent_type = AgentType::from(agent_type);
            let order = DispatchOrder { agent_type: &agent_type, priority: 5, namespace: "", rank };
            set.insert(1, StepIndex(step), &order);
            let taken = set.pop(&agent_type, |_| true).expect("it was just put there");
            set.park(&agent_type, taken, false);
        }
        assert_eq!(set.parked(), [1]);
        assert!(set.unpark_open(1, |agent_type| agent_type.as_str() == "b"));
        assert_eq!(set.agent_types(), [AgentType::from("b")]);
        assert!(!set.unpark_open(1, |agent_type| agent_type.as_str() == "b"), "the others wait");
        assert!(set.unpark_open(1, |_| true));
        assert_eq!(drain(&mut set), [1], "the best of them");
    }

    #[test]
    fn a_parked_step_comes_back_one_at_a_time_and_best_first() {
        let mut set = ReadySet::default();
        for step in 0..3 {
            add(&mut set, 1, step, 5, "", f64::from(step));
        }
        while let Some(taken) = set.pop(&"a".into(), |_| true) {
            set.park(&"a".into(), taken, false);
        }
        set.unpark(1, true);
        assert_eq!(drain(&mut set), [2]);
        set.unpark(1, true);
        assert_eq!(drain(&mut set), [1]);
        set.forget(1);
        set.unpark(1, true);
        assert!(drain(&mut set).is_empty());
    }
}
