//! The queue of ready steps in the owner's memory, which wait for room on their streams.
//!
//! Order within an agent type: priority, then least served namespace, then longest remaining path, then age. Between agent
//! types: priority, then the namespace with fewer steps in this turn, then longest remaining path, then age. So a turn
//! takes the most urgent step whose queue is open, whatever its agent type.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use goalmill_common::hash::HashMap;
use goalmill_common::id::AgentType;
use goalmill_engine::StepIndex;

use crate::Slot;

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
    /// Agent types whose first step may be another one since the last [`ReadySet::take_touched`].
    touched: BTreeSet<AgentType>,
}

/// The ready steps of an agent type, by priority.
#[derive(Debug, Default)]
struct Queue {
    classes: BTreeMap<Reverse<u8>, Class>,
}

/// The ready steps of one priority.
#[derive(Debug, Default)]
struct Class {
    namespaces: BTreeMap<String, NamespaceQueue>,
    /// The namespaces by the number of steps handed out.
    by_served: BTreeSet<(u64, String)>,
}

#[derive(Debug, Default)]
struct NamespaceQueue {
    /// Steps handed out, on a scale shared by the namespaces of a class.
    served: u64,
    places: BTreeSet<Place>,
}

/// How urgent the first step of an agent type is, compared with those of other agent types: the smallest goes first.
pub(crate) type Urgency = (Reverse<u8>, u32, Place);

/// The first steps of agent types with an open queue, in one turn.
#[derive(Debug, Default)]
pub(crate) struct Offers {
    order: BTreeSet<(Urgency, AgentType)>,
    by_type: BTreeMap<AgentType, Urgency>,
    /// Steps handed out in this turn, by namespace.
    served: HashMap<String, u32>,
}

impl Offers {
    /// Offers the first step of an agent type in place of an earlier one; `None` when nothing is to be taken from it.
    pub(crate) fn set(&mut self, agent_type: AgentType, urgency: Option<Urgency>) {
        if let Some(old) = self.by_type.remove(&agent_type) {
            self.order.remove(&(old, agent_type.clone()));
        }
        if let Some(urgency) = urgency {
            self.by_type.insert(agent_type.clone(), urgency.clone());
            self.order.insert((urgency, agent_type));
        }
    }

    /// The agent type with the most urgent step, as far as it is known.
    pub(crate) fn first(&self) -> Option<&(Urgency, AgentType)> {
        self.order.first()
    }

    /// Counts a step that was handed out.
    pub(crate) fn count(&mut self, namespace: &str) {
        match self.served.get_mut(namespace) {
            Some(served) => *served += 1,
            None => drop(self.served.insert(namespace.to_owned(), 1)),
        }
    }
}

#[derive(Debug, Default)]
struct Parked {
    /// Skipped because the plan had no room; best first.
    waiting: BTreeMap<AgentType, BTreeSet<(Reverse<u8>, Place)>>,
    /// Skipped because of a resource in use.
    excluded: Vec<(Reverse<u8>, Place, AgentType)>,
    namespace: String,
}

/// Ready steps of one queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReadyCounts {
    /// Those that wait for nothing but room in the queue.
    pub(crate) open: u64,
    /// Those whose plan or namespace has no room for them.
    pub(crate) parked: u64,
}

