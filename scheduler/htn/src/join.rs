//! Enumerates the bindings of a method's variables in a state, most constrained variable first.

use crate::compile::{Arg, Condition, GroundMethod, Literal, Scratch, Sort, Truth};
use crate::facts::{FactTable, ListId, mix};
use crate::index::{Object, to_u16, to_u32};

pub(crate) const UNBOUND: Object = Object::MAX;

/// Where candidates for one choice come from.
#[derive(Clone, Copy, Debug)]
enum JoinSource {
    /// Facts of the literal with this number, from a list.
    Facts(usize, ListId),
    /// Objects of the variable's sort.
    Sort(u16),
}

#[derive(Debug)]
struct JoinLevel {
    source: JoinSource,
    next: u32,
    count: u32,
    /// Where the round begins, so that restarts see other choices first.
    offset: u32,
    /// Variables bound here and by what follows from them.
    bound: u128,
    /// Literals that were open before this choice.
    open: u128,
}

/// A walk through all bindings of a method.
///
/// Between two calls of `next` the state must be what it was: what was done since is undone before.
#[derive(Debug)]
pub(crate) struct RuleJoin {
    pub binding: Vec<Object>,
    levels: Vec<JoinLevel>,
    bound: u128,
    /// Literals that are not yet known to hold.
    open: u128,
    state: JoinStage,
    seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JoinStage {
    Fresh,
    Walking,
    Over,
}

/// What a walk looks at.
pub(crate) struct View<'a> {
    pub method: &'a GroundMethod,
    pub facts: &'a FactTable,
    pub sorts: &'a [Sort],
}

impl RuleJoin {
    /// - `args`: of the task; they bind the method's head.
    /// - `seed`: 0 takes candidates as they stand; else each choice begins somewhere else.
    pub fn new(view: &View, args: &[Object], seed: u64) -> Self {
        let method = view.method;
        let mut join = Self {
            binding: vec![UNBOUND; method.width],
            levels: Vec::new(),
            bound: 0,
            open: if method.joins.len() >= 128 { u128::MAX } else { (1 << method.joins.len()) - 1 },
            state: JoinStage::Fresh,
            seed,
        };
        for (head, object) in method.head.iter().zip(args) {
            if !join.unify(view, *head, *object) {
                join.state = JoinStage::Over;
            }
        }
        join
    }

    /// Goes on to the next binding.
    pub fn next(&mut self, view: &View, scratch: &mut Scratch) -> bool {
        let mut sound = match self.state {
            JoinStage::Over => return false,
            JoinStage::Fresh => {
                self.state = JoinStage::Walking;
                self.test_conditions(view, u128::MAX, scratch)
            }
            JoinStage::Walking => self.advance(view, scratch),
        };
        loop {
            if !sound {
                if self.levels.is_empty() {
                    self.state = JoinStage::Over;
                    return false;
                }
                sound = self.advance(view, scratch);
                continue;
            }
            match self.choose(view, scratch) {
                JoinChoice::Complete => return true,
                JoinChoice::Impossible => sound = false,
                JoinChoice::From(source, count) => {
                    self.seed = if self.seed == 0 { 0 } else { mix(self.seed) | 1 };
                    let offset = u32::try_from(self.seed.checked_rem(u64::from(count)).unwrap_or(0)).unwrap_or(0);
                    self.levels.push(JoinLevel { source, next: 0, count, offset, bound: 0, open: self.open });
                    sound = self.advance(view, scratch);
                }
            }
        }
    }

    /// Takes the next candidate of the latest choice that has one.
    fn advance(&mut self, view: &View, scratch: &mut Scratch) -> bool {
        while let Some(level) = self.levels.last_mut() {
            self.bound &= !level.bound;
            let mut freed = std::mem::take(&mut level.bound);
            self.open = level.open;
            while freed != 0 {
                self.binding[freed.trailing_zeros() as usize] = UNBOUND;
                freed &= freed - 1;
            }
            let level = self.levels.last_mut().expect("it was just there");
            if level.next == level.count {
                self.levels.pop();
                continue;
            }
            let at = ((level.next + level.offset) % level.count) as usize;
            level.next += 1;
            let source = level.source;
            let before = self.bound;
            let fits = match source {
                JoinSource::Facts(n, list) => {
                    self.open &= !(1 << n);
                    let id = view.facts.list(list)[at];
                    let args = &view.method.joins[n].args;
                    args.iter().zip(&view.facts.key(id)[1..]).all(|(arg, object)| self.unify(view, *arg, *object))
                }
                JoinSource::Sort(variable) => {
                    let sort = &view.sorts[view.method.sorts[variable as usize] as usize];
                    self.unify(view, Arg::Variable(variable), sort.members[at])
                }
            };
            let new = self.bound & !before;
            self.levels.last_mut().expect("it was just there").bound = new;
            if fits && self.test_conditions(view, new, scratch) {
                return true;
            }
        }
        false
    }

