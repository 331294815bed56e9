//! Compiled conditions and their evaluation.

use crate::index::Object;

use super::{Arg, Literal, Sort, SortId};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    Fact(Literal),
    Equal(Arg, Arg),
    Sort(Arg, SortId),
    Not(Box<Condition>),
    And(Vec<Condition>),
    Or(Vec<Condition>),
    Forall(u16, SortId, Box<Condition>),
    Exists(u16, SortId, Box<Condition>),
}

/// Says which facts hold.
pub(crate) trait Truth {
    /// - `key`: predicate, then arguments.
    fn holds(&self, key: &[u32]) -> bool;
}

/// Room for keys while facts are looked up.
pub(crate) type Scratch = Vec<u32>;

impl Condition {
    /// - `binding`: has room for quantified variables past the parameters.
    pub fn holds(&self, facts: &impl Truth, sorts: &[Sort], binding: &mut [Object], scratch: &mut Scratch) -> bool {
        match self {
            Self::Fact(literal) => {
                fill(scratch, literal, binding);
                facts.holds(scratch)
            }
            Self::Equal(a, b) => a.value(binding) == b.value(binding),
            Self::Sort(arg, sort) => sorts[*sort as usize].has[arg.value(binding) as usize],
            Self::Not(inner) => !inner.holds(facts, sorts, binding, scratch),
            Self::And(parts) => parts.iter().all(|p| p.holds(facts, sorts, binding, scratch)),
            Self::Or(parts) => parts.iter().any(|p| p.holds(facts, sorts, binding, scratch)),
            Self::Forall(variable, sort, body) => sorts[*sort as usize].members.iter().all(|object| {
                binding[*variable as usize] = *object;
                body.holds(facts, sorts, binding, scratch)
            }),
            Self::Exists(variable, sort, body) => sorts[*sort as usize].members.iter().any(|object| {
                binding[*variable as usize] = *object;
                body.holds(facts, sorts, binding, scratch)
            }),
        }
    }

    /// Adds the free variables below `width` to `mask`, as bits.
    pub fn mask(&self, width: usize) -> u128 {
        let of = |arg: &Arg| match arg {
            Arg::Variable(v) if usize::from(*v) < width => 1u128 << *v,
            Arg::Variable(_) | Arg::Object(_) => 0,
        };
        match self {
            Self::Fact(literal) => literal.args.iter().fold(0, |m, a| m | of(a)),
            Self::Equal(a, b) => of(a) | of(b),
            Self::Sort(a, _) => of(a),
            Self::Not(inner) | Self::Forall(_, _, inner) | Self::Exists(_, _, inner) => inner.mask(width),
            Self::And(parts) | Self::Or(parts) => parts.iter().fold(0, |m, p| m | p.mask(width)),
        }
    }

    /// The conjuncts, however they are nested.
    pub fn conjuncts(self, into: &mut Vec<Condition>) {
        if let Self::And(parts) = self { parts.into_iter().for_each(|p| p.conjuncts(into)) } else { into.push(self) }
    }
}

/// The key of a literal's fact.
pub(crate) fn fill(scratch: &mut Scratch, literal: &Literal, binding: &[Object]) {
    scratch.clear();
    scratch.push(literal.predicate);
    scratch.extend(literal.args.iter().map(|a| a.value(binding)));
}