/// A step taken out of the set.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) place: Place,
    pub(crate) priority: Reverse<u8>,
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

    /// How many steps wait for each queue. Those that the engine runs itself wait for none.
    ///
    /// - `has_room`: whether steps of a namespace may be sent.
    pub(crate) fn counts(&self, has_room: impl Fn(&str) -> bool) -> BTreeMap<AgentType, ReadyCounts> {
        let mut counts = BTreeMap::<AgentType, ReadyCounts>::new();
        for (agent_type, queue) in &self.queues {
            let mut waiting = ReadyCounts::default();
            for (name, namespace) in queue.classes.values().flat_map(|class| &class.namespaces) {
                let sum = if has_room(name) { &mut waiting.open } else { &mut waiting.parked };
                *sum += namespace.places.len() as u64;
            }
            counts.insert(agent_type.clone(), waiting);
        }
        for parked in self.parked.values() {
            for (agent_type, steps) in &parked.waiting {
                counts.entry(agent_type.clone()).or_default().parked += steps.len() as u64;
            }
            for (_, _, agent_type) in &parked.excluded {
                counts.entry(agent_type.clone()).or_default().parked += 1;
            }
        }
        counts.retain(|agent_type, _| !agent_type.as_str().is_empty());
        counts
    }

    /// Regards every agent type with waiting steps as touched.
    pub(crate) fn touch_all(&mut self) {
        self.touched = self.queues.keys().cloned().collect();
    }

    /// Agent types whose first step may have changed.
    pub(crate) fn take_touched(&mut self) -> BTreeSet<AgentType> {
        std::mem::take(&mut self.touched)
    }

    /// How urgent the next step of an agent type is.
    ///
    /// - `has_room`: whether steps of a namespace may be sent; those of others stay.
    pub(crate) fn urgency(
        &self,
        agent_type: &AgentType,
        offers: &Offers,
        has_room: impl Fn(&str) -> bool,
    ) -> Option<Urgency> {
        let (priority, name) = self.queues.get(agent_type)?.next(has_room)?;
        let place = self.queues[agent_type].classes[&priority].namespaces[name].places.first()?;
        Some((priority, offers.served.get(name).copied().unwrap_or(0), place.clone()))
    }

    /// Takes the next step for an agent type.
    ///
    /// - `has_room`: whether steps of a namespace may be sent; those of others stay.
    pub(crate) fn pop(&mut self, agent_type: &AgentType, has_room: impl Fn(&str) -> bool) -> Option<Taken> {
        let queue = self.queues.get_mut(agent_type)?;
        let (priority, name) = queue.next(has_room).map(|(priority, name)| (priority, name.to_owned()))?;
        let class = queue.classes.get_mut(&priority)?;
        let namespace = class.namespaces.get_mut(&name)?;
        let place = namespace.places.pop_first()?;
        class.by_served.remove(&(namespace.served, name.clone()));
        namespace.served += 1;
        if namespace.places.is_empty() {
            class.namespaces.remove(&name);
        } else {
            class.by_served.insert((namespace.served, name.clone()));
        }
        if class.namespaces.is_empty() {
            queue.classes.remove(&priority);
        }
        if queue.classes.is_empty() {
            self.queues.remove(agent_type);
        }
        self.touch(agent_type);
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
        if excluded {
            parked.excluded.push((taken.priority, taken.place, agent_type.clone()));
        } else {
            parked.waiting.entry(agent_type.clone()).or_default().insert((taken.priority, taken.place));
        }
    }

    /// Offers the plan's best parked step again and, when a resource may have become free, all that waited for one.
    ///
    /// One at a time, because a narrow plan of many steps would move all of them in each turn. Call it again after a
    /// dispatch if the plan still has room.
    pub(crate) fn unpark(&mut self, slot: Slot, with_excluded: bool) {
        self.unpark_open(slot, |_| true);
        if !with_excluded {
            return;
        }
        let Some(parked) = self.parked.get_mut(&slot) else { return };
        let (excluded, namespace) = (std::mem::take(&mut parked.excluded), parked.namespace.clone());
        self.forget_empty(slot);
        for (priority, place, agent_type) in excluded {
            self.put(&agent_type, priority, &namespace, place);
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
        let open = parked.waiting.iter().filter(|(agent_type, _)| is_open(agent_type));
        let Some(agent_type) = open.min_by_key(|(_, steps)| steps.first()).map(|(agent_type, _)| agent_type.clone())
        else {
            return false;
        };
        let steps = parked.waiting.get_mut(&agent_type).expect("it was just found there");
        let (priority, place) = steps.pop_first().expect("no set of waiting steps is empty");
        if steps.is_empty() {
            parked.waiting.remove(&agent_type);
        }
        let namespace = parked.namespace.clone();
        self.forget_empty(slot);
        self.put(&agent_type, priority, &namespace, place);
        true
    }

    fn forget_empty(&mut self, slot: Slot) {
        if self.parked.get(&slot).is_some_and(|parked| parked.waiting.is_empty() && parked.excluded.is_empty()) {
            self.parked.remove(&slot);
        }
    }

    /// Drops the parked steps of a plan; its queued steps are skipped later.
    pub(crate) fn forget(&mut self, slot: Slot) {
        self.parked.remove(&slot);
    }

    fn touch(&mut self, agent_type: &AgentType) {
        if !self.touched.contains(agent_type) {
            self.touched.insert(agent_type.clone());
        }
    }

    fn put(&mut self, agent_type: &AgentType, priority: Reverse<u8>, namespace: &str, place: Place) {
        self.touch(agent_type);
        if !self.queues.contains_key(agent_type) {
            self.queues.insert(agent_type.clone(), Queue::default());
        }
        let queue = self.queues.get_mut(agent_type).expect("it was just put there");
        let class = queue.classes.entry(priority).or_default();
        if let Some(namespace) = class.namespaces.get_mut(namespace) {
            namespace.places.insert(place);
            return;
        }
        let served = class.by_served.first().map_or(0, |(served, _)| *served);
        class.by_served.insert((served, namespace.to_owned()));
        class.namespaces.insert(namespace.to_owned(), NamespaceQueue { served, places: BTreeSet::from([place]) });
    }
}

