//! The world outside a plan: the time, the agents, the events.

use std::collections::{BTreeMap, BTreeSet};

use goalmill_common::json::Json;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use serde_json::Value;

use crate::law::Law;
use crate::run::{ANY_MS, Ask};
use crate::script::{Act, START_MS, Script};

/// The world outside a plan.
pub(super) struct World<'c> {
    pub(super) script: &'c Script,
    /// Unix milliseconds.
    pub(super) now_ms: u64,
    pub(super) asks: Vec<Ask>,
    /// An order of questions to follow where the laws leave it free.
    order: &'c [Ask],
    followed: Vec<bool>,
    /// How often each action was asked for.
    times: BTreeMap<String, usize>,
    /// Events that were accepted, in their order, and whether one was taken.
    accepted: Vec<(usize, bool)>,
    /// Resources that attempts hold.
    pub(super) held: Vec<String>,
    /// Cached outputs until a time, Unix milliseconds.
    cache: BTreeMap<String, (u64, Json)>,
    pub(super) laws: BTreeSet<Law>,
    /// Decides where the laws leave the order free. Without it, things happen in the order of the lists.
    arbiter: Option<StdRng>,
    /// The place of steps that ask nobody among those that do, until a time, Unix milliseconds.
    unasked: (usize, u64),
    /// Whether plans inside go on for as long as they can before the plan around them does.
    pub(super) is_inside_first: bool,
    /// Whether of steps that ask the same the one is first that has been ready longest.
    pub(super) is_by_age: bool,
}

impl<'c> World<'c> {
    pub(super) fn new(script: &'c Script, order: &'c [Ask], arbiter: Option<u64>) -> Self {
        Self {
            script,
            now_ms: START_MS,
            asks: Vec::new(),
            order,
            followed: vec![false; order.len()],
            times: BTreeMap::new(),
            accepted: Vec::new(),
            held: Vec::new(),
            cache: BTreeMap::new(),
            laws: BTreeSet::new(),
            arbiter: arbiter.map(StdRng::seed_from_u64),
            unasked: arbiter.map_or((0, 0), |seed| {
                [(0, u64::MAX), (usize::MAX, u64::MAX), (0, 0)][usize::try_from(seed / 2 % 3).unwrap_or(2)]
            }),
            is_by_age: arbiter.is_none_or(|seed| seed / 6 % 2 == 0),
            is_inside_first: arbiter.is_some_and(|seed| seed % 2 == 1),
        }
    }

    /// Things of one millisecond whose order is free, in an order.
    pub(super) fn in_free_order<T>(&mut self, things: impl IntoIterator<Item = T>) -> Vec<T> {
        let mut things: Vec<T> = things.into_iter().collect();
        self.arbiter.iter_mut().for_each(|arbiter| things.shuffle(arbiter));
        things
    }

    /// The place of a step that asks nobody among those that do.
    pub(super) fn place_unasked(&mut self) -> usize {
        if self.unasked.1 < self.now_ms {
            self.unasked = (self.in_free_order([0, usize::MAX])[0], self.in_free_order([0, self.now_ms])[0]);
        }
        self.unasked.0
    }

    /// The place of a question in the order to follow; `usize::MAX` if it is not there.
    ///
    /// - `is_now`: whether it is asked now.
    pub(super) fn place(&self, action: &str, inputs: &Value, is_now: bool) -> usize {
        let fits = |n: &usize| {
            let ask = &self.order[*n];
            let is_same = !self.followed[*n] && ask.action == action && ask.inputs == *inputs;
            is_same && (!is_now || [ANY_MS, self.now_ms - START_MS].contains(&ask.at_ms))
        };
        (0..self.order.len()).find(fits).unwrap_or(usize::MAX)
    }

    /// Asks an agent. Returns what it does.
    pub(super) fn ask(&mut self, action: &str, inputs: Value) -> Act {
        let place = self.place(action, &inputs, false);
        if let Some(followed) = self.followed.get_mut(place) {
            *followed = true;
        }
        let time = self.times.entry(action.to_owned()).or_default();
        let act = self.script.act(action, *time);
        *time += 1;
        self.asks.push(Ask { at_ms: self.now_ms - START_MS, action: action.to_owned(), inputs });
        act
    }

    /// When the next event comes, Unix milliseconds.
    pub(super) fn next_event_ms(&self) -> Option<u64> {
        self.script.events.get(self.accepted.len()).map(|event| START_MS + event.at_ms)
    }

    /// Accepts the next event.
    pub(super) fn accept_event(&mut self) {
        self.accepted.push((self.accepted.len(), false));
    }

    /// Law 5.1: takes the first event of a name and key that was accepted and not taken.
    pub(super) fn take_event(&mut self, name: &str, key: &str) -> Option<Json> {
        let fits = |(n, taken): &&mut (usize, bool)| {
            let event = &self.script.events[*n];
            !*taken && event.name == name && event.key == key
        };
        let (n, taken) = self.accepted.iter_mut().find(fits)?;
        *taken = true;
        Some(Json::from_value(&self.script.events[*n].data))
    }

    /// Law 5.1: another plan may take all events.
    pub(super) fn forget_taken(&mut self) {
        self.accepted.iter_mut().for_each(|(_, taken)| *taken = false);
    }

    /// What is cached under a key now.
    pub(super) fn cached(&self, key: Option<&String>) -> Option<Json> {
        let (until_ms, outputs) = self.cache.get(key?)?;
        (*until_ms > self.now_ms).then(|| outputs.clone())
    }

    /// - `ttl_ms`: how long it is kept.
    pub(super) fn keep(&mut self, key: String, outputs: Json, ttl_ms: u64) {
        self.cache.insert(key, (self.now_ms + ttl_ms, outputs));
    }

    /// Law 6.2: whether no other step of the family has the resource of a step.
    pub(super) fn is_free(&self, resource: Option<&str>) -> bool {
        !self.held.iter().any(|held| Some(held.as_str()) == resource)
    }

    pub(super) fn note(&mut self, law: Law) {
        self.laws.insert(law);
    }
}
