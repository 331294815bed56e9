//! Methods whose conditions are divided into joins and checks.

use super::{Arg, Condition, GroundMethod, GroundSubtask, MethodCheck, SortId};
use crate::index::to_u32;

/// Divides a condition into what binds variables and what is tested once they are bound.
pub(super) fn assemble(
    name: String,
    head: Vec<Arg>,
    sorts: Vec<SortId>,
    condition: Condition,
    subtasks: Vec<GroundSubtask>,
    positions: Vec<usize>,
    width: usize,
) -> GroundMethod {
    let mut conjuncts = Vec::new();
    condition.conjuncts(&mut conjuncts);
    let last = to_u32(subtasks.iter().filter(|s| s.after.is_empty()).count());
    let mut method = GroundMethod {
        name,
        head,
        sorts,
        joins: Vec::new(),
        masks: Vec::new(),
        checks: Vec::new(),
        subtasks,
        positions,
        last,
        width,
    };
    for conjunct in conjuncts {
        method.demand(conjunct);
    }
    method
}

impl GroundMethod {
    /// Adds a condition that must hold when the method is taken.
    pub fn demand(&mut self, condition: Condition) {
        let parameters = self.sorts.len();
        if self.joins.len() < 128
            && let Condition::Fact(literal) = condition
        {
            if !self.joins.contains(&literal) {
                self.masks.push(Condition::Fact(literal.clone()).mask(parameters));
                self.joins.push(literal);
            }
        } else {
            self.checks.push(MethodCheck { mask: condition.mask(parameters), condition });
        }
    }
}