    fn unify(&mut self, view: &View, arg: Arg, object: Object) -> bool {
        match arg {
            Arg::Object(o) => o == object,
            Arg::Variable(v) => {
                let held = self.binding[v as usize];
                if held == UNBOUND {
                    if !view.sorts[view.method.sorts[v as usize] as usize].has[object as usize] {
                        return false;
                    }
                    self.binding[v as usize] = object;
                    self.bound |= 1 << v;
                    return true;
                }
                held == object
            }
        }
    }

    /// Tests what has just become testable.
    fn test_conditions(&mut self, view: &View, new: u128, scratch: &mut Scratch) -> bool {
        let first = new == u128::MAX;
        view.method.checks.iter().all(|check| {
            let due = check.mask & !self.bound == 0 && (first || check.mask & new != 0);
            !due || check.condition.holds(view.facts, view.sorts, &mut self.binding, scratch)
        })
    }

    /// What to bind next: the literal with the fewest candidates, then variables that no literal names.
    fn choose(&mut self, view: &View, scratch: &mut Scratch) -> JoinChoice {
        let mut best: Option<(usize, JoinSource)> = None;
        let mut open = self.open;
        while open != 0 {
            let n = open.trailing_zeros() as usize;
            open &= open - 1;
            let literal = &view.method.joins[n];
            if view.method.masks[n] & !self.bound == 0 {
                crate::compile::fill(scratch, literal, &self.binding);
                if !view.facts.holds(scratch) {
                    return JoinChoice::Impossible;
                }
                self.open &= !(1 << n);
                continue;
            }
            let (count, list) = self.scarcest(view, literal);
            if count == 0 {
                return JoinChoice::Impossible;
            }
            if best.is_none_or(|(least, _)| count < least) {
                best = Some((count, JoinSource::Facts(n, list)));
            }
        }
        if let Some((count, source)) = best {
            return JoinChoice::From(source, to_u32(count));
        }
        let unbound = (0..to_u16(view.method.sorts.len())).filter(|v| self.bound & (1 << v) == 0);
        let members = |v: u16| view.sorts[view.method.sorts[v as usize] as usize].members.len();
        match unbound.min_by_key(|v| (!self.is_equated(view, *v), members(*v))) {
            Some(variable) => JoinChoice::From(JoinSource::Sort(variable), to_u32(members(variable))),
            None => JoinChoice::Complete,
        }
    }

    /// Whether an equality fixes the variable.
    fn is_equated(&self, view: &View, variable: u16) -> bool {
        view.method.checks.iter().any(|c| {
            if let Condition::Equal(a, b) = c.condition {
                (a == Arg::Variable(variable) || b == Arg::Variable(variable))
                    && (c.mask & !self.bound).is_power_of_two()
            } else {
                false
            }
        })
    }

    fn scarcest(&self, view: &View, literal: &Literal) -> (usize, ListId) {
        let all = view.facts.list_of(literal.predicate);
        let mut best = (view.facts.list(all).len(), all);
        for (position, arg) in literal.args.iter().enumerate() {
            let object = match arg {
                Arg::Object(object) => *object,
                Arg::Variable(v) => self.binding[*v as usize],
            };
            if object != UNBOUND {
                let list = view.facts.list_at(literal.predicate, position, object);
                let count = view.facts.list(list).len();
                if count < best.0 {
                    best = (count, list);
                }
            }
        }
        best
    }
}

enum JoinChoice {
    Complete,
    Impossible,
    From(JoinSource, u32),
}