impl Queue {
    /// Priority and namespace of the next step.
    fn next(&self, has_room: impl Fn(&str) -> bool) -> Option<(Reverse<u8>, &str)> {
        self.classes.iter().find_map(|(priority, class)| {
            let (_, name) = class.by_served.iter().find(|(_, name)| has_room(name))?;
            Some((*priority, name.as_str()))
        })
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
        assert!(set.queues.is_empty());
    }

    /// Drains several agent types like a turn, and says where each step came from.
    fn drain_all(set: &mut ReadySet) -> Vec<(String, u32)> {
        let (mut offers, mut taken) = (Offers::default(), Vec::new());
        set.touch_all();
        loop {
            for agent_type in set.take_touched() {
                let urgency = set.urgency(&agent_type, &offers, |_| true);
                offers.set(agent_type, urgency);
            }
            let Some((urgency, agent_type)) = offers.first().cloned() else { return taken };
            let current = set.urgency(&agent_type, &offers, |_| true);
            if current.as_ref() != Some(&urgency) {
                offers.set(agent_type, current);
                continue;
            }
            let next = set.pop(&agent_type, |_| true).expect("it was offered");
            offers.count(&next.namespace);
            taken.push((agent_type.to_string(), next.place.step.0));
        }
    }

    #[test]
    fn the_most_urgent_step_is_taken_over_all_agent_types() {
        let mut set = ReadySet::default();
        let steps = [
            ("a", 1, 5, 1.0),
            ("b", 2, 5, 9.0),
            ("c", 3, 10, 0.0),
            ("a", 4, 10, 2.0),
            ("b", 5, 1, 99.0),
            ("a", 6, 5, 1.0),
        ];
        for (agent_type, step, priority, rank) in steps {
            let agent_type = AgentType::from(agent_type);
            let order = DispatchOrder { agent_type: &agent_type, priority, namespace: "", rank };
            set.insert(1, StepIndex(step), &order);
        }
        let taken: Vec<u32> = drain_all(&mut set).into_iter().map(|(_, step)| step).collect();
        assert_eq!(taken, [4, 3, 2, 1, 6, 5]);
    }

    #[test]
    fn a_large_namespace_does_not_delay_a_small_one_of_another_agent_type() {
        let mut set = ReadySet::default();
        let (large, small) = (AgentType::from("a"), AgentType::from("z"));
        for step in 0..1_000 {
            let order = DispatchOrder { agent_type: &large, priority: 5, namespace: "large", rank: 100.0 };
            set.insert(1, StepIndex(step), &order);
        }
        set.insert(2, StepIndex(1), &DispatchOrder { agent_type: &small, priority: 5, namespace: "small", rank: 0.0 });
        let turn = drain_all(&mut set).iter().position(|(agent_type, _)| agent_type == "z").expect("it is handed out");
        assert!(turn <= 1, "the small namespace waited for {turn} steps");
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
        assert!(set.queues.keys().eq([&AgentType::from("b")]));
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
