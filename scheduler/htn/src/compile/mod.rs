//! Compiled domain and problem, the input of the search.

mod arrange;
mod build;
mod formula;
mod ground_method;
mod necessary;
mod recursion;

use crate::index::Object;

pub(crate) use build::compile;
pub(crate) use formula::{Condition, Scratch, Truth, fill};
pub(crate) use necessary::is_chain;

pub(crate) type TaskId = u32;
pub(crate) type MethodId = u32;
/// An index of `Compiled::sorts`: the set of objects a variable may stand for.
pub(crate) type SortId = u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Arg {
    Variable(u16),
    Object(Object),
}

impl Arg {
    pub fn value(self, binding: &[Object]) -> Object {
        match self {
            Self::Variable(v) => binding[v as usize],
            Self::Object(o) => o,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Literal {
    pub predicate: u32,
    pub args: Vec<Arg>,
}

/// What a rule changes; variables past the parameters are those of its own `forall`.
#[derive(Clone, Debug)]
pub(crate) struct ConditionalEffect {
    pub forall: Vec<(u16, SortId)>,
    pub when: Option<Condition>,
    pub adds: Vec<Literal>,
    pub deletes: Vec<Literal>,
}

#[derive(Clone, Debug)]
pub(crate) struct GroundAction {
    pub sorts: Vec<SortId>,
    pub condition: Condition,
    pub changes: Vec<ConditionalEffect>,
    /// Length of a binding: parameters and quantified variables.
    pub width: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct GroundSubtask {
    pub task: TaskId,
    pub args: Vec<Arg>,
    /// Subtasks that wait for this one, without those that follow from others; none means the method's end.
    pub after: Vec<usize>,
    /// How many subtasks this one waits for, of those that name it in `after`.
    pub waits: u32,
}

/// A condition that is tested as soon as its variables are bound.
#[derive(Clone, Debug)]
pub(crate) struct MethodCheck {
    pub mask: u128,
    pub condition: Condition,
}

#[derive(Clone, Debug)]
pub(crate) struct GroundMethod {
    pub name: String,
    pub head: Vec<Arg>,
    pub sorts: Vec<SortId>,
    /// Facts that must hold; they bind variables.
    pub joins: Vec<Literal>,
    pub masks: Vec<u128>,
    pub checks: Vec<MethodCheck>,
    /// In an order that agrees with `after`.
    pub subtasks: Vec<GroundSubtask>,
    /// For each subtask, its position in the source.
    pub positions: Vec<usize>,
    /// How many subtasks have nothing after them.
    pub last: u32,
    pub width: usize,
}

#[derive(Clone, Debug)]
pub(crate) enum TaskKind {
    Primitive(GroundAction),
    Compound(Vec<MethodId>),
}

#[derive(Clone, Debug)]
pub(crate) struct CompiledTask {
    pub name: String,
    pub kind: TaskKind,
    /// Whether it can occur below itself.
    pub recursive: bool,
}

/// The objects a variable may stand for.
#[derive(Clone, Debug)]
pub(crate) struct Sort {
    pub members: Vec<Object>,
    pub has: Vec<bool>,
}

/// A planning problem as numbers.
#[derive(Clone, Debug)]
pub(crate) struct CompiledProblem {
    pub objects: Vec<String>,
    pub arities: Vec<usize>,
    pub sorts: Vec<Sort>,
    pub tasks: Vec<CompiledTask>,
    pub methods: Vec<GroundMethod>,
    pub init: Vec<Vec<u32>>,
    /// The task whose only method is the initial network, followed by `goal`.
    pub root: TaskId,
    /// A primitive task without effects: the goal holds.
    pub goal: TaskId,
}

impl CompiledProblem {
    /// The facts that the goal asks for.
    pub fn goals(&self) -> Vec<Vec<u32>> {
        let TaskKind::Primitive(goal) = &self.tasks[self.goal as usize].kind else { return Vec::new() };
        let mut conjuncts = Vec::new();
        goal.condition.clone().conjuncts(&mut conjuncts);
        let key = |condition: Condition| {
            let Condition::Fact(literal) = condition else { return None };
            let mut key = Vec::new();
            fill(&mut key, &literal, &[]);
            Some(key)
        };
        conjuncts.into_iter().filter_map(key).collect()
    }
}
